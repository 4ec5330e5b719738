//! The packets that wait on one edge, and what happens when there are too many or they are too old.

use std::{collections::VecDeque, mem, time::Duration};

use afferent_graph::{Credit, CreditGuard, OnFull, Packet, Timestamp};

use crate::{EdgeCounts, InterruptHandle, clock::generation::Bound};
use afferent_spec::EdgePolicy;

/// A bounded queue that does what its policy says, and counts it.
///
/// Every packet that is accepted is later delivered, dropped for one counted reason, or still
/// there: `sent == delivered + dropped + depth`.
///
/// What a packet needs that passes stands together.
#[repr(C)]
pub(crate) struct Queue {
    packets: VecDeque<Packet>,
    /// The receiver takes no more.
    closed: bool,
    /// Every packet may pass that finds nothing before it.
    is_plain: bool,
    on_full: OnFull,
    /// The sender sends no more.
    ended: bool,
    /// The sender was refused and wants to know when there is room.
    sender_waits: bool,
    capacity: usize,
    /// Packets that were sent and taken at once, which are not among `counts`.
    passed: u64,
    counts: EdgeCounts,
    /// It leads back, and what waits here is not under way any more.
    lands: bool,
    /// Packets that may be under way behind the edge; any number when there are none.
    credits: Box<[Credit]>,
    /// Present when the receiver can be interrupted.
    interrupt: Option<InterruptHandle>,
    max_age: Option<Duration>,
    /// What the sender has told of what comes.
    bound: Bound,
}

/// What a receiver finds.
#[derive(Debug)]
pub(crate) enum Taken<T> {
    /// The next packet, or something about it.
    Next(T),
    /// Nothing yet.
    Empty,
    /// Nothing, ever again.
    Over,
}

impl Queue {
    /// An empty queue; `interrupt` is what cancels the work of the receiver.
    pub(crate) fn new(policy: EdgePolicy, interrupt: Option<InterruptHandle>) -> Self {
        let EdgePolicy { on_full, queue, max_age } = policy;
        let capacity = if on_full == OnFull::Latest { 1 } else { queue.max(1) };
        Self {
            packets: VecDeque::with_capacity(capacity),
            on_full,
            capacity,
            max_age,
            is_plain: interrupt.is_none() && max_age.is_none(),
            interrupt,
            credits: Box::default(),
            lands: false,
            bound: Bound::NONE,
            ended: false,
            closed: false,
            sender_waits: false,
            counts: EdgeCounts::default(),
            passed: 0,
        }
    }

    /// The same with a limit of packets under way behind the edge.
    pub(crate) fn with_credits(self, credits: Box<[Credit]>) -> Self {
        Self { is_plain: self.is_plain && credits.is_empty(), credits, ..self }
    }

    /// The same of a stream that may lead back. Behind it nobody is kept waiting for what waits here,
    /// because the receiver may have to get rid of something first.
    pub(crate) fn leading_back(self, lands: bool) -> Self {
        Self { lands, ..self }
    }

    /// Takes a packet in, by the policy, and leaves an empty one, or the packet where it is dropped.
    /// False when the sender has to wait.
    ///
    /// A packet goes from place to place, once in and once out, since copies on the way cost more
    /// than everything else that is done with it here.
    #[must_use]
    pub(crate) fn offer(&mut self, packet: &mut Packet) -> bool {
        let full = self.packets.len() >= self.capacity;
        if full && self.on_full == OnFull::Block && !self.closed {
            self.sender_waits = true;
            return false;
        }
        self.counts.sent += 1;
        if self.closed {
            self.counts.dropped_closed += 1;
            return true;
        }
        if full {
            self.counts.dropped_full += 1;
            if self.on_full == OnFull::DropNewest {
                return true;
            }
            self.packets.pop_front();
        }
        if let Some(interrupt) = self.interrupt.as_ref().filter(|_| packet.header.epoch == 0) {
            packet.header.epoch = interrupt.epoch();
        }
        if self.lands {
            packet.credit = None;
        }
        self.packets.push_back(mem::take(packet));
        self.counts.peak = self.counts.peak.max(self.packets.len());
        true
    }

    /// Counts a packet as sent and taken at once; false when it has to be offered as others are.
    #[inline]
    pub(crate) fn pass(&mut self) -> bool {
        let passes = self.is_plain && self.is_clear();
        self.passed += u64::from(passes);
        passes
    }

    /// Counts a packet that was sent and taken at once.
    #[inline]
    pub(crate) fn count_passed(&mut self) {
        self.passed += 1;
    }

    /// Whether a packet may pass, no matter when and which, if it finds the queue clear.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether nothing waits, and the receiver takes more.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.packets.is_empty() && !self.closed
    }

    /// Whether nothing waits and more may come.
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty() && !self.ended
    }

    /// Moves the next packet to `place`, past those that are too old or of an epoch before `epoch`,
    /// which is the last that the receiver has heard of.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        epoch: u32,
        node_index: &mut Packet,
    ) -> Taken<()> {
        if !self.is_plain
            && let Taken::Empty = self.head(now, epoch)
        {
            return Taken::Empty;
        }
        let Some(packet) = self.packets.pop_front() else {
            return if self.ended { Taken::Over } else { Taken::Empty };
        };
        *node_index = packet;
        self.counts.delivered += 1;
        if self.packets.is_empty() {
            // The next one comes to the same place in memory, which is near.
            self.packets.clear();
        }
        if let Some(credit) = self.take_credit() {
            node_index.credit = Some(credit);
        }
        Taken::Next(())
    }

    /// The time of the packet that [`Queue::take`] would give.
    pub(crate) fn head(&mut self, now: Timestamp, epoch: u32) -> Taken<Timestamp> {
        self.drop_stale(now, epoch);
        match self.packets.front() {
            // The receiver has to hear of the interrupt before it.
            Some(packet) if self.interrupt.is_some() && packet.header.epoch > epoch => Taken::Empty,
            Some(_) if !self.credits.is_empty() && !self.credits.iter().any(Credit::is_free) => {
                Taken::Empty
            }
            Some(packet) => Taken::Next(packet.header.at),
            None if self.ended => Taken::Over,
            None => Taken::Empty,
        }
    }

    /// Drops every packet of an epoch before `epoch`.
    pub(crate) fn purge(&mut self, epoch: u32) {
        let before = self.packets.len();
        self.packets.retain(|packet| packet.header.epoch >= epoch);
        self.counts.dropped_epoch += (before - self.packets.len()) as u64;
    }

    fn drop_stale(&mut self, now: Timestamp, epoch: u32) {
        while let Some(header) = self.packets.front().map(|packet| packet.header) {
            if self.interrupt.is_some() && header.epoch < epoch {
                self.counts.dropped_epoch += 1;
            } else if self.max_age.is_some_and(|age| now.since(header.at) > age) {
                self.counts.dropped_age += 1;
            } else {
                return;
            }
            self.packets.pop_front();
        }
    }

    /// The sender sends no more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The sender sends nothing earlier than `bound` any more.
    pub(crate) fn advance(&mut self, bound: Bound) {
        self.bound = bound;
    }

    /// What the sender has told of what comes, once nothing waits.
    pub(crate) fn outlook(&self) -> Option<Bound> {
        self.packets.is_empty().then_some(self.bound)
    }

    /// The receiver takes no more: what waits and what still comes is dropped and counted.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.counts.dropped_closed += self.packets.len() as u64;
        self.packets.clear();
    }

    /// Counts a packet that its sender threw away at the end of the run.
    pub(crate) fn count_unsent(&mut self) {
        self.counts.sent += 1;
        self.counts.dropped_closed += 1;
    }

    /// Counts a packet that its sender threw away because of an interrupt.
    pub(crate) fn count_cancelled(&mut self) {
        self.counts.sent += 1;
        self.counts.dropped_epoch += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether the sender waits for the room that there is now; answers once.
    pub(crate) fn frees_sender(&mut self) -> bool {
        let frees = self.sender_waits && (self.closed || self.packets.len() < self.capacity);
        self.sender_waits &= !frees;
        frees
    }

    fn take_credit(&self) -> Option<CreditGuard> {
        self.credits.iter().find_map(Credit::take)
    }

    pub(crate) fn counts(&self) -> EdgeCounts {
        let mut counts = EdgeCounts { depth: self.packets.len(), ..self.counts };
        counts.add_passed(self.passed);
        counts
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::Header;
    use afferent_messages::KeywordEvent;

    use super::*;

    fn packet(at: i64, epoch: u32) -> Packet {
        let header = Header { at: Timestamp(at), epoch, ..Header::default() };
        Packet::new(KeywordEvent::default(), header)
    }

    /// The next packet.
    fn next(queue: &mut Queue, now: i64, epoch: u32) -> Taken<Packet> {
        let mut node_index = Packet::default();
        match queue.take(Timestamp(now), epoch, &mut node_index) {
            Taken::Next(()) => Taken::Next(node_index),
            Taken::Empty => Taken::Empty,
            Taken::Over => Taken::Over,
        }
    }

    /// Offers packets at 0, 1, 2, …, 4; returns how many were refused, what is left, the drops.
    fn check(on_full: OnFull, capacity: usize) -> (usize, Vec<i64>, u64) {
        let mut queue = Queue::new(EdgePolicy { on_full, queue: capacity, max_age: None }, None);
        let refused = (0..5).filter(|at| !queue.offer(&mut packet(*at, 0))).count();
        let left = std::iter::from_fn(|| match next(&mut queue, 0, 0) {
            Taken::Next(packet) => Some(packet.header.at.0),
            _ => None,
        });
        let left = left.collect();
        let counts = queue.counts();
        assert_eq!(counts.sent, counts.delivered + counts.dropped());
        (refused, left, counts.dropped_full)
    }

    #[test]
    fn a_full_queue_does_what_its_policy_says() {
        assert_eq!(check(OnFull::Block, 3), (2, vec![0, 1, 2], 0));
        assert_eq!(check(OnFull::DropOldest, 3), (0, vec![2, 3, 4], 2));
        assert_eq!(check(OnFull::DropNewest, 3), (0, vec![0, 1, 2], 2));
        assert_eq!(check(OnFull::Latest, 3), (0, vec![4], 4));
    }

    #[test]
    fn old_packets_and_old_epochs_are_dropped_when_their_turn_comes() {
        let max_age = Some(Duration::from_nanos(10));
        let interrupt = Some(InterruptHandle::default());
        let mut queue =
            Queue::new(EdgePolicy { on_full: OnFull::Block, queue: 8, max_age }, interrupt);
        for (at, epoch) in [(0, 2), (14, 1), (15, 2), (20, 2)] {
            assert!(queue.offer(&mut packet(at, epoch)));
        }
        let Taken::Next(next) = next(&mut queue, 25, 2) else { panic!("15 is not too old") };
        assert_eq!(next.header.at, Timestamp(15), "an age equal to the limit is accepted");
        let counts = queue.counts();
        assert_eq!((counts.dropped_age, counts.dropped_epoch, counts.depth), (1, 1, 1));
    }

    #[test]
    fn a_packet_gets_the_epoch_in_which_it_comes() {
        let interrupt = InterruptHandle::default();
        let policy = EdgePolicy { on_full: OnFull::Block, queue: 8, max_age: None };
        let mut queue = Queue::new(policy, Some(interrupt.clone()));
        assert!(queue.offer(&mut packet(0, 0)));
        interrupt.interrupt();
        assert!(queue.offer(&mut packet(1, 0)));
        assert!(queue.offer(&mut packet(2, 1)));
        assert!(matches!(next(&mut queue, 0, 2), Taken::Next(p) if p.header.at.0 == 1));
        assert!(matches!(next(&mut queue, 0, 2), Taken::Empty));
        interrupt.interrupt();
        assert!(queue.offer(&mut packet(3, 0)));
        assert!(matches!(next(&mut queue, 0, 2), Taken::Empty), "not heard of yet");
        assert!(matches!(next(&mut queue, 0, 3), Taken::Next(_)));
        assert_eq!(queue.counts().dropped_epoch, 2);
    }

    #[test]
    fn what_leads_back_keeps_no_seat() {
        for lands in [false, true] {
            let policy = EdgePolicy { on_full: OnFull::DropOldest, queue: 8, max_age: None };
            let mut queue = Queue::new(policy, None).leading_back(lands);
            let credit = Credit::new(|| ());
            let mut packet = packet(0, 0);
            packet.credit = credit.take();
            assert!(queue.offer(&mut packet));
            assert_eq!(credit.is_free(), lands);
        }
    }

    #[test]
    fn a_closed_queue_refuses_nobody_and_counts_everything() {
        let mut queue =
            Queue::new(EdgePolicy { on_full: OnFull::Block, queue: 1, max_age: None }, None);
        assert!(queue.offer(&mut packet(0, 0)));
        assert!(!queue.offer(&mut packet(1, 0)));
        queue.close();
        assert!(queue.frees_sender() && !queue.frees_sender());
        assert!(queue.offer(&mut packet(1, 0)));
        assert_eq!(queue.counts().dropped_closed, 2);
    }

    #[test]
    fn a_stream_is_over_when_it_ended_and_nothing_waits() {
        let mut queue =
            Queue::new(EdgePolicy { on_full: OnFull::Block, queue: 1, max_age: None }, None);
        assert!(queue.offer(&mut packet(0, 0)));
        queue.end();
        assert!(matches!(next(&mut queue, 0, 0), Taken::Next(_)));
        assert!(matches!(next(&mut queue, 0, 0), Taken::Over));
    }
}
