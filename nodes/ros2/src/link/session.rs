//! Sessions with zenoh routers, shared by the nodes of a program.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use afferent_graph::{NodeError, Service, Services};
use zenoh::{Config, Wait, liveliness::LivelinessToken, sample::SampleKind};

use super::{close_aside, link_error};
use crate::{
    endpoint::Endpoint,
    liveliness::{EndpointKind, EndpointToken, NodeToken},
};

/// Sessions with zenoh routers, which the nodes of a program share: one for each router.
#[derive(Default)]
pub struct Sessions(Mutex<Vec<Weak<Session>>>);

impl Service for Sessions {
    const NAME: &'static str = "ROS 2 sessions";
    const HINT: &'static str = "add `Sessions::default()` with `App::service`";
}

/// Time for which a new endpoint waits for the router.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A session with a router. It ends with its last endpoint.
pub(super) struct Session {
    pub(super) zenoh: zenoh::Session,
    router: String,
    /// True while the router is connected.
    is_connected: Arc<AtomicBool>,
    /// Number of the next node or endpoint.
    next_entity: AtomicU32,
}

/// Liveliness tokens of an endpoint. Peers see it as long as they exist.
pub(super) struct Tokens {
    pub(super) endpoint: EndpointToken,
    _tokens: [LivelinessToken; 2],
}

impl Sessions {
    /// The session of the router of `endpoint`, which is opened if there is none.
    pub(super) fn session(
        services: &Services,
        endpoint: &Endpoint,
    ) -> Result<Arc<Session>, NodeError> {
        let sessions = services.need::<Self>()?;
        // Other nodes that are opened at the same time wait here, mostly for the same router.
        let mut sessions = sessions.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        let open = sessions.iter().filter_map(Weak::upgrade);
        if let Some(session) = { open }.find(|session| session.router == endpoint.router) {
            return Ok(session);
        }
        let session = Arc::new(Session::open(&endpoint.router, endpoint.wait)?);
        sessions.push(Arc::downgrade(&session));
        Ok(session)
    }
}

/// Settings of a session, as JSON5. It connects to the router only, and again after a loss.
fn config(router: &str, wait: Duration) -> zenoh::Result<Config> {
    let mut config = Config::default();
    // Zero is one attempt.
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(1 << 40);
    for (key, value) in [
        ("mode", "\"client\""),
        ("connect/endpoints", &*format!("[\"{router}\"]")),
        ("connect/timeout_ms", &wait_ms.to_string()),
        ("connect/exit_on_failure", "true"),
        ("connect/retry", "{period_init_ms: 100, period_max_ms: 1000, period_increase_factor: 2}"),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
    ] {
        config.insert_json5(key, value)?;
    }
    Ok(config)
}

impl Session {
    fn open(router: &str, wait: Duration) -> Result<Self, NodeError> {
        let config = config(router, wait).map_err(|error| link_error(router, error))?;
        let zenoh = zenoh::open(config).wait().map_err(|error| {
            tracing::debug!("{router}: {error}");
            let within = if wait.is_zero() { String::new() } else { format!(" within {wait:?}") };
            let reason = format!(
                "no zenoh router answers{within}; start one with `ros2 run rmw_zenoh_cpp \
                 rmw_zenohd` or `zenohd`, or set `router` and `wait`"
            );
            link_error(router, reason)
        })?;
        let is_connected = Arc::new(AtomicBool::new(true));
        let (name, flag) = (router.to_owned(), is_connected.clone());
        let info = zenoh.info();
        let listen = info.transport_events_listener().history(true).callback(move |event| {
            let is_open = event.kind() == SampleKind::Put;
            if flag.swap(is_open, Ordering::Relaxed) == is_open {
                return;
            }
            if is_open {
                tracing::info!("{name}: connected to the zenoh router again");
            } else {
                tracing::warn!("{name}: lost the zenoh router; connecting again");
            }
        });
        listen.background().wait().map_err(|error| link_error(router, error))?;
        let router = router.to_owned();
        Ok(Self { zenoh, router, is_connected, next_entity: AtomicU32::new(0) })
    }

    /// True while the router is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// An error of this connection.
    pub(super) fn error(&self, reason: impl ToString) -> NodeError {
        link_error(&self.router, reason)
    }

    /// Announces `endpoint` in a node of its own.
    pub(super) fn announce(
        &self,
        endpoint: &Endpoint,
        kind: EndpointKind,
    ) -> Result<Tokens, NodeError> {
        let number = self.next_entity.fetch_add(2, Ordering::Relaxed);
        let Endpoint { key, qos, node, .. } = endpoint;
        let node = NodeToken::new(key.domain, &self.zenoh.zid().to_string(), number, node)
            .map_err(|error| self.error(error))?;
        let token = node.endpoint(number + 1, kind, key, *qos);
        let declare = |key: String| {
            let token = self.zenoh.liveliness().declare_token(key).wait();
            token.map_err(|error| self.error(error))
        };
        let tokens = [declare(node.to_string())?, declare(token.to_string())?];
        self.wait_for_answer(&token.to_string())?;
        Ok(Tokens { endpoint: token, _tokens: tokens })
    }

    /// Waits until the router has answered a question about `token`. It answers in order, so it has
    /// handled earlier declarations: a publisher knows its subscribers, and its first message is not
    /// lost.
    fn wait_for_answer(&self, token: &str) -> Result<(), NodeError> {
        let answers = self.zenoh.liveliness().get(token).timeout(ANSWER_LIMIT).wait();
        let answers = answers.map_err(|error| self.error(error))?;
        while answers.recv().is_ok() {}
        Ok(())
    }
}

/// Holder of a session that ends aside from the thread of the node.
pub(super) struct Held(Option<Arc<Session>>);

impl Held {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self(Some(session))
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        self.0.as_ref().expect("taken only by `release` and `drop`")
    }

    /// The session, for a thread that may block at its end.
    pub(super) fn release(mut self) -> Arc<Session> {
        self.0.take().expect("taken only here and in `drop`")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            close_aside(move || drop(session));
        }
    }
}
