//! The server, and the interface of what it serves.

use std::{
    borrow::Cow,
    io::{self, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tungstenite::handshake::derive_accept_key;

use crate::{
    Identity, Request, Socket, address::network_address, connection::Connection, request::MAX_HEAD,
};

/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Longest time of a request, and longest wait for a client that reads.
const LIMIT: Duration = Duration::from_secs(5);

/// Pages and WebSockets of a server. Called on the threads of connections.
pub trait Site: Send + Sync + 'static {
    /// The page at the path of `request`; `None` if there is none.
    fn page(&self, request: &Request) -> Option<Page>;

    /// Talks to the client of a WebSocket until it ends. `stops` is true when the server ends.
    fn talk(&self, request: &Request, socket: Socket, stops: &AtomicBool);

    /// Protocols of the WebSocket at the path of `request`, the best first.
    fn protocols(&self, _: &Request) -> &'static [&'static str] {
        &[]
    }

    /// True if pages of another `origin`, such as `https://example.org`, may connect.
    fn allows(&self, _origin: &str) -> bool {
        false
    }

    /// True if requests may name the server by any host name, which lets pages of other sites read what
    /// it serves: for figures that other machines collect.
    fn has_any_name(&self) -> bool {
        false
    }
}

/// A page, or another file.
pub struct Page {
    status: &'static str,
    kind: &'static str,
    body: Body,
}

enum Body {
    Whole(Cow<'static, [u8]>),
    Stream(Stream),
}

/// Writes to a client until it leaves, or the flag says that the server ends.
type Stream = Box<dyn FnOnce(&mut dyn Write, &AtomicBool) -> io::Result<()> + Send>;

impl Page {
    /// A page of the media type `kind`, such as `text/html; charset=utf-8`.
    pub fn new(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status: "200 OK", kind, body: Body::Whole(body.into()) }
    }

    /// The answer to a request for something that does not exist now.
    pub fn unavailable(reason: &'static str) -> Self {
        let body = Body::Whole(reason.as_bytes().into());
        Self { status: "503 Service Unavailable", kind: "text/plain", body }
    }

    /// An answer of the media type `kind` without a known end, which `write` sends to the client. The flag
    /// is true when the server ends.
    pub fn stream(
        kind: &'static str,
        write: impl FnOnce(&mut dyn Write, &AtomicBool) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self { status: "200 OK", kind, body: Body::Stream(Box::new(write)) }
    }
}

/// A server, until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    site: Arc<dyn Site>,
    identity: Option<Identity>,
    stops: AtomicBool,
    connections: AtomicUsize,
}

impl Server {
    /// Listens at `address`, `HOST:PORT`; port 0 takes a free one.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(address: &str, site: Arc<dyn Site>) -> io::Result<Self> {
        Self::start_with(address, site, None)
    }

    /// As [`Server::start`]; over TLS with an identity.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start_with(
        address: &str,
        site: Arc<dyn Site>,
        identity: Option<Identity>,
    ) -> io::Result<Self> {
        Self::listen(TcpListener::bind(address)?, site, identity)
    }

    /// Serves the clients of `listener`, and those that have waited before.
    ///
    /// # Errors
    /// The error of the system.
    pub fn serve(listener: TcpListener, site: Arc<dyn Site>) -> io::Result<Self> {
        Self::listen(listener, site, None)
    }

    fn listen(
        listener: TcpListener,
        site: Arc<dyn Site>,
        identity: Option<Identity>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stops, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        let shared = Arc::new(Shared { site, identity, stops, connections });
        let served = shared.clone();
        let thread = thread::Builder::new().name("web".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if served.stops.load(Ordering::Acquire) {
                    return;
                }
                // The process may have too many open files or threads, perhaps temporarily.
                if stream.and_then(|stream| connect(stream, &served)).is_err() {
                    thread::sleep(Duration::from_millis(200));
                }
            }
        })?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address by which others reach the server: of one at all addresses, that of this machine in its
    /// network.
    pub fn reachable_address(&self) -> SocketAddr {
        let mut address = self.address;
        if let Some(own) = address.ip().is_unspecified().then(network_address).flatten() {
            address.set_ip(own);
        }
        address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
        // The thread waits for a connection. If it cannot be reached, it is abandoned.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.is_ipv4() {
                true => IpAddr::from([127, 0, 0, 1]),
                false => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            });
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            drop(self.thread.take().map(JoinHandle::join));
        }
    }
}

/// Counts a connection as long as it is alive.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a connection on a thread of its own.
fn connect(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let earlier = shared.connections.fetch_add(1, Ordering::AcqRel);
    let counted = Counted(shared.clone());
    if earlier >= MAX_CONNECTIONS {
        // The client sees that the connection is closed.
        return Ok(());
    }
    let answers = move || {
        // The client may have disconnected.
        drop(answer(stream, &counted.0));
        drop(counted);
    };
    thread::Builder::new().name("web client".to_owned()).spawn(answers).map(drop)
}

fn answer(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_write_timeout(Some(LIMIT))?;
    let mut client = Connection::new(stream, shared.identity.as_ref())?;
    client.limit_reads(Some(LIMIT))?;
    let request = Request::read(BufReader::new((&mut client).take(MAX_HEAD)))?;
    let site = &shared.site;
    if request.is_foreign(site.has_any_name(), |origin| site.allows(origin)) {
        let text =
            "requests of other pages are refused; use the address that the program printed\n";
        return respond(&mut client, "403 Forbidden", "text/plain", text.as_bytes());
    }
    if let Some(key) = &request.key {
        let accept = derive_accept_key(key.as_bytes());
        let mut known = site.protocols(&request).iter();
        let protocol = known.find(|known| request.protocols.iter().any(|name| name == *known));
        let protocol =
            protocol.map_or_else(String::new, |name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n{protocol}\r\n"
        );
        client.write_all(head.as_bytes())?;
        site.talk(&request, Socket::new(client)?, &shared.stops);
        return Ok(());
    }
    let page = (request.method == "GET").then(|| site.page(&request)).flatten();
    match page {
        Some(Page { status, kind, body: Body::Whole(body) }) => {
            respond(&mut client, status, kind, &body)
        }
        Some(Page { status, kind, body: Body::Stream(write) }) => {
            client.write_all(head(status, kind, "").as_bytes())?;
            write(&mut client, &shared.stops)?;
            client.close();
            Ok(())
        }
        None => respond(&mut client, "404 Not Found", "text/plain", b"there is no such page\n"),
    }
}

fn respond(client: &mut Connection, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let length = format!("Content-Length: {}\r\n", body.len());
    client.write_all(&[head(status, kind, &length).as_bytes(), body].concat())?;
    client.close();
    Ok(())
}

/// Head of an answer, with the line `length`.
fn head(status: &str, kind: &str, length: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tungstenite::{Message, client::IntoClientRequest};

    use super::*;
    use crate::Received;

    /// Answers every message with itself.
    struct Echo;

    impl Site for Echo {
        fn page(&self, request: &Request) -> Option<Page> {
            match request.path.as_str() {
                "/" => Some(Page::new("text/plain", b"hello".as_slice())),
                "/later" => Some(Page::unavailable("not yet")),
                "/stream" => Some(Page::stream("text/plain", |client, _| {
                    (0..3).try_for_each(|number| write!(client, "{number} "))
                })),
                _ => None,
            }
        }

        fn talk(&self, _: &Request, mut socket: Socket, stops: &AtomicBool) {
            while !stops.load(Ordering::Acquire) {
                let sent = match socket.receive(Duration::from_millis(10)) {
                    Ok(Some(Received::Text(text))) => socket.send_text(&text),
                    Ok(Some(Received::Bytes(bytes))) => socket.send_bytes(bytes),
                    Ok(None) => Ok(()),
                    Err(_) => return,
                };
                if sent.is_err() {
                    return;
                }
            }
            socket.close("the end");
        }

        fn protocols(&self, _: &Request) -> &'static [&'static str] {
            &["new", "old"]
        }

        fn allows(&self, origin: &str) -> bool {
            origin == "https://friend.example.org"
        }
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn pages_are_served() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        let found = ask(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK") && found.ends_with("hello"), "{found}");
        let found = ask(&server, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 503") && found.ends_with("not yet"), "{found}");
        let found = ask(&server, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(found.ends_with("\r\n\r\n0 1 2 ") && !found.contains("Length"), "{found}");
        assert!(ask(&server, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("404"));
        assert!(ask(&server, "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("404"));
        assert!(ask(&server, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").contains("403"));
    }

    #[test]
    fn sockets_carry_messages_and_end_with_the_server() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        let connect = |origin: Option<&str>| {
            let mut request =
                format!("ws://{}/live", server.address()).into_client_request().unwrap();
            if let Some(origin) = origin {
                request.headers_mut().insert("Origin", origin.parse().unwrap());
            }
            let stream = TcpStream::connect(server.address()).unwrap();
            tungstenite::client(request, stream).ok().map(|(socket, _)| socket)
        };
        assert!(connect(Some("http://example.org")).is_none(), "a page of another site");
        assert!(connect(Some("https://friend.example.org")).is_some(), "one that is allowed");
        let own = format!("http://{}", server.address());
        let mut socket = connect(Some(&own)).unwrap();
        for message in [Message::text("hi"), Message::binary(vec![1; 100_000])] {
            socket.send(message.clone()).unwrap();
            assert_eq!(socket.read().unwrap(), message);
        }
        let _silent: Vec<_> = (0..5).map(|_| connect(None).unwrap()).collect();
        drop(server);
        assert!(matches!(socket.read(), Ok(Message::Close(Some(_)))));
    }

    #[test]
    fn the_best_common_protocol_is_chosen() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        let chosen = |offered: &str| {
            let mut request =
                format!("ws://{}/live", server.address()).into_client_request().unwrap();
            request.headers_mut().insert("Sec-WebSocket-Protocol", offered.parse().unwrap());
            let stream = TcpStream::connect(server.address()).unwrap();
            let (_socket, answer) = tungstenite::client(request, stream).ok()?;
            Some(answer.headers()["Sec-WebSocket-Protocol"].to_str().unwrap().to_owned())
        };
        assert_eq!(chosen("old").as_deref(), Some("old"));
        assert_eq!(chosen("other, old,new").as_deref(), Some("new"));
        assert_eq!(chosen("other"), None, "the client ends the handshake");
    }

    #[test]
    fn more_connections_than_allowed_are_closed() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        let idle: Vec<_> =
            (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        thread::sleep(Duration::from_millis(100));
        let mut refused = TcpStream::connect(server.address()).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap_or(0), 0);
        drop(idle);
    }

    #[test]
    fn silent_clients_delay_neither_others_nor_the_end() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        let idle = || TcpStream::connect(server.address()).unwrap();
        let _idle: Vec<_> = (0..MAX_CONNECTIONS / 2).map(|_| idle()).collect();
        let (mut silent, mut endless) = (idle(), idle());
        silent.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        endless.write_all(&[b'x'; 1 << 12]).unwrap();
        let start = Instant::now();
        let found = ask(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(found.ends_with("hello"), "{found}");
        drop(server);
        assert!(start.elapsed() < LIMIT, "waited for a silent client");
    }

    #[test]
    fn the_body_of_a_request_is_not_read() {
        let server = Server::start("127.0.0.1:0", Arc::new(Echo)).unwrap();
        for body in
            ["Content-Length: 1000000000000000", "Content-Length: -1", "Transfer-Encoding: chunked"]
        {
            let found =
                ask(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{body}\r\n\r\n"));
            assert!(found.ends_with("hello"), "{body}: {found}");
        }
        let found = ask(&server, "\r\n\r\n");
        assert!(found.contains("403"), "no host: {found}");
    }
}
