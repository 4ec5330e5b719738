//! What happened in a run, written to files and run again.
//!
//! | module     | holds                                                                  |
//! |------------|------------------------------------------------------------------------|
//! | `recorder` | takes the packets of a run and counts them                             |
//! | `writer`   | writes them to an MCAP file, on a thread of its own                    |
//! | `replay`   | puts a recording in the place of the sources of a graph                |
//! | `compare`  | hashes the streams of a run, and compares them with a recording        |
//! | `trace`    | writes the calls of a run for `chrome://tracing` and Perfetto          |
//! | `waterfall`| where the time of each piece of work goes, from output to output       |
//! | `files`    | the files that a graph depends on, by their hashes                     |
//! | `new_file` | a file that stays as it was until it is written                        |
//!
//! A recording is an [MCAP](https://mcap.dev) file: a channel for each output, called
//! `node/output`, with values as ROS 2 writes them. The log time of a message is when it was sent,
//! its publish time that of the packet, which is when it was captured. Times are those of the
//! session, moved to when it began.
//!
//! **Invariant:** recording never holds the graph up; what is not written is counted.

mod compare;
mod files;
mod new_file;
mod recorder;
mod replay;
mod trace;
mod waterfall;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use compare::{Compare, Difference, StreamVerdict};
pub use new_file::NewFile;
pub use recorder::{RecordError, RecordOptions, RecordReport, Recorder, StreamRecord};
pub use replay::{RecordedStream, Recording, ReplayError};
pub use trace::{TraceFile, TraceReport};
pub use waterfall::{Stage, Turn, Waterfall};

/// What is in `mutex`, whatever became of those who had it before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `error` says, with what lies behind it.
fn reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
