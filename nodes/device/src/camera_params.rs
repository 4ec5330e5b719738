//! Parameters of the node `camera`, for each of its modules.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{NodeError, choices, params};
use afferent_messages::{Camera as Calibration, PixelFormat};

use crate::{OnLost, reconnect::Policy};

mod mode;

#[cfg(feature = "camera-nokhwa")]
pub(crate) use mode::MONO8;
pub(crate) use mode::{Form, Wanted, choose, form};

choices! {
    /// Format that a camera is asked for.
    pub enum CameraFormat {
        /// The one with the fewest bytes that reaches the rate; compressed only if no other does.
        Auto = "auto",
        /// 4:2:2, interleaved.
        Yuyv = "yuyv",
        /// 4:2:2, interleaved, chroma first.
        Uyvy = "uyvy",
        /// 4:2:0, luma plane and one chroma plane.
        Nv12 = "nv12",
        /// 4:2:0, three planes.
        I420 = "i420",
        /// Red, green, blue.
        Rgb8 = "rgb8",
        /// Blue, green, red.
        Bgr8 = "bgr8",
        /// Luminance.
        Mono8 = "mono8",
        /// Depth in millimeters.
        Depth16 = "16UC1",
        /// JPEG images, which are decoded to `rgb8`.
        Mjpeg = "mjpeg",
    }
}

impl CameraFormat {
    /// Form of the images; `None` for any.
    pub(crate) fn form(self) -> Option<Form> {
        Some(match self {
            Self::Auto => return None,
            Self::Mjpeg => Form::Jpeg,
            Self::Yuyv => Form::Pixels(PixelFormat::Yuyv),
            Self::Uyvy => Form::Pixels(PixelFormat::Uyvy),
            Self::Nv12 => Form::Pixels(PixelFormat::Nv12),
            Self::I420 => Form::Pixels(PixelFormat::I420),
            Self::Rgb8 => Form::Pixels(PixelFormat::Rgb8),
            Self::Bgr8 => Form::Pixels(PixelFormat::Bgr8),
            Self::Mono8 => Form::Pixels(PixelFormat::Mono8),
            Self::Depth16 => Form::Pixels(PixelFormat::Depth16),
        })
    }
}

params! {
    /// Settings of [`Camera`].
    pub struct CameraParams {
        /// Device.
        pub device: PathBuf = "/dev/video0";
        /// Width of the images.
        pub width: u32 = "1280", range 1.0..=16384.0, unit "px";
        /// Height of the images.
        pub height: u32 = "720", range 1.0..=16384.0, unit "px";
        /// Images per second.
        pub fps: f64 = "30", range 0.1..=1000.0, unit "Hz";
        /// Format that the camera is asked for.
        pub format: CameraFormat = "auto";
        /// Buffers of the driver. More of them outlast longer pauses of this node.
        pub buffers: u32 = "4", range 2.0..=32.0;
        /// Time without an image after which the camera counts as lost.
        pub timeout: Duration = "2s", range 0.1..=60.0;
        /// Action when the camera is lost.
        pub on_lost: OnLost = "restart";
        /// Time to add to the timestamps, for a camera whose driver stamps images late or early.
        pub stamp_offset: f64 = "0", range -1000.0..=1000.0, unit "ms";
        /// Fixed exposure time; automatic if absent.
        pub exposure: Option<Duration>;
        /// Fixed gain, in the unit of the driver; automatic if absent.
        pub gain: Option<i64>, range -2147483648.0..=2147483647.0;
        /// Fixed focus, in the unit of the driver; automatic if absent.
        pub focus: Option<i64>, range -2147483648.0..=2147483647.0;
        /// Calibration, a YAML file of `camera_calibration` of ROS.
        pub calibration: Option<PathBuf>;
        /// Coordinate frame of the images.
        pub frame_id: String = "camera";
    }
}

/// Reads the calibration file that the parameters name, which is for images of their size.
///
/// # Errors
/// The file, and the field or the size that is wrong.
pub(crate) fn read_calibration(params: &CameraParams) -> Result<Option<Calibration>, NodeError> {
    let Some(path) = &params.calibration else { return Ok(None) };
    let calibration = Calibration::read(path)?;
    let checked = calibration.check_size(params.width, params.height);
    checked.map_err(|reason| NodeError::File { path: path.clone(), reason })?;
    Ok(Some(calibration))
}

/// Names and actions for a lost camera; `retry` is the time between two attempts to open it.
pub(crate) fn policy(params: &CameraParams, retry: Duration) -> Policy {
    Policy {
        kind: "camera",
        device: params.device.display().to_string(),
        value: "image",
        on_lost: params.on_lost,
        timeout: params.timeout,
        retry,
    }
}

/// The error `reason` of a camera.
pub(crate) fn device_error(device: &Path, reason: &dyn ToString) -> NodeError {
    NodeError::Device { name: device.display().to_string(), reason: reason.to_string() }
}
