//! File, log, and test pattern nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`AppSource`] | sends packets of the program that runs the graph |
//! | [`WavSource`] | reads a sound file or a pipe, in real time or as fast as possible |
//! | [`WavSink`] | writes a WAV file, or simulates a loudspeaker with one |
//! | [`EventLog`] | writes one line per packet, as text or JSON |
//! | [`ImageWriter`] | writes images to PNG files |
//! | [`ImuSource`] | reads inertial measurements from a CSV file or a recording |
//! | [`PoseSource`] | reads the trajectory of a camera or a body from a file |
//! | [`VideoSource`] | reads a video file, a folder of images, or a pipe |
//! | [`VideoWriter`] | writes images to a video file |
//! | [`TestPattern`] | generates images of a moving pattern |
//!
//! Begin with `wav_source.rs`, a source that follows the session clock, and `image_writer.rs`, a
//! short sink. `output.rs` creates files and makes their errors; `sound_file.rs` reads
//! samples, `video_file.rs` images, `timed_lines.rs` lines of numbers and `mcap_messages.rs`
//! messages of recordings, which `paced.rs` sends at their times; `luma_chroma.rs` converts colors.
//!
//! To add a node, write `src/<node>.rs` and add its three lines here.

mod app_source;
mod event_log;
mod image_writer;
mod imu_source;
mod luma_chroma;
mod mcap_messages;
mod output;
mod paced;
mod pose_source;
mod sound_file;
mod test_pattern;
#[cfg(test)]
mod testing;
mod timed_lines;
mod video_file;
mod video_source;
mod video_writer;
mod wav_sink;
mod wav_source;

pub use app_source::{AppInputError, AppInputs, AppSource};
pub use event_log::{EventLog, EventLogParams, LogFormat};
pub use image_writer::{ImageWriter, ImageWriterParams};
pub use imu_source::{ImuSource, ImuSourceParams};
pub use pose_source::{PoseSource, PoseSourceParams};
pub use sound_file::Encoding;
pub use test_pattern::{TestPattern, TestPatternParams};
pub use video_source::{VideoDecoder, VideoSource, VideoSourceParams};
pub use video_writer::{OnSizeChange, VideoWriter, VideoWriterParams};
pub use wav_sink::{SampleFormat, WavSink, WavSinkParams};
pub use wav_source::{Mix, Pace, WavSource, WavSourceParams};

/// The nodes of this crate.
pub const NODES: &[afferent_graph::NodeEntry] = &[
    AppSource::def,
    afferent_graph::NodeDef::of::<EventLog>,
    afferent_graph::NodeDef::of::<ImageWriter>,
    afferent_graph::NodeDef::of::<ImuSource>,
    afferent_graph::NodeDef::of::<PoseSource>,
    afferent_graph::NodeDef::of::<TestPattern>,
    afferent_graph::NodeDef::of::<VideoSource>,
    afferent_graph::NodeDef::of::<VideoWriter>,
    afferent_graph::NodeDef::of::<WavSink>,
    afferent_graph::NodeDef::of::<WavSource>,
];
