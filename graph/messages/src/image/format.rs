//! Pixel formats, and the colors of YUV formats.

use afferent_core::ScalarType;
use afferent_graph::{Choice, choices};

choices! {
    /// Pixel format: channels in memory order, with the names of ROS
    /// (`sensor_msgs/image_encodings`; `i420` is the name of FFmpeg and GStreamer). Values of
    /// more than 8 bits are in native byte order.
    #[derive(Hash)]
    pub enum PixelFormat {
        /// Luminance, 8 bits.
        Mono8 = "mono8",
        /// Red, green, blue, 8 bits each.
        Rgb8 = "rgb8",
        /// Blue, green, red, 8 bits each.
        Bgr8 = "bgr8",
        /// Red, green, blue, alpha, 8 bits each. Colors are not premultiplied by alpha.
        Rgba8 = "rgba8",
        /// Luminance, 16 bits.
        Mono16 = "mono16",
        /// Distance along the optical axis in millimeters, 16 bits; 0 if unknown (REP 118).
        Depth16 = "16UC1",
        /// Distance along the optical axis in meters, 32-bit float; NaN if unknown (REP 118).
        Depth32 = "32FC1",
        /// YUV 4:2:2, packed as Y, U, Y, V for two pixels (V4L2 `YUYV`, formerly `yuv422_yuy2`).
        Yuyv = "yuyv",
        /// YUV 4:2:2, packed as U, Y, V, Y for two pixels (V4L2 `UYVY`, formerly `yuv422`).
        Uyvy = "uyvy",
        /// YUV 4:2:0: a plane of Y, then one of U and V in turn (V4L2 `NV12`).
        Nv12 = "nv12",
        /// YUV 4:2:0: a plane of Y, then one of U, then one of V (V4L2 `YU12`).
        I420 = "i420",
    }
}

impl PixelFormat {
    /// Name of the format in graph files and messages.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The format named `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_word(name)
    }

    /// Number of values of a pixel in the first plane.
    pub const fn channels(self) -> usize {
        match self {
            Self::Mono8 | Self::Mono16 | Self::Depth16 | Self::Depth32 => 1,
            Self::Nv12 | Self::I420 => 1,
            Self::Yuyv | Self::Uyvy => 2,
            Self::Rgb8 | Self::Bgr8 => 3,
            Self::Rgba8 => 4,
        }
    }

    /// Data type of a channel.
    pub const fn dtype(self) -> ScalarType {
        match self {
            Self::Mono16 | Self::Depth16 => ScalarType::UInt16,
            Self::Depth32 => ScalarType::Float,
            _ => ScalarType::Byte,
        }
    }

    /// Size of a pixel in the first plane, in bytes.
    pub const fn pixel_bytes(self) -> usize {
        self.channels() * self.dtype().size()
    }

    /// True if a pixel has luma of its own and shares its chroma with others.
    pub const fn is_yuv(self) -> bool {
        matches!(self, Self::Yuyv | Self::Uyvy | Self::Nv12 | Self::I420)
    }

    /// True if the chroma is in planes of its own, below that of the luma.
    pub const fn is_planar(self) -> bool {
        matches!(self, Self::Nv12 | Self::I420)
    }

    /// Columns and rows that share one value of chroma. The size of an image is a multiple of them.
    pub const fn subsampling(self) -> [usize; 2] {
        match self {
            Self::Yuyv | Self::Uyvy => [2, 1],
            Self::Nv12 | Self::I420 => [2, 2],
            _ => [1, 1],
        }
    }

    /// Number of rows of the row stride that `height` rows of pixels take in all planes.
    pub const fn stored_rows(self, height: usize) -> usize {
        if self.is_planar() { height.saturating_add(height / 2) } else { height }
    }

    /// Number of bytes that the row stride is a multiple of.
    pub const fn stride_unit(self) -> usize {
        match self {
            // The rows of the planes of chroma have half the stride.
            Self::I420 => 2,
            _ => self.dtype().size(),
        }
    }
}

choices! {
    /// Coefficients of luma and chroma, with the names of their standards.
    #[derive(Default, Hash)]
    pub enum ColorMatrix {
        /// ITU-R BT.601: standard definition, JPEG, and most cameras.
        #[default]
        Bt601 = "bt601",
        /// ITU-R BT.709: high definition.
        Bt709 = "bt709",
        /// ITU-R BT.2020 with non-constant luminance: ultra high definition.
        Bt2020 = "bt2020",
    }
}

impl ColorMatrix {
    /// Weights of red and blue in the luma; that of green is the rest.
    pub const fn weights(self) -> [f64; 2] {
        match self {
            Self::Bt601 => [0.299, 0.114],
            Self::Bt709 => [0.2126, 0.0722],
            Self::Bt2020 => [0.2627, 0.0593],
        }
    }
}

choices! {
    /// Range of values of luma and chroma.
    #[derive(Default, Hash)]
    pub enum ColorRange {
        /// Luma from 16 to 235, chroma from 16 to 240.
        #[default]
        Limited = "limited",
        /// Luma and chroma from 0 to 255.
        Full = "full",
    }
}

/// Meaning of the values of a YUV format. Other formats do not depend on it.
///
/// The default is that of V4L2 for cameras of standard definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Colorimetry {
    /// Coefficients of luma and chroma.
    pub matrix: ColorMatrix,
    /// Range of the values.
    pub range: ColorRange,
}
