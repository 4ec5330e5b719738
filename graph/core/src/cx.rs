//! Context of one call of a node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{CreditGuard, Header, In, Loan, Out, Outbox, Packet, Payload, Pool, PortId, Timestamp};

/// Next call without a packet, ahead of the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// As soon as the sent packets have been taken.
    Now,
    /// Not before this time.
    At(Timestamp),
    /// None: the node takes the next packet; the stream of a source ends.
    Done,
}

/// Calls without a packet that a node asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallRequest {
    /// Call ahead of the next packet; `None` is [`Resume::Now`] for a source, [`Resume::Done`] for
    /// others.
    pub resume: Option<Resume>,
    /// Call at this time, while packets continue.
    pub wake: Option<Timestamp>,
}

/// Packets of a secondary input that match the packet of the call.
#[derive(Debug)]
pub struct Joined {
    /// The input.
    pub port: PortId,
    /// Name of the input.
    pub name: Arc<str>,
    /// Packets in the order of their timestamps.
    pub packets: Vec<Packet>,
}

/// Input of the packet of a call.
#[derive(Debug, Clone)]
pub struct InputInfo {
    /// The input port.
    pub port: PortId,
    /// Name of the input.
    pub name: Arc<str>,
    /// Name of the sender; empty if it is not known.
    pub source: String,
}

/// Context of all calls of a node.
#[derive(Debug, Default)]
pub struct NodeContext {
    /// Header that sent packets inherit in a call without a packet.
    pub origin: Header,
    /// Outputs of the node by their [`PortId`], each with its pool.
    pub outputs: Vec<(Arc<str>, Pool)>,
    /// Matches of secondary inputs for the current call.
    pub joined: Vec<Joined>,
    /// Set when the current call becomes obsolete.
    pub cancel: Arc<AtomicBool>,
    /// Number of packets sent to outputs that the node does not have.
    pub undeclared: AtomicU64,
}

/// Properties of a call besides its packet.
#[derive(Clone, Copy)]
pub struct CallInfo<'c> {
    /// Session time.
    pub now: Timestamp,
    /// Real time at the start of the call, in nanoseconds since the start of the session.
    pub real_ns: u64,
    /// True if the sender was restarted since its previous packet.
    pub restarted: bool,
    /// Context of all calls of the node.
    pub context: &'c NodeContext,
}

/// Packet and outputs of one call.
///
/// The engine creates one for each call; tests of a node use a [`NodeBench`](crate::NodeBench).
pub struct Cx<'c> {
    caller: CallInfo<'c>,
    /// Input and packet; `None` for a source and in `finish`. The packet is empty after the node
    /// took its value.
    input: Option<(&'c InputInfo, &'c mut Packet)>,
    sent: &'c mut Outbox,
    asked: CallRequest,
    model_ns: u64,
}

impl<'c> Cx<'c> {
    /// Context of one call. `sent` receives the packets, with their index in
    /// [`NodeContext::outputs`].
    #[inline]
    pub fn new(
        caller: CallInfo<'c>,
        input: Option<(&'c InputInfo, &'c mut Packet)>,
        sent: &'c mut Outbox,
    ) -> Self {
        Self { caller, input, sent, asked: CallRequest::default(), model_ns: 0 }
    }

    /// Session time: real, or virtual in replays and tests.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.caller.now
    }

    /// Epoch of this call; sent packets belong to it.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.origin().epoch
    }

    /// True if the sender of this call's packet was restarted since its previous packet: the stream
    /// starts over, and packets may be missing.
    pub fn restarted(&self) -> bool {
        self.caller.restarted
    }

    /// True if this call has become obsolete. Its packets are dropped, so it may return at once,
    /// with [`NodeError::Canceled`](crate::NodeError::Canceled) or without.
    #[inline]
    pub fn canceled(&self) -> bool {
        self.caller.context.cancel.load(Ordering::Relaxed)
    }

    /// Flag of [`Cx::canceled`], for a model that runs for long.
    pub fn cancel_flag(&self) -> &'c AtomicBool {
        &self.caller.context.cancel
    }

    /// Name of the input of this call's packet.
    pub fn port(&self) -> Option<&str> {
        self.input.as_ref().map(|(inbound, _)| &*inbound.name)
    }

    /// Packet of this call, of any type; `None` after its value was taken.
    pub fn packet(&self) -> Option<&Packet> {
        let (_, packet) = self.input.as_ref()?;
        packet.payload().is_some().then_some(&**packet)
    }

    /// Name of the sender of this call's packet; empty if it is not known.
    pub fn source(&self) -> &str {
        self.input.as_ref().map_or("", |(inbound, _)| &inbound.source)
    }

    /// Real time at the start of this call, in nanoseconds since the start of the session.
    ///
    /// For measurements, as [`Header::entered_ns`]; a result must not depend on it.
    pub fn real_ns(&self) -> u64 {
        self.caller.real_ns
    }

    /// Timestamp of this call's packet; without one, that of the packet that [`Cx::resume`]
    /// continues, or the time of [`Cx::wake_at`].
    #[inline]
    pub fn at(&self) -> Timestamp {
        self.origin().at
    }

    /// Value on `port`: of this call's packet, or of its match.
    #[inline]
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        match &self.input {
            Some((inbound, packet)) if inbound.port == port.id() => packet.get(),
            _ => self.all(port).next().map(|(_, value)| value),
        }
    }

    /// Matches on `port` with their timestamps: several for a window, otherwise at most one.
    pub fn all<T: Payload>(&self, port: In<T>) -> impl Iterator<Item = (Timestamp, &T)> {
        let here = self.caller.context.joined.iter();
        let here = here.filter(move |joined| joined.port == port.id());
        let packets = here.flat_map(|joined| &joined.packets);
        packets.filter_map(|packet| Some((packet.header.at, packet.get()?)))
    }

    /// Matches of the secondary inputs, of any type.
    pub fn joined(&self) -> &[Joined] {
        &self.caller.context.joined
    }

    /// Mutable value on `port`: in place for the last holder, otherwise a copy.
    ///
    /// Only the packet of the call can be taken; matches are read.
    #[inline(always)]
    pub fn take<T: Payload>(&mut self, port: In<T>) -> Option<Loan<T>> {
        match &mut self.input {
            Some((inbound, packet)) if inbound.port == port.id() => {
                packet.take(|| self.caller.context.outputs.first().map(|(_, pool)| pool))
            }
            _ => None,
        }
    }

    /// Value to fill and send through `port`. It may hold data of an earlier packet.
    pub fn loan<T: Payload>(&self, port: Out<T>) -> Loan<T> {
        match self.output(port.id(), port.name()) {
            Some(output) => self.caller.context.outputs[output].1.loan(),
            None => Loan::new(T::default()),
        }
    }

    /// Sends `value` with the timestamp of this call's packet.
    #[inline(always)]
    pub fn send<T: Payload>(&mut self, port: Out<T>, value: impl IntoLoan<T>) {
        self.send_at(port, self.at(), value);
    }

    /// Sends `value` with the timestamp `at`.
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

    /// Sends `packet`, of any type, with its own timestamp through the output `port`.
    pub fn send_packet(&mut self, port: PortId, mut packet: Packet) {
        let Some(output) = self.output(port, "") else { return };
        packet.header = self.header(packet.header.at);
        packet.credit = self.credit();
        self.sent.push(output, packet);
    }

    /// Forwards the packet of this call unchanged if it arrived on `from`.
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

    /// Header that sent packets inherit.
    #[inline]
    fn origin(&self) -> &Header {
        self.input.as_ref().map_or(&self.caller.context.origin, |(_, packet)| &packet.header)
    }

    /// Credit that sent packets share.
    #[inline]
    fn credit(&self) -> Option<CreditGuard> {
        match &self.input {
            Some((_, packet)) if packet.credit.is_some() => packet.credit.clone(),
            _ => None,
        }
    }

    /// Header of a packet sent with timestamp `at`, until the engine completes it.
    #[inline]
    fn header(&self, at: Timestamp) -> Header {
        let origin = self.origin().inherited();
        Header { at, model_ns: origin.model_ns + self.model_ns, ..origin }
    }

    /// Calls `run`, which runs a model, and counts its time as model time.
    pub fn time_model<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = run();
        self.model_ns += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        result
    }

    /// Asks for another call without a packet, as soon as the sent packets have been taken. Packets
    /// wait until then. A source is called again by default.
    ///
    /// A node with inputs must set [`Node::TIMED`](crate::Node::TIMED).
    pub fn resume(&mut self) {
        self.asked.resume = Some(Resume::Now);
    }

    /// As [`Cx::resume`], but not before `at`.
    pub fn resume_at(&mut self, at: Timestamp) {
        self.asked.resume = Some(Resume::At(at));
    }

    /// Asks for a call without a packet at `at`, while packets continue. A node has one such time:
    /// it lasts until it comes, the node sets another, or an interrupt cancels the node.
    ///
    /// A node whose inputs have ended ends after this time.
    pub fn wake_at(&mut self, at: Timestamp) {
        self.asked.wake = Some(at);
    }

    /// Ends the stream of a source.
    pub fn end(&mut self) {
        self.asked.resume = Some(Resume::Done);
    }

    /// The calls that the node asked for.
    #[inline]
    pub fn request(&self) -> CallRequest {
        self.asked
    }

    /// Model time of this call, in nanoseconds.
    #[inline]
    pub fn model_ns(&self) -> u64 {
        self.model_ns
    }
}

/// A loan, or a plain value that is moved into one.
pub trait IntoLoan<T: Payload> {
    /// Returns the value in a loan.
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
