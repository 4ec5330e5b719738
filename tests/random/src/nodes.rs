//! Nodes of the random graphs.

use std::{
    cell::RefCell,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use afferent_graph::{
    Cx, In, Node, NodeDef, NodeEntry, NodeError, OnFull, OpenCx, Out, Payload, Port, RecordCodec,
    Weight, WireCodec, params,
};
use afferent_messages::{Cdr, CdrMessage};

/// Number of packets that a source sends.
pub(crate) const SOURCE_PACKETS: u32 = 50;

#[derive(Debug, Clone, Default)]
pub(crate) struct Number(pub(crate) u64);

impl Payload for Number {
    const TYPE: &'static str = "random/Number";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const INTERPOLATES: bool = true;

    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        into.0 = self.0 + (later.0.saturating_sub(self.0) as f64 * share) as u64;
    }
}

impl CdrMessage for Number {
    const MESSAGE: &'static str = "random_msgs/msg/Number";
    const SCHEMA: &'static str = "uint64 number\n";
    type Wire = (u64,);

    fn to_wire(&self) -> Self::Wire {
        (self.0,)
    }

    fn from_wire((number,): Self::Wire) -> Result<Self, String> {
        Ok(Self(number))
    }
}

/// Payload of another type. Its edges drop packets unless the graph sets another policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event;

impl Payload for Event {
    const TYPE: &'static str = "random/Event";
    const ON_FULL: OnFull = OnFull::DropOldest;
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
}

impl CdrMessage for Event {
    const MESSAGE: &'static str = "random_msgs/msg/Event";
    const SCHEMA: &'static str = "uint8 structure_needs_at_least_one_member\n";
    type Wire = (u8,);

    fn to_wire(&self) -> Self::Wire {
        (0,)
    }

    fn from_wire(_: Self::Wire) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Number of running threads that have called a node.
pub(crate) static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Serializes the tests that check [`THREADS`].
pub(crate) static SERIAL: Mutex<()> = Mutex::new(());

/// Decrements [`THREADS`] when the thread ends.
struct ThreadGuard;

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    static GUARD: RefCell<Option<ThreadGuard>> = const { RefCell::new(None) };
}

fn count_thread() {
    GUARD.with_borrow_mut(|guard| {
        guard.get_or_insert_with(|| {
            THREADS.fetch_add(1, Ordering::SeqCst);
            ThreadGuard
        });
    });
}

const IN: In<Number> = In::at(0, "in");
const SIDE: In<Number> = In::at(1, "side");
const EXTRA: In<Event> = In::at(2, "extra");
const OUT: Out<Number> = Out::at(0, "out");
const BACK: In<Number> = In::at(1, "back");
const OTHER: Out<Number> = Out::at(1, "other");
const EVENTS: Out<Event> = Out::at(2, "events");

params! {
    /// Parameters of a source.
    pub(crate) struct SourceParams {
        /// Time between bursts; as fast as possible if absent.
        pub period: Option<Duration>;
        /// Number of packets with the same timestamp.
        pub burst: u32 = "1", range 1.0..=16.0;
    }
}

struct Source {
    params: SourceParams,
    sent: u32,
}

impl Node for Source {
    type Params = SourceParams;
    const NAME: &'static str = "source";
    const SUMMARY: &'static str = "Sends numbers.";
    const PORTS: &'static [Port] = &[OUT.port()];
    const LATENCY: &'static str = "none";

    fn open(params: SourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, sent: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        for _ in 0..self.params.burst.min(SOURCE_PACKETS - self.sent) {
            cx.send(OUT, Number(u64::from(self.sent)));
            self.sent += 1;
        }
        if let Some(period) = self.params.period {
            cx.resume_at(cx.now() + period);
        }
        if self.sent == SOURCE_PACKETS {
            cx.end();
        }
        Ok(())
    }
}

params! {
    /// Parameters of a node that forwards numbers.
    pub(crate) struct PassParams {
        /// Every `fails`-th call fails.
        pub fails: Option<u32>;
        /// Fails by a panic instead of an error.
        pub panics: bool = "false";
    }
}

/// Forwards numbers; light or heavy.
struct Pass<const HEAVY: bool> {
    params: PassParams,
    calls: u32,
}

impl<const HEAVY: bool> Node for Pass<HEAVY> {
    type Params = PassParams;
    const NAME: &'static str = if HEAVY { "heavy" } else { "pass" };
    const SUMMARY: &'static str = "Forwards numbers.";
    const PORTS: &'static [Port] = &[IN.port(), OUT.port().in_step()];
    const WEIGHT: Weight = if HEAVY { Weight::Heavy } else { Weight::Light };
    const LATENCY: &'static str = "none";

    fn open(params: PassParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, calls: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        self.calls += 1;
        let fails = self.params.fails.is_some_and(|each| self.calls.is_multiple_of(each.max(1)));
        if fails && self.params.panics {
            // As `panic!`, but without the panic message.
            std::panic::resume_unwind(Box::new("random fault"));
        } else if fails {
            return Err(NodeError::InvalidInput {
                port: "in".into(),
                reason: "random fault".to_owned(),
            });
        }
        if self.calls.is_multiple_of(2) {
            cx.forward(IN, OUT);
        } else if let Some(mut number) = cx.take(IN) {
            number.0 += 1;
            cx.send(OUT, number);
        }
        Ok(())
    }
}

/// Sends numbers alternately to three outputs and to none.
struct Split(u32);

impl Node for Split {
    type Params = ();
    const NAME: &'static str = "split";
    const SUMMARY: &'static str = "Sends numbers alternately to several outputs.";
    const PORTS: &'static [Port] =
        &[IN.port(), OUT.port().in_step().optional(), OTHER.port().optional(), EVENTS.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        let number = cx.get(IN).map_or(0, |number| number.0);
        self.0 += 1;
        match self.0 % 4 {
            0 => cx.send(OUT, Number(number)),
            1 => (0..3).for_each(|_| cx.send(OTHER, Number(number))),
            2 => cx.send(EVENTS, Event),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        cx.send(EVENTS, Event);
        Ok(())
    }
}

params! {
    /// Parameters of a node that repeats numbers.
    pub(crate) struct EchoParams {
        /// Number of repetitions before the next number is received.
        pub repeats: u32 = "1", range 0.0..=5.0;
        /// Delay of an additional packet after every fifth number. Other packets are not delayed.
        pub later: Duration = "50us", range 0.0..=1.0;
        /// Pause after each number.
        pub rest: Option<Duration>;
    }
}

/// Repeats numbers, immediately and with a delay, and receives feedback.
struct Echo {
    params: EchoParams,
    received: u32,
    /// Number of repetitions that remain.
    remaining: u32,
}

impl Echo {
    fn schedule_next(&mut self, cx: &mut Cx<'_>) {
        match (self.remaining, self.params.rest) {
            (0, None) => {}
            (0, Some(rest)) => cx.resume_at(cx.now() + rest),
            _ => cx.resume(),
        }
    }
}

impl Node for Echo {
    type Params = EchoParams;
    const NAME: &'static str = "echo";
    const SUMMARY: &'static str = "Repeats numbers.";
    const PORTS: &'static [Port] =
        &[IN.port(), BACK.port().optional(), Port::input::<Number>("side").optional(), OUT.port()];
    const TIMED: bool = true;
    const LATENCY: &'static str = "none";

    fn open(params: EchoParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, received: 0, remaining: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        if cx.get(BACK).is_some() {
            return Ok(());
        }
        if let Some(number) = cx.get(IN).cloned() {
            assert_eq!(self.remaining, 0, "a packet arrived before the last repetition");
            self.received += 1;
            self.remaining = self.params.repeats;
            if self.received.is_multiple_of(5) {
                cx.wake_at(cx.now() + self.params.later);
            }
            cx.send(OUT, number);
            self.schedule_next(cx);
        } else if self.remaining > 0 {
            self.remaining -= 1;
            cx.send(OUT, Number(u64::from(self.remaining)));
            self.schedule_next(cx);
        } else {
            cx.send(OUT, Number(1 << 40));
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.remaining = 0;
        Ok(())
    }
}

/// Receives several streams. A synchronizer joins them if the graph sets a sync policy.
struct Merge;

impl Node for Merge {
    type Params = ();
    const NAME: &'static str = "merge";
    const SUMMARY: &'static str = "Receives several streams.";
    const PORTS: &'static [Port] =
        &[IN.port().many(), SIDE.port().optional(), EXTRA.port().optional(), OUT.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        let sides = cx.all(SIDE).count() + cx.all(EXTRA).count();
        let number = cx.get(IN).map_or(0, |number| number.0);
        cx.send(OUT, Number(number + sides as u64));
        Ok(())
    }
}

/// Receives packets of any type.
struct Sink;

impl Node for Sink {
    type Params = ();
    const NAME: &'static str = "sink";
    const SUMMARY: &'static str = "Receives packets of any type.";
    const PORTS: &'static [Port] = &[Port::any("in").many()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        Ok(())
    }
}

/// All nodes of the random graphs.
pub(crate) const NODES: &[NodeEntry] = &[
    NodeDef::of::<Source>,
    NodeDef::of::<Pass<false>>,
    NodeDef::of::<Pass<true>>,
    NodeDef::of::<Split>,
    NodeDef::of::<Merge>,
    NodeDef::of::<Echo>,
    NodeDef::of::<Sink>,
];
