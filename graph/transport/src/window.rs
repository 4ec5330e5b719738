//! Counters of the two ends of an edge between processes.
//!
//! The sender has at most a window of packets on the way that the receiver has not taken. The
//! receiver acknowledges with running totals, so a lost acknowledgment is made good by the next
//! one.
//!
//! A link that loses packets tells the receiver which ones: they are skipped, and both ends count
//! them as lost.
//!
//! **Invariant:** `posted == received + lost + in_transit` at the sender, where `received` is what
//! the receiver has reported.

use crate::frame::Ack;

/// Sending end.
#[derive(Debug, Clone, Default)]
pub struct SendWindow {
    size: u64,
    /// Packets that were sent.
    posted: u64,
    /// Packets of earlier incarnations of the receiver, which are not in its counters.
    before: u64,
    /// Last counters of the receiver.
    ack: Ack,
    /// Packets that cannot arrive any more.
    lost: u64,
    /// Packets that earlier incarnations of the receiver took, and those of them that they dropped.
    taken_before: (u64, u64),
}

impl SendWindow {
    /// Window of `size` packets, at least one.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(1) as u64, ..Self::default() }
    }

    /// True if another packet may be sent.
    pub fn is_open(&self) -> bool {
        self.posted() - self.ack.taken - self.skipped() < self.size
    }

    /// Packets to this incarnation of the receiver that the link has lost.
    fn skipped(&self) -> u64 {
        self.ack.last_post - self.ack.received
    }

    /// Counts a packet as sent; returns its number.
    pub fn post(&mut self) -> u64 {
        self.posted += 1;
        self.posted()
    }

    /// Packets that were sent to this incarnation of the receiver.
    pub fn posted(&self) -> u64 {
        self.posted - self.before
    }

    /// Packets that earlier incarnations of the receiver took, and those of them that they dropped.
    pub fn taken_before(&self) -> (u64, u64) {
        self.taken_before
    }

    /// Takes over the counters of the receiver.
    ///
    /// # Errors
    /// The contradiction in them.
    pub fn acknowledge(&mut self, ack: &Ack) -> Result<(), &'static str> {
        let posted = self.posted();
        if ack.taken > ack.received || ack.dropped > ack.taken {
            return Err("it took more packets than it received");
        }
        if ack.received > ack.last_post || ack.last_post > posted {
            return Err("it received more packets than were sent");
        }
        // Acknowledgments may overtake each other.
        if ack.taken >= self.ack.taken && ack.last_post >= self.ack.last_post {
            self.ack = *ack;
        }
        Ok(())
    }

    /// The receiver is gone: packets that it has not received are lost. The counters of a later
    /// incarnation start at zero.
    pub fn lose(&mut self) -> u64 {
        let lost = self.in_transit();
        self.lost += lost + self.skipped();
        self.taken_before.0 += self.ack.taken;
        self.taken_before.1 += self.ack.dropped;
        (self.before, self.ack) = (self.posted, Ack::default());
        lost
    }

    /// Packets that were sent and that the receiver has not reported.
    pub fn in_transit(&self) -> u64 {
        self.posted() - self.ack.last_post
    }

    /// Packets that cannot arrive any more.
    pub fn lost(&self) -> u64 {
        self.lost + self.skipped()
    }
}

/// Receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveWindow {
    received: u64,
    /// Packets of earlier incarnations of the sender.
    received_before: u64,
    last_post: u64,
    duplicates: u64,
    /// Packets that left the queue before this incarnation of the sender.
    taken_before: u64,
    dropped_before: u64,
    /// Packets that were taken or skipped at the last acknowledgment.
    acknowledged: u64,
    told_closed: bool,
}

impl ReceiveWindow {
    /// Counts the packet with number `post`; false if it has arrived before.
    pub fn receive(&mut self, post: u64) -> bool {
        if post <= self.last_post {
            self.duplicates += 1;
            return false;
        }
        self.last_post = post;
        self.received += 1;
        true
    }

    /// Packets up to the one with number `post` that have not arrived will not arrive.
    pub fn skip(&mut self, post: u64) {
        self.last_post = self.last_post.max(post);
    }

    /// Acknowledgment to send, if one is due: `left` packets have left the queue of the receiver so
    /// far, `dropped` of them were dropped, and `waiting` are in it. `every` is the number of
    /// packets for which a busy receiver acknowledges.
    pub fn acknowledge(&mut self, left: Left, every: u64) -> Option<Ack> {
        let Left { left, dropped, waiting, closed } = left;
        let taken = left.saturating_sub(self.taken_before);
        let done = taken + (self.last_post - self.received);
        let news = done - self.acknowledged.min(done);
        let is_due = news >= every.max(1) || (news > 0 && waiting == 0);
        if !is_due && closed == self.told_closed {
            return None;
        }
        (self.acknowledged, self.told_closed) = (done, closed);
        Some(Ack {
            received: self.received,
            taken: taken.min(self.received),
            dropped: dropped.saturating_sub(self.dropped_before).min(taken),
            duplicates: self.duplicates,
            last_post: self.last_post,
            closed,
            ..Ack::default()
        })
    }

    /// The sender is gone; the counters of a later incarnation start at zero. `left` is as in
    /// [`ReceiveWindow::acknowledge`]; packets that still wait count for no incarnation.
    pub fn restart(&mut self, left: Left) {
        *self = Self {
            taken_before: left.left + left.waiting,
            dropped_before: left.dropped,
            received_before: self.received_before + self.received,
            ..Self::default()
        };
    }

    /// The next acknowledgment says once more that the receiver is closed.
    pub fn repeat_closed(&mut self) {
        self.told_closed = false;
    }

    /// Packets of earlier incarnations of the sender, whose own counters are gone.
    pub fn received_before(&self) -> u64 {
        self.received_before
    }
}

/// State of the queue of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Packets that have left it.
    pub left: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Packets in it.
    pub waiting: u64,
    /// True if the receiver takes no more packets.
    pub closed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_closes_and_opens_with_what_was_taken() {
        let mut window = SendWindow::new(2);
        assert_eq!([window.post(), window.post()], [1, 2]);
        assert!(!window.is_open());
        let ack = Ack { received: 2, taken: 1, last_post: 2, ..Ack::default() };
        window.acknowledge(&ack).unwrap();
        assert!(window.is_open() && window.in_transit() == 0);
        let too_many = Ack { received: 3, last_post: 3, ..Ack::default() };
        assert!(window.acknowledge(&too_many).is_err());
        let older = Ack { received: 1, last_post: 1, ..Ack::default() };
        window.acknowledge(&older).unwrap();
        assert_eq!(window.in_transit(), 0, "an older acknowledgment changes nothing");
        assert_eq!((window.post(), window.lose(), window.lost()), (3, 1, 1));
        assert!(window.is_open() && window.post() == 1, "the counters start at zero");
    }

    #[test]
    fn packets_that_the_link_lost_leave_the_window() {
        let mut window = SendWindow::new(2);
        let mut receiver = ReceiveWindow::default();
        assert!(receiver.receive(window.post()));
        receiver.skip(window.post());
        assert!(!receiver.receive(2), "it comes too late");
        let left = Left { left: 1, ..Left::default() };
        let ack = receiver.acknowledge(left, 1).unwrap();
        window.acknowledge(&ack).unwrap();
        assert_eq!((window.in_transit(), window.lost()), (0, 1));
        assert!(window.is_open() && receiver.acknowledge(left, 1).is_none());
        window.post();
        assert_eq!((window.lose(), window.lost()), (1, 2));
    }

    #[test]
    fn a_receiver_acknowledges_when_it_has_caught_up_or_taken_many() {
        let mut window = ReceiveWindow::default();
        let left = |left, waiting| Left { left, waiting, ..Left::default() };
        assert!((1..=4).all(|post| window.receive(post)) && !window.receive(4));
        assert_eq!(window.acknowledge(left(1, 3), 2), None);
        let ack = window.acknowledge(left(2, 2), 2).unwrap();
        assert_eq!((ack.received, ack.taken, ack.duplicates, ack.last_post), (4, 2, 1, 4));
        assert_eq!(window.acknowledge(left(3, 1), 2), None);
        assert_eq!(window.acknowledge(left(4, 0), 9).map(|ack| ack.taken), Some(4));
        assert_eq!(window.acknowledge(left(4, 0), 1), None, "nothing new");
        let closed = Left { closed: true, ..left(4, 0) };
        assert!(window.acknowledge(closed, 1).is_some_and(|ack| ack.closed));
        window.restart(left(4, 0));
        assert_eq!(window.received_before(), 4);
        assert!(window.receive(1));
        assert_eq!(window.acknowledge(left(5, 0), 1).map(|ack| ack.taken), Some(1));
    }
}
