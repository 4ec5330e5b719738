//! Connections between the machines of a graph, over zenoh.
//!
//! Each machine opens one session, as a peer with the addresses of the graph and without discovery.
//! To each other machine it publishes under keys of its own, one for control messages and one for
//! each edge (`keys`); a [`RemoteLink`] adds what zenoh does not promise. Links are encrypted
//! and mutually authenticated (QUIC, with a certificate for each machine), and every machine accepts
//! from another only what the graph says (`access`).

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use afferent_graph::OnFull;
use afferent_spec::CheckedGraph;
use zenoh::{Session, Wait, pubsub::Subscriber};

mod access;
mod config;
mod keys;
mod wire;

use crate::{
    Transport, TransportError,
    link::Inbox,
    remote::{RemoteConfig, RemoteLink},
};

/// Settings of the connections to other machines.
#[derive(Debug, Clone, Default)]
pub struct NetOptions {
    /// Folder with `ca.pem` and, for this machine, `NAME.pem` and `NAME.key`.
    pub keys: Option<PathBuf>,
    /// True to accept connections that are not encrypted from other machines.
    pub insecure: bool,
}

/// Connections to the other machines. Dropping it closes them.
pub struct Net {
    session: Option<Session>,
    subscribers: Vec<Subscriber<()>>,
    watches: Vec<wire::Watch>,
}

/// Time after which messages without an acknowledgment are sent again, although the connection
/// stands. zenoh loses messages only when it breaks.
const PATIENCE: Duration = Duration::from_secs(3);

/// Longest wait for the end of the session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Net {
    /// Connects the machine `here` of `graph` to the other machines that it needs; `inbox` receives
    /// the messages of each. Returns the links with the machines that they lead to, and returns at
    /// once: connections are made, and made again, in the background.
    ///
    /// # Errors
    /// [`TransportError::Machines`] for addresses and keys that cannot be used.
    pub fn connect(
        graph: &CheckedGraph,
        here: usize,
        options: &NetOptions,
        inbox: impl Fn(usize) -> Arc<dyn Inbox>,
    ) -> Result<(Self, Links), TransportError> {
        let machines = TransportError::Machines;
        let config = config::config(graph, here, options).map_err(machines)?;
        let session = zenoh::open(config).wait();
        let session = session.map_err(|error| machines(config::explain(&error.to_string())))?;
        let instance = fastrand::u64(1..);
        let mut net = Self { session: Some(session), subscribers: vec![], watches: vec![] };
        let mut link = |peer: usize| {
            let link = net.link(graph, [here, peer], instance, inbox(peer));
            link.map(|link| (peer, link)).map_err(|error| {
                let name = &graph.machines[peer].name;
                machines(format!("machine {name}: {error}"))
            })
        };
        let links = peers(graph, here).into_iter().map(&mut link).collect::<Result<_, _>>()?;
        Ok((net, links))
    }

    /// Starts the link to the machine `peer`.
    fn link(
        &mut self,
        graph: &CheckedGraph,
        [here, peer]: [usize; 2],
        instance: u64,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<RemoteLink>, Box<dyn std::error::Error + Send + Sync>> {
        let session = self.session.as_ref().ok_or("the session is closed")?;
        let wire = Arc::new(wire::ZenohWire::new(session, graph, [here, peer])?);
        let config = RemoteConfig {
            peer: graph.machines[peer].name.clone(),
            instance,
            is_volatile: is_volatile(graph),
            patience: PATIENCE,
        };
        let link = RemoteLink::start(config, wire.clone(), inbox)?;
        self.watches.push(wire.watch(link.clone())?);
        let arrived = wire::arrived(link.clone());
        let key = keys::from(graph, [peer, here]);
        self.subscribers.push(session.declare_subscriber(key).callback(arrived).wait()?);
        Ok(link)
    }
}

impl Transport {
    /// Connects the main process of a machine to the other machines.
    ///
    /// # Errors
    /// [`TransportError::Machines`].
    pub fn connect_machines(self: &Arc<Self>, options: &NetOptions) -> Result<Net, TransportError> {
        let inbox = |machine| self.inbox(machine);
        let (net, links) = Net::connect(&self.graph, self.here, options, inbox)?;
        for (machine, link) in links {
            self.connect_link(machine, link);
        }
        Ok(net)
    }
}

/// Links to other machines, with their indices.
pub type Links = Vec<(usize, Arc<RemoteLink>)>;

impl Drop for Net {
    fn drop(&mut self) {
        self.watches.clear();
        self.subscribers.clear();
        let Some(session) = self.session.take() else { return };
        // Closing can take 10 s if a peer does not answer.
        let (closed, is_closed) = mpsc::channel();
        let close = move || {
            let _ = session.close().wait();
            let _ = closed.send(());
        };
        if std::thread::Builder::new().name("close".to_owned()).spawn(close).is_ok() {
            let _ = is_closed.recv_timeout(CLOSE_TIMEOUT);
        }
    }
}

/// Other machines that `here` needs a connection to.
fn peers(graph: &CheckedGraph, here: usize) -> Vec<usize> {
    let pairs = graph.linked_machines().into_iter();
    let other = |[one, other]: [usize; 2]| match here {
        _ if here == one => Some(other),
        _ if here == other => Some(one),
        _ => None,
    };
    pairs.filter_map(other).collect()
}

/// Edges from machine `from` to machine `to`, by their index.
fn edges(graph: &CheckedGraph, [from, to]: [usize; 2]) -> impl Iterator<Item = usize> {
    let edges = graph.edges.iter().enumerate().filter(move |(_, edge)| {
        [edge.from.0, edge.to.0].map(|node| graph.machine_of(node)) == [from, to]
    });
    edges.map(|(index, _)| index)
}

/// Edges whose packets would be late if they were sent again.
fn is_volatile(graph: &CheckedGraph) -> Vec<bool> {
    graph.edges.iter().map(|edge| edge.policy.on_full != OnFull::Block).collect()
}
