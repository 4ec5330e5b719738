//! Device nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`Camera`] | captures images |
//! | [`Imu`] | measures acceleration and angular velocity |
//! | [`McuLink`] | receives wake words and sound from a microcontroller |
//! | [`Microphone`] | captures audio, timestamped on the session clock |
//! | [`Speaker`] | plays audio and reports the playback position |
//!
//! Cameras of Linux are those of Video4Linux; `camera/v4l2.rs` opens them and `camera/abi.rs` has the
//! calls of the kernel. On macOS and Windows, the node `camera` needs the feature `camera-nokhwa`
//! (`camera_nokhwa.rs`), which was compiled for these systems, but not run on them. `camera_params.rs`
//! has the parameters of both.
//!
//! Motion sensors are those of Linux (Industrial I/O). `imu/device.rs` finds them, `imu/setup.rs` sets
//! one up through `imu/sysfs.rs`, and `imu/stream.rs` reads it, by the layout of `imu/scan.rs`;
//! `imu/pair.rs` joins an accelerometer and a gyroscope. On other systems, `imu_stub.rs` fails.
//!
//! `mcu_link/line.rs` connects to microcontrollers, by TCP or a serial port (feature `serial`).
//!
//! `reconnect.rs` opens lost devices again. `session_clock.rs` converts the timestamps of drivers to
//! session time, and `offset.rs` compares two clocks.
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
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod camera;
#[cfg(feature = "camera-nokhwa")]
#[cfg_attr(
    target_os = "linux",
    allow(
        dead_code,
        unreachable_pub,
        reason = "the module camera has the node; this is only compiled"
    )
)]
mod camera_nokhwa;
#[cfg(any(all(target_os = "linux", target_pointer_width = "64"), feature = "camera-nokhwa"))]
mod camera_params;
#[cfg_attr(not(target_os = "linux"), path = "imu_stub.rs")]
mod imu;
mod imu_params;
mod mcu_link;
mod microphone;
mod offset;
mod reconnect;
#[cfg(target_os = "linux")]
mod session_clock;
mod speaker;

use std::path::PathBuf;

use afferent_graph::{NodeDef, NodeEntry};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use camera::Camera;
#[cfg(all(feature = "camera-nokhwa", not(target_os = "linux")))]
pub use camera_nokhwa::Camera;
#[cfg(any(all(target_os = "linux", target_pointer_width = "64"), feature = "camera-nokhwa"))]
pub use camera_params::{CameraFormat, CameraParams};
pub use imu::Imu;
pub use imu_params::ImuParams;
pub use mcu_link::{McuLink, McuLinkParams};
pub use microphone::{Microphone, MicrophoneParams};
pub use reconnect::OnLost;
pub use speaker::{Speaker, SpeakerParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    #[cfg(any(
        all(target_os = "linux", target_pointer_width = "64"),
        all(feature = "camera-nokhwa", not(target_os = "linux"))
    ))]
    NodeDef::of::<Camera>,
    NodeDef::of::<Imu>,
    NodeDef::of::<McuLink>,
    NodeDef::of::<Microphone>,
    NodeDef::of::<Speaker>,
];

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

/// A camera.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraDevice {
    /// Value of the parameter `device`.
    pub path: PathBuf,
    /// Name for people.
    pub name: String,
    /// Formats, sizes and greatest rates, or the reason why they are unknown.
    pub modes: Result<Vec<CameraMode>, String>,
}

/// A size of images in one format, and their greatest rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CameraMode {
    /// Four characters that name the format, such as `YUYV`.
    pub fourcc: [u8; 4],
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Images per second; 0 if the driver does not say it.
    pub fps: f64,
    /// True for the largest of a range of sizes: the driver takes smaller ones, too.
    pub is_limit: bool,
}

impl CameraMode {
    /// Name of the format, by its four characters.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.fourcc).trim_end().to_owned()
    }
}

/// Cameras of this machine, sorted by path; none in a build without the node `camera`.
pub fn cameras() -> Vec<CameraDevice> {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    return camera::list();
    #[cfg(all(feature = "camera-nokhwa", not(target_os = "linux")))]
    return camera_nokhwa::list();
    #[cfg(not(any(
        all(target_os = "linux", target_pointer_width = "64"),
        all(feature = "camera-nokhwa", not(target_os = "linux"))
    )))]
    Vec::new()
}

/// A sensor with an accelerometer, a gyroscope, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MotionSensor {
    /// Its name in the system, such as `iio:device0`; a value of the parameter `device`.
    pub id: String,
    /// Name of the sensor; the same for all of its kind.
    pub name: String,
    /// True if it measures acceleration.
    pub has_accelerometer: bool,
    /// True if it measures angular velocity.
    pub has_gyroscope: bool,
}

/// Motion sensors of this machine that the node `imu` can read, by number; none on systems other than
/// Linux.
pub fn motion_sensors() -> Vec<MotionSensor> {
    imu::list()
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
