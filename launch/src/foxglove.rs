//! The running graph for Foxglove: every output is a channel of its live protocol, with the messages and
//! schemas of recordings.
//!
//! An observer puts the packets of channels that a client has subscribed to into a queue; a thread of its
//! own encodes each once, and each client has a bounded queue. What is full loses packets, which the
//! client is told, and never holds up the graph. As in the live view, packets wake no thread.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use afferent_engine::{Observer, lower_priority};
use afferent_graph::{Codec, Packet, SessionStart, Timestamp};
use afferent_nodes_web::LiveView;
use afferent_spec::CheckedGraph;
use afferent_web::{Message, Received, Request, Socket, SocketClosed};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lock;

/// Path of the socket.
pub(crate) const PATH: &str = "/foxglove";

/// Names of the protocol: that of the present software and that of earlier versions, with the messages that
/// are used here in common.
const PROTOCOLS: &[&str] = &["foxglove.sdk.v1", "foxglove.websocket.v1"];

/// Packets of an output that may wait to be encoded.
const HELD: usize = 16;
/// Messages that may wait for a client.
const OUTBOX: usize = 64;
/// Time between two looks of the encoder into its queue.
const PACKETS_EVERY: Duration = Duration::from_millis(5);
/// Time between two sends to a client.
const SENDS_EVERY: Duration = Duration::from_millis(10);
/// Least time between two reports of loss.
const REPORTS_EVERY: Duration = Duration::from_secs(1);

/// First byte of a message with data.
const MESSAGE_DATA: u8 = 1;

/// The graph as channels.
pub(crate) struct Foxglove {
    graph: String,
    start: SessionStart,
    channels: Vec<Channel>,
    /// Channels by node and port.
    outputs: HashMap<String, HashMap<String, usize>>,
    queue: Sender<Seen>,
    clients: Mutex<Vec<Arc<Client>>>,
    /// Subscriptions of all clients.
    subscriptions: AtomicUsize,
    /// The thread that encodes, which waits as long as there is no subscription.
    encoder: OnceLock<Thread>,
}

/// An output of the graph.
struct Channel {
    topic: String,
    codec: Codec,
    subscribers: AtomicUsize,
    /// Packets in the queue.
    waiting: AtomicUsize,
    lost: AtomicU64,
}

/// A packet that a client will get.
struct Seen {
    channel: usize,
    now: Timestamp,
    packet: Packet,
}

/// A connected client.
struct Client {
    outbox: SyncSender<Arc<Encoded>>,
    /// Number that the client has given its subscription, by channel.
    subscriptions: Mutex<BTreeMap<usize, u32>>,
    lost: AtomicU64,
}

/// A message of a channel.
struct Encoded {
    channel: usize,
    /// Time of the send, in nanoseconds since 1970.
    log_time: u64,
    bytes: Vec<u8>,
}

/// Request of a client. Others are for servers with more abilities.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
enum Operation {
    Subscribe {
        subscriptions: Vec<Subscription>,
    },
    #[serde(rename_all = "camelCase")]
    Unsubscribe {
        subscription_ids: Vec<u32>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    id: u32,
    channel_id: usize,
}

impl Foxglove {
    /// Channels of the outputs of `graph`, for a session that began at `start`.
    pub(crate) fn start(graph: &CheckedGraph, start: SessionStart) -> std::io::Result<Arc<Self>> {
        let (mut channels, mut outputs) = (Vec::new(), HashMap::<_, HashMap<_, _>>::new());
        for node in &graph.nodes {
            for port in &node.def.outputs {
                let Some(codec) = port.codec else { continue };
                let ports = outputs.entry(node.name.clone()).or_default();
                ports.insert(port.name.to_string(), channels.len());
                channels.push(Channel {
                    topic: format!("{}/{}", node.name, port.name),
                    codec,
                    subscribers: AtomicUsize::new(0),
                    waiting: AtomicUsize::new(0),
                    lost: AtomicU64::new(0),
                });
            }
        }
        let (queue, seen) = channel();
        let graph = graph.name.clone();
        let (clients, subscriptions) = (Mutex::default(), AtomicUsize::new(0));
        let encoder = OnceLock::new();
        let foxglove = Arc::new(Self {
            graph,
            start,
            channels,
            outputs,
            queue,
            clients,
            subscriptions,
            encoder,
        });
        let encodes = Arc::downgrade(&foxglove);
        let thread = thread::Builder::new()
            .name("foxglove".to_owned())
            .spawn(move || Self::encode_all(&encodes, &seen))?;
        foxglove.encoder.get_or_init(|| thread.thread().clone());
        Ok(foxglove)
    }

    /// Encodes packets until the channels are dropped.
    fn encode_all(channels: &Weak<Self>, seen: &Receiver<Seen>) {
        lower_priority();
        while let Some(foxglove) = channels.upgrade() {
            seen.try_iter().for_each(|seen| foxglove.encode(&seen));
            let is_idle = foxglove.subscriptions.load(Ordering::Acquire) == 0;
            drop(foxglove);
            match is_idle {
                true => thread::park(),
                false => thread::sleep(PACKETS_EVERY),
            }
        }
    }

    fn wake(&self) {
        if let Some(encoder) = self.encoder.get() {
            encoder.unpark();
        }
    }

    /// Encodes a packet for the clients that have subscribed to its channel.
    fn encode(&self, seen: &Seen) {
        let channel = &self.channels[seen.channel];
        channel.waiting.fetch_sub(1, Ordering::AcqRel);
        let Some(payload) = seen.packet.payload() else { return };
        let mut bytes = Vec::new();
        if let Err(reason) = channel.codec.encode(payload, &mut bytes) {
            tracing::debug!("{}: a packet cannot be shown: {reason}", channel.topic);
            return;
        }
        let log_time = self.start.unix_ns(seen.now);
        let encoded = Arc::new(Encoded { channel: seen.channel, log_time, bytes });
        for client in lock(&self.clients).iter() {
            let subscribed = lock(&client.subscriptions).contains_key(&seen.channel);
            if subscribed && client.outbox.try_send(encoded.clone()).is_err() {
                client.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// First messages for a client.
    fn greeting(&self) -> [Value; 2] {
        let channels = self.channels.iter().enumerate().map(|(id, channel)| {
            json!({
                "id": id,
                "topic": channel.topic,
                "encoding": "cdr",
                "schemaName": channel.codec.message(),
                "schema": channel.codec.schema(),
                "schemaEncoding": "ros2msg",
            })
        });
        [
            json!({
                "op": "serverInfo",
                "name": format!("afferent {}: {}", env!("CARGO_PKG_VERSION"), self.graph),
                "capabilities": [],
                "metadata": {},
                "sessionId": self.start.unix_ns.to_string(),
            }),
            json!({"op": "advertise", "channels": channels.collect::<Vec<_>>()}),
        ]
    }

    /// Follows a request of `client`.
    ///
    /// # Errors
    /// The part of the request that is wrong.
    fn follow(&self, client: &Client, text: &str) -> Result<(), String> {
        let operation = serde_json::from_str(text)
            .map_err(|error| format!("a request that is not understood: {error}"))?;
        let mut subscriptions = lock(&client.subscriptions);
        match operation {
            Operation::Subscribe { subscriptions: new } => {
                for Subscription { id, channel_id } in new {
                    let channel = self.channels.get(channel_id);
                    let channel =
                        channel.ok_or_else(|| format!("there is no channel {channel_id}"))?;
                    if subscriptions.values().any(|known| *known == id) {
                        return Err(format!("the subscription {id} exists already"));
                    }
                    if subscriptions.insert(channel_id, id).is_none() {
                        channel.subscribers.fetch_add(1, Ordering::AcqRel);
                        self.subscriptions.fetch_add(1, Ordering::AcqRel);
                        self.wake();
                    }
                }
            }
            Operation::Unsubscribe { subscription_ids } => {
                subscriptions.retain(|channel, id| {
                    let stays = !subscription_ids.contains(id);
                    if !stays {
                        self.unsubscribe(*channel);
                    }
                    stays
                });
            }
            Operation::Other => {}
        }
        Ok(())
    }

    /// A client has ended its subscription to `channel`.
    fn unsubscribe(&self, channel: usize) {
        self.channels[channel].subscribers.fetch_sub(1, Ordering::AcqRel);
        self.subscriptions.fetch_sub(1, Ordering::AcqRel);
    }

    /// Packets that `client` has lost, and those of its channels that were lost before the encoder.
    fn losses(&self, client: &Client) -> u64 {
        let subscriptions = lock(&client.subscriptions);
        let lost = subscriptions.keys().map(|channel| &self.channels[*channel].lost);
        lost.chain([&client.lost]).map(|lost| lost.swap(0, Ordering::Relaxed)).sum()
    }

    /// Talks to `client` until it leaves, or `stops` is true.
    fn serve(
        &self,
        client: &Client,
        waiting: &Receiver<Arc<Encoded>>,
        socket: &mut Socket,
        stops: &AtomicBool,
    ) -> Result<(), SocketClosed> {
        for message in self.greeting() {
            socket.send_text(&message.to_string())?;
        }
        let mut reported = Instant::now();
        while !stops.load(Ordering::Acquire) {
            let encoded = waiting.try_iter().take(OUTBOX);
            socket.send_all(encoded.filter_map(|encoded| client.message(&encoded)))?;
            if reported.elapsed() >= REPORTS_EVERY {
                reported = Instant::now();
                let lost = self.losses(client);
                if lost > 0 {
                    socket.send_text(&status(1, &format!("{lost} messages were lost")))?;
                }
            }
            if let Some(received) = socket.receive(SENDS_EVERY)? {
                let Received::Text(text) = received else { continue };
                if let Err(reason) = self.follow(client, &text) {
                    socket.send_text(&status(2, &reason))?;
                }
            }
        }
        Ok(())
    }
}

impl Client {
    /// The message with `encoded`; `None` if the client has ended the subscription.
    fn message(&self, encoded: &Encoded) -> Option<Message> {
        let id = *lock(&self.subscriptions).get(&encoded.channel)?;
        let mut bytes = vec![MESSAGE_DATA];
        bytes.extend(id.to_le_bytes());
        bytes.extend(encoded.log_time.to_le_bytes());
        bytes.extend(&encoded.bytes);
        Some(Message::binary(bytes))
    }
}

/// A message for people; `level` is 0 for information, 1 for a warning and 2 for an error.
fn status(level: u8, message: &str) -> String {
    json!({"op": "status", "level": level, "message": message}).to_string()
}

impl Observer for Foxglove {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        if self.subscriptions.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(index) = self.outputs.get(node).and_then(|ports| ports.get(port)) else { return };
        let channel = &self.channels[*index];
        if channel.subscribers.load(Ordering::Relaxed) == 0 {
            return;
        }
        if channel.waiting.fetch_add(1, Ordering::AcqRel) >= HELD {
            channel.waiting.fetch_sub(1, Ordering::AcqRel);
            channel.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The thread ends after the last packet.
        drop(self.queue.send(Seen { channel: *index, now, packet: packet.share() }));
    }

    fn holds(&self, _: &str, _: &str) -> usize {
        HELD
    }
}

impl Drop for Foxglove {
    fn drop(&mut self) {
        self.wake();
    }
}

impl LiveView for Foxglove {
    fn path(&self) -> &'static str {
        PATH
    }

    fn protocols(&self) -> &'static [&'static str] {
        PROTOCOLS
    }

    fn talk(&self, _: &Request, mut socket: Socket, stops: &AtomicBool) {
        let (outbox, waiting) = sync_channel(OUTBOX);
        let (subscriptions, lost) = (Mutex::default(), AtomicU64::new(0));
        let client = Arc::new(Client { outbox, subscriptions, lost });
        lock(&self.clients).push(client.clone());
        let served = self.serve(&client, &waiting, &mut socket, stops);
        lock(&self.clients).retain(|other| !Arc::ptr_eq(other, &client));
        for channel in std::mem::take(&mut *lock(&client.subscriptions)).into_keys() {
            self.unsubscribe(channel);
        }
        if served.is_ok() {
            socket.close("the graph has ended");
        }
    }
}
