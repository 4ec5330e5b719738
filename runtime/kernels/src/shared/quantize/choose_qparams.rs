//! Choice of quantization parameters from the values of a tensor.

use afferent_core::{Error, ScalarType, TensorView};

use crate::shared::{elements::Reader, quantize::round_to_dtype};

/// Minimum and maximum of `len` elements.
///
/// # Errors
/// [`Error::InvalidArgument`] if there are none or one is NaN.
pub(crate) fn min_max(
    x: &Reader<'_, f32>,
    start: usize,
    stride: usize,
    len: usize,
) -> Result<[f32; 2], Error> {
    let mut bounds = [f32::INFINITY, f32::NEG_INFINITY];
    let mut has_no_nan = true;
    x.for_each_chunk(start, stride, len, |chunk| {
        for &x in chunk {
            has_no_nan &= !x.is_nan();
            bounds = [bounds[0].min(x), bounds[1].max(x)];
        }
    });
    if has_no_nan && len > 0 {
        Ok(bounds)
    } else {
        Err(Error::InvalidArgument { index: 0, expected: "at least one element and no NaN" })
    }
}

/// Reader of the input `x`, an `f32`, `f16` or `bf16` tensor.
///
/// # Errors
/// [`Error::InvalidType`] for any other dtype.
pub(crate) fn input_reader<'a>(x: TensorView<'a>) -> Result<Reader<'a, f32>, Error> {
    match x.dtype() {
        ScalarType::Float | ScalarType::Half | ScalarType::BFloat16 => Reader::new(x, 0),
        found => Err(Error::InvalidType { index: 0, found }),
    }
}

/// Scale for values in `min..=max` and `quant_range = quant_max - quant_min`, and the bounds
/// extended to include zero. Intermediate results are rounded to `dtype`, as in PyTorch.
pub(crate) fn scale([min, max]: [f32; 2], quant_range: f32, dtype: ScalarType) -> (f32, [f32; 2]) {
    let bounds = [min.min(0.0), max.max(0.0)];
    let range = round_to_dtype(bounds[1] - bounds[0], dtype);
    (round_to_dtype(range / quant_range, dtype), bounds)
}
