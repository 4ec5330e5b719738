//! Quantization to int8, with given parameters or dynamically.
//!
//! Dynamic quantization computes parameters from the range of the data, which always includes
//! zero, divided into 255 steps. The zero point is rounded to an integer at the end of the range
//! where the rounding error is smaller.

use crate::subgraph::{Quantization, Value};

/// Smallest and largest int8.
pub(crate) const INT8_RANGE: (f32, f32) = (-128.0, 127.0);

/// Per-tensor quantization parameters: `x = scale * (q - zero_point)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QuantizationParams {
    pub(crate) scale: f32,
    pub(crate) zero_point: i32,
}

impl QuantizationParams {
    /// Parameters of a value with per-tensor quantization.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value.quantization {
            Quantization::PerTensor { scale, zero_point } => Some(Self { scale, zero_point }),
            _ => None,
        }
    }

    /// Nearest int8 of `x`, saturating; -128 for NaN.
    pub(crate) fn quantize(self, x: f32) -> i8 {
        let (low, high) = INT8_RANGE;
        ((x / self.scale).round_ties_even() + self.zero_point as f32).clamp(low, high) as i8
    }

    /// Output range of a node in quantized units, without the zero point.
    pub(crate) fn centered_range(self, clamp: (f32, f32)) -> (f32, f32) {
        let bound = |x: f32| f32::from(self.quantize(x)) - self.zero_point as f32;
        (bound(clamp.0), bound(clamp.1))
    }

    /// Output range of a node in quantized units.
    pub(crate) fn range(self, clamp: (f32, f32)) -> (f32, f32) {
        let ((low, high), zero_point) = (self.centered_range(clamp), self.zero_point as f32);
        (low + zero_point, high + zero_point)
    }
}

/// Quantization of an output, and its range in quantized units.
#[derive(Clone, Copy)]
pub(crate) struct OutputQuantization {
    pub(crate) params: QuantizationParams,
    /// Includes the zero point.
    pub(crate) range: (f32, f32),
}

/// Quantizes `x` with parameters that are computed from its range, and returns the parameters.
#[inline(always)]
pub(crate) fn quantize_dynamic(x: &[f32], to: &mut [i8]) -> QuantizationParams {
    let (mut low, mut high) = ([0.0_f32; 16], [0.0_f32; 16]);
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            low[lane] = if chunk[lane] < low[lane] { chunk[lane] } else { low[lane] };
            high[lane] = if chunk[lane] > high[lane] { chunk[lane] } else { high[lane] };
        }
    }
    let low = low.into_iter().chain(rest.iter().copied()).fold(0.0, f32::min);
    let high = high.into_iter().chain(rest.iter().copied()).fold(0.0, f32::max);
    let inverse_scale = if low == high { 1.0 } else { 255.0 / (high - low) };
    let (low, high) = (low * inverse_scale, high * inverse_scale);
    let (min, max) = INT8_RANGE;
    let zero_point = if (min + low) + (max + high) > 0.0 { min - low } else { max - high };
    let zero_point = zero_point.clamp(min, max).round_ties_even();
    quantize_slice(x, inverse_scale, zero_point, INT8_RANGE, to);
    QuantizationParams { scale: 1.0 / inverse_scale, zero_point: zero_point as i32 }
}

/// Quantizes `x` to integers in `range`, which includes the zero point. NaN becomes the minimum.
#[inline(always)]
pub(crate) fn quantize_slice(
    x: &[f32],
    inverse_scale: f32,
    zero_point: f32,
    (min, max): (f32, f32),
    to: &mut [i8],
) {
    let (low, high) = (min - zero_point, max - zero_point);
    for (x, to) in x.iter().zip(to) {
        *to = round_to_i8(clamp_nan_to_low(x * inverse_scale, low, high), zero_point);
    }
}

/// Clamps `x`; NaN becomes `low`.
#[inline(always)]
pub(crate) fn clamp_nan_to_low(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// Rounds `x` to the nearest integer, ties to even, and adds the integer `zero_point`. The result
/// must fit int8.
#[inline(always)]
pub(crate) fn round_to_i8(x: f32, zero_point: f32) -> i8 {
    /// 1.5 * 2^23: a small number added to it is rounded to an integer, which the low bits of the
    /// sum hold.
    const MAGIC_BIAS: f32 = 12_582_912.0;
    ((x + MAGIC_BIAS) + zero_point).to_bits() as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_quantization_covers_the_range() {
        let mut to = [0; 3];
        let params = quantize_dynamic(&[-1.0, 0.0, 254.0], &mut to);
        assert_eq!(params, QuantizationParams { scale: 1.0, zero_point: -127 });
        assert_eq!(to, [-128, -127, 127]);
        let params = quantize_dynamic(&[0.0; 3], &mut to);
        assert_eq!(params, QuantizationParams { scale: 1.0, zero_point: 127 });
        assert_eq!(to, [127; 3]);
    }
}
