//! Queue of one edge, with its policy and counters.

use std::{collections::VecDeque, mem, time::Duration};

use afferent_graph::{Credit, CreditGuard, OnFull, Packet, Timestamp};

use crate::{EdgeCounts, InterruptHandle, clock::generation::Watermark};
use afferent_spec::EdgePolicy;

/// Bounded queue with the policy of its edge.
///
/// Every accepted packet is delivered, dropped for one counted reason, or still queued: `sent ==
/// delivered + dropped + depth`.
///
/// Fields that a passing packet needs come first.
#[repr(C)]
pub(crate) struct Queue {
    packets: VecDeque<Packet>,
    /// The receiver takes no more packets.
    closed: bool,
    /// Any packet may pass if the queue is empty.
    is_plain: bool,
    on_full: OnFull,
    /// The sender has ended.
    ended: bool,
    /// The sender was refused and waits for space.
    sender_waits: bool,
    capacity: usize,
    /// Packets that were handed over without queueing; not part of `counts`.
    passed: u64,
    counts: EdgeCounts,
    /// Present if the sender is in another process, which is told of every packet that leaves the
    /// queue.
    acknowledged: Option<Box<Acknowledged>>,
    /// A feedback edge whose queued packets give back their credit.
    releases_credit: bool,
    /// Credits for packets in flight downstream of the edge; empty without a limit.
    credits: Box<[Credit]>,
    /// Present if the receiver can be interrupted.
    interrupt: Option<InterruptHandle>,
    max_age: Option<Duration>,
    /// Watermark of the sender.
    bound: Watermark,
}

/// State of a queue when its sender was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Acknowledged {
    /// Packets that had left it.
    left: u64,
    closed: bool,
}

/// Result of looking for the next packet.
#[derive(Debug)]
pub(crate) enum Taken<T> {
    /// The next packet, or a property of it.
    Next(T),
    /// No packet yet.
    Empty,
    /// No packet will come any more.
    Over,
}

impl Queue {
    /// Empty queue. `interrupt` cancels the work of the receiver.
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
            acknowledged: None,
            releases_credit: false,
            bound: Watermark::MIN,
            ended: false,
            closed: false,
            sender_waits: false,
            counts: EdgeCounts::default(),
            passed: 0,
        }
    }

    /// Sets the credits of an edge with an in-flight limit.
    pub(crate) fn with_credits(self, credits: Box<[Credit]>) -> Self {
        Self { is_plain: self.is_plain && credits.is_empty(), credits, ..self }
    }

    /// Sets whether this is a feedback edge. Packets that wait in one give back their credit,
    /// because the receiver may have to send others first.
    pub(crate) fn with_feedback(self, releases_credit: bool) -> Self {
        Self { releases_credit, ..self }
    }

    /// Sets whether the sender is in another process, which is told of every packet that leaves the
    /// queue.
    pub(crate) fn with_acknowledgments(self, acknowledges: bool) -> Self {
        Self { acknowledged: acknowledges.then(Box::default), ..self }
    }

    /// Takes a packet in according to the policy and leaves an empty packet, or the packet that was
    /// dropped. Returns false if the sender has to wait.
    ///
    /// A packet moves once in and once out, since further copies would cost more than the rest of
    /// this function.
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
        if self.releases_credit {
            packet.credit = None;
        }
        self.packets.push_back(mem::take(packet));
        self.counts.peak = self.counts.peak.max(self.packets.len());
        true
    }

    /// Counts a packet as sent and delivered; false if it has to be offered instead.
    #[inline]
    pub(crate) fn pass(&mut self) -> bool {
        let passes = self.is_plain && self.is_clear();
        self.passed += u64::from(passes);
        passes
    }

    /// Counts a packet that was handed over without queueing.
    #[inline]
    pub(crate) fn count_passed(&mut self) {
        self.passed += 1;
    }

    /// True if any packet may pass whenever the queue is clear.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// True if the queue is empty and the receiver takes packets.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.packets.is_empty() && !self.closed
    }

    /// True if the queue is empty and packets may still come.
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty() && !self.ended
    }

    /// Moves the next packet to `slot` and drops those that are too old or of an epoch earlier than
    /// `epoch`, the last one that the receiver has handled.
    pub(crate) fn take(&mut self, now: Timestamp, epoch: u32, slot: &mut Packet) -> Taken<()> {
        if !self.is_plain
            && let Taken::Empty = self.head(now, epoch)
        {
            return Taken::Empty;
        }
        let Some(packet) = self.packets.pop_front() else {
            return if self.ended { Taken::Over } else { Taken::Empty };
        };
        *slot = packet;
        self.counts.delivered += 1;
        if self.packets.is_empty() {
            // The next packet reuses the same memory, which is in the cache.
            self.packets.clear();
        }
        if let Some(credit) = self.take_credit() {
            slot.credit = Some(credit);
        }
        Taken::Next(())
    }

    /// Timestamp of the packet that [`Queue::take`] would return.
    pub(crate) fn head(&mut self, now: Timestamp, epoch: u32) -> Taken<Timestamp> {
        self.drop_stale(now, epoch);
        match self.packets.front() {
            // The receiver has to handle the interrupt first.
            Some(packet) if self.interrupt.is_some() && packet.header.epoch > epoch => Taken::Empty,
            Some(_) if !self.credits.is_empty() && !self.credits.iter().any(Credit::is_free) => {
                Taken::Empty
            }
            Some(packet) => Taken::Next(packet.header.at),
            None if self.ended => Taken::Over,
            None => Taken::Empty,
        }
    }

    /// Drops every packet of an epoch earlier than `epoch`.
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

    /// The sender has ended.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Advances the watermark of the sender.
    pub(crate) fn advance(&mut self, bound: Watermark) {
        self.bound = bound;
    }

    /// Watermark of the sender, if the queue is empty.
    pub(crate) fn outlook(&self) -> Option<Watermark> {
        self.packets.is_empty().then_some(self.bound)
    }

    /// The receiver takes no more packets: queued and later packets are dropped and counted.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.counts.dropped_closed += self.packets.len() as u64;
        self.packets.clear();
    }

    /// Counts a packet that its sender discarded at the end of the run.
    pub(crate) fn count_unsent(&mut self) {
        self.counts.sent += 1;
        self.counts.dropped_closed += 1;
    }

    /// Counts a packet that its sender discarded because of an interrupt.
    pub(crate) fn count_canceled(&mut self) {
        self.counts.sent += 1;
        self.counts.dropped_epoch += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// True once if the sender waits and there is space now, or if it is told of every packet and
    /// one has left.
    pub(crate) fn frees_sender(&mut self) -> bool {
        if let Some(acknowledged) = &mut self.acknowledged {
            let left = self.counts.sent - self.packets.len() as u64;
            let now = Acknowledged { left, closed: self.closed };
            return mem::replace(&mut **acknowledged, now) != now;
        }
        let frees = self.sender_waits && (self.closed || self.packets.len() < self.capacity);
        self.sender_waits &= !frees;
        frees
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
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

    /// Takes the next packet.
    fn next(queue: &mut Queue, now: i64, epoch: u32) -> Taken<Packet> {
        let mut slot = Packet::default();
        match queue.take(Timestamp(now), epoch, &mut slot) {
            Taken::Next(()) => Taken::Next(slot),
            Taken::Empty => Taken::Empty,
            Taken::Over => Taken::Over,
        }
    }

    /// Offers packets with timestamps 0 to 4; returns refusals, remaining timestamps and drops.
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
        for releases_credit in [false, true] {
            let policy = EdgePolicy { on_full: OnFull::DropOldest, queue: 8, max_age: None };
            let mut queue = Queue::new(policy, None).with_feedback(releases_credit);
            let credit = Credit::new(|| ());
            let mut packet = packet(0, 0);
            packet.credit = credit.take();
            assert!(queue.offer(&mut packet));
            assert_eq!(credit.is_free(), releases_credit);
        }
    }

    #[test]
    fn a_closed_queue_accepts_and_counts_everything() {
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
