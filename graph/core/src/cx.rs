//! What a node sees during one call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::{
    Flight, Header, In, Loan, Node, NodeError, Out, Outbox, Packet, Payload, Pool, PortKind,
    Timestamp,
};

/// When a node wants to be called again before it takes another packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// As soon as what it sent has room.
    Now,
    /// Not before this time.
    At(Timestamp),
    /// Not at all: it takes the next packet, and of a source the stream has ended.
    Done,
}

/// The calls without a packet that a node asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Before another packet; `None` is [`Resume::Now`] for a source, [`Resume::Done`] for others.
    pub resume: Option<Resume>,
    /// At this time, while packets go on.
    pub wake: Option<Timestamp>,
}

/// What a call gets on an input that accompanies the packet of the call.
#[derive(Debug, Default)]
pub struct Joined {
    /// The input.
    pub port: &'static str,
    /// Its packets, in the order of their times.
    pub packets: Vec<Packet>,
}

/// Where a packet comes in.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// The input port.
    pub port: &'static str,
    /// The name of the node that sends; empty where nobody tells.
    pub source: String,
}

/// What all calls of a node have around them.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Handed down to what is sent where the call has no packet.
    pub origin: Header,
    /// Output ports of the node, and for each the pool of its values.
    pub outputs: Vec<(&'static str, Pool)>,
    /// What accompanies the packet of the call.
    pub joined: Vec<Joined>,
    /// Says that the call has become obsolete.
    pub cancel: Arc<AtomicBool>,
}

/// What a node is told about a call beside its packet.
#[derive(Clone, Copy)]
pub struct Caller<'c> {
    /// The time on the clock of the session.
    pub now: Timestamp,
    /// The real clock at the begin of the call, in nanoseconds since the start of the session.
    pub real_ns: u64,
    /// Whether the node that sent the packet was restarted since its packet before this one.
    pub restarted: bool,
    /// What every call of the node has around it.
    pub around: &'c Surroundings,
}

/// The packet of one call, and where what the node sends goes.
///
/// The engine makes one for each call; the tests of a node use a [`NodeBench`].
pub struct Cx<'c> {
    caller: Caller<'c>,
    /// Where the packet came in, and the packet; `None` for a source and in `finish`. It holds no
    /// value any more once the node took it.
    input: Option<(&'c Inbound, &'c mut Packet)>,
    sent: &'c mut Outbox,
    asked: Asked,
    model_ns: u64,
}

impl<'c> Cx<'c> {
    /// The context of one call.
    ///
    /// `sent` takes what the node sends: the place of the output in [`Surroundings::outputs`], and
    /// the packet.
    #[inline]
    pub fn new(
        caller: Caller<'c>,
        input: Option<(&'c Inbound, &'c mut Packet)>,
        sent: &'c mut Outbox,
    ) -> Self {
        Self { caller, input, sent, asked: Asked::default(), model_ns: 0 }
    }

    /// The time on the clock of the session: real, or virtual in replays and tests.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.caller.now
    }

    /// The epoch of this call; what is sent belongs to it.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.origin().epoch
    }

    /// Whether the sender of this call's packet was restarted since its packet before this one: the
    /// stream begins anew, and something may be missing.
    pub fn restarted(&self) -> bool {
        self.caller.restarted
    }

    /// Whether this call has become obsolete: what it sends is dropped, so it may return at once,
    /// with [`NodeError::Cancelled`] or without.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.caller.around.cancel.load(Ordering::Relaxed)
    }

    /// What [`Cx::cancelled`] looks at, for a model that runs for long.
    pub fn cancel_flag(&self) -> &'c AtomicBool {
        &self.caller.around.cancel
    }

    /// The name of the input that the packet of this call came in by.
    pub fn port(&self) -> Option<&'static str> {
        self.input.as_ref().map(|(inbound, _)| inbound.port)
    }

    /// The packet of this call, whatever its type; `None` once its value was taken.
    pub fn packet(&self) -> Option<&Packet> {
        let (_, packet) = self.input.as_ref()?;
        packet.payload().is_some().then_some(&**packet)
    }

    /// The name of the node that sent the packet of this call; empty where the engine tells none.
    pub fn source(&self) -> &str {
        self.input.as_ref().map_or("", |(inbound, _)| &inbound.source)
    }

    /// The real clock at the begin of this call, in nanoseconds since the start of the session.
    ///
    /// It measures, as [`Header::entered_ns`] does; a result must not depend on it.
    pub fn real_ns(&self) -> u64 {
        self.caller.real_ns
    }

    /// The time of the packet of this call; without one, of the packet that [`Cx::resume`] goes on
    /// with, or the time that [`Cx::wake_at`] waited for.
    #[inline]
    pub fn at(&self) -> Timestamp {
        self.origin().at
    }

    /// The value on `port`: that of the packet of this call, or what accompanies it there.
    #[inline]
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        match &self.input {
            Some((inbound, packet)) if is(inbound.port, port.name()) => packet.get(),
            _ => self.all(port).next().map(|(_, value)| value),
        }
    }

    /// All values on `port` that accompany the packet of this call, with their times: several where
    /// the graph joins a window, otherwise one or none.
    pub fn all<T: Payload>(&self, port: In<T>) -> impl Iterator<Item = (Timestamp, &T)> {
        let here =
            self.caller.around.joined.iter().filter(move |joined| joined.port == port.name());
        let packets = here.flat_map(|joined| &joined.packets);
        packets.filter_map(|packet| Some((packet.header.at, packet.get()?)))
    }

    /// As [`Cx::get`], but to change it: in place when nobody else holds it, otherwise a copy.
    ///
    /// Only the packet of the call can be taken; what accompanies it is read.
    #[inline(always)]
    pub fn take<T: Payload>(&mut self, port: In<T>) -> Option<Loan<T>> {
        match &mut self.input {
            Some((inbound, packet)) if is(inbound.port, port.name()) => {
                packet.take(|| self.caller.around.outputs.first().map(|(_, pool)| pool))
            }
            _ => None,
        }
    }

    /// A value for `port`, to fill. It may hold what an earlier packet held.
    pub fn loan<T: Payload>(&self, port: Out<T>) -> Loan<T> {
        match self.place(port.name()) {
            Some(place) => self.caller.around.outputs[place].1.loan(),
            None => Loan::new(T::default()),
        }
    }

    /// Sends `value` with the time of this call's packet.
    #[inline(always)]
    pub fn send<T: Payload>(&mut self, port: Out<T>, value: impl IntoLoan<T>) {
        self.send_at(port, self.at(), value);
    }

    /// Sends `value` with the time `at`.
    #[inline(always)]
    pub fn send_at<T: Payload>(&mut self, port: Out<T>, at: Timestamp, value: impl IntoLoan<T>) {
        // An output that the node did not declare leads nowhere.
        let Some(place) = self.place(port.name()) else { return };
        let loan = value.into_loan(&self.caller.around.outputs[place].1);
        let (header, flight) = (self.header(at), self.flight());
        let packet = self.sent.slot(place);
        packet.header = header;
        if flight.is_some() {
            packet.flight = flight;
        }
        loan.seal(packet);
    }

    /// Sends `packet`, whose type is not known here, with its own time, by the output `port`.
    pub fn send_packet(&mut self, port: &str, mut packet: Packet) {
        let place = self.caller.around.outputs.iter().position(|(name, _)| *name == port);
        let Some(place) = place else { return };
        packet.header = self.header(packet.header.at);
        packet.flight = self.flight();
        self.sent.push(place, packet);
    }

    /// Sends the packet of this call on as it is, when it came in by `from`.
    pub fn forward<T: Payload>(&mut self, from: In<T>, to: Out<T>) {
        let (Some((inbound, packet)), Some(place)) = (&self.input, self.place(to.name())) else {
            return;
        };
        if inbound.port != from.name() || packet.get::<T>().is_none() {
            return;
        }
        let mut packet = packet.share();
        packet.header.model_ns += self.model_ns;
        self.sent.push(place, packet);
    }

    /// The place of the output `port`.
    #[inline]
    fn place(&self, port: &'static str) -> Option<usize> {
        match self.caller.around.outputs.as_slice() {
            [(name, _), ..] if is(name, port) => Some(0),
            outputs => outputs.iter().position(|(name, _)| is(name, port)),
        }
    }

    /// What is sent descends from this.
    #[inline]
    fn origin(&self) -> &Header {
        self.input.as_ref().map_or(&self.caller.around.origin, |(_, packet)| &packet.header)
    }

    /// What is sent is under way as the packet of the call is.
    #[inline]
    fn flight(&self) -> Option<Flight> {
        match &self.input {
            Some((_, packet)) if packet.flight.is_some() => packet.flight.clone(),
            _ => None,
        }
    }

    /// What is sent with the time `at` has this header, until the engine completes it.
    #[inline]
    fn header(&self, at: Timestamp) -> Header {
        let origin = self.origin().handed_down();
        Header { at, model_ns: origin.model_ns + self.model_ns, ..origin }
    }

    /// Runs `run`, which runs a model, and counts its time as the model's, not the framework's.
    pub fn time_model<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = run();
        self.model_ns += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        result
    }

    /// Asks to be called again, without a packet, as soon as what was sent has room. Packets wait
    /// until then. A source is called again if it asks for nothing else.
    ///
    /// A node that has inputs says by [`Node::TIMED`] that it asks for calls.
    pub fn resume(&mut self) {
        self.asked.resume = Some(Resume::Now);
    }

    /// As [`Cx::resume`], but not before `at`.
    pub fn resume_at(&mut self, at: Timestamp) {
        self.asked.resume = Some(Resume::At(at));
    }

    /// Asks to be called without a packet at `at`, while packets go on. There is one such time: it
    /// stands until it has come, the node asks for another, or an interrupt cancels the node.
    ///
    /// Inputs that have ended end the node only when it waits for no time.
    pub fn wake_at(&mut self, at: Timestamp) {
        self.asked.wake = Some(at);
    }

    /// For a source: its stream has ended.
    pub fn end(&mut self) {
        self.asked.resume = Some(Resume::Done);
    }

    /// The calls that the node asked for.
    #[inline]
    pub fn asked(&self) -> Asked {
        self.asked
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
    std::ptr::eq(one, other) || is_same(one, other)
}

#[cold]
fn is_same(one: &str, other: &str) -> bool {
    one == other
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
    around: Surroundings,
    asked: Asked,
}

impl<N: Node> NodeBench<N> {
    /// A bench for `node`.
    pub fn new(node: N) -> Self {
        let outputs = N::PORTS.iter().filter(|port| port.kind == PortKind::Output);
        let outputs = outputs.map(|port| (port.name, Pool::new(8))).collect();
        let around = Surroundings { outputs, ..Surroundings::default() };
        Self { node, around, asked: Asked::default() }
    }

    /// The node itself.
    pub fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }

    /// Calls the node with `value` on `port`, and again for as long as it asks for that at once;
    /// returns what it sent: output port and packet.
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
        let called = self.run(at, Some(packet), |node, cx| node.process(cx));
        self.around.joined.clear();
        let mut sent = called?;
        while self.asked.resume == Some(Resume::Now) {
            sent.append(&mut self.poll(at)?.0);
        }
        Ok(sent)
    }

    /// Lets `value` accompany the packet of the next call on `port`, as the engine does where a graph
    /// joins streams; several in the order of their times make a window.
    pub fn join<T: Payload>(&mut self, port: In<T>, at: Timestamp, value: T) -> &mut Self {
        let packet = Packet::new(value, Header { at, ..Header::default() });
        let joined = &mut self.around.joined;
        match joined.iter_mut().find(|joined| joined.port == port.name()) {
            Some(joined) => joined.packets.push(packet),
            None => joined.push(Joined { port: port.name(), packets: vec![packet] }),
        }
        self
    }

    /// Calls the node without a packet at `now`; returns what it sent and when it wants to be
    /// called again.
    ///
    /// # Errors
    /// Those of the node.
    pub fn poll(&mut self, now: Timestamp) -> Result<Polled, NodeError> {
        self.asked = Asked::default();
        let sent = self.run(now, None, |node, cx| node.process(cx))?;
        let is_source = !N::PORTS.iter().any(|port| port.kind == PortKind::Input);
        let default = if is_source { Resume::Now } else { Resume::Done };
        Ok((sent, self.asked.resume.unwrap_or(default)))
    }

    /// Lets time pass until `until`, with the calls that the node asked for; returns what it sent,
    /// and when.
    ///
    /// # Errors
    /// Those of the node.
    pub fn advance(
        &mut self,
        until: Timestamp,
    ) -> Result<Vec<(Timestamp, &'static str, Packet)>, NodeError> {
        let mut sent = Vec::new();
        let mut now = Timestamp(i64::MIN);
        loop {
            let due = match self.asked.resume {
                Some(Resume::Now) => Some(now),
                Some(Resume::At(at)) => Some(at),
                Some(Resume::Done) | None => self.asked.wake,
            };
            let Some(due) = due.filter(|due| *due <= until) else { return Ok(sent) };
            now = now.max(due);
            let polled = self.poll(now)?.0;
            sent.extend(polled.into_iter().map(|(port, packet)| (now, port, packet)));
        }
    }

    /// The calls that the node asked for.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// Ends the inputs of the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn finish(&mut self, now: Timestamp) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        self.run(now, None, |node, cx| node.finish(cx))
    }

    /// Interrupts the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        self.asked = Asked::default();
        self.run(now, None, |node, cx| node.cancel(cx))
    }

    fn run(
        &mut self,
        now: Timestamp,
        input: Option<(&'static str, Packet)>,
        call: impl FnOnce(&mut N, &mut Cx<'_>) -> Result<(), NodeError>,
    ) -> Result<Vec<(&'static str, Packet)>, NodeError> {
        let mut sent = Outbox::default();
        let origin = Header { at: now, ..Header::default() };
        self.around.origin = input.as_ref().map_or(origin, |(_, packet)| packet.header);
        let caller = Caller { now, real_ns: 0, restarted: false, around: &self.around };
        let inbound = |port| Inbound { port, source: String::new() };
        let mut input = input.map(|(port, packet)| (inbound(port), packet));
        let input = input.as_mut().map(|(inbound, packet)| (&*inbound, packet));
        let mut cx = Cx::new(caller, input, &mut sent);
        call(&mut self.node, &mut cx)?;
        let asked = cx.asked();
        let has_inputs = N::PORTS.iter().any(|port| port.kind == PortKind::Input);
        assert!(
            N::TIMED || !has_inputs || asked == Asked::default(),
            "{} asks for calls and does not say so by Node::TIMED",
            N::NAME
        );
        self.asked.resume = asked.resume;
        self.asked.wake = asked.wake.or(self.asked.wake);
        let sent = std::iter::from_fn(|| sent.pop());
        Ok(sent.map(|(place, packet)| (self.around.outputs[place].0, packet)).collect())
    }
}

/// What a node sent, and when it wants to be called again.
pub type Polled = (Vec<(&'static str, Packet)>, Resume);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port, Text};

    const IN: In<Text> = In::new("in");
    const SIDE: In<Text> = In::new("side");
    const OUT: Out<Text> = Out::new("out");

    /// Sends the text of its packet with those beside it.
    struct Beside;

    impl Node for Beside {
        type Params = ();
        const NAME: &'static str = "beside";
        const SUMMARY: &'static str = "";
        const PORTS: &'static [Port] = &[IN.port(), SIDE.port().optional(), OUT.port()];
        const LATENCY: &'static str = "none";

        fn open(_: (), _: &crate::OpenCx) -> Result<Self, NodeError> {
            Ok(Self)
        }

        fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
            let mut text = cx.get(IN).map_or_else(String::new, |text| text.text.clone());
            cx.all(SIDE).for_each(|(at, side)| text += &format!(" {}@{}", side.text, at.0));
            cx.send(OUT, Text { text, ..Text::default() });
            Ok(())
        }
    }

    #[test]
    fn what_is_joined_goes_with_one_call() {
        let text = |text: &str| Text { text: text.to_owned(), ..Text::default() };
        let mut bench = NodeBench::new(Beside);
        bench.join(SIDE, Timestamp(3), text("b")).join(SIDE, Timestamp(4), text("c"));
        for expected in ["a b@3 c@4", "a"] {
            let sent = bench.call(IN, Timestamp(5), text("a")).expect("it cannot fail");
            let found: Option<&Text> = sent[0].1.get();
            assert_eq!(found.map(|found| found.text.as_str()), Some(expected));
        }
    }
}
