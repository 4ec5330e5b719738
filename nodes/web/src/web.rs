//! The page of a program, and its devices.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicBool, mpsc::Receiver},
};

use afferent_graph::{NodeError, Service};
use afferent_web::{Identity, Page, Request, Server, Site, Socket};
use serde_json::{Value, json};

use crate::device::{Device, Kind};

/// The page of a program: devices of the browser for nodes, and the live view of the graph.
///
/// It is served from the first device, or the live view, on. Clones share it.
#[derive(Clone)]
pub struct Web(Arc<Shared>);

/// Talks to clients that show the running graph.
pub trait LiveView: Send + Sync {
    /// Path of its socket, such as `/live`.
    fn path(&self) -> &'static str;

    /// Names of the protocols that it speaks; empty if clients need not name one.
    fn protocols(&self) -> &'static [&'static str] {
        &[]
    }

    /// Talks to a client until it leaves, or `stops` is true.
    fn talk(&self, request: &Request, socket: Socket, stops: &AtomicBool);
}

/// Address, allowed origins and certificate of the page of a program.
#[derive(Clone)]
pub struct WebOptions {
    /// Address to serve at, `HOST:PORT`; port 0 takes a free one.
    pub bind: String,
    /// Origins of pages that are served elsewhere and may connect, such as `https://app.foxglove.dev`.
    pub origins: Vec<String>,
    /// Certificate of the page, which is then served over TLS.
    pub identity: Option<Identity>,
}

impl Default for WebOptions {
    /// At [`Web::BIND`].
    fn default() -> Self {
        Self { bind: Web::BIND.to_owned(), origins: Vec::new(), identity: None }
    }
}

struct Shared {
    options: WebOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    server: Option<Server>,
    devices: BTreeMap<String, Arc<Device>>,
    views: Vec<Arc<dyn LiveView>>,
}

impl Service for Web {
    const NAME: &'static str = "Web";
    const HINT: &'static str = "add it with `App::service(Web::default())`";
}

impl Default for Web {
    /// A page at [`Web::BIND`].
    fn default() -> Self {
        Self::new(WebOptions::default())
    }
}

impl Web {
    /// Default address.
    pub const BIND: &'static str = "127.0.0.1:8088";

    /// A page that is served by `options`.
    pub fn new(options: WebOptions) -> Self {
        Self(Arc::new(Shared { options, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Address of the page; starts its server.
    ///
    /// # Errors
    /// [`NodeError::Device`] if the address cannot be used.
    pub fn serve(&self) -> Result<SocketAddr, NodeError> {
        let mut state = self.state();
        if let Some(server) = &state.server {
            return Ok(server.address());
        }
        let site = Arc::new(Pages(Arc::downgrade(&self.0)));
        let WebOptions { bind, identity, .. } = &self.0.options;
        let server = Server::start_with(bind, site, identity.clone());
        let server = server.map_err(|error| NodeError::Device {
            name: bind.clone(),
            reason: format!(
                "cannot serve the page: {error}; an address is written HOST:PORT, and port 0 takes a free \
                 one"
            ),
        })?;
        let address = server.address();
        let reachable = server.reachable_address();
        state.server = Some(server);
        tracing::info!("page at {}/", self.url(reachable));
        Ok(address)
    }

    /// URL of the page at `address`, without a slash at its end.
    fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.0.options.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// Serves a live view. Returns the URL of the page, without a slash at its end.
    ///
    /// # Errors
    /// As [`Web::serve`].
    pub fn show(&self, live: Arc<dyn LiveView>) -> Result<String, NodeError> {
        self.state().views.push(live);
        let address = self.serve()?;
        let state = self.state();
        Ok(self.url(state.server.as_ref().map_or(address, Server::reachable_address)))
    }

    /// The live view at `path`.
    fn view(&self, path: &str) -> Option<Arc<dyn LiveView>> {
        self.state().views.iter().find(|view| view.path() == path).cloned()
    }

    /// Offers a device to the page, by the name of its node, until the result is dropped.
    pub(crate) fn offer(
        &self,
        name: &str,
        kind: Kind,
        settings: Value,
    ) -> Result<Offered, NodeError> {
        self.serve()?;
        let (device, arrivals) = Device::new(kind, settings);
        self.state().devices.insert(name.to_owned(), device.clone());
        Ok(Offered { web: self.clone(), name: name.to_owned(), device, arrivals })
    }
}

/// A device that the page offers.
pub(crate) struct Offered {
    web: Web,
    name: String,
    pub(crate) device: Arc<Device>,
    pub(crate) arrivals: Receiver<Vec<u8>>,
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut state = self.web.state();
        // A node that was started again has offered its own.
        if state.devices.get(&self.name).is_some_and(|known| Arc::ptr_eq(known, &self.device)) {
            state.devices.remove(&self.name);
        }
    }
}

/// Files of the page: path, media type, content.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/devices.js", "text/javascript; charset=utf-8", include_str!("page/devices.js")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("page/live.js")),
    ("/capture.js", "text/javascript; charset=utf-8", include_str!("page/capture.js")),
];

struct Pages(Weak<Shared>);

impl Site for Pages {
    fn page(&self, request: &Request) -> Option<Page> {
        if let Some((_, kind, body)) = FILES.iter().find(|(path, ..)| *path == request.path) {
            return Some(Page::new(kind, body.as_bytes()));
        }
        if request.path != "/devices.json" {
            return None;
        }
        let web = Web(self.0.upgrade()?);
        let state = web.state();
        let devices: Vec<_> =
            state.devices.iter().map(|(name, device)| device.describe(name)).collect();
        let text = json!({"devices": devices, "live": !state.views.is_empty()}).to_string();
        Some(Page::new("application/json", text.into_bytes()))
    }

    fn talk(&self, request: &Request, socket: Socket, stops: &AtomicBool) {
        let Some(web) = self.0.upgrade().map(Web) else { return };
        let name = request.path.strip_prefix("/device/").unwrap_or_default();
        let device = web.state().devices.get(name).cloned();
        let view = web.view(&request.path);
        // The page must not keep the server alive.
        drop(web);
        match (device, view) {
            (Some(device), _) => device.talk(socket, stops),
            (None, Some(view)) => view.talk(request, socket, stops),
            _ => socket.close("there is no such device"),
        }
    }

    fn protocols(&self, request: &Request) -> &'static [&'static str] {
        let web = self.0.upgrade().map(Web);
        let view = web.and_then(|web| web.view(&request.path));
        view.map_or(&[], |view| view.protocols())
    }

    fn allows(&self, origin: &str) -> bool {
        let shared = self.0.upgrade();
        shared.is_some_and(|shared| shared.options.origins.iter().any(|allowed| allowed == origin))
    }
}
