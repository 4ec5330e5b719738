//! Files and logs: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its three lines here.

mod event_log;
mod output;
#[cfg(test)]
mod testing;
mod wav_file;
mod wav_sink;
mod wav_source;

pub use event_log::{EventLog, EventLogParams, LogFormat};
pub use wav_sink::{SampleFormat, WavSink, WavSinkParams};
pub use wav_source::{Channels, Pace, WavSource, WavSourceParams};

/// The nodes of this crate.
pub const NODES: &[afferent_graph::NodeDef] = &[
    afferent_graph::NodeDef::of::<EventLog>(),
    afferent_graph::NodeDef::of::<WavSink>(),
    afferent_graph::NodeDef::of::<WavSource>(),
];
