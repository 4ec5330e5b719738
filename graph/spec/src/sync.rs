//! How a stream accompanies another one into a node.

use std::time::Duration;

/// How a stream accompanies the one that leads: the node is called once for each packet of the
/// leading stream, with what belongs to its time.
///
/// A packet of the leading stream waits until it is sure what belongs to it: a later packet has
/// come, the stream has ended, or its sender has told that nothing comes. It goes on without when
/// `timeout` has passed or as many as its queue holds wait, so that a join never blocks the graph.
/// Without a companion, it goes on if the input is optional, and is otherwise dropped and counted.
///
/// Of every other stream as many packets are kept as its queue holds, on the virtual clock any
/// number. A stream that keeps the newest packet alone ([`OnFull::Latest`]) does so before the join;
/// within, [`EdgePolicy::QUEUE`] of its packets wait. At least two are kept to interpolate.
///
/// [`OnFull::Latest`]: afferent_graph::OnFull::Latest
/// [`EdgePolicy::QUEUE`]: crate::EdgePolicy::QUEUE
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// The packet with the same time.
    Exact,
    /// The packet that is nearest in time.
    Approx {
        /// Largest distance.
        slop: Duration,
    },
    /// The last packet that is not later. On the real clock it is what has come by now; nothing is
    /// waited for.
    Latest {
        /// Greatest age, compared with the leading packet.
        max_age: Option<Duration>,
    },
    /// A value made of the packets before and after.
    Interpolate,
    /// All packets near in time, at least one.
    Window {
        /// How much earlier they may be.
        before: Duration,
        /// How much later they may be.
        after: Duration,
    },
    /// The next packet, whatever its time.
    Barrier,
}

/// What becomes of a packet whose time is wrong.
///
/// It is earlier than the one before it in its stream; or on the real clock more than 10 s ahead of
/// the one before it, of what it was made of and of the clock. A source says by its first packet
/// how far its own clock is ahead. The fourth such packet in a row, each no earlier than the one
/// before it, is believed: the clock of its sender was set. On the virtual clock, times are what
/// packets say. So a source that reads faster than time goes, of packets that are more than 10 s
/// apart, belongs on the virtual clock, or calls [`Cx::resume_at`](afferent_graph::Cx::resume_at)
/// with their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeFault {
    /// It is dropped.
    #[default]
    Drop,
    /// It gets the time of the packet before it.
    Clamp,
    /// The stream begins anew at its time; receivers are told as of a restart, and begin anew with
    /// what they make of it. Streams of one source are joined with those of its same life.
    Restart,
}
