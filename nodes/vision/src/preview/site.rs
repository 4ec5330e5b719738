//! Pages of the preview, and the images and events that they show.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use afferent_web::{Page, Request, Site, Socket};

/// Longest wait for an image.
const LIMIT: Duration = Duration::from_secs(5);

/// Time between two looks whether the server ends.
const POLL: Duration = Duration::from_millis(100);

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

/// Media type of a stream of images, with the boundary between them.
const STREAM: &str = "multipart/x-mixed-replace; boundary=afferent-image";

/// Images and events for the clients.
#[derive(Default)]
pub(super) struct Shown {
    state: Mutex<State>,
    /// Told of new images.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the last image, and the image.
    number: u64,
    image: Arc<Vec<u8>>,
    /// JSON objects.
    events: VecDeque<String>,
    /// Clients that wait for images.
    watching: usize,
}

impl Shown {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a client waits for an image.
    pub(super) fn is_watched(&self) -> bool {
        self.state().watching > 0
    }

    /// Adds an event, a JSON object, to those that clients may read.
    pub(super) fn tell(&self, event: String) {
        let mut state = self.state();
        if state.events.len() == MAX_EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(event);
    }

    /// Gives an image to the clients.
    pub(super) fn show(&self, image: Vec<u8>) {
        let mut state = self.state();
        state.number += 1;
        state.image = Arc::new(image);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits at most for `patience` for an image after the one with `number`.
    fn next(&self, number: u64, patience: Duration) -> Option<(u64, Arc<Vec<u8>>)> {
        let mut state = self.state();
        state.watching += 1;
        let is_old = |state: &mut State| state.number == number;
        let waited = self.changed.wait_timeout_while(state, patience, is_old);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.watching -= 1;
        (state.number != number).then(|| (state.number, state.image.clone()))
    }

    /// Sends the images after the one with `last` as they come.
    fn stream(&self, mut last: u64, client: &mut dyn Write, stops: &AtomicBool) -> io::Result<()> {
        while !stops.load(Ordering::Acquire) {
            // Without images for a while, the client stays.
            let Some((number, image)) = self.next(last, POLL) else { continue };
            last = number;
            let head = format!(
                "--afferent-image\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n",
                image.len()
            );
            client.write_all(&[head.as_bytes(), &image, b"\r\n"].concat())?;
        }
        Ok(())
    }

    /// The next image, unless none comes in time.
    fn image(&self, last: u64) -> Page {
        match self.next(last, LIMIT) {
            Some((_, image)) => Page::new("image/jpeg", image.as_slice().to_vec()),
            None => Page::unavailable("no image has come\n"),
        }
    }
}

/// The pages.
pub(super) struct Pages(pub(super) Arc<Shown>);

impl Site for Pages {
    fn page(&self, request: &Request) -> Option<Page> {
        let last = self.0.state().number;
        Some(match request.path.as_str() {
            "/" => Page::new("text/html; charset=utf-8", PAGE.as_bytes()),
            "/image.jpg" => self.0.image(last),
            "/events.json" => {
                let events = self.0.state().events.make_contiguous().join(",");
                Page::new("application/json", format!("[{events}]").into_bytes())
            }
            "/stream" => {
                let shown = self.0.clone();
                Page::stream(STREAM, move |client, stops| shown.stream(last, client, stops))
            }
            _ => return None,
        })
    }

    fn talk(&self, _: &Request, socket: Socket, _: &AtomicBool) {
        socket.close("the images are at /stream");
    }
}
