//! Server of the page. Each connection has a thread; number, time and length are limited, so a client
//! cannot block the graph, its end, or other clients.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 8;
/// Longest request that is read, in bytes.
const MAX_HEAD: u64 = 1 << 14;
/// Longest wait for a client, and for an image.
const LIMIT: Duration = Duration::from_secs(5);

/// Number of events that are kept.
const MAX_EVENTS: usize = 20;

/// The page asks for the events twice a second, and writes them as text.
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Afferent</title>\
<style>body{margin:0;background:#111;color:#ddd;text-align:center}\
img{max-width:100vw;max-height:100vh}\
pre{text-align:left;margin:1em;white-space:pre-wrap}</style>\
<img src=\"/stream\" alt=\"images of the graph\"><pre></pre><script>\
setInterval(async()=>{try{const all=await(await fetch('/events.json')).json();\
document.querySelector('pre').textContent=all.reverse().map(e=>\
e.t_s.toFixed(3)+' s  '+e.node+'  '+e.type+'  '+JSON.stringify(e.fields)).join('\\n')}\
catch(_){}},500)</script>";

/// Boundary of the images in a stream.
const BOUNDARY: &str = "afferent-image";

/// Serves images until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told of new images and of the end.
    changed: Condvar,
    stops: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Number of the last image, and the image.
    number: u64,
    image: Arc<Vec<u8>>,
    /// JSON objects.
    events: VecDeque<String>,
    connections: usize,
    /// Clients that wait for images.
    watching: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an image after the one with `number`; `None` at the end, or if none comes in time.
    fn next(&self, number: u64) -> Option<(u64, Arc<Vec<u8>>)> {
        let mut state = self.state();
        state.watching += 1;
        let end = Instant::now() + LIMIT;
        while state.number == number && !self.stops.load(Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.watching -= 1;
        let is_new = state.number != number && !self.stops.load(Ordering::Acquire);
        is_new.then(|| (state.number, state.image.clone()))
    }
}

impl Server {
    /// Listens at `address`.
    pub(super) fn start(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        let thread = thread::Builder::new().name("preview".to_owned()).spawn(move || {
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

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if a client waits for an image.
    pub(super) fn is_watched(&self) -> bool {
        self.shared.state().watching > 0
    }

    /// Adds an event, a JSON object, to those that clients may read.
    pub(super) fn tell(&self, event: String) {
        let mut state = self.shared.state();
        if state.events.len() == MAX_EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(event);
    }

    /// Gives an image to the clients.
    pub(super) fn show(&self, image: Vec<u8>) {
        let mut state = self.shared.state();
        state.number += 1;
        state.image = Arc::new(image);
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
        self.shared.changed.notify_all();
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

/// Answers a connection on a thread of its own.
fn connect(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut state = shared.state();
    if state.connections == MAX_CONNECTIONS {
        // The client sees that the connection is closed.
        return Ok(());
    }
    state.connections += 1;
    drop(state);
    let served = shared.clone();
    let answers = move || {
        // The client may have disconnected.
        drop(answer(&stream, &served));
        served.state().connections -= 1;
    };
    let started = thread::Builder::new().name("preview client".to_owned()).spawn(answers);
    if started.is_err() {
        shared.state().connections -= 1;
    }
    started.map(drop)
}

fn answer(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut head = BufReader::new(stream.take(MAX_HEAD)).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    let mut is_foreign = false;
    for line in head {
        let line = line?;
        if line.is_empty() {
            break;
        }
        is_foreign |= line.split_once(':').is_some_and(|(name, value)| is_from_other(name, value));
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let respond = |mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat())
    };
    if is_foreign {
        return respond(
            stream,
            "403 Forbidden",
            "text/plain",
            b"requests of other pages are refused\n",
        );
    }
    let last = shared.state().number;
    match (method, target.split('?').next()) {
        (Some("GET"), Some("/")) => respond(stream, "200 OK", "text/html", PAGE.as_bytes()),
        (Some("GET"), Some("/image.jpg")) => match shared.next(last) {
            Some((_, image)) => respond(stream, "200 OK", "image/jpeg", &image),
            None => {
                respond(stream, "503 Service Unavailable", "text/plain", b"no image has come\n")
            }
        },
        (Some("GET"), Some("/events.json")) => {
            let events = shared.state().events.make_contiguous().join(",");
            respond(stream, "200 OK", "application/json", format!("[{events}]").as_bytes())
        }
        (Some("GET"), Some("/stream")) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary={BOUNDARY}\r\n\
                 Cache-Control: no-store\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            let mut last = last;
            while !shared.stops.load(Ordering::Acquire) {
                // Without images for a while, the client stays.
                let Some((number, image)) = shared.next(last) else { continue };
                last = number;
                let head = format!(
                    "--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n",
                    image.len()
                );
                stream.write_all(&[head.as_bytes(), &image, b"\r\n"].concat())?;
            }
            Ok(())
        }
        _ => {
            let known = b"there are /, /stream, /image.jpg and /events.json\n";
            respond(stream, "404 Not Found", "text/plain", known)
        }
    }
}

/// True for a header of a request that the page of another site has made.
fn is_from_other(name: &str, value: &str) -> bool {
    let value = value.trim();
    if name.eq_ignore_ascii_case("sec-fetch-site") {
        return value == "cross-site" || value == "same-site";
    }
    if !name.eq_ignore_ascii_case("host") {
        return false;
    }
    // With a name of its own, another site could lead its pages here.
    let host = value.rsplit_once(':').map_or(value, |(host, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { value }
    });
    let host = host.trim_start_matches('[').trim_end_matches(']');
    !host.eq_ignore_ascii_case("localhost") && host.parse::<IpAddr>().is_err()
}
