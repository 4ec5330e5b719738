//! Devices: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its lines below.
//!
//! Sound devices need the feature `audio-device`. Without it the nodes are in the catalogue, and
//! say what is missing when a graph wants them.

mod microphone;
#[cfg_attr(not(feature = "audio-device"), path = "no_sound.rs")]
mod sound;
mod speaker;

use afferent_graph::{NodeDef, NodeEntry};

pub use microphone::{Microphone, MicrophoneParams};
pub use speaker::{Speaker, SpeakerParams};

/// Every node of this crate, alphabetical.
pub const NODES: &[NodeEntry] = &[NodeDef::of::<Microphone>, NodeDef::of::<Speaker>];

/// Direction of a sound device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Capture,
    Playback,
}

/// What a sound device is asked for.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "audio-device"), expect(dead_code, reason = "there is no device to ask"))]
struct Request<'a> {
    device: &'a str,
    direction: Direction,
    /// In hertz.
    rate: u32,
    channels: usize,
    /// Samples of each channel that the buffer between device and node holds.
    buffer: usize,
}

/// Logs that something has happened for the `count`th time. What happens all the time does not
/// fill the log.
fn log(count: u64, what: &str) {
    if count.is_power_of_two() {
        tracing::warn!("{what} ({count} times so far)");
    }
}
