//! Link between two machines, over a connection that may lose messages and break.
//!
//! The connection itself is a [`Wire`], which only carries datagrams. This link adds an order and
//! repetition for each stream (`reliable`), recognizes a program that was started again by its
//! instance, and reads the clock of the other machine (`clock`). A stream is an edge of the graph,
//! or [`CONTROL`] for everything else.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;

mod clock;
mod head;
mod reliable;
mod wire;

pub use clock::ClockOffset;
pub use head::{LINK_HEAD, SessionInfo};
pub use wire::{Datagram, Received, Wire, WireEvent};

use clock::ClockEstimate;
use head::{Hello, Kind, LinkHead};
use reliable::{Arrival, InOrder, Outbox};

use crate::{
    frame::{self, Head},
    link::{BulkBytes, Inbox, Link, LinkError},
    lock,
};

/// Stream of the messages that belong to no edge.
pub const CONTROL: u16 = u16::MAX;

/// Longest time from the arrival of a message to its acknowledgment.
const ACK_DELAY: Duration = Duration::from_millis(20);

/// Time between two greetings of a machine that does not answer.
const HELLO_PERIOD: Duration = Duration::from_millis(200);

/// Time between two readings of the clock, and between the first ones.
const PING_PERIOD: Duration = Duration::from_millis(100);
const FIRST_PING_PERIOD: Duration = Duration::from_millis(5);

/// Number of readings at the short period.
const FIRST_PINGS: u32 = 16;

/// Time without progress after which messages are sent again if the receiver misses some.
const GAP_PATIENCE: Duration = Duration::from_millis(10);

/// Longest datagram that is handled without a switch of threads, in bytes.
const SHORT: usize = 4096;

/// Settings of a link to another machine.
pub struct RemoteConfig {
    /// Name of the other machine.
    pub peer: String,
    /// Number of this program run, different from that of every other one.
    pub instance: u64,
    /// True for each edge whose packets are not sent again after an interruption: they would be
    /// late.
    pub is_volatile: Vec<bool>,
    /// Time without an acknowledgment after which everything is sent again. A wire that loses
    /// messages only when it breaks needs none shorter than its slowest message.
    pub patience: Duration,
}

/// Link to another machine.
pub struct RemoteLink {
    config: RemoteConfig,
    wire: Arc<dyn Wire>,
    inbox: Arc<dyn Inbox>,
    state: Mutex<State>,
    /// Told when acknowledgments arrive.
    acknowledged: Condvar,
    is_up: AtomicBool,
    /// Events for the thread of the link, and their number.
    events: mpsc::Sender<WireEvent>,
    waiting: AtomicUsize,
    /// Held while an event is handled.
    handling: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Instance of the other program; 0 if unknown.
    peer: u64,
    /// True while the wire reaches the other machine.
    is_reached: bool,
    /// Instance that the last greeting named, since the wire reaches the other machine.
    greeted: Option<u64>,
    next_hello: Option<Instant>,
    outboxes: BTreeMap<u16, Outbox<Kept>>,
    streams: BTreeMap<u16, InOrder>,
    /// Time when arrivals have to be acknowledged.
    ack_due: Option<Instant>,
    /// Streams whose acknowledgment is repeated.
    repeat: Vec<u16>,
    session: Option<SessionInfo>,
    clock: ClockEstimate,
    /// Time at which the thread of the link wakes.
    wakes_at: Option<Instant>,
    pings: u32,
    next_ping: Option<Instant>,
}

/// Message that may have to be sent again.
#[derive(Debug, Clone)]
struct Kept {
    message: ForeignBytes,
    bulk: ForeignBytes,
    is_volatile: bool,
}

impl RemoteLink {
    /// Starts the link, and a thread of it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(
        config: RemoteConfig,
        wire: Arc<dyn Wire>,
        inbox: Arc<dyn Inbox>,
    ) -> std::io::Result<Arc<Self>> {
        let name = format!("link {}", config.peer);
        let (events, received) = mpsc::channel();
        let link = Arc::new(Self {
            config,
            wire,
            inbox,
            state: Mutex::default(),
            acknowledged: Condvar::new(),
            is_up: AtomicBool::new(false),
            events,
            waiting: AtomicUsize::new(0),
            handling: Mutex::default(),
        });
        let handler = link.clone();
        thread::Builder::new().name(name).spawn(move || handler.run(&received))?;
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes an event of the wire. The thread of the link handles it; a short datagram is handled at
    /// once if no event waits, which saves a switch of threads. False after the end of the link.
    pub fn event(&self, event: WireEvent) -> bool {
        let is_short = matches!(event, WireEvent::Arrived { len: 0..=SHORT, .. });
        // Events that were taken before must be handled before.
        if is_short
            && self.waiting.load(Ordering::Acquire) == 0
            && let Ok(handling) = self.handling.try_lock()
        {
            let handled = self.handle(event);
            drop(handling);
            let event = match handled {
                Ok(()) if self.is_awake() => return true,
                Ok(()) => WireEvent::Due,
                Err(reason) => WireEvent::Failed(reason),
            };
            self.waiting.fetch_add(1, Ordering::AcqRel);
            return self.events.send(event).is_ok();
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.events.send(event).is_ok()
    }

    fn run(self: Arc<Self>, received: &mpsc::Receiver<WireEvent>) {
        loop {
            let wait = self.tick(Instant::now());
            let event = match received.recv_timeout(wait) {
                Ok(WireEvent::Closed) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
            };
            let handling = lock(&self.handling);
            let handled = self.handle(event);
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            drop(handling);
            if let Err(reason) = handled {
                self.wire.close();
                self.down(&reason);
                return self.inbox.gone(&reason);
            }
        }
    }

    fn handle(&self, event: WireEvent) -> Result<(), String> {
        match event {
            WireEvent::Up => {
                let mut state = self.state();
                state.is_reached = true;
                self.hello(&mut state);
            }
            WireEvent::Down(reason) => self.down(&reason),
            WireEvent::Arrived { stream, read, .. } => self.receive(stream, read()?)?,
            WireEvent::Failed(reason) => return Err(reason),
            WireEvent::Due | WireEvent::Closed => {}
        }
        Ok(())
    }

    /// True if the thread of the link wakes in time for the next acknowledgment.
    fn is_awake(&self) -> bool {
        let mut state = self.state();
        let (due, wakes_at) = (state.ack_due, state.wakes_at);
        let is_late = due.is_some_and(|due| wakes_at.is_none_or(|at| due < at));
        if is_late {
            state.wakes_at = due;
        }
        !is_late
    }

    fn down(&self, reason: &str) {
        let mut state = self.state();
        state.is_reached = false;
        state.greeted = None;
        drop(state);
        if self.is_up.swap(false, Ordering::AcqRel) {
            self.inbox.paused(reason);
        }
    }

    /// Does what is due, and returns the time until something else is.
    fn tick(&self, now: Instant) -> Duration {
        let mut state = self.state();
        let is_up = self.is_up.load(Ordering::Acquire);
        if state.ack_due.is_some_and(|due| due <= now) {
            self.send_acks(&mut state);
        }
        if is_up && state.next_ping.is_none_or(|due| due <= now) {
            let period = if state.pings < FIRST_PINGS { FIRST_PING_PERIOD } else { PING_PERIOD };
            state.pings += 1;
            state.next_ping = Some(now + period);
            self.put_stamped(&state, Kind::Ping, &[0]);
        }
        if !is_up && state.is_reached && state.next_hello.is_none_or(|due| due <= now) {
            self.hello(&mut state);
        }
        let mut late = Vec::new();
        if is_up {
            for (stream, outbox) in &mut state.outboxes {
                if outbox.is_late(now, self.config.patience) {
                    late.push(*stream);
                }
            }
        }
        for stream in late {
            self.send_again(&mut state, stream);
        }
        let wakes = [
            state.ack_due,
            if is_up { state.next_ping } else { None },
            if !is_up && state.is_reached { state.next_hello } else { None },
            (is_up && state.outboxes.values().any(|outbox| !outbox.is_empty()))
                .then(|| now + self.config.patience),
        ];
        let wake = wakes.into_iter().flatten().min();
        state.wakes_at = wake;
        wake.map_or(Duration::from_secs(3600), |wake| wake.saturating_duration_since(now))
    }

    fn head(&self, state: &State, kind: Kind, number: u64) -> [u8; LINK_HEAD] {
        LinkHead { kind, from: self.config.instance, to: state.peer, number }.bytes()
    }

    fn put(&self, state: &State, kind: Kind, message: Vec<u8>, sent_at: Option<usize>) {
        let head = self.head(state, kind, 0);
        let (message, bulk) = (message.into(), ForeignBytes::from(Vec::new()));
        self.wire.put(CONTROL, Datagram { head, message, bulk, sent_at });
    }

    /// Sends times; the last one is set when the datagram leaves, or the only one.
    fn put_stamped(&self, state: &State, kind: Kind, times: &[i64]) {
        let message = times.iter().flat_map(|time| time.to_le_bytes()).collect();
        let sent_at = if kind == Kind::Pong { 16 } else { 0 };
        self.put(state, kind, message, Some(sent_at));
    }

    /// Greets the other machine.
    fn hello(&self, state: &mut State) {
        let acks = state.streams.iter_mut().filter_map(|(stream, arrivals)| {
            arrivals.due_acknowledgment(true).map(|next| (*stream, next))
        });
        let hello = Hello {
            acks: acks.collect(),
            session: state.session,
            is_up: self.is_up.load(Ordering::Acquire),
        };
        state.greeted = Some(state.peer);
        state.next_hello = Some(Instant::now() + HELLO_PERIOD);
        // It has no maps with keys that are not strings, which alone could fail.
        let text = serde_json::to_vec(&hello).unwrap_or_default();
        self.put(state, Kind::Hello, text, None);
    }

    fn send_acks(&self, state: &mut State) {
        state.ack_due = None;
        let repeat = std::mem::take(&mut state.repeat);
        let acks = state.streams.iter_mut().filter_map(|(stream, arrivals)| {
            arrivals.due_acknowledgment(repeat.contains(stream)).map(|next| (*stream, next))
        });
        let acks = head::acks_bytes(&acks.collect::<Vec<_>>());
        if !acks.is_empty() {
            self.put(state, Kind::Acks, acks, None);
        }
    }

    /// Sends what a stream keeps; a packet that would be late is replaced by its loss.
    fn send_again(&self, state: &mut State, stream: u16) {
        let (from, to) = (self.config.instance, state.peer);
        let Some(outbox) = state.outboxes.get_mut(&stream) else { return };
        for (number, kept) in outbox.kept() {
            if kept.is_volatile
                && let Ok(Head::Packet(packet)) = Head::read(kept.message.as_slice())
            {
                *kept = Kept {
                    message: Head::Skip(packet).bytes().to_vec().into(),
                    bulk: ForeignBytes::from(Vec::new()),
                    is_volatile: false,
                };
            }
            let head = LinkHead { kind: Kind::Message, from, to, number }.bytes();
            let Kept { message, bulk, .. } = kept.clone();
            self.wire.put(stream, Datagram { head, message, bulk, sent_at: None });
        }
    }

    /// Keeps a message and sends it.
    fn post(&self, stream: u16, message: Vec<u8>, bulk: ForeignBytes, is_packet: bool) {
        let is_volatile =
            is_packet && self.config.is_volatile.get(usize::from(stream)).copied().unwrap_or(false);
        let kept = Kept { message: message.into(), bulk, is_volatile };
        let mut state = self.state();
        let outbox = state.outboxes.entry(stream).or_default();
        let number = outbox.push(kept.clone(), Instant::now());
        if self.is_up.load(Ordering::Acquire) {
            let head = self.head(&state, Kind::Message, number);
            let Kept { message, bulk, .. } = kept;
            self.wire.put(stream, Datagram { head, message, bulk, sent_at: None });
        }
    }

    fn receive(&self, stream: u16, received: Received) -> Result<(), String> {
        let Received { head, message, bulk, at_ns } = received;
        let told = |error: frame::FrameError| error.to_string();
        if head.kind == Kind::Hello {
            let hello = serde_json::from_slice(&message)
                .map_err(|error| format!("a greeting is damaged: {error}"))?;
            return self.greeted(&head, hello);
        }
        let mut state = self.state();
        // It is from, or for, a program that has ended.
        if head.from != state.peer || head.to != self.config.instance {
            return Ok(());
        }
        match head.kind {
            Kind::Message => {
                let arrival = state.streams.entry(stream).or_default().receive(head.number);
                let now = Instant::now();
                match arrival {
                    Arrival::Next => {
                        state.ack_due.get_or_insert(now + ACK_DELAY);
                        drop(state);
                        return self.inbox.receive(&message, bulk);
                    }
                    Arrival::Again | Arrival::Early => {
                        state.repeat.push(stream);
                        state.ack_due = Some(now);
                    }
                }
            }
            Kind::Acks => {
                let acks = head::read_acks(&message).map_err(told)?;
                self.acknowledge(&mut state, &acks)?;
            }
            Kind::Ping => {
                let [sent] = head::times(&message).map_err(told)?;
                let start = self.inbox.session_start().unwrap_or(i64::MIN);
                self.put_stamped(&state, Kind::Pong, &[sent, at_ns, 0, start]);
            }
            Kind::Pong => {
                let [sent, arrived, answered, start] = head::times(&message).map_err(told)?;
                state.clock.add([sent, arrived, answered, at_ns]);
                let offset = state.clock.offset();
                drop(state);
                if let Some(offset) = offset {
                    self.inbox.clock_read(offset, (start != i64::MIN).then_some(start));
                }
            }
            Kind::Hello => {}
        }
        Ok(())
    }

    fn acknowledge(&self, state: &mut State, acks: &[(u16, u64)]) -> Result<(), String> {
        let now = Instant::now();
        let mut missing = Vec::new();
        for (stream, next) in acks {
            match state.outboxes.get_mut(stream) {
                Some(outbox) => {
                    let is_news = outbox.acknowledge(*next, now)?;
                    if !is_news && outbox.is_late(now, GAP_PATIENCE) {
                        missing.push(*stream);
                    }
                }
                None if *next > 0 => {
                    return Err("it acknowledges messages that were never sent".to_owned());
                }
                None => {}
            }
        }
        self.acknowledged.notify_all();
        missing.into_iter().for_each(|stream| self.send_again(state, stream));
        Ok(())
    }

    /// The other machine has sent its greeting.
    fn greeted(&self, head: &LinkHead, hello: Hello) -> Result<(), String> {
        let mut state = self.state();
        let before = state.peer;
        let is_new = head.from != before;
        state.peer = head.from;
        if is_new && before != 0 {
            let (session, is_reached) = (state.session, state.is_reached);
            *state = State { peer: head.from, session, is_reached, ..State::default() };
            self.is_up.store(false, Ordering::Release);
            drop(state);
            self.inbox.restarted();
        } else {
            drop(state);
        }
        self.inbox.greeted(hello.session);
        let was_up = self.is_up.load(Ordering::Acquire);
        let mut state = self.state();
        if head.to == self.config.instance {
            self.acknowledge(&mut state, &hello.acks)?;
            // The wire may tell of a greeting before it tells that it reaches its sender.
            state.is_reached = true;
            self.is_up.store(true, Ordering::Release);
        }
        let is_up = self.is_up.load(Ordering::Acquire);
        if state.greeted != Some(state.peer) || (is_up && !hello.is_up) {
            self.hello(&mut state);
        }
        if is_up && !was_up {
            let streams: Vec<_> = state.outboxes.keys().copied().collect();
            for stream in streams {
                self.send_again(&mut state, stream);
            }
            drop(state);
            self.inbox.resumed();
        }
        Ok(())
    }
}

impl Link for RemoteLink {
    fn send_packet(&self, message: &mut Vec<u8>, bulk: BulkBytes<'_>) -> Result<(), LinkError> {
        frame::end_before_bulk(message, bulk.bytes.len())?;
        let stream = u16::from_le_bytes([message[2], message[3]]);
        let bulk = (bulk.hold)();
        self.post(stream, std::mem::take(message), bulk, true);
        Ok(())
    }

    fn send(&self, head: &Head, text: &[u8]) {
        let stream = match head {
            Head::Packet(head) | Head::Watermark(head) | Head::End(head) | Head::Skip(head) => {
                head.edge
            }
            Head::Ack(_) | Head::Control | Head::Release(_) => CONTROL,
        };
        let mut message = head.bytes().to_vec();
        message.extend_from_slice(text);
        self.post(stream, message, ForeignBytes::from(Vec::new()), false);
    }

    fn close(&self) {
        // The other machine may wait for them.
        self.send_acks(&mut self.state());
        let _ = self.events.send(WireEvent::Closed);
        self.wire.close();
    }

    fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        self.state().clock.offset()
    }

    fn announce(&self, session: SessionInfo) {
        let mut state = self.state();
        state.session = Some(session);
        if state.is_reached {
            self.hello(&mut state);
        }
    }

    fn drain(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.state();
        while !state.outboxes.values().all(Outbox::is_empty) {
            let left = end.saturating_duration_since(Instant::now());
            // An interrupted connection may stand again.
            if left.is_zero() || state.peer == 0 {
                return false;
            }
            let waited = self.acknowledged.wait_timeout(state, left.min(ACK_DELAY));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
