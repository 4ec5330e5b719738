//! Recording, replay, comparison, and tracing of runs.
//!
//! | module     | holds                                                                  |
//! |------------|------------------------------------------------------------------------|
//! | `recorder` | queues the packets of a run and counts them                            |
//! | `queue`    | items that the recorder passes to the writer; options of a recording   |
//! | `writer`   | writes them to an MCAP file, on its own thread                         |
//! | `replay`   | replaces the sources of a graph with a recording                       |
//! | `calls`    | calls of a run on the real clock, as a channel of its recording        |
//! | `repeat`   | repeats the recorded calls node by node                                |
//! | `compare`  | hashes the streams of a run and compares them with a recording         |
//! | `merge`    | one recording of the recordings of several processes                   |
//! | `trace`    | writes the calls of a run for `chrome://tracing` and Perfetto          |
//! | `waterfall`| latency breakdown of each turn, from output to output                  |
//! | `files`    | hashes of the files that a graph depends on                            |
//! | `new_file` | output files that are truncated only when writing starts               |
//!
//! A recording is an [MCAP](https://mcap.dev) file. It has a channel `node/output` for each output,
//! with values in the encoding of ROS 2. The log time of a message is its send time. The publish time
//! is the timestamp of the packet, which is the capture time. Both are session times plus the start
//! time of the session. A recording of a run on the real clock also has the channel
//! `afferent/calls`.
//!
//! **Invariant:** recording never blocks the graph. Packets that are not written are counted.

mod calls;
mod compare;
mod files;
mod merge;
mod new_file;
mod queue;
mod recorder;
mod repeat;
mod replay;
mod trace;
mod waterfall;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use compare::{Compare, Difference, Skipped, StreamVerdict};
pub use merge::{MergeError, MergeReport, merge};
pub use new_file::NewFile;
pub use queue::RecordOptions;
pub use recorder::{RecordError, RecordReport, Recorder, StreamRecord};
pub use replay::{RecordedStream, Recording, ReplayError};
pub use trace::{TraceFile, TraceReport};
pub use waterfall::{Stage, Turn, Waterfall};

/// Locks `mutex`, ignoring poisoning.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Message of `error`, followed by the messages of its sources.
fn reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
