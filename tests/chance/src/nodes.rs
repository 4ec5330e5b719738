//! The nodes that graphs are made of by chance.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use afferent_graph::{
    Cx, In, Node, NodeDef, NodeEntry, NodeError, OnFull, OpenCx, Out, Payload, Port, RecordCodec,
    Weight, params,
};
use afferent_messages::{Cdr, CdrMessage};

/// Packets of a source.
pub(crate) const PACKETS: u32 = 50;

#[derive(Debug, Clone, Default)]
pub(crate) struct Number(pub(crate) u64);

impl Payload for Number {
    const TYPE: &'static str = "chance/Number";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const INTERPOLATES: bool = true;

    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        into.0 = self.0 + (later.0.saturating_sub(self.0) as f64 * share) as u64;
    }
}

impl CdrMessage for Number {
    const MESSAGE: &'static str = "chance_msgs/msg/Number";
    const SCHEMA: &'static str = "uint64 number\n";
    type Wire = (u64,);

    fn to_wire(&self) -> Self::Wire {
        (self.0,)
    }

    fn from_wire((number,): Self::Wire) -> Result<Self, String> {
        Ok(Self(number))
    }
}

/// Of another type, and lossy unless the graph says otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event;

impl Payload for Event {
    const TYPE: &'static str = "chance/Event";
    const ON_FULL: OnFull = OnFull::DropOldest;
}

/// Threads that have run a node and are alive.
pub(crate) static THREADS: AtomicUsize = AtomicUsize::new(0);

struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    static ALIVE: RefCell<Option<Alive>> = const { RefCell::new(None) };
}

fn count_thread() {
    ALIVE.with_borrow_mut(|alive| {
        alive.get_or_insert_with(|| {
            THREADS.fetch_add(1, Ordering::SeqCst);
            Alive
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
    /// Of a source.
    pub(crate) struct SourceParams {
        /// Time between packets; as fast as possible when absent.
        pub period: Option<Duration>;
        /// How many packets of one time follow each other.
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
        for _ in 0..self.params.burst.min(PACKETS - self.sent) {
            cx.send(OUT, Number(u64::from(self.sent)));
            self.sent += 1;
        }
        if let Some(period) = self.params.period {
            cx.resume_at(cx.now() + period);
        }
        if self.sent == PACKETS {
            cx.end();
        }
        Ok(())
    }
}

params! {
    /// Of a node that passes numbers on.
    pub(crate) struct PassParams {
        /// Of so many numbers one fails.
        pub fails: Option<u32>;
        /// Whether it fails by a panic.
        pub panics: bool = "false";
    }
}

/// Passes numbers on, light or heavy.
struct Pass<const HEAVY: bool> {
    params: PassParams,
    calls: u32,
}

impl<const HEAVY: bool> Node for Pass<HEAVY> {
    type Params = PassParams;
    const NAME: &'static str = if HEAVY { "heavy" } else { "pass" };
    const SUMMARY: &'static str = "Passes numbers on.";
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
            // As `panic!`, but without the message on the screen.
            std::panic::resume_unwind(Box::new("by chance"));
        } else if fails {
            return Err(NodeError::InvalidInput {
                port: "in".into(),
                reason: "by chance".to_owned(),
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

/// Sends numbers by turns to three outputs, or to none.
struct Split(u32);

impl Node for Split {
    type Params = ();
    const NAME: &'static str = "split";
    const SUMMARY: &'static str = "Sends numbers by turns.";
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
    /// Of a node that says more than it hears.
    pub(crate) struct EchoParams {
        /// How often it says a number once more, before it hears the next.
        pub repeats: u32 = "1", range 0.0..=5.0;
        /// Every fifth number is said again after so long, while others go on.
        pub later: Duration = "50us", range 0.0..=1.0;
        /// It rests so long after each number.
        pub rest: Option<Duration>;
    }
}

/// Says numbers again, at once and later, and hears what comes back of them.
struct Echo {
    params: EchoParams,
    heard: u32,
    left: u32,
}

impl Echo {
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        match (self.left, self.params.rest) {
            (0, None) => {}
            (0, Some(rest)) => cx.resume_at(cx.now() + rest),
            _ => cx.resume(),
        }
    }
}

impl Node for Echo {
    type Params = EchoParams;
    const NAME: &'static str = "echo";
    const SUMMARY: &'static str = "Says numbers again.";
    const PORTS: &'static [Port] =
        &[IN.port(), BACK.port().optional(), Port::input::<Number>("side").optional(), OUT.port()];
    const TIMED: bool = true;
    const LATENCY: &'static str = "none";

    fn open(params: EchoParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, heard: 0, left: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        count_thread();
        if cx.get(BACK).is_some() {
            return Ok(());
        }
        if let Some(number) = cx.get(IN).cloned() {
            assert_eq!(self.left, 0, "a packet came before what was still to be said");
            self.heard += 1;
            self.left = self.params.repeats;
            if self.heard.is_multiple_of(5) {
                cx.wake_at(cx.now() + self.params.later);
            }
            cx.send(OUT, number);
            self.go_on(cx);
        } else if self.left > 0 {
            self.left -= 1;
            cx.send(OUT, Number(u64::from(self.left)));
            self.go_on(cx);
        } else {
            cx.send(OUT, Number(1 << 40));
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.left = 0;
        Ok(())
    }
}

/// Takes several streams; joins them where the graph says so.
struct Merge;

impl Node for Merge {
    type Params = ();
    const NAME: &'static str = "merge";
    const SUMMARY: &'static str = "Takes several streams.";
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

/// Takes everything.
struct Sink;

impl Node for Sink {
    type Params = ();
    const NAME: &'static str = "sink";
    const SUMMARY: &'static str = "Takes everything.";
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

/// All of them.
pub(crate) const NODES: &[NodeEntry] = &[
    NodeDef::of::<Source>,
    NodeDef::of::<Pass<false>>,
    NodeDef::of::<Pass<true>>,
    NodeDef::of::<Split>,
    NodeDef::of::<Merge>,
    NodeDef::of::<Echo>,
    NodeDef::of::<Sink>,
];
