//! The live view: a running graph on a page, with figures, conversation, sound and images.
//!
//! An observer puts shares of packets into a queue while a page is open; a thread of its own turns
//! them into messages, and each page has a queue of its own. What is full loses packets, which the page
//! is told, and never holds up the graph. While a page is open, threads of the view look into their queues
//! at intervals: nodes would otherwise wake them with every packet.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use afferent_engine::{Failure, Observer, lower_priority};
use afferent_graph::{Field, Packet, PortKind, Timestamp};
use afferent_messages::{AudioBlock, Image, SceneUpdate};
use afferent_nodes_vision::JpegWriter;
use afferent_nodes_web::LiveView;
use afferent_record::Waterfall;
use afferent_spec::CheckedGraph;
use afferent_web::{Message, Request, Socket, SocketClosed};
use serde_json::{Value, json};

use crate::{lock, processes::ReadFigures};

/// Default address of the page.
pub(crate) const ADDRESS: &str = afferent_nodes_web::Web::BIND;

/// Packets that may wait for the thread of the view.
const QUEUE: usize = 256;
/// Messages that may wait for a page.
const OUTBOX: usize = 512;
/// Time between two looks of the view into its queue.
const PACKETS_EVERY: Duration = Duration::from_millis(20);
/// Time between two sends to a page.
const SENDS_EVERY: Duration = Duration::from_millis(25);
/// Time between two messages with figures.
const FIGURES_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for the figures of threads that are in a call.
const PATIENCE: Duration = Duration::from_millis(100);
/// Least time between two images of an output.
const IMAGES_EVERY: Duration = Duration::from_millis(200);
/// Least time between two measurements of an output.
const MEASUREMENTS_EVERY: Duration = Duration::from_millis(15);
/// Packets of an output that the view may hold.
const HELD: usize = 4;
/// Longest side of an image, in pixels.
const IMAGE_SIZE: u32 = 640;
const IMAGE_QUALITY: u8 = 75;

/// The live view of a graph.
pub(crate) struct Live {
    graph: String,
    /// Outputs of each node, by the name of the node.
    outputs: HashMap<String, Vec<Output>>,
    queue: SyncSender<Seen>,
    lost: AtomicU64,
    pages: Mutex<Vec<Page>>,
    watching: AtomicUsize,
    figures: OnceLock<ReadFigures>,
    waterfall: Option<Arc<Waterfall>>,
    has_ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// An output of the graph.
struct Output {
    index: usize,
    port: String,
    /// Session time at which the last packet was shown, in nanoseconds.
    last: AtomicI64,
    /// Least time between two packets, in nanoseconds.
    every: i64,
}

/// A packet that a page will see.
struct Seen {
    output: usize,
    packet: Packet,
}

/// Queue of a page.
struct Page {
    number: usize,
    outbox: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Live {
    /// A view of `graph`, with the turns of `waterfall`.
    pub(crate) fn start(
        graph: &CheckedGraph,
        waterfall: Option<Arc<Waterfall>>,
    ) -> std::io::Result<Arc<Self>> {
        let (queue, seen) = sync_channel(QUEUE);
        let (mut names, mut outputs) = (Vec::new(), HashMap::<String, Vec<Output>>::new());
        for node in &graph.nodes {
            for port in &node.def.outputs {
                let every = i64::try_from(least_time(&port.ty).as_nanos()).unwrap_or(i64::MAX);
                let (index, port) = (names.len(), port.name.to_string());
                names.push((node.name.clone(), port.clone()));
                let output = Output { index, port, last: AtomicI64::new(i64::MIN), every };
                outputs.entry(node.name.clone()).or_default().push(output);
            }
        }
        let live = Arc::new(Self {
            graph: json!({"graph": describe(graph)}).to_string(),
            outputs,
            queue,
            lost: AtomicU64::new(0),
            pages: Mutex::default(),
            watching: AtomicUsize::new(0),
            figures: OnceLock::new(),
            waterfall,
            has_ended: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let shown = live.clone();
        let thread = thread::Builder::new()
            .name("live view".to_owned())
            .spawn(move || Showing::new(shown, names).run(&seen))?;
        *lock(&live.thread) = Some(thread);
        Ok(live)
    }

    /// Shows the figures that `read` returns.
    pub(crate) fn read_figures_by(&self, read: ReadFigures) {
        // It is set once, after the start.
        drop(self.figures.set(read));
    }

    /// Shows the last figures, and ends the thread of the view.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.wake();
        // A panic of the thread was reported by it.
        drop(lock(&self.thread).take().map(JoinHandle::join));
    }

    /// Wakes the thread of the view, which waits as long as there is no page.
    fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.thread().unpark();
        }
    }

    fn pages(&self) -> MutexGuard<'_, Vec<Page>> {
        lock(&self.pages)
    }

    /// Sends `message` to every page that keeps up.
    fn tell(&self, message: &Message) {
        for page in self.pages().iter() {
            if page.outbox.try_send(message.clone()).is_err() {
                page.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn tell_json(&self, value: &Value) {
        self.tell(&Message::text(value.to_string()));
    }
}

/// Least time between two packets of an output of type `ty` that pages see. Those between are skipped:
/// the next one replaces them. Events are never skipped.
fn least_time(ty: &str) -> Duration {
    match ty {
        "vision/Image" => IMAGES_EVERY,
        "audio/Played"
        | "signal/Features"
        | "spatial/Imu"
        | "spatial/Orientation"
        | "spatial/PointCloud"
        | "spatial/Pose"
        | "spatial/Transforms" => MEASUREMENTS_EVERY,
        _ => Duration::ZERO,
    }
}

/// The graph as the page draws it.
fn describe(graph: &CheckedGraph) -> Value {
    let nodes = graph.nodes.iter();
    let nodes: Vec<_> =
        nodes.map(|node| json!({"name": node.name, "use": &*node.def.name})).collect();
    let port = |(node, port): (usize, _), kind| {
        let node = &graph.nodes[node];
        json!({"node": node.name, "port": node.def.port_name(kind, port)})
    };
    let edges: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| {
            json!({
                "from": port(edge.from, PortKind::Output),
                "to": port(edge.to, PortKind::Input),
                "feedback": edge.feedback,
            })
        })
        .collect();
    json!({"name": graph.name, "nodes": nodes, "edges": edges, "answers": answers(graph)})
}

/// Outputs with what the graph says: those that are spoken, or else all texts but those of users.
fn answers(graph: &CheckedGraph) -> Vec<String> {
    let name = |(node, port): (usize, _)| {
        let node = &graph.nodes[node];
        format!("{}.{}", node.name, node.def.port_name(PortKind::Output, port))
    };
    let is_text = |(node, port): (usize, _)| {
        let outputs = &graph.nodes[node].def.outputs;
        outputs.iter().any(|output| output.id == port && &*output.ty == "text/Text")
    };
    let spoken = graph.edges.iter().filter(|edge| {
        is_text(edge.from) && matches!(&*graph.nodes[edge.to.0].def.name, "tts" | "fake_tts")
    });
    let mut found: Vec<_> = spoken.map(|edge| name(edge.from)).collect();
    if found.is_empty() {
        let texts = graph.edges.iter().filter(|edge| {
            is_text(edge.from) && &*graph.nodes[edge.from.0].def.name != "turn_detector"
        });
        found = texts.map(|edge| name(edge.from)).collect();
    }
    found.sort();
    found.dedup();
    found
}

impl Observer for Live {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        if self.watching.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut outputs = self.outputs.get(node).into_iter().flatten();
        let Some(output) = outputs.find(|output| output.port == port) else { return };
        let last = output.last.load(Ordering::Relaxed);
        if output.every > 0 && now.0.saturating_sub(last) < output.every && now.0 >= last {
            return;
        }
        output.last.store(now.0, Ordering::Relaxed);
        let seen = Seen { output: output.index, packet: packet.share() };
        if self.queue.try_send(seen).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn holds(&self, _: &str, _: &str) -> usize {
        HELD
    }

    fn failed(&self, failure: &Failure) {
        self.tell_json(&json!({"failure": {"node": failure.node, "error": failure.to_string()}}));
    }
}

/// The thread of the view.
struct Showing {
    live: Arc<Live>,
    /// Node and port of each output.
    names: Vec<(String, String)>,
    jpeg: JpegWriter,
    turns: usize,
}

impl Showing {
    fn new(live: Arc<Live>, names: Vec<(String, String)>) -> Self {
        Self { live, names, jpeg: JpegWriter::new(IMAGE_SIZE, IMAGE_QUALITY), turns: 0 }
    }

    fn run(mut self, seen: &Receiver<Seen>) {
        lower_priority();
        let mut next = Instant::now();
        loop {
            let mut has_ended = self.live.has_ended.load(Ordering::Acquire);
            match self.live.watching.load(Ordering::Acquire) {
                0 if !has_ended => thread::park(),
                _ => thread::sleep(PACKETS_EVERY),
            }
            has_ended |= self.live.has_ended.load(Ordering::Acquire);
            // Packets that come meanwhile wait for the next time.
            seen.try_iter().take(QUEUE).for_each(|seen| self.packet(&seen));
            if has_ended || Instant::now() >= next {
                next = Instant::now() + FIGURES_EVERY;
                self.figures();
            }
            if has_ended {
                return;
            }
        }
    }

    fn figures(&mut self) {
        if self.live.watching.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(read) = self.live.figures.get() {
            self.live.tell_json(&json!({"figures": read(PATIENCE)}));
        }
        let lost = self.live.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.live.tell_json(&json!({"lost": {"count": lost}}));
        }
        let Some(waterfall) = &self.live.waterfall else { return };
        let (turns, earlier) = (waterfall.turns(), waterfall.earlier());
        let count = turns.len() + usize::try_from(earlier).unwrap_or(usize::MAX);
        if let Some(turn) = turns.last().filter(|_| count != self.turns) {
            let stages: Vec<_> = turn
                .stages
                .iter()
                .map(|stage| json!([stage.output, stage.after_ms * 1e6]))
                .collect();
            self.live.tell_json(&json!({"turn": {"stages": stages}}));
        }
        self.turns = count;
    }

    fn packet(&mut self, seen: &Seen) {
        let (node, port) = &self.names[seen.output];
        let Some(payload) = seen.packet.payload() else { return };
        let at = seen.packet.header.at.as_secs_f64();
        let any = payload as &dyn Any;
        if let Some(image) = any.downcast_ref::<Image>() {
            // Images that cannot be shown, such as those of depth, are left out.
            if let Ok(file) = self.jpeg.write(image) {
                let name = format!("{node}.{port}");
                let length = u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
                let bytes = [&length, name.as_bytes(), &file].concat();
                self.live.tell(&Message::binary(bytes));
            }
            return;
        }
        if let Some(block) = any.downcast_ref::<AudioBlock>() {
            let samples = block.samples.data::<f32>().unwrap_or_default();
            let peak = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            let sound = json!({"node": node, "port": port, "at": at, "peak": peak});
            self.live.tell_json(&json!({"sound": sound}));
            return;
        }
        if let Some(update) = any.downcast_ref::<SceneUpdate>() {
            self.live.tell_json(&json!({"scene": scene(update)}));
        }
        let fields: serde_json::Map<String, Value> = payload
            .fields()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), field(&value)))
            .collect();
        let packet = json!({
            "node": node, "port": port, "at": at, "type": payload.type_name(), "fields": fields,
        });
        self.live.tell_json(&json!({"packet": packet}));
    }
}

fn field(field: &Field) -> Value {
    serde_json::to_value(field).unwrap_or_default()
}

/// Middles of the things of a scene, seen from above.
fn scene(update: &SceneUpdate) -> Value {
    let entities = update.entities.iter().map(|entity| {
        let [x, y, _] = entity.pose.position_m;
        json!({"id": entity.id, "label": entity.label, "x": x, "y": y})
    });
    json!({"entities": entities.collect::<Vec<_>>(), "deletions": update.deletions})
}

impl LiveView for Live {
    fn path(&self) -> &'static str {
        "/live"
    }

    fn talk(&self, _: &Request, mut socket: Socket, stops: &AtomicBool) {
        if socket.send_text(&self.graph).is_err() {
            return;
        }
        let (outbox, waiting) = sync_channel(OUTBOX);
        let lost = Arc::new(AtomicU64::new(0));
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.pages().push(Page { number, outbox, lost: lost.clone() });
        self.watching.fetch_add(1, Ordering::AcqRel);
        self.wake();
        lower_priority();
        // Messages that arrived last are sent before the end.
        while forward(&waiting, &lost, &mut socket).is_ok() && !stops.load(Ordering::Acquire) {}
        self.watching.fetch_sub(1, Ordering::AcqRel);
        self.pages().retain(|page| page.number != number);
        socket.close("the graph has ended");
    }
}

/// Waits, and sends what a page has waiting.
fn forward(
    waiting: &Receiver<Message>,
    lost: &AtomicU64,
    socket: &mut Socket,
) -> Result<(), SocketClosed> {
    // Pages say nothing; this notices that one has gone.
    socket.receive(SENDS_EVERY)?;
    let lost = match lost.swap(0, Ordering::Relaxed) {
        0 => None,
        count => Some(Message::text(json!({"lost": {"count": count}}).to_string())),
    };
    socket.send_all(waiting.try_iter().take(OUTBOX).chain(lost))
}
