//! Messages in their order and without loss, over a connection that may break.
//!
//! Each stream numbers its messages. The receiver takes them in the order of their numbers and
//! acknowledges the next one that it expects; the sender keeps what is not acknowledged and sends
//! it again after an interruption. A message that arrives again is ignored, and so is one that
//! arrives too early.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Sending end of a stream.
#[derive(Debug)]
pub(super) struct Outbox<M> {
    /// Number of the next message.
    next: u64,
    /// Messages that are not acknowledged; the last one has the number `next - 1`.
    kept: VecDeque<M>,
    /// Time of the last progress: a first message, an acknowledgment or a repetition.
    progress: Option<Instant>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { next: 0, kept: VecDeque::new(), progress: None }
    }
}

impl<M> Outbox<M> {
    /// Keeps a message and returns its number.
    pub(super) fn push(&mut self, message: M, now: Instant) -> u64 {
        if self.kept.is_empty() {
            self.progress = Some(now);
        }
        self.kept.push_back(message);
        self.next += 1;
        self.next - 1
    }

    /// Every message before `expected` has arrived. Returns false if that is not news, which a
    /// receiver tells when messages arrive again or too early.
    ///
    /// # Errors
    /// If that many were never sent.
    pub(super) fn acknowledge(
        &mut self,
        expected: u64,
        now: Instant,
    ) -> Result<bool, &'static str> {
        if expected > self.next {
            return Err("it acknowledges messages that were never sent");
        }
        let first = self.next - self.kept.len() as u64;
        // Acknowledgments may overtake each other.
        let arrived = usize::try_from(expected.saturating_sub(first)).unwrap_or(usize::MAX);
        if arrived > 0 {
            self.kept.drain(..arrived.min(self.kept.len()));
            self.progress = Some(now);
        }
        Ok(arrived > 0)
    }

    /// Messages that are not acknowledged, with their numbers.
    pub(super) fn kept(&mut self) -> impl Iterator<Item = (u64, &mut M)> {
        let first = self.next - self.kept.len() as u64;
        self.kept.iter_mut().zip(first..).map(|(message, number)| (number, message))
    }

    /// True if nothing was acknowledged for `patience`, so that all is to be sent again.
    pub(super) fn is_late(&mut self, now: Instant, patience: Duration) -> bool {
        let since = self.progress.filter(|_| !self.kept.is_empty());
        let is_late = since.is_some_and(|since| now.saturating_duration_since(since) >= patience);
        if is_late {
            self.progress = Some(now);
        }
        is_late
    }

    /// True if every message has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Arrival of a message, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is the next one.
    Next,
    /// It has arrived before.
    Again,
    /// Others before it are missing; it will be sent again.
    Early,
}

/// Receiving end of a stream.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    expected: u64,
    acknowledged: u64,
}

impl InOrder {
    /// Takes the message with this number.
    pub(super) fn receive(&mut self, number: u64) -> Arrival {
        match number.cmp(&self.expected) {
            std::cmp::Ordering::Less => Arrival::Again,
            std::cmp::Ordering::Greater => Arrival::Early,
            std::cmp::Ordering::Equal => {
                self.expected += 1;
                Arrival::Next
            }
        }
    }

    /// Number of the next message, if the sender was not told of it; `always` tells it once more.
    pub(super) fn due_acknowledgment(&mut self, always: bool) -> Option<u64> {
        let is_due = always || self.expected != self.acknowledged;
        self.acknowledged = self.expected;
        is_due.then_some(self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_until_they_are_acknowledged() {
        let now = Instant::now();
        let mut outbox = Outbox::default();
        assert_eq!(["a", "b", "c"].map(|message| outbox.push(message, now)), [0, 1, 2]);
        assert_eq!(outbox.acknowledge(1, now), Ok(true));
        let kept: Vec<_> = outbox.kept().map(|(number, message)| (number, *message)).collect();
        assert_eq!(kept, [(1, "b"), (2, "c")]);
        assert_eq!([0, 1].map(|next| outbox.acknowledge(next, now)), [Ok(false); 2]);
        assert_eq!(outbox.kept().count(), 2, "an older acknowledgment changes nothing");
        assert!(outbox.acknowledge(4, now).is_err());
        let second = Duration::from_secs(1);
        assert!(!outbox.is_late(now, second) && outbox.is_late(now + second, second));
        assert!(!outbox.is_late(now + second, second), "once for each wait");
        outbox.acknowledge(3, now).unwrap();
        assert!(outbox.is_empty() && !outbox.is_late(now + 9 * second, second));
    }

    #[test]
    fn messages_are_taken_in_their_order_and_once() {
        let mut stream = InOrder::default();
        assert_eq!(stream.due_acknowledgment(false), None);
        let arrivals = [0, 2, 1, 1, 2].map(|number| stream.receive(number));
        use Arrival::{Again, Early, Next};
        assert_eq!(arrivals, [Next, Early, Next, Again, Next]);
        assert_eq!(
            (stream.due_acknowledgment(false), stream.due_acknowledgment(false)),
            (Some(3), None)
        );
        assert_eq!(stream.due_acknowledgment(true), Some(3));
    }
}
