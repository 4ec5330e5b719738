//! Source generations and watermarks.
//!
//! A source starts a new *generation* when its clock restarts. The generation is part of every
//! trace id, so that a synchronizer never joins packets of different generations of one source.
//!
//! Trace id layout, from the most significant bit: source node index + 1 (16 bits), generation
//! modulo 256 (8 bits), packet number (40 bits).

use std::cmp::Ordering;

use afferent_graph::{Header, Timestamp};

const SOURCE_SHIFT: u32 = 48;
const GENERATION_SHIFT: u32 = 40;
const PACKET_NUMBER_MASK: u64 = (1 << GENERATION_SHIFT) - 1;

/// Builds the trace id of packet `number` of source `node_index` in `generation`.
pub(crate) fn trace_id(node_index: usize, generation: u32, number: u64) -> u64 {
    let generation = u64::from(generation) & 0xFF;
    (node_index as u64 + 1) << SOURCE_SHIFT | generation << GENERATION_SHIFT | packet_number(number)
}

/// Packet number of a trace id. It keeps counting across generations.
#[inline]
pub(crate) fn packet_number(trace: u64) -> u64 {
    trace & PACKET_NUMBER_MASK
}

/// Node index of the source that emitted this trace; `None` for an untraced packet.
pub(crate) fn source_index(trace: u64) -> Option<usize> {
    usize::try_from(trace >> SOURCE_SHIFT).ok()?.checked_sub(1)
}

/// Compares the generations of two traces; `None` if they come from different sources.
///
/// Generations wrap at 256. Two that meet are assumed to be less than 128 apart.
pub(crate) fn compare_generations(a: u64, b: u64) -> Option<Ordering> {
    let source = source_index(a)?;
    let generation = |trace: u64| (trace >> GENERATION_SHIFT) as u8;
    let distance = generation(a).wrapping_sub(generation(b)).cast_signed();
    (source_index(b) == Some(source)).then(|| distance.cmp(&0))
}

/// Watermark of a stream: no packet with an earlier timestamp will follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watermark {
    at: Timestamp,
    /// Trace of the packet that advanced the watermark.
    trace: u64,
    epoch: u32,
    /// Number of times the sender has been restarted.
    pub(crate) restarts: u32,
}

impl Watermark {
    /// Initial watermark: any timestamp may follow.
    pub(crate) const MIN: Self = Self { at: Timestamp(i64::MIN), trace: 0, epoch: 0, restarts: 0 };

    /// Watermark right after a packet of an in-step stream: its timestamp plus 1 ns.
    pub(crate) fn after_packet(header: &Header) -> Self {
        let Header { at, trace, epoch, .. } = *header;
        Self { at: Timestamp(at.0.saturating_add(1)), trace, epoch, restarts: 0 }
    }

    /// The watermark as a header.
    pub(crate) fn header(&self) -> Header {
        let Self { at, trace, epoch, restarts } = *self;
        Header { at, trace, epoch, restarts, ..Header::default() }
    }

    /// The watermark that [`Watermark::header`] gave.
    pub(crate) fn of_header(header: &Header) -> Self {
        let Header { at, trace, epoch, restarts, .. } = *header;
        Self { at, trace, epoch, restarts }
    }

    /// The same watermark for a sender that has been restarted `restarts` times.
    pub(crate) fn with_restarts(self, restarts: u32) -> Self {
        Self { restarts, ..self }
    }

    /// Returns true if this watermark is newer than `other` from the same sender.
    pub(crate) fn supersedes(&self, other: &Self) -> bool {
        let rank = |mark: &Self| (mark.restarts, mark.epoch, mark.at);
        match compare_generations(self.trace, other.trace) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Less) => false,
            _ => rank(self) > rank(other),
        }
    }

    /// Returns the watermark as it applies to the generation and epoch of a packet.
    ///
    /// A later generation implies that the packet's own generation is complete
    /// (`i64::MAX`). An earlier generation or epoch implies nothing (`i64::MIN`): timestamps may go
    /// back after an interrupt.
    pub(crate) fn at_packet(&self, header: &Header) -> Timestamp {
        let is_older_epoch = self.epoch != 0 && self.epoch < header.epoch;
        match compare_generations(self.trace, header.trace) {
            Some(Ordering::Greater) => Timestamp(i64::MAX),
            Some(Ordering::Less) => Self::MIN.at,
            _ if is_older_epoch => Self::MIN.at,
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
    fn generations_of_one_source_are_ordered() {
        let check = |one, other, expected| assert_eq!(compare_generations(one, other), expected);
        check(trace_id(3, 0, 7), trace_id(3, 0, 9), Some(Ordering::Equal));
        check(trace_id(3, 1, 7), trace_id(3, 0, 9), Some(Ordering::Greater));
        check(trace_id(3, 255, 0), trace_id(3, 256, 0), Some(Ordering::Less));
        check(trace_id(3, 1, 0), trace_id(4, 0, 0), None);
        check(0, 0, None);
        assert_eq!((source_index(trace_id(3, 300, u64::MAX)), source_index(0)), (Some(3), None));
    }

    #[test]
    fn a_watermark_holds_in_its_generation() {
        let mark = Watermark::after_packet(&header(trace_id(0, 1, 5), 20, 2)).with_restarts(1);
        let check = |generation, epoch, expected| {
            let header = header(trace_id(0, generation, 9), 0, epoch);
            assert_eq!(mark.at_packet(&header), Timestamp(expected));
        };
        check(0, 2, i64::MAX);
        check(1, 2, 21);
        check(2, 2, i64::MIN);
        check(1, 3, i64::MIN);
        let earlier = |generation, epoch, restarts| {
            Watermark::after_packet(&header(trace_id(0, generation, 5), 0, epoch))
                .with_restarts(restarts)
                .supersedes(&mark)
        };
        assert!(earlier(2, 2, 1) && earlier(1, 3, 1) && earlier(1, 2, 2));
        assert!(!earlier(1, 2, 1) && !earlier(0, 3, 2) && mark.supersedes(&Watermark::MIN));
    }
}
