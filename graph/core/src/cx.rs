//! What a node sees during one call.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use crate::{
    Flight, Header, In, Loan, Node, NodeError, Out, Packet, Payload, Pool, PortKind, Timestamp,
};

/// When a source wants to be called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// As soon as what it sent has room.
    #[default]
    Now,
    /// Not before this time.
    At(Timestamp),
    /// Never: its stream has ended.
    Done,
}

/// What a call gets on an input that accompanies the packet of the call.
#[derive(Debug, Default)]
pub struct Joined {
    /// The input.
    pub port: &'static str,
    /// Its packets, in the order of their times.
    pub packets: Vec<Packet>,
}

/// The packet of one call, and where what the node sends goes.
///
/// The engine makes one for each call; the tests of a node use a [`NodeBench`].
pub struct Cx<'c> {
    now: Timestamp,
    epoch: u32,
    /// Input port and packet; `None` for a source and in `finish`.
    input: Option<(&'static str, Packet)>,
    /// Header that results inherit.
    origin: Header,
    /// Output ports of the node, and for each the pool of its values.
    outputs: &'c [(&'static str, Pool)],
    sent: &'c mut Vec<(usize, Packet)>,
    resume: Resume,
    model_ns: u64,
    source: &'c str,
    real_ns: u64,
    cancel: &'c AtomicBool,
    restarted: bool,
    /// What accompanies the packet of this call.
    joined: &'c [Joined],
    /// That of the packet of this call, for the length of the call; results hold it too.
    flight: Option<Flight>,
}

/// For calls that nobody cancels.
static NEVER: AtomicBool = AtomicBool::new(false);

impl<'c> Cx<'c> {
    /// The context of one call.
    ///
    /// `sent` takes what the node sends: the place of the output in `outputs`, and the packet.
    /// `origin` is handed down to what is sent: the header of `input`, where there is one.
    #[inline]
    pub fn new(
        now: Timestamp,
        mut input: Option<(&'static str, Packet)>,
        origin: Header,
        outputs: &'c [(&'static str, Pool)],
        sent: &'c mut Vec<(usize, Packet)>,
    ) -> Self {
        let flight = input.as_mut().and_then(|(_, packet)| packet.flight.take());
        Self {
            now,
            epoch: origin.epoch,
            input,
            origin,
            outputs,
            sent,
            resume: Resume::Now,
            model_ns: 0,
            source: "",
            real_ns: 0,
            cancel: &NEVER,
            restarted: false,
            joined: &[],
            flight,
        }
    }

    /// The same with the name of the node that sent `input`.
    #[must_use]
    #[inline]
    pub fn with_source(self, source: &'c str) -> Self {
        Self { source, ..self }
    }

    /// The same with the real clock at the begin of the call, in nanoseconds since the start.
    #[must_use]
    #[inline]
    pub fn with_real_ns(self, real_ns: u64) -> Self {
        Self { real_ns, ..self }
    }

    /// The same with a flag that says that the call has become obsolete.
    #[must_use]
    #[inline]
    pub fn with_cancel(self, cancel: &'c AtomicBool) -> Self {
        Self { cancel, ..self }
    }

    /// The same with what accompanies the packet of the call.
    #[must_use]
    #[inline]
    pub fn with_joined(self, joined: &'c [Joined]) -> Self {
        Self { joined, ..self }
    }

    /// The same, telling whether the sender was restarted since its packet before this one.
    #[must_use]
    #[inline]
    pub fn with_restarted(self, restarted: bool) -> Self {
        Self { restarted, ..self }
    }

    /// The time on the clock of the session: real, or virtual in replays and tests.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The epoch of this call; what is sent belongs to it.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether the sender of this call's packet was restarted since its packet before this one: the
    /// stream begins anew, and something may be missing.
    pub fn restarted(&self) -> bool {
        self.restarted
    }

    /// Whether this call has become obsolete: what it sends is dropped, so it may return at once,
    /// with [`NodeError::Cancelled`] or without.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// What [`Cx::cancelled`] looks at, for a model that runs for long.
    pub fn cancel_flag(&self) -> &'c AtomicBool {
        self.cancel
    }

    /// The name of the input that the packet of this call came in by.
    pub fn port(&self) -> Option<&'static str> {
        self.input.as_ref().map(|(port, _)| *port)
    }

    /// The packet of this call, whatever its type.
    pub fn packet(&self) -> Option<&Packet> {
        self.input.as_ref().map(|(_, packet)| packet)
    }

    /// The name of the node that sent the packet of this call; empty where the engine tells none.
    pub fn source(&self) -> &'c str {
        self.source
    }

    /// The real clock at the begin of this call, in nanoseconds since the start of the session.
    ///
    /// It measures, as [`Header::entered_ns`] does; a result must not depend on it.
    pub fn real_ns(&self) -> u64 {
        self.real_ns
    }

    /// The time of the packet of this call.
    #[inline]
    pub fn at(&self) -> Timestamp {
        self.origin.at
    }

    /// The value on `port`: that of the packet of this call, or what accompanies it there.
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        match &self.input {
            Some((name, packet)) if is(name, port.name()) => packet.get(),
            _ => self.all(port).next().map(|(_, value)| value),
        }
    }

    /// All values on `port` that accompany the packet of this call, with their times: several where
    /// the graph joins a window, otherwise one or none.
    pub fn all<T: Payload>(&self, port: In<T>) -> impl Iterator<Item = (Timestamp, &T)> {
        let here = self.joined.iter().filter(move |joined| joined.port == port.name());
        let packets = here.flat_map(|joined| &joined.packets);
        packets.filter_map(|packet| Some((packet.header.at, packet.get()?)))
    }

    /// As [`Cx::get`], but to change it: in place when nobody else holds it, otherwise a copy.
    ///
    /// Only the packet of the call can be taken; what accompanies it is read.
    pub fn take<T: Payload>(&mut self, port: In<T>) -> Option<Loan<T>> {
        let (name, packet) = self.input.take_if(|(name, _)| is(name, port.name()))?;
        match packet.try_into_loan(self.outputs.first().map(|(_, pool)| pool)) {
            Ok(loan) => Some(loan),
            Err(packet) => {
                self.input = Some((name, packet));
                None
            }
        }
    }

    /// A value for `port`, to fill. It may hold what an earlier packet held.
    pub fn loan<T: Payload>(&self, port: Out<T>) -> Loan<T> {
        match self.outputs.iter().find(|(name, _)| is(name, port.name())) {
            Some((_, pool)) => pool.loan(),
            None => Loan::new(T::default()),
        }
    }

    /// Sends `value` with the time of this call's packet.
    pub fn send<T: Payload>(&mut self, port: Out<T>, value: impl IntoLoan<T>) {
        self.send_at(port, self.origin.at, value);
    }

    /// Sends `value` with the time `at`.
    pub fn send_at<T: Payload>(&mut self, port: Out<T>, at: Timestamp, value: impl IntoLoan<T>) {
        let place = self.outputs.iter().position(|(name, _)| is(name, port.name()));
        // An output that the node did not declare leads nowhere.
        let Some(place) = place else { return };
        let loan = value.into_loan(&self.outputs[place].1);
        let model_ns = self.origin.model_ns + self.model_ns;
        let mut packet = loan.into_packet(Header { at, model_ns, ..self.origin });
        packet.flight.clone_from(&self.flight);
        self.sent.push((place, packet));
    }

    /// Sends `packet`, whose type is not known here, with its own time, by the output `port`.
    pub fn send_packet(&mut self, port: &str, mut packet: Packet) {
        let place = self.outputs.iter().position(|(name, _)| *name == port);
        let Some(place) = place else { return };
        let model_ns = self.origin.model_ns + self.model_ns;
        packet.header = Header { at: packet.header.at, model_ns, ..self.origin };
        packet.flight.clone_from(&self.flight);
        self.sent.push((place, packet));
    }

    /// Sends the packet of this call on as it is, when it came in by `from`.
    pub fn forward<T: Payload>(&mut self, from: In<T>, to: Out<T>) {
        let place = self.outputs.iter().position(|(name, _)| is(name, to.name()));
        let (Some((port, packet)), Some(place)) = (&self.input, place) else { return };
        if *port != from.name() || packet.get::<T>().is_none() {
            return;
        }
        let mut packet = packet.clone();
        packet.flight.clone_from(&self.flight);
        packet.header.model_ns += self.model_ns;
        self.sent.push((place, packet));
    }

    /// Runs `run`, which runs a model, and counts its time as the model's, not the framework's.
    pub fn time_model<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = run();
        self.model_ns += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        result
    }

    /// For a source: not to be called again before `at`.
    pub fn resume_at(&mut self, at: Timestamp) {
        self.resume = Resume::At(at);
    }

    /// For a source: its stream has ended.
    pub fn end(&mut self) {
        self.resume = Resume::Done;
    }

    /// What a source asked for.
    #[inline]
    pub fn resume(&self) -> Resume {
        self.resume
    }

    /// How long models ran during this call, in nanoseconds.
    #[inline]
    pub fn model_ns(&self) -> u64 {
        self.model_ns
    }
}

/// Whether two names of ports are one. Mostly they are the same text in memory, which is seen
/// without reading it.
#[inline]
fn is(one: &'static str, other: &'static str) -> bool {
    // Names are too short for a call.
    std::ptr::eq(one, other) || (one.len() == other.len() && one.bytes().eq(other.bytes()))
}

/// What can be sent: a loan, or a plain value that is put into one.
pub trait IntoLoan<T: Payload> {
    /// The value in a loan.
    fn into_loan(self, pool: &Pool) -> Loan<T>;
}

impl<T: Payload> IntoLoan<T> for Loan<T> {
    fn into_loan(self, _: &Pool) -> Loan<T> {
        self
    }
}

impl<T: Payload> IntoLoan<T> for T {
    fn into_loan(self, pool: &Pool) -> Loan<T> {
        let mut loan = pool.loan();
        *loan = self;
        loan
    }
}

/// Runs single calls of a node, for its tests and its documentation.
///
/// ```
/// # use afferent_graph::*;
/// # struct Count;
/// # impl Count { const IN: In<KeywordEvent> = In::new("events"); const OUT: Out<KeywordEvent> = Out::new("events"); }
/// # impl Node for Count {
/// #     type Params = (); const NAME: &'static str = "count"; const SUMMARY: &'static str = "";
/// #     const PORTS: &'static [Port] = &[Self::IN.port(), Self::OUT.port()];
/// #     const LATENCY: &'static str = "none";
/// #     fn open(_: (), _: &OpenCx) -> Result<Self, NodeError> { Ok(Self) }
/// #     fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
/// #         let event = cx.get(Self::IN).cloned().unwrap_or_default(); cx.send(Self::OUT, event); Ok(())
/// #     }
/// # }
/// let mut bench = NodeBench::new(Count);
/// let sent = bench.call(Count::IN, Timestamp(5), KeywordEvent::default())?;
/// assert_eq!(sent[0].1.header.at, Timestamp(5));
/// # Ok::<(), NodeError>(())
/// ```
pub struct NodeBench<N> {
    node: N,
    outputs: Vec<(&'static str, Pool)>,
}

impl<N: Node> NodeBench<N> {
    /// A bench for `node`.
    pub fn new(node: N) -> Self {
        let outputs = N::PORTS.iter().filter(|port| port.kind == PortKind::Output);
        Self { node, outputs: outputs.map(|port| (port.name, Pool::new(8))).collect() }
    }

    /// Calls the node with `value` on `port`; returns what it sent: output port and packet.
    ///
    /// # Errors
    /// Those of the node.
    pub fn call<T: Payload>(
        &mut self,
        port: In<T>,
        at: Timestamp,
        value: T,
    ) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        let header = Header { at, ..Header::default() };
        let packet = (port.name(), Packet::new(value, header));
        self.run(at, Some(packet), |node, cx| node.process(cx)).map(|(sent, _)| sent)
    }

    /// Calls a source at `now`; returns what it sent and when it wants to be called again.
    ///
    /// # Errors
    /// Those of the node.
    pub fn poll(&mut self, now: Timestamp) -> Result<Polled, NodeError> {
        self.run(now, None, |node, cx| node.process(cx))
    }

    /// Ends the inputs of the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn finish(&mut self, now: Timestamp) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        self.run(now, None, |node, cx| node.finish(cx)).map(|(sent, _)| sent)
    }

    /// Interrupts the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        self.run(now, None, |node, cx| node.cancel(cx)).map(|(sent, _)| sent)
    }

    fn run(
        &mut self,
        now: Timestamp,
        input: Option<(&'static str, Packet)>,
        call: impl FnOnce(&mut N, &mut Cx<'_>) -> Result<(), NodeError>,
    ) -> Result<Polled, NodeError> {
        let mut sent = Vec::new();
        let origin = Header { at: now, ..Header::default() };
        let origin = input.as_ref().map_or(origin, |(_, packet)| packet.header);
        let mut cx = Cx::new(now, input, origin, &self.outputs, &mut sent);
        call(&mut self.node, &mut cx)?;
        let resume = cx.resume();
        let name = |(place, packet): (usize, Packet)| (self.outputs[place].0, packet);
        Ok((sent.into_iter().map(name).collect(), resume))
    }
}

/// What a source sent, and when it wants to be called again.
pub type Polled = (Vec<(&'static str, Packet)>, Resume);
