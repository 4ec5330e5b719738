//! Scales and zero points for numbers at hand.

use afferent_core::{Error, ScalarType, TensorView};

use crate::shared::{elements::Reader, quantize::round};

/// The smallest and the largest element of a line, at least one.
///
/// # Errors
/// [`Error::InvalidArgument`] when there are none or one is NaN.
pub(crate) fn extent(
    x: &Reader<'_, f32>,
    start: usize,
    stride: usize,
    len: usize,
) -> Result<[f32; 2], Error> {
    let mut ends = [f32::INFINITY, f32::NEG_INFINITY];
    let mut is_number = true;
    x.for_each_chunk(start, stride, len, |chunk| {
        for &x in chunk {
            is_number &= !x.is_nan();
            ends = [ends[0].min(x), ends[1].max(x)];
        }
    });
    if is_number && len > 0 {
        Ok(ends)
    } else {
        Err(Error::InvalidArgument { index: 0, expected: "numbers, at least one" })
    }
}

/// Reads the floating-point tensor `x`, of at most the width of `f32`.
///
/// # Errors
/// [`Error::InvalidType`] for another dtype.
pub(crate) fn reader<'a>(x: TensorView<'a>) -> Result<Reader<'a, f32>, Error> {
    match x.dtype() {
        ScalarType::Float | ScalarType::Half | ScalarType::BFloat16 => Reader::new(x, 0),
        found => Err(Error::InvalidType { index: 0, found }),
    }
}

/// The scale that spreads numbers in `ends`, and zero, over `steps` integers, and the ends with
/// zero. Each step is rounded to `dtype`, as in PyTorch.
pub(crate) fn scale([least, largest]: [f32; 2], steps: f32, dtype: ScalarType) -> (f32, [f32; 2]) {
    let ends = [least.min(0.0), largest.max(0.0)];
    (round(round(ends[1] - ends[0], dtype) / steps, dtype), ends)
}
