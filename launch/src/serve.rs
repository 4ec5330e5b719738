//! Figures of a running graph over HTTP: `/metrics` for Prometheus, `/stats` as JSON for `afferent
//! top`.
//!
//! Each connection has a thread and is answered once. Only the first line of a request is used; a
//! body is never read. Number, time and length are limited, so a client cannot block the graph, its
//! end, or other clients.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::anyhow;

use crate::processes::ReadFigures;

/// Default address.
pub(crate) const ADDRESS: &str = "127.0.0.1:9464";
/// Longest wait of a request for threads that are in a call.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest duration of a connection.
const LIMIT: Duration = Duration::from_secs(1);
/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 32;
/// Longest request head that is read, in bytes.
const MAX_HEAD: u64 = 1 << 14;

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
pub(crate) struct Figures {
    address: SocketAddr,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Figures {
    /// Serves the figures that `read` returns to the clients of `listener`.
    pub(crate) fn serve(listener: TcpListener, read: ReadFigures) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let stops = Arc::new(AtomicBool::new(false));
        let stopped = stops.clone();
        let connections = Arc::new(());
        let thread = thread::Builder::new().name("figures".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // The process may have too many open files or threads, perhaps temporarily.
                if stream.and_then(|stream| connect(stream, &read, &connections)).is_err() {
                    thread::sleep(PATIENCE);
                }
            }
        })?;
        Ok(Self { address, stops, thread: Some(thread) })
    }

    /// Address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Figures {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        // The thread waits for a connection. If it cannot be reached, it is abandoned.
        if TcpStream::connect_timeout(&self.address, LIMIT).is_ok() {
            drop(self.thread.take().map(JoinHandle::join));
        }
    }
}

/// Answers a connection on a thread of its own. `connections` has one owner per connection besides
/// the server.
fn connect(stream: TcpStream, read: &ReadFigures, connections: &Arc<()>) -> io::Result<()> {
    if Arc::strong_count(connections) > MAX_CONNECTIONS {
        // The client sees that the connection is closed.
        return Ok(());
    }
    let (read, connection) = (read.clone(), connections.clone());
    let answers = move || {
        // The client may have disconnected.
        drop(answer(stream, &read));
        drop(connection);
    };
    thread::Builder::new().name("figures client".to_owned()).spawn(answers).map(drop)
}

/// Reads a request and writes the response.
fn answer(stream: TcpStream, read: &ReadFigures) -> io::Result<()> {
    let mut stream = Limited { stream, end: Instant::now() + LIMIT };
    let mut head = BufReader::new((&mut stream).take(MAX_HEAD)).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    for line in head {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let (status, kind, text) = match (method, target.split('?').next()) {
        (Some("GET"), Some("/metrics")) => {
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = read(PATIENCE).write_prometheus(&mut text);
            ("200 OK", "text/plain; version=0.0.4", text)
        }
        (Some("GET"), Some("/stats")) => {
            let json = serde_json::to_string(&read(PATIENCE)).unwrap_or_default();
            ("200 OK", "application/json", json)
        }
        (Some("GET"), Some("/")) => {
            let text = "/metrics for Prometheus, /stats as JSON, which `afferent top` shows\n";
            ("200 OK", "text/plain", text.to_owned())
        }
        _ => ("404 Not Found", "text/plain", "there are /metrics and /stats\n".to_owned()),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    );
    stream.write_all(answer.as_bytes())
}

/// A connection with a deadline, however slow the client is.
struct Limited {
    stream: TcpStream,
    end: Instant,
}

impl Limited {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use afferent_engine::{RunOptions, Session};
    use afferent_graph::OpenCx;
    use afferent_spec::CheckedGraph;

    use super::*;

    fn reader(session: &Session) -> ReadFigures {
        let watch = session.watch_handle();
        Arc::new(move |patience| watch.read(patience))
    }

    #[test]
    fn the_body_length_of_a_request_is_ignored() {
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
        let bodies = [
            "Content-Length: 2000",
            "Content-Length: 1000000000000000",
            "Content-Length: -1\r\nExpect: 100-continue",
            "Transfer-Encoding: chunked",
        ];
        for body in bodies {
            let answer = ask(&format!("POST /stats HTTP/1.1\r\n{body}\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{body}: {answer}");
        }
        let answer = ask("GET /stats?all HTTP/1.1\r\nContent-Length: 2000\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\"graph\":\"empty\""), "{answer}");
        assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").contains("version=0.0.4"));
        assert!(ask("\r\n\r\n").contains("404") && ask("GET\n\n").contains("404"));
    }

    #[test]
    fn idle_clients_do_not_delay_others() {
        let graph = CheckedGraph::default();
        let session = Session::start(&graph, &OpenCx::default(), RunOptions::default()).unwrap();
        let figures = Figures::serve(bind("127.0.0.1:0").unwrap(), reader(&session)).unwrap();
        let idle = || TcpStream::connect(figures.address()).unwrap();
        let _idle: Vec<_> = (0..MAX_CONNECTIONS / 2).map(|_| idle()).collect();
        let start = Instant::now();
        let mut stream = idle();
        stream.write_all(b"GET /stats HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(start.elapsed() < LIMIT, "waited for an idle client");
    }

    #[test]
    fn a_busy_port_is_explained() {
        let taken = bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(&address).unwrap_err().to_string();
        assert!(error.ends_with("; --serve=127.0.0.1:0 takes any free port"), "{error}");
    }

    #[test]
    fn the_end_does_not_wait_for_a_silent_client() {
        let graph = CheckedGraph::default();
        let session = Session::start(&graph, &OpenCx::default(), RunOptions::default()).unwrap();
        let figures = Figures::serve(bind("127.0.0.1:0").unwrap(), reader(&session)).unwrap();
        let mut silent = TcpStream::connect(figures.address()).unwrap();
        let mut endless = TcpStream::connect(figures.address()).unwrap();
        silent.write_all(b"GET /stats HTTP/1.1\r\n").unwrap();
        endless.write_all(&[b'x'; 1 << 12]).unwrap();
        drop(figures);
    }
}
