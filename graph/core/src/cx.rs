//! What a node sees during one call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{CreditGuard, Header, In, Loan, Out, Outbox, Packet, Payload, Pool, PortId, Timestamp};

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
pub struct CallRequest {
    /// Before another packet; `None` is [`Resume::Now`] for a source, [`Resume::Done`] for others.
    pub resume: Option<Resume>,
    /// At this time, while packets go on.
    pub wake: Option<Timestamp>,
}

/// What a call gets on an input that accompanies the packet of the call.
#[derive(Debug)]
pub struct Joined {
    /// The input.
    pub port: PortId,
    /// Its name.
    pub name: Arc<str>,
    /// Its packets, in the order of their times.
    pub packets: Vec<Packet>,
}

/// Where a packet comes in.
#[derive(Debug, Clone)]
pub struct InputInfo {
    /// The input port.
    pub port: PortId,
    /// Its name.
    pub name: Arc<str>,
    /// The name of the node that sends; empty where nobody tells.
    pub source: String,
}

/// What all calls of a node have context them.
#[derive(Debug, Default)]
pub struct NodeContext {
    /// Handed down to what is sent where the call has no packet.
    pub origin: Header,
    /// Output ports of the node by their [`PortId`], and for each the pool of its values.
    pub outputs: Vec<(Arc<str>, Pool)>,
    /// What accompanies the packet of the call.
    pub joined: Vec<Joined>,
    /// Says that the call has become obsolete.
    pub cancel: Arc<AtomicBool>,
    /// Packets that the node sent by outputs that it does not have.
    pub undeclared: AtomicU64,
}

/// What a node is told about a call beside its packet.
#[derive(Clone, Copy)]
pub struct CallInfo<'c> {
    /// The time on the clock of the session.
    pub now: Timestamp,
    /// The real clock at the begin of the call, in nanoseconds since the start of the session.
    pub real_ns: u64,
    /// Whether the node that sent the packet was restarted since its packet before this one.
    pub restarted: bool,
    /// What every call of the node has context it.
    pub context: &'c NodeContext,
}

/// The packet of one call, and where what the node sends goes.
///
/// The engine makes one for each call; the tests of a node use a [`NodeBench`].
pub struct Cx<'c> {
    caller: CallInfo<'c>,
    /// Where the packet came in, and the packet; `None` for a source and in `finish`. It holds no
    /// value any more once the node took it.
    input: Option<(&'c InputInfo, &'c mut Packet)>,
    sent: &'c mut Outbox,
    asked: CallRequest,
    model_ns: u64,
}

impl<'c> Cx<'c> {
    /// The context of one call.
    ///
    /// `sent` takes what the node sends: the place of the output in [`NodeContext::outputs`], and
    /// the packet.
    #[inline]
    pub fn new(
        caller: CallInfo<'c>,
        input: Option<(&'c InputInfo, &'c mut Packet)>,
        sent: &'c mut Outbox,
    ) -> Self {
        Self { caller, input, sent, asked: CallRequest::default(), model_ns: 0 }
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
    /// with [`NodeError::Cancelled`](crate::NodeError::Cancelled) or without.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.caller.context.cancel.load(Ordering::Relaxed)
    }

    /// What [`Cx::cancelled`] looks at, for a model that runs for long.
    pub fn cancel_flag(&self) -> &'c AtomicBool {
        &self.caller.context.cancel
    }

    /// The name of the input that the packet of this call came in by.
    pub fn port(&self) -> Option<&str> {
        self.input.as_ref().map(|(inbound, _)| &*inbound.name)
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
            Some((inbound, packet)) if inbound.port == port.id() => packet.get(),
            _ => self.all(port).next().map(|(_, value)| value),
        }
    }

    /// All values on `port` that accompany the packet of this call, with their times: several where
    /// the graph joins a window, otherwise one or none.
    pub fn all<T: Payload>(&self, port: In<T>) -> impl Iterator<Item = (Timestamp, &T)> {
        let here = self.caller.context.joined.iter();
        let here = here.filter(move |joined| joined.port == port.id());
        let packets = here.flat_map(|joined| &joined.packets);
        packets.filter_map(|packet| Some((packet.header.at, packet.get()?)))
    }

    /// As [`Cx::get`], but to change it: in place when nobody else holds it, otherwise a copy.
    ///
    /// Only the packet of the call can be taken; what accompanies it is read.
    #[inline(always)]
    pub fn take<T: Payload>(&mut self, port: In<T>) -> Option<Loan<T>> {
        match &mut self.input {
            Some((inbound, packet)) if inbound.port == port.id() => {
                packet.take(|| self.caller.context.outputs.first().map(|(_, pool)| pool))
            }
            _ => None,
        }
    }

    /// A value for `port`, to fill. It may hold what an earlier packet held.
    pub fn loan<T: Payload>(&self, port: Out<T>) -> Loan<T> {
        match self.output(port.id(), port.name()) {
            Some(output) => self.caller.context.outputs[output].1.loan(),
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
        let Some(output) = self.output(port.id(), port.name()) else { return };
        let loan = value.into_loan(&self.caller.context.outputs[output].1);
        let (header, credit) = (self.header(at), self.credit());
        let packet = self.sent.slot(output);
        packet.header = header;
        if credit.is_some() {
            packet.credit = credit;
        }
        loan.seal(packet);
    }

    /// Sends `packet`, whose type is not known here, with its own timestamp, by the output `port`.
    pub fn send_packet(&mut self, port: PortId, mut packet: Packet) {
        let Some(output) = self.output(port, "") else { return };
        packet.header = self.header(packet.header.at);
        packet.credit = self.credit();
        self.sent.push(output, packet);
    }

    /// Sends the packet of this call on as it is, when it came in by `from`.
    pub fn forward<T: Payload>(&mut self, from: In<T>, to: Out<T>) {
        let (Some((inbound, packet)), Some(output)) =
            (&self.input, self.output(to.id(), to.name()))
        else {
            return;
        };
        if inbound.port != from.id() || packet.get::<T>().is_none() {
            return;
        }
        let mut packet = packet.share();
        packet.header.model_ns += self.model_ns;
        self.sent.push(output, packet);
    }

    /// Index of an output in [`NodeContext::outputs`].
    #[inline]
    fn output(&self, id: PortId, name: &str) -> Option<usize> {
        let index = id.index();
        if index < self.caller.context.outputs.len() {
            debug_assert!(
                name.is_empty() || *self.caller.context.outputs[index].0 == *name,
                "the output {name} belongs to another node"
            );
            return Some(index);
        }
        self.undeclared(id, name);
        None
    }

    /// Counts a packet that was sent by an output that the node does not have.
    #[cold]
    fn undeclared(&self, id: PortId, name: &str) {
        debug_assert!(false, "the node has no output {name} (index {})", id.index());
        self.caller.context.undeclared.fetch_add(1, Ordering::Relaxed);
    }

    /// What is sent descends from this.
    #[inline]
    fn origin(&self) -> &Header {
        self.input.as_ref().map_or(&self.caller.context.origin, |(_, packet)| &packet.header)
    }

    /// What is sent is under way as the packet of the call is.
    #[inline]
    fn credit(&self) -> Option<CreditGuard> {
        match &self.input {
            Some((_, packet)) if packet.credit.is_some() => packet.credit.clone(),
            _ => None,
        }
    }

    /// What is sent with the time `at` has this header, until the engine completes it.
    #[inline]
    fn header(&self, at: Timestamp) -> Header {
        let origin = self.origin().inherited();
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
    /// A node that has inputs says by [`Node::TIMED`](crate::Node::TIMED) that it asks for calls.
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
    pub fn request(&self) -> CallRequest {
        self.asked
    }

    /// How long models ran during this call, in nanoseconds.
    #[inline]
    pub fn model_ns(&self) -> u64 {
        self.model_ns
    }
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
