//! Figures of a running graph over HTTP: `/metrics` for Prometheus, `/stats` as JSON for
//! `afferent top`.

use std::{
    net::TcpListener,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use afferent_engine::WatchHandle;
use anyhow::anyhow;
use tiny_http::{Header, Method, Request, Response, Server};

/// Where figures are served when no address is given.
pub(crate) const ADDRESS: &str = "127.0.0.1:9464";
/// How long a request waits for threads that are in a call.
const PATIENCE: Duration = Duration::from_millis(200);

/// Listens at `address`; who asks waits until figures are served there.
pub(crate) fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .map_err(|error| anyhow!("cannot serve figures at {address}: {error}"))
}

/// Serves figures until it is dropped.
pub(crate) struct Figures {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Figures {
    /// Serves the figures of `watch` to who asks `listener`.
    pub(crate) fn serve(listener: TcpListener, watch: WatchHandle) -> anyhow::Result<Self> {
        let server = Server::from_listener(listener, None)
            .map_err(|error| anyhow!("cannot serve figures: {error}"))?;
        let server = Arc::new(server);
        let requests = server.clone();
        let thread = thread::Builder::new().name("figures".to_owned()).spawn(move || {
            for request in requests.incoming_requests() {
                answer(request, &watch);
            }
        })?;
        Ok(Self { server, thread: Some(thread) })
    }

    /// Where they are.
    pub(crate) fn address(&self) -> String {
        self.server.server_addr().to_string()
    }
}

impl Drop for Figures {
    fn drop(&mut self) {
        self.server.unblock();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn answer(request: Request, watch: &WatchHandle) {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, kind, text) = match (request.method(), path) {
        (Method::Get, "/metrics") => {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = watch.read(PATIENCE).write_prometheus(&mut text);
            (200, "text/plain; version=0.0.4", text)
        }
        (Method::Get, "/stats") => {
            let json = serde_json::to_string(&watch.read(PATIENCE)).unwrap_or_default();
            (200, "application/json", json)
        }
        (Method::Get, "/") => {
            let text = "/metrics for Prometheus, /stats as JSON, which `afferent top` shows\n";
            (200, "text/plain", text.to_owned())
        }
        _ => (404, "text/plain", "there are /metrics and /stats\n".to_owned()),
    };
    let mut response = Response::from_string(text).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    // Who asked may have gone.
    drop(request.respond(response));
}
