//! zenoh as a wire of a [`RemoteLink`](crate::remote::RemoteLink).

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;
use afferent_spec::CheckedGraph;
use bytes::Bytes;
use zenoh::{
    Session, Wait,
    bytes::ZBytes,
    matching::MatchingListener,
    pubsub::Publisher,
    qos::{CongestionControl, Priority, Reliability},
    sample::Sample,
};

use super::{edges, keys};
use crate::{
    lock, monotonic_ns,
    remote::{CONTROL, Datagram, Received, RemoteLink, Wire, WireEvent},
};

/// Payload types with large packets, which take longer to send than others can wait.
const LARGE: [&str; 2] = ["vision/Image", "spatial/PointCloud"];

/// Longest wait for threads that send what was put before the end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Priorities of streams. Each has a thread that sends, so that a large message does not delay the
/// others.
const PRIORITIES: [Priority; 3] = [Priority::RealTime, Priority::InteractiveHigh, Priority::Data];

/// Sends datagrams to one machine.
pub(super) struct ZenohWire {
    session: Session,
    control: String,
    /// One for each of [`PRIORITIES`]; `None` ends its thread.
    queues: [mpsc::Sender<Option<(u16, Datagram)>>; PRIORITIES.len()],
    /// Index in [`PRIORITIES`] of each stream.
    priorities: BTreeMap<u16, usize>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl ZenohWire {
    /// Publishes the streams of one machine to another.
    pub(super) fn new(
        session: &Session,
        graph: &CheckedGraph,
        ends: [usize; 2],
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut priorities = BTreeMap::from([(CONTROL, 0)]);
        for edge in edges(graph, ends) {
            let (node, port) = graph.edges[edge].from;
            let output = graph.nodes.get(node).and_then(|node| node.def.outputs.get(port.index()));
            let is_large = output.is_some_and(|output| LARGE.contains(&&*output.ty));
            priorities.insert(u16::try_from(edge)?, if is_large { 2 } else { 1 });
        }
        let mut publishers: [BTreeMap<u16, Publisher<'static>>; PRIORITIES.len()] =
            Default::default();
        for (stream, priority) in &priorities {
            let publisher = session
                .declare_publisher(keys::stream(graph, ends, *stream))
                .priority(PRIORITIES[*priority])
                .congestion_control(CongestionControl::Block)
                .reliability(Reliability::Reliable)
                .express(true)
                .wait()?;
            publishers[*priority].insert(*stream, publisher);
        }
        let peer = &graph.machines[ends[1]].name;
        let mut threads = Vec::new();
        let queues = publishers.map(|publishers| {
            let (queue, waiting) = mpsc::channel();
            let name = format!("send {peer}");
            let send = move || send(&publishers, &waiting);
            threads.extend(thread::Builder::new().name(name).spawn(send));
            queue
        });
        let control = keys::stream(graph, ends, CONTROL);
        let threads = Mutex::new(threads);
        Ok(Self { session: session.clone(), control, queues, priorities, threads })
    }

    /// Tells `link` when the other machine can be reached, and when not.
    pub(super) fn watch(
        &self,
        link: Arc<RemoteLink>,
    ) -> Result<Watch, Box<dyn Error + Send + Sync>> {
        let publisher = self.session.declare_publisher(self.control.clone()).wait()?;
        let first = link.clone();
        let listener = publisher
            .matching_listener()
            .callback(move |status| tell(&link, status.matching()))
            .wait()?;
        // It tells only of changes.
        if publisher.matching_status().wait()?.matching() {
            tell(&first, true);
        }
        Ok(Watch { _listener: listener, _publisher: publisher })
    }
}

/// Watches until it is dropped.
pub(super) struct Watch {
    _listener: MatchingListener<()>,
    _publisher: Publisher<'static>,
}

fn tell(link: &RemoteLink, is_up: bool) {
    let event = match is_up {
        true => WireEvent::Up,
        false => WireEvent::Down("the connection is broken, or its program has ended".to_owned()),
    };
    link.event(event);
}

impl Wire for ZenohWire {
    fn put(&self, stream: u16, datagram: Datagram) {
        if let Some(priority) = self.priorities.get(&stream) {
            let _ = self.queues[*priority].send(Some((stream, datagram)));
        }
    }

    fn close(&self) {
        for queue in &self.queues {
            let _ = queue.send(None);
        }
        // The threads send the rest first. One that is blocked ends with the session.
        let threads = std::mem::take(&mut *lock(&self.threads));
        let end = Instant::now() + CLOSE_TIMEOUT;
        while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sends what waits until the wire is closed.
fn send(
    publishers: &BTreeMap<u16, Publisher<'static>>,
    waiting: &mpsc::Receiver<Option<(u16, Datagram)>>,
) {
    while let Ok(Some((stream, datagram))) = waiting.recv() {
        let Some(publisher) = publishers.get(&stream) else { continue };
        // A message that cannot be sent is sent again when the other machine is back.
        let _ = publisher.put(bytes(datagram)).wait();
    }
}

/// The parts of a datagram, without a copy of the bulk bytes.
fn bytes(datagram: Datagram) -> ZBytes {
    let Datagram { head, message, bulk, sent_at } = datagram;
    let mut writer = ZBytes::writer();
    match sent_at {
        None if message.len() <= SMALL => {
            writer.append(ZBytes::from([&head, message.as_slice()].concat()));
        }
        None => {
            writer.append(ZBytes::from(head.to_vec()));
            writer.append(shared(message));
        }
        Some(at) => {
            let mut message = [&head, message.as_slice()].concat();
            let at = head.len() + at;
            if let Some(time) = message.get_mut(at..at + 8) {
                time.copy_from_slice(&monotonic_ns().to_le_bytes());
            }
            writer.append(ZBytes::from(message));
        }
    }
    if !bulk.is_empty() {
        writer.append(shared(bulk));
    }
    writer.finish()
}

/// Messages up to this length are copied next to their head.
const SMALL: usize = 4096;

fn shared(bytes: ForeignBytes) -> ZBytes {
    ZBytes::from(Bytes::from_owner(Owner(bytes)))
}

struct Owner(ForeignBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Function that receives samples from another machine. zenoh calls it on the task that reads from
/// the network.
pub(super) fn arrived(link: Arc<RemoteLink>) -> impl Fn(Sample) + Send + Sync + 'static {
    move |sample| {
        let at_ns = monotonic_ns();
        let Some(stream) = keys::read(sample.key_expr().as_str()) else { return };
        let len = sample.payload().len();
        let read = Box::new(move || Received::read(sample.payload().reader(), len, at_ns));
        link.event(WireEvent::Arrived { stream, len, read });
    }
}
