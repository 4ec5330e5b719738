//! Parts of the address of a machine.

use std::net::IpAddr;

/// Parts of an address `PROTOCOL/HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// `tcp` or `quic`.
    pub protocol: &'a str,
    /// Name or IP address, without brackets.
    pub host: &'a str,
    /// Port, as text.
    pub port: &'a str,
}

impl<'a> Address<'a> {
    /// Splits an address; `None` if a part is missing.
    pub fn split(text: &'a str) -> Option<Self> {
        let (protocol, rest) = text.split_once('/')?;
        let (host, port) = rest.rsplit_once(':')?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some(Self { protocol, host: inner.unwrap_or(host), port })
    }

    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// True for an address that stands for every network of a machine, such as `0.0.0.0`.
    pub fn is_unspecified(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_unspecified())
    }

    /// True for an address that only this machine reaches.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let split =
            |text| Address::split(text).map(|found| (found.protocol, found.host, found.port));
        assert_eq!(split("quic/10.0.0.2:7450"), Some(("quic", "10.0.0.2", "7450")));
        assert_eq!(split("tcp/[fe80::1]:1"), Some(("tcp", "fe80::1", "1")));
        assert_eq!(["", "tcp/robot", "robot:1"].map(split), [None; 3]);
        let is =
            |text| Address::split(text).map(|found| (found.is_unspecified(), found.is_loopback()));
        assert_eq!(is("tcp/0.0.0.0:1"), Some((true, false)));
        assert_eq!(is("tcp/[::]:1"), Some((true, false)));
        assert_eq!(is("tcp/[::1]:1"), Some((false, true)));
        assert_eq!(is("tcp/localhost:1"), Some((false, true)));
        assert_eq!(is("tcp/localhost.evil:1"), Some((false, false)));
    }
}
