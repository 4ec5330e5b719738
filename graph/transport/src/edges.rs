//! The two ends of an edge between processes, over whatever link leads to the other one.

use std::sync::{Arc, Mutex, MutexGuard};

use afferent_core::ForeignBytes;
use afferent_engine::{EdgeCounts, Incoming, InterruptHandle, Outgoing, SentWatermark, ToSend};
use afferent_graph::{Header, OnFull, Packet, Timestamp, WireCodec};
use afferent_spec::Edge;

use crate::{
    control::SentCounts,
    frame::{self, Ack, Head, PacketHead},
    link::{BulkBytes, HeldPacket, Link, LinkError},
    lock,
    window::{Left, ReceiveWindow, SendWindow},
};

/// Most packets on the way of an edge, whatever its queue: bulk bytes of each hold memory.
const MAX_WINDOW: usize = 64;

/// Packets of an edge that keeps the latest one: one on the way while the receiver works.
const LATEST_WINDOW: usize = 2;

/// Bulk bytes up to this length are copied rather than held.
const SMALL: usize = 4096;

/// Bits of [`Header::restarts`] for the restarts of a node within one process.
const RESTARTS_BITS: u32 = 16;

/// Number of packets on the way that `edge` allows.
fn window(edge: &Edge) -> usize {
    match edge.policy.on_full {
        OnFull::Latest => LATEST_WINDOW,
        // The queue of the receiver has room for all of them.
        _ => edge.policy.queue.clamp(1, MAX_WINDOW),
    }
}

/// Sending end.
pub(crate) struct Sender {
    /// Process of the receiver.
    pub(crate) to: usize,
    pub(crate) outgoing: Outgoing,
    codec: &'static dyn WireCodec,
    name: String,
    /// Number of times this process was started again.
    incarnation: u32,
    state: Mutex<SenderState>,
}

struct SenderState {
    window: SendWindow,
    /// Packet that the link did not take.
    pending: Option<Packet>,
    /// Last watermark that was sent.
    watermark: Option<SentWatermark>,
    ended: bool,
    /// Packets that could not be sent.
    unsent: u64,
    /// Memory for messages.
    message: Vec<u8>,
    told_fault: bool,
}

impl Sender {
    pub(crate) fn new(
        edge: &Edge,
        name: String,
        (outgoing, to): (Outgoing, usize),
        codec: &'static dyn WireCodec,
        incarnation: u32,
    ) -> Self {
        let state = SenderState {
            window: SendWindow::new(window(edge)),
            pending: None,
            watermark: None,
            ended: false,
            unsent: 0,
            message: Vec::new(),
            told_fault: false,
        };
        Self { to, outgoing, codec, name, incarnation, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, SenderState> {
        lock(&self.state)
    }

    /// Sends what the window allows; with `may_end` the end of the stream, too.
    pub(crate) fn pump(&self, link: &Arc<dyn Link>, may_end: bool) {
        let mut state = self.state();
        while !state.ended && state.window.is_open() {
            let next = state.pending.take().map(ToSend::Packet);
            match next.unwrap_or_else(|| self.outgoing.next()) {
                ToSend::Packet(packet) => {
                    if !self.send(&mut state, link, packet) {
                        return;
                    }
                }
                ToSend::Watermark(bound) => {
                    if state.watermark.replace(bound) != Some(bound) {
                        let header = bound.header();
                        link.send(&Head::Watermark(self.head(header, 0)), &[]);
                    }
                    return;
                }
                ToSend::End => {
                    state.ended = true;
                    if may_end {
                        let post = state.window.posted();
                        link.send(&Head::End(self.head(Header::default(), post)), &[]);
                    }
                }
                ToSend::Nothing => return,
            }
        }
        if state.ended {
            drop(state);
            self.outgoing.close();
        }
    }

    /// Sends a packet; false if it waits for memory.
    fn send(&self, state: &mut SenderState, link: &Arc<dyn Link>, packet: Packet) -> bool {
        let post = state.window.posted() + 1;
        frame::begin_packet(&mut state.message, &self.head(packet.header, post));
        let Some(value) = packet.payload() else { return true };
        let sent = match self.codec.encode(value, &mut state.message) {
            Ok(bytes) => {
                let hold = || self.hold(&packet, bytes);
                let bulk = BulkBytes { bytes, hold: &hold };
                link.send_packet(&mut state.message, bulk).map_err(Some)
            }
            Err(reason) => {
                self.tell_fault(state, &reason);
                Err(None)
            }
        };
        match sent {
            Ok(()) => {
                state.window.post();
                true
            }
            Err(Some(LinkError::Full)) => {
                state.pending = Some(packet);
                false
            }
            Err(error) => {
                if let Some(error) = error {
                    self.tell_fault(state, &error.to_string());
                }
                // The queue has counted it as delivered.
                state.unsent += 1;
                true
            }
        }
    }

    /// Bulk bytes of `packet` that are held beyond its sending.
    fn hold(&self, packet: &Packet, bytes: &[u8]) -> ForeignBytes {
        match bytes.len() <= SMALL {
            true => bytes.to_vec().into(),
            false => HeldPacket::new(packet.clone(), self.codec).into(),
        }
    }

    fn head(&self, header: Header, post: u64) -> PacketHead {
        PacketHead { edge: self.outgoing.edge as u16, post, incarnation: self.incarnation, header }
    }

    /// Reports the first packet that cannot be sent; the others are counted.
    fn tell_fault(&self, state: &mut SenderState, reason: &str) {
        if !std::mem::replace(&mut state.told_fault, true) {
            tracing::error!("edge {}: a packet cannot be sent and is lost: {reason}", self.name);
        }
    }

    /// Takes over the counters of the receiver.
    ///
    /// # Errors
    /// The contradiction in them.
    pub(crate) fn acknowledge(&self, ack: &Ack) -> Result<(), String> {
        let acknowledged = self.state().window.acknowledge(ack);
        acknowledged.map_err(|reason| format!("edge {}: {reason}", self.name))?;
        if ack.closed {
            self.close();
        }
        Ok(())
    }

    /// The receiver takes nothing more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.ended = true;
        state.unsent += u64::from(state.pending.take().is_some());
        drop(state);
        self.outgoing.close();
    }

    /// The process of the receiver is gone.
    pub(crate) fn lose(&self) {
        let mut state = self.state();
        state.window.lose();
        state.watermark = None;
    }

    /// True if nothing is left to send.
    pub(crate) fn is_ended(&self) -> bool {
        self.state().ended
    }

    pub(crate) fn counts(&self) -> (EdgeCounts, SentCounts) {
        let state = self.state();
        let (taken_before, dropped_before) = state.window.taken_before();
        let lost = state.window.lost() + state.unsent;
        (self.outgoing.counts(), SentCounts { lost, taken_before, dropped_before })
    }
}

/// Receiving end.
pub(crate) struct Receiver {
    /// Process of the sender.
    pub(crate) from: usize,
    pub(crate) incoming: Incoming,
    codec: &'static dyn WireCodec,
    name: String,
    /// Packets for which a busy receiver acknowledges.
    every: u64,
    state: Mutex<ReceiverState>,
}

#[derive(Default)]
struct ReceiverState {
    window: ReceiveWindow,
    incarnation: u32,
    /// Incarnations of the sender before its machine was started again.
    incarnations_before: u32,
    /// True from the loss of the sender until a packet of its next incarnation arrives, or until an
    /// interrupted link stands again.
    is_lost: bool,
    /// Number of losses.
    losses: u32,
    /// Timestamp and restarts of the last packet.
    last: Option<(Timestamp, u32)>,
    ended: bool,
}

impl Receiver {
    pub(crate) fn new(
        edge: &Edge,
        name: String,
        (incoming, from): (Incoming, usize),
        codec: &'static dyn WireCodec,
    ) -> Self {
        let every = window(edge).div_ceil(2) as u64;
        Self { from, incoming, codec, name, every, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        lock(&self.state)
    }

    /// Handles a message of the sender.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(crate) fn receive(
        &self,
        head: &Head,
        message: &[u8],
        bulk: ForeignBytes,
        interrupt: &InterruptHandle,
    ) -> Result<(), String> {
        let fault = |reason: &str| format!("edge {}: {reason}", self.name);
        match head {
            Head::Packet(head) => {
                let header = self.accept(head).map_err(|reason| fault(&reason))?;
                let Some(header) = header else { return Ok(()) };
                let parts = frame::parts(message).map_err(|error| fault(&error.to_string()))?;
                let packet = self.codec.decode(parts.meta, bulk, header);
                let packet = packet.map_err(|reason| fault(&reason))?;
                // The sender may know of an interrupt that this process was not told of yet.
                if header.epoch > interrupt.epoch() {
                    interrupt.raise(header.epoch);
                }
                if !self.incoming.offer(packet) {
                    return Err(fault("it sends more packets than its window allows"));
                }
            }
            Head::Watermark(head) => {
                let header = restarted(head, self.state().incarnations_before);
                self.incoming.advance(SentWatermark::of(&header));
            }
            Head::Skip(head) => {
                let mut state = self.state();
                if head.incarnation == state.incarnation {
                    state.window.skip(head.post);
                }
            }
            Head::End(_) => self.end(),
            _ => {}
        }
        Ok(())
    }

    /// Counts a packet and checks its header, which is `None` if the packet arrived before.
    fn accept(&self, head: &PacketHead) -> Result<Option<Header>, String> {
        let mut state = self.state();
        if head.incarnation < state.incarnation {
            // An earlier process, which is lost, has sent it.
            return Ok(None);
        }
        if state.ended {
            // Its process came back too late: the next acknowledgment says so.
            state.window.repeat_closed();
            drop(state);
            self.incoming.close();
            return Ok(None);
        }
        if head.incarnation > state.incarnation {
            // It was started again before this process was.
            state.window.restart(self.left());
            state.incarnation = head.incarnation;
        }
        if !state.window.receive(head.post) {
            return Ok(None);
        }
        state.is_lost = false;
        let header = restarted(head, state.incarnations_before);
        if let Some((at, restarts)) = state.last
            && header.at < at
            && header.restarts == restarts
        {
            let (now, before) = (header.at.0, at.0);
            return Err(format!("the timestamp {now} follows {before}"));
        }
        state.last = Some((header.at, header.restarts));
        Ok(Some(header))
    }

    /// Acknowledgment to send, if one is due.
    pub(crate) fn acknowledge(&self) -> Option<Ack> {
        let mut state = self.state();
        let incarnation = state.incarnation;
        let ack = state.window.acknowledge(self.left(), self.every)?;
        Some(Ack { edge: self.incoming.edge as u16, incarnation, ..ack })
    }

    fn left(&self) -> Left {
        let counts = self.incoming.counts();
        let waiting = counts.depth as u64;
        let (left, dropped) = (counts.sent - waiting, counts.dropped());
        Left { left, dropped, waiting, closed: self.incoming.is_closed() }
    }

    /// The process of the sender is gone, and `returns` as its next incarnation or does not. With
    /// `afresh`, its machine is started again and counts incarnations from 0. Returns the number of
    /// the loss, for [`Receiver::give_up`].
    pub(crate) fn lose(&self, returns: bool, afresh: bool) -> u32 {
        let mut state = self.state();
        if state.ended {
            return state.losses;
        }
        state.window.restart(self.left());
        state.incarnation += 1;
        if afresh {
            state.incarnations_before += std::mem::take(&mut state.incarnation);
        }
        let loss = mark_lost(&mut state);
        drop(state);
        if !returns {
            self.end();
        }
        loss
    }

    /// The link to the sender is interrupted. Returns the number of the loss.
    pub(crate) fn pause(&self) -> u32 {
        mark_lost(&mut self.state())
    }

    /// The link to the sender stands again.
    pub(crate) fn resume(&self) {
        self.state().is_lost = false;
    }

    /// Ends the stream if its sender is still lost since the loss with this number; returns the name
    /// of the edge then.
    pub(crate) fn give_up(&self, loss: u32) -> Option<&str> {
        let state = self.state();
        let gives_up = state.is_lost && state.losses == loss && !state.ended;
        drop(state);
        gives_up.then(|| {
            self.end();
            self.name.as_str()
        })
    }

    /// Packets of senders that ended unexpectedly.
    pub(crate) fn received_before(&self) -> u64 {
        self.state().window.received_before()
    }

    /// The stream has ended.
    pub(crate) fn end(&self) {
        if !std::mem::replace(&mut self.state().ended, true) {
            self.incoming.end();
        }
    }
}

fn mark_lost(state: &mut ReceiverState) -> u32 {
    state.is_lost = true;
    state.losses += 1;
    state.losses
}

/// Header of a packet, whose restarts count those of the process, too, and those of its machine.
fn restarted(head: &PacketHead, incarnations_before: u32) -> Header {
    let incarnation = incarnations_before.wrapping_add(head.incarnation);
    let restarts = head.header.restarts.wrapping_add(incarnation << RESTARTS_BITS);
    Header { restarts, ..head.header }
}
