//! Which life of its source a packet comes from, and how far a stream has come in it.
//!
//! A source whose clock starts anew begins another life. What descends from its packets is told
//! apart by their traces, so that streams of one source are joined life by life, however long the
//! ways of their packets are.

use std::cmp::Ordering;

use afferent_graph::{Header, Timestamp};

/// Lowest bits of a trace: which source it is, from one on; its life; and the number of the packet.
const SOURCE: u32 = 48;
const LIFE: u32 = 40;

/// The trace of the packet `number` of the source at `place`, in its life `life`.
pub(crate) fn trace(node_index: usize, life: u32, number: u64) -> u64 {
    let life = u64::from(life) & 0xFF;
    (node_index as u64 + 1) << SOURCE | life << LIFE | number_of(number)
}

/// The number of the packet, in all lives of its source.
#[inline]
pub(crate) fn number_of(trace: u64) -> u64 {
    trace & ((1 << LIFE) - 1)
}

/// The place of the source that a trace begins at.
pub(crate) fn source_of(trace: u64) -> Option<usize> {
    usize::try_from(trace >> SOURCE).ok()?.checked_sub(1)
}

/// Which of two packets is of the later life of their source; `None` when they have not the same.
pub(crate) fn compare(one: u64, other: u64) -> Option<Ordering> {
    let source = source_of(one)?;
    let life = |trace: u64| (trace >> LIFE) as u8;
    // Lives are counted in a circle, and those that meet are near each other.
    let ahead = life(one).wrapping_sub(life(other)).cast_signed();
    (source_of(other) == Some(source)).then(|| ahead.cmp(&0))
}

/// What the sender of a stream has told: that nothing earlier comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    at: Timestamp,
    /// That of the packet after which it told so.
    trace: u64,
    epoch: u32,
    /// How often the stream had begun anew.
    pub(crate) restarts: u32,
}

impl Bound {
    /// Anything may come.
    pub(crate) const NONE: Self = Self { at: Timestamp(i64::MIN), trace: 0, epoch: 0, restarts: 0 };

    /// That of a stream in step behind the packet with this header.
    pub(crate) fn behind(header: &Header) -> Self {
        let Header { at, trace, epoch, .. } = *header;
        Self { at: Timestamp(at.0.saturating_add(1)), trace, epoch, restarts: 0 }
    }

    /// The same of a stream that has begun anew so often.
    pub(crate) fn after(self, restarts: u32) -> Self {
        Self { restarts, ..self }
    }

    /// Whether it says more than `other`, which the same sender has told before.
    pub(crate) fn follows(&self, other: &Self) -> bool {
        let rank = |bound: &Self| (bound.restarts, bound.epoch, bound.at);
        match compare(self.trace, other.trace) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Less) => false,
            _ => rank(self) > rank(other),
        }
    }

    /// Nothing earlier than this comes in the life that the packet with this header is of.
    pub(crate) fn for_packet(&self, header: &Header) -> Timestamp {
        // Behind an interrupt, streams may begin anew in time.
        let is_obsolete = self.epoch != 0 && self.epoch < header.epoch;
        match compare(self.trace, header.trace) {
            Some(Ordering::Greater) => Timestamp(i64::MAX),
            Some(Ordering::Less) => Self::NONE.at,
            _ if is_obsolete => Self::NONE.at,
            _ => self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(trace: u64, at: i64, epoch: u32) -> Header {
        Header { at: Timestamp(at), trace, epoch, ..Header::default() }
    }

    #[test]
    fn lives_of_one_source_follow_each_other() {
        let check = |one, other, expected| assert_eq!(compare(one, other), expected);
        check(trace(3, 0, 7), trace(3, 0, 9), Some(Ordering::Equal));
        check(trace(3, 1, 7), trace(3, 0, 9), Some(Ordering::Greater));
        check(trace(3, 255, 0), trace(3, 256, 0), Some(Ordering::Less));
        check(trace(3, 1, 0), trace(4, 0, 0), None);
        check(0, 0, None);
        assert_eq!((source_of(trace(3, 300, u64::MAX)), source_of(0)), (Some(3), None));
    }

    #[test]
    fn a_bound_holds_in_its_own_life() {
        let bound = Bound::behind(&header(trace(0, 1, 5), 20, 2)).after(1);
        let check = |life, epoch, expected| {
            let header = header(trace(0, life, 9), 0, epoch);
            assert_eq!(bound.for_packet(&header), Timestamp(expected));
        };
        check(0, 2, i64::MAX);
        check(1, 2, 21);
        check(2, 2, i64::MIN);
        check(1, 3, i64::MIN);
        let earlier = |life, epoch, restarts| {
            Bound::behind(&header(trace(0, life, 5), 0, epoch)).after(restarts).follows(&bound)
        };
        assert!(earlier(2, 2, 1) && earlier(1, 3, 1) && earlier(1, 2, 2));
        assert!(!earlier(1, 2, 1) && !earlier(0, 3, 2) && bound.follows(&Bound::NONE));
    }
}
