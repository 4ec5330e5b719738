//! Files, logs and test pictures: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its three lines here.

mod event_log;
mod image_writer;
mod output;
mod test_pattern;
#[cfg(test)]
mod testing;
mod wav_file;
mod wav_header;
mod wav_sink;
mod wav_source;

pub use event_log::{EventLog, EventLogParams, LogFormat};
pub use image_writer::{ImageWriter, ImageWriterParams};
pub use test_pattern::{TestPattern, TestPatternParams};
pub use wav_sink::{SampleFormat, WavSink, WavSinkParams};
pub use wav_source::{Channels, Pace, WavSource, WavSourceParams};

/// The nodes of this crate.
pub const NODES: &[afferent_graph::NodeEntry] = &[
    afferent_graph::NodeDef::of::<EventLog>,
    afferent_graph::NodeDef::of::<ImageWriter>,
    afferent_graph::NodeDef::of::<TestPattern>,
    afferent_graph::NodeDef::of::<WavSink>,
    afferent_graph::NodeDef::of::<WavSource>,
];
