//! Policies of synchronizers and of timestamp validation.

use std::time::Duration;

/// Sync policy of a secondary input: the node is called once for each packet of the primary input,
/// with the matching packets of the secondary ones.
///
/// A primary packet waits until its match is certain: a later packet has come, the stream has
/// ended, or its watermark has passed. It goes on without a match after `timeout`, or if as many
/// primary packets wait as their queue holds, so a synchronizer never blocks the graph. Without a
/// match it goes on if the input is optional; otherwise it is dropped and counted.
///
/// A secondary input keeps as many packets as its queue holds, on the virtual clock any number. A
/// stream with [`OnFull::Latest`] applies that policy ahead of the synchronizer, which keeps
/// [`EdgePolicy::QUEUE`] of its packets. Interpolation keeps at least two.
///
/// [`OnFull::Latest`]: afferent_graph::OnFull::Latest
/// [`EdgePolicy::QUEUE`]: crate::EdgePolicy::QUEUE
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// The packet with the same timestamp.
    Exact,
    /// The packet nearest in time.
    Approx {
        /// Largest distance in time.
        slop: Duration,
    },
    /// The last packet that is not later. On the real clock the one that has arrived; there is no
    /// wait.
    Latest {
        /// Largest age, relative to the primary packet.
        max_age: Option<Duration>,
    },
    /// A value interpolated between the packets before and after.
    Interpolate,
    /// All packets near in time, at least one.
    Window {
        /// Largest time before the primary packet.
        before: Duration,
        /// Largest time after the primary packet.
        after: Duration,
    },
    /// The next packet, whatever its timestamp.
    Barrier,
}

/// Policy for packets with wrong timestamps.
///
/// A timestamp is wrong if it is earlier than the one before it in its stream, or, on the real
/// clock, more than 10 s ahead of it, of the packet that it derives from, and of the clock. The
/// first packet of a source defines the offset of its clock. The fourth such packet in a row, each
/// not earlier than the one before it, is accepted: the clock of the sender was set. On the virtual
/// clock, timestamps are never ahead. A source that reads a log with gaps of more than 10 s faster
/// than real time belongs on the virtual clock, or calls
/// [`Cx::resume_at`](afferent_graph::Cx::resume_at) with the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeFault {
    /// Drop the packet.
    #[default]
    Drop,
    /// Set the timestamp of the packet before it.
    Clamp,
    /// Restart the stream at this timestamp. Receivers learn of it as of a restart, and their
    /// streams restart, too. Streams of one source are joined within a source generation.
    Restart,
}
