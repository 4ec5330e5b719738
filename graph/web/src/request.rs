//! The head of a request, and the checks of `Host` and `Origin`.

use std::{
    io::{self, BufRead},
    net::IpAddr,
};

/// Longest head that is read, in bytes.
pub(crate) const MAX_HEAD: u64 = 1 << 14;

/// Head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET` or another method.
    pub method: String,
    /// Path, such as `/app.js`.
    pub path: String,
    /// Text after the `?`; empty if there is none.
    pub query: String,
    host: String,
    origin: Option<String>,
    fetch_site: Option<String>,
    /// Protocols that the client of a WebSocket speaks.
    pub(crate) protocols: Vec<String>,
    /// Key of a WebSocket handshake.
    pub(crate) key: Option<String>,
}

impl Request {
    /// Reads a head up to the empty line.
    pub(crate) fn read(from: impl BufRead) -> io::Result<Self> {
        let mut lines = from.lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request =
            Self { method, path: path.to_owned(), query: query.to_owned(), ..Self::default() };
        let mut upgrades = false;
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim().to_owned();
            match name.to_ascii_lowercase().as_str() {
                "host" => request.host = value,
                "origin" => request.origin = Some(value),
                "sec-fetch-site" => request.fetch_site = Some(value),
                "upgrade" => upgrades = value.eq_ignore_ascii_case("websocket"),
                "sec-websocket-protocol" => {
                    request.protocols.extend(value.split(',').map(|name| name.trim().to_owned()));
                }
                "sec-websocket-key" => request.key = Some(value),
                _ => {}
            }
        }
        request.key = request.key.filter(|_| upgrades);
        Ok(request)
    }

    /// Value of `name` in the query, as it is written.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// True for a request that a page of another site has made.
    ///
    /// With a name of its own, another site could lead its pages here: a host is `localhost` or an
    /// address. A page names its origin, which must be this server, or one that `allows` accepts.
    /// With `has_any_name`, any host is accepted.
    pub(crate) fn is_foreign(&self, has_any_name: bool, allows: impl Fn(&str) -> bool) -> bool {
        let host = host_name(&self.host);
        if !has_any_name
            && !host.eq_ignore_ascii_case("localhost")
            && host.parse::<IpAddr>().is_err()
        {
            return true;
        }
        if self.origin.as_deref().is_some_and(allows) {
            return false;
        }
        let has_other_origin = self.origin.as_deref().is_some_and(|origin| {
            let address = origin.split_once("://").map_or(origin, |(_, address)| address);
            !address.eq_ignore_ascii_case(&self.host)
        });
        let is_other_site = self
            .fetch_site
            .as_deref()
            .is_some_and(|site| site == "cross-site" || site == "same-site");
        has_other_origin || is_other_site
    }
}

/// The host of `host` or `host:port`, without the brackets of an IPv6 address.
fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &str) -> Request {
        let text = format!("GET /live?node=a&x=1 HTTP/1.1\r\n{headers}\r\n\r\nbody");
        Request::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn heads_are_read() {
        let found = request("Host: 127.0.0.1:80\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: abc");
        assert_eq!((found.method.as_str(), found.path.as_str()), ("GET", "/live"));
        assert_eq!((found.value("node"), found.value("x")), (Some("a"), Some("1")));
        assert_eq!((found.value("y"), found.key.as_deref()), (None, Some("abc")));
        assert_eq!(request("Host: a\r\nSec-WebSocket-Key: abc").key, None);
        for broken in ["", "\r\n", "GET", "GET / HTTP/1.1\r\nHost\r\n:\r\n\r\n"] {
            assert_eq!(Request::read(broken.as_bytes()).unwrap().key, None, "{broken}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_told() {
        let is_foreign = |headers: &str| {
            request(headers).is_foreign(false, |origin| origin == "https://a.example.org")
        };
        let own = [
            "Host: localhost\r\nOrigin: https://a.example.org\r\nSec-Fetch-Site: cross-site",
            "Host: localhost:8080",
            "Host: LOCALHOST",
            "Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080\r\nSec-Fetch-Site: same-origin",
            "Host: [::1]:8080\r\nOrigin: https://[::1]:8080",
            "Host: 192.168.0.7\r\nSec-Fetch-Site: none",
        ];
        let foreign = [
            "",
            "Host: example.org:8080",
            "Host: localhost.example.org",
            "Host: example.org\r\nOrigin: https://a.example.org",
            "Host: localhost\r\nOrigin: https://b.example.org",
            "Host: 127.0.0.1:8080\r\nOrigin: http://example.org",
            "Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:9090",
            "Host: 127.0.0.1:8080\r\nOrigin: null",
            "Host: localhost\r\nSec-Fetch-Site: cross-site",
            "Host: localhost\r\nSec-Fetch-Site: same-site",
        ];
        assert!(!request("Host: robot.example.org").is_foreign(true, |_| false));
        assert!(request("Host: a\r\nSec-Fetch-Site: cross-site").is_foreign(true, |_| false));
        own.iter().for_each(|headers| assert!(!is_foreign(headers), "{headers}"));
        foreign.iter().for_each(|headers| assert!(is_foreign(headers), "{headers}"));
    }
}
