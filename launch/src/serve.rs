//! Figures of a running graph over HTTP: `/metrics` for Prometheus, `/stats` as JSON for `afferent
//! top`.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use afferent_web::{Page, Request, Server, Site, Socket};
use anyhow::anyhow;

use crate::processes::ReadFigures;

/// Default address.
pub(crate) const ADDRESS: &str = "127.0.0.1:9464";
/// Longest wait of a request for threads that are in a call.
const PATIENCE: Duration = Duration::from_millis(200);

/// Listens at `address`. Clients wait until figures are served.
pub(crate) fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::AddrInUse => "; --serve=127.0.0.1:0 takes any free port",
            ErrorKind::InvalidInput => "; an address is written HOST:PORT, such as 127.0.0.1:9464",
            _ => "",
        };
        anyhow!("cannot serve figures at {address}: {error}{help}")
    })
}

/// Serves figures until it is dropped.
pub(crate) struct Figures(Server);

impl Figures {
    /// Serves the figures that `read` returns to the clients of `listener`.
    pub(crate) fn serve(listener: TcpListener, read: ReadFigures) -> anyhow::Result<Self> {
        Ok(Self(Server::serve(listener, Arc::new(Pages(read)))?))
    }

    /// Address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

struct Pages(ReadFigures);

impl Site for Pages {
    fn page(&self, request: &Request) -> Option<Page> {
        Some(match request.path.as_str() {
            "/metrics" => {
                let mut text = String::new();
                // Writing to a string cannot fail.
                let _ = (self.0)(PATIENCE).write_prometheus(&mut text);
                Page::new("text/plain; version=0.0.4", text.into_bytes())
            }
            "/stats" => {
                let json = serde_json::to_vec(&(self.0)(PATIENCE)).unwrap_or_default();
                Page::new("application/json", json)
            }
            "/" => {
                let text = "/metrics for Prometheus, /stats as JSON, which `afferent top` shows\n";
                Page::new("text/plain", text.as_bytes())
            }
            _ => return None,
        })
    }

    fn talk(&self, _: &Request, socket: Socket, _: &AtomicBool) {
        socket.close("figures are at /stats");
    }

    /// Collectors call machines by their names.
    fn has_any_name(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use afferent_engine::{RunOptions, Session};
    use afferent_graph::OpenCx;
    use afferent_spec::CheckedGraph;

    use super::*;

    fn reader(session: &Session) -> ReadFigures {
        let watch = session.watch_handle();
        Arc::new(move |patience| watch.read(patience))
    }

    #[test]
    fn figures_are_served_under_any_name() {
        let graph = CheckedGraph { name: "empty".to_owned(), ..CheckedGraph::default() };
        let session = Session::start(&graph, &OpenCx::default(), RunOptions::default()).unwrap();
        let figures = Figures::serve(bind("127.0.0.1:0").unwrap(), reader(&session)).unwrap();
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(figures.address()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("GET /stats?all HTTP/1.1\r\nHost: robot.example.org:9464\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\"graph\":\"empty\""), "{answer}");
        assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").contains("version=0.0.4"));
        assert!(ask("POST /stats HTTP/1.1\r\n\r\n").contains("404"));
        assert!(ask("\r\n\r\n").contains("404") && ask("GET\n\n").contains("404"));
    }

    #[test]
    fn a_busy_port_is_explained() {
        let taken = bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(&address).unwrap_err().to_string();
        assert!(error.ends_with("; --serve=127.0.0.1:0 takes any free port"), "{error}");
    }
}
