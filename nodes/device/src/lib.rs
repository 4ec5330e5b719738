//! Device nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`Microphone`] | captures audio, timestamped on the session clock |
//! | [`Speaker`] | plays audio and reports the playback position |
//!
//! Audio devices need the feature `audio-device`. Without it, the nodes are in the catalog, but
//! fail with a message about the feature when a graph opens them.
//!
//! Begin with `speaker.rs`, then `microphone.rs`, which maps captured audio to the session clock.
//! `audio_device.rs` holds the device callbacks and the ring buffers between them and the nodes;
//! `audio_device_stub.rs` replaces it without the feature.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

#[cfg_attr(not(feature = "audio-device"), path = "audio_device_stub.rs")]
mod audio_device;
mod microphone;
mod speaker;

use afferent_graph::{NodeDef, NodeEntry};

pub use microphone::{Microphone, MicrophoneParams};
pub use speaker::{Speaker, SpeakerParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[NodeDef::of::<Microphone>, NodeDef::of::<Speaker>];

/// A microphone or loudspeaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioDevice {
    /// Value of the parameter `device`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// True for a microphone, false for a loudspeaker.
    pub is_capture: bool,
    /// True for the device `default`.
    pub is_default: bool,
    /// Lowest and highest sample rate, in hertz.
    pub rates: (u32, u32),
    /// Largest number of channels.
    pub channels: u16,
}

/// Microphones and loudspeakers of this machine; a device with both directions is listed twice.
///
/// # Errors
/// A message if this build has no audio devices, or the system cannot list them.
pub fn audio_devices() -> Result<Vec<AudioDevice>, String> {
    audio_device::list()
}

/// Direction of an audio device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Capture,
    Playback,
}

/// Requested stream of an audio device.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "audio-device"), expect(dead_code, reason = "the stub opens no device"))]
struct StreamRequest<'a> {
    device: &'a str,
    direction: Direction,
    /// Sample rate in hertz.
    rate: u32,
    channels: usize,
    /// Capacity of the ring buffer between device and node, in samples per channel.
    buffer: usize,
}

/// Logs a warning for occurrence `count` of an event, at powers of two only, to limit the log.
fn warn_rarely(count: u64, event: &str) {
    if count.is_power_of_two() {
        tracing::warn!("{event} ({count} times so far)");
    }
}
