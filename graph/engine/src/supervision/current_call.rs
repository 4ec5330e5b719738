//! The call that a thread is in, for reports on calls that do not return.

use std::sync::atomic::{AtomicU64, Ordering};

/// Node that a thread calls, and the start of the call.
///
/// One word, because it is written at every call: the low bits are the index of the node, the rest
/// is the start in units of 1,024 ns.
#[derive(Debug, Default)]
pub(crate) struct CurrentCall(AtomicU64);

const INDEX_BITS: u32 = 20;
const UNIT_NS_BITS: u32 = 10;

impl CurrentCall {
    /// The thread calls the node with this index in the graph, at `real_ns` of the session.
    #[inline]
    pub(crate) fn start(&self, node_index: usize, real_ns: u64) {
        let start = (real_ns >> UNIT_NS_BITS) << INDEX_BITS;
        let index = node_index as u64 & ((1 << INDEX_BITS) - 1);
        self.0.store(start | index, Ordering::Relaxed);
    }

    /// Index of the node in the graph, and the start in nanoseconds since the start of the session.
    pub(crate) fn read(&self) -> (usize, u64) {
        let word = self.0.load(Ordering::Relaxed);
        let index = word & ((1 << INDEX_BITS) - 1);
        (index as usize, (word >> INDEX_BITS) << UNIT_NS_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_kept_to_the_microsecond_for_half_a_year() {
        let call = CurrentCall::default();
        for (node, start_ns) in [(0, 0), (1_048_575, 1_023), (7, 15_552_000_000_000_000)] {
            call.start(node, start_ns);
            let (index, read_ns) = call.read();
            assert_eq!(index, node);
            assert!(start_ns - read_ns < 1_024, "{start_ns} {read_ns}");
        }
    }
}
