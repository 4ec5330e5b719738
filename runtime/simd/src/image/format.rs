//! Components of pixel formats.

use super::check_side;
use crate::SizeError;

/// Pixel format of a source. Values have 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Luma.
    Mono8,
    /// Red, green, blue.
    Rgb8,
    /// Blue, green, red.
    Bgr8,
    /// Red, green, blue, alpha. Alpha is not read.
    Rgba8,
    /// Y, U, Y, V for two pixels.
    Yuyv,
    /// U, Y, V, Y for two pixels.
    Uyvy,
    /// A plane of Y; a plane of U and V in turn, for two columns and two rows.
    Nv12,
    /// A plane of Y; a plane of U and a plane of V, for two columns and two rows.
    I420,
}

/// Meaning of luma and chroma.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yuv {
    /// Weights of red and blue in the luma; that of green is the rest. BT.601: 0.299 and 0.114.
    pub weights: [f64; 2],
    /// True if the values have the range 0 to 255, false for 16 to 235 (chroma 16 to 240).
    pub is_full_range: bool,
}

impl Yuv {
    /// ITU-R BT.601, limited range.
    pub const BT601: Self = Self { weights: [0.299, 0.114], is_full_range: false };
}

/// An image that is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// Pixel format.
    pub format: Format,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Meaning of the values of a YUV format. Other formats do not depend on it.
    pub yuv: Yuv,
}

/// A plane of an image: rows of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    /// The rows. The last one may lack padding.
    pub bytes: &'a [u8],
    /// Distance between the starts of two rows, in bytes.
    pub row_stride: usize,
}

/// Values of a component in the bytes of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    pub plane: usize,
    /// Offset of the first value.
    pub offset: usize,
    /// Distance between two values.
    pub step: usize,
    /// Binary logarithms of the columns and rows that share a value.
    pub shift: [u32; 2],
}

impl Component {
    const fn new(plane: usize, offset: usize, step: usize, shift: [u32; 2]) -> Self {
        Self { plane, offset, step, shift }
    }

    /// Offset in its row of the value for column `column`.
    #[inline(always)]
    pub(super) fn byte(&self, column: usize) -> usize {
        self.offset + self.step * (column >> self.shift[0])
    }
}

impl Format {
    /// Red, green and blue, or luma and chroma.
    pub(super) fn components(self) -> &'static [Component] {
        const fn packed(offsets: [usize; 3], step: usize) -> [Component; 3] {
            [
                Component::new(0, offsets[0], step, [0, 0]),
                Component::new(0, offsets[1], step, [0, 0]),
                Component::new(0, offsets[2], step, [0, 0]),
            ]
        }
        const fn yuv422(luma: usize, chroma: usize) -> [Component; 3] {
            [
                Component::new(0, luma, 2, [0, 0]),
                Component::new(0, chroma, 4, [1, 0]),
                Component::new(0, chroma + 2, 4, [1, 0]),
            ]
        }
        const LUMA: Component = Component::new(0, 0, 1, [0, 0]);
        match self {
            Self::Mono8 => &[LUMA],
            Self::Rgb8 => const { &packed([0, 1, 2], 3) },
            Self::Bgr8 => const { &packed([2, 1, 0], 3) },
            Self::Rgba8 => const { &packed([0, 1, 2], 4) },
            Self::Yuyv => const { &yuv422(0, 1) },
            Self::Uyvy => const { &yuv422(1, 0) },
            Self::Nv12 => {
                const { &[LUMA, Component::new(1, 0, 2, [1, 1]), Component::new(1, 1, 2, [1, 1])] }
            }
            Self::I420 => {
                const { &[LUMA, Component::new(1, 0, 1, [1, 1]), Component::new(2, 0, 1, [1, 1])] }
            }
        }
    }

    /// True if the components are luma and chroma.
    pub(super) const fn is_yuv(self) -> bool {
        matches!(self, Self::Yuyv | Self::Uyvy | Self::Nv12 | Self::I420)
    }

    /// Number of planes.
    pub const fn planes(self) -> usize {
        match self {
            Self::Nv12 => 2,
            Self::I420 => 3,
            _ => 1,
        }
    }
}

impl Source {
    pub(super) fn check(&self) -> Result<(), SizeError> {
        check_side("source.width", self.width)?;
        check_side("source.height", self.height)?;
        let shared = |axis: usize| {
            self.format.components().iter().map(|part| 1 << part.shift[axis]).max().unwrap_or(1)
        };
        let even = "even, because pixels share their chroma";
        SizeError::check_parameter("source.width", even, self.width.is_multiple_of(shared(0)))?;
        SizeError::check_parameter("source.height", even, self.height.is_multiple_of(shared(1)))?;
        let [red, blue] = self.yuv.weights;
        let is_matrix = red > 0.0 && blue > 0.0 && red + blue < 1.0;
        SizeError::check_parameter("source.yuv.weights", "positive with a sum below 1", is_matrix)
    }

    /// Bytes of a row of plane `plane`, and number of its rows.
    pub(super) fn plane_size(&self, plane: usize) -> [usize; 2] {
        let parts = self.format.components().iter().filter(|part| part.plane == plane);
        parts.fold([0, 0], |[bytes, _], part| {
            let columns = self.width >> part.shift[0];
            // Alpha follows the components.
            [bytes.max(columns * part.step), self.height >> part.shift[1]]
        })
    }

    /// Checks that `planes` hold the image.
    pub(super) fn check_planes(&self, planes: &[Plane<'_>]) -> Result<(), SizeError> {
        SizeError::check_exact("planes", planes.len(), Some(self.format.planes()))?;
        for (at, plane) in planes.iter().enumerate() {
            let [row_bytes, rows] = self.plane_size(at);
            SizeError::check_min("planes.row_stride", plane.row_stride, Some(row_bytes))?;
            let required = plane.row_stride.checked_mul(rows - 1);
            let required = required.and_then(|bytes| bytes.checked_add(row_bytes));
            SizeError::check_min("planes.bytes", plane.bytes.len(), required)?;
        }
        Ok(())
    }

    /// Bytes of row `row` of the plane of `part`, where `row` counts rows of the image.
    #[inline(always)]
    pub(super) fn row<'a>(&self, planes: &[Plane<'a>], part: &Component, row: usize) -> &'a [u8] {
        let plane = &planes[part.plane];
        let [row_bytes, _] = self.plane_size(part.plane);
        &plane.bytes[(row >> part.shift[1]) * plane.row_stride..][..row_bytes]
    }
}
