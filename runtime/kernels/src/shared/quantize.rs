//! Affine quantization: `x ≈ (q - zero_point) · scale`.

pub(crate) mod choose_qparams;
pub(crate) mod embedding;

use afferent_core::{Args, Dims, Error, ScalarType, TensorMut, TensorView, bf16, f16, numel};

use crate::shared::{
    accumulator::{Accumulator, Float, check_dtype},
    dim_args::existing_dim_arg,
    dtype::{Number, with_dtype},
    elements::{CHUNK, Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// Scales or zero points: one value, or one per channel or token.
#[derive(Clone, Copy)]
enum Values<'a> {
    One(f64),
    Each(Reader<'a, f64>),
}

impl Values<'_> {
    fn get(&self, at: usize) -> f64 {
        match self {
            Self::One(value) => *value,
            Self::Each(values) => values.get(at),
        }
    }
}

/// Order of rounding and the addition of the zero point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    BeforeZeroPoint,
    AfterZeroPoint,
}

/// Tensor with its quantization parameters.
pub(crate) struct AffineQuantizer<'a> {
    x: TensorView<'a>,
    scales: Values<'a>,
    zero_points: Values<'a>,
    /// Strides of the parameters in the dimensions of `x`.
    param_strides: Dims,
    scale_dtype: Option<ScalarType>,
}

impl<'a> AffineQuantizer<'a> {
    /// Reads a tensor (argument 0), its scale (1) and its zero point (2). The parameters are
    /// scalars or tensors of one element.
    pub(crate) fn per_tensor(args: &Args<'a>) -> Result<Self, Error> {
        let x = args.tensor(0)?;
        let one = |index: u8| {
            if let Ok(number) = args.double(usize::from(index)) {
                return Ok(Values::One(number));
            }
            let tensor = args.tensor(usize::from(index))?;
            if tensor.numel() != 1 {
                return Err(Error::InvalidArgument { index, expected: "one element" });
            }
            Ok(Values::One(Reader::<f64>::new(tensor, index)?.get(0)))
        };
        let param_strides = Dims::filled(x.rank(), 0);
        Ok(Self { x, scales: one(1)?, zero_points: one(2)?, param_strides, scale_dtype: None })
    }

    /// Reads a tensor (argument 0), its scales (1), its zero points (2) and the channel dimension
    /// (3). The zero points are optional unless `needs_zero_points` is true.
    pub(crate) fn per_channel(args: &Args<'a>, needs_zero_points: bool) -> Result<Self, Error> {
        let x = args.tensor(0)?;
        let axis = existing_dim_arg(args, 3, x.rank())?;
        let mut param_strides = Dims::filled(x.rank(), 0);
        param_strides[axis] = 1;
        let zero_points =
            if needs_zero_points { Some(args.tensor(2)?) } else { args.opt_tensor(2)? };
        Self::with_params(x, args.tensor(1)?, zero_points, param_strides, x.sizes()[axis])
    }

    /// Reads a tensor (argument 0), its scales (1) and its zero points (2), one per token. A token
    /// is a slice along the last dimension.
    pub(crate) fn per_token(args: &Args<'a>) -> Result<Self, Error> {
        let x = args.tensor(0)?;
        let Some((_, leading)) = x.sizes().split_last() else {
            return Err(Error::InvalidArgument { index: 0, expected: "a tensor that is not 0-d" });
        };
        let mut param_strides = Dims::filled(x.rank(), 0);
        let mut tokens = 1_usize;
        for (stride, &size) in param_strides.iter_mut().zip(leading).rev() {
            *stride = tokens;
            tokens = tokens.saturating_mul(size.max(1));
        }
        let tokens = numel(leading).unwrap_or(usize::MAX);
        Self::with_params(x, args.tensor(1)?, Some(args.tensor(2)?), param_strides, tokens)
    }

    /// Checks the numbers of scales and zero points, `count` each.
    fn with_params(
        x: TensorView<'a>,
        scales: TensorView<'a>,
        zero_points: Option<TensorView<'a>>,
        param_strides: Dims,
        count: usize,
    ) -> Result<Self, Error> {
        let values = |tensor: TensorView<'a>, index: u8| {
            if tensor.numel() != count {
                let expected = "one parameter for each channel or token";
                return Err(Error::InvalidArgument { index, expected });
            }
            if !tensor.is_contiguous() {
                return Err(Error::NotSupported { what: "parameters that are not row-major" });
            }
            Reader::<f64>::new(tensor, index).map(Values::Each)
        };
        let scale_dtype = scales.dtype();
        if !scale_dtype.is_float() {
            return Err(Error::InvalidType { index: 1, found: scale_dtype });
        }
        let zero_points = match zero_points {
            Some(tensor) => values(tensor, 2)?,
            None => Values::One(0.0),
        };
        let scales = values(scales, 1)?;
        Ok(Self { x, scales, zero_points, param_strides, scale_dtype: Some(scale_dtype) })
    }

    /// Quantizes to argument `out`. The arguments before it are `quant_min`, `quant_max` and
    /// `dtype`.
    pub(crate) fn quantize(
        &self,
        args: &mut Args<'_>,
        out: u8,
        rounding: Rounding,
    ) -> Result<(), Error> {
        let range = range_args(args, out - 3)?;
        let dtype = self.x.dtype();
        if !dtype.is_float() {
            return Err(Error::InvalidType { index: 0, found: dtype });
        }
        let mut out_tensor = args.out(usize::from(out))?;
        out_tensor.resize(self.x.sizes())?;
        if dtype == ScalarType::Double || self.scale_dtype == Some(ScalarType::Double) {
            self.quantize_in::<f64>(&mut out_tensor, out, range, rounding)
        } else {
            self.quantize_in::<f32>(&mut out_tensor, out, range, rounding)
        }
    }

    fn quantize_in<C: Float>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: u8,
        range: [i64; 2],
        rounding: Rounding,
    ) -> Result<(), Error> {
        self.map::<C, i64>(out, index, |scale, zero_point, from, to| {
            // The reciprocal is computed in `f64` and rounded once.
            let inverse = C::from_double(1.0 / scale);
            let zero_point = C::from_double(zero_point);
            for (to, &from) in to.iter_mut().zip(from) {
                let scaled = from * inverse;
                *to = clamp_to_range(
                    match rounding {
                        Rounding::BeforeZeroPoint => scaled.rint() + zero_point,
                        Rounding::AfterZeroPoint => (scaled + zero_point).rint(),
                    },
                    range,
                );
            }
        })
    }

    /// Dequantizes to argument `out`. Argument `dtype` is the dtype of the quantized tensor, and
    /// the optional argument `out_dtype` is that of `out`.
    pub(crate) fn dequantize(
        &self,
        args: &mut Args<'_>,
        dtype: u8,
        out_dtype: u8,
        out: u8,
    ) -> Result<(), Error> {
        let found = self.x.dtype();
        let is_supported = found.is_integer() && found.size() <= 4 || found == ScalarType::Bits16;
        if !is_supported || args.opt_dtype(usize::from(dtype))? != Some(found) {
            return Err(Error::InvalidType { index: 0, found });
        }
        let expected = args.opt_dtype(usize::from(out_dtype))?;
        let mut out_tensor = args.out(usize::from(out))?;
        let dtype = out_tensor.dtype();
        check_dtype(dtype, expected.unwrap_or(dtype), out)?;
        if !dtype.is_float() {
            return Err(Error::InvalidType { index: out, found: dtype });
        }
        out_tensor.resize(self.x.sizes())?;
        if self.scale_dtype.unwrap_or(dtype) == ScalarType::Double {
            self.dequantize_in::<f64>(&mut out_tensor, out)
        } else {
            self.dequantize_in::<f32>(&mut out_tensor, out)
        }
    }

    fn dequantize_in<C: Float>(&self, out: &mut TensorMut<'_, '_>, index: u8) -> Result<(), Error> {
        // Per tensor, PyTorch computes in the dtype of the result.
        let is_rounded = self.scale_dtype.is_none() && out.dtype().size() == 2;
        let dtype = out.dtype();
        self.map::<C, C>(out, index, |scale, zero_point, from, to| {
            let (scale, zero_point) = (C::from_double(scale), C::from_double(zero_point));
            for (to, &from) in to.iter_mut().zip(from) {
                *to = if is_rounded {
                    round_to_dtype(round_to_dtype(from, dtype) - zero_point, dtype) * scale
                } else {
                    (from - zero_point) * scale
                };
            }
        })
    }

    /// Calls `f` for chunks of elements with equal parameters: scale, zero point, input, output.
    fn map<C: Float, W: Accumulator>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: u8,
        mut f: impl FnMut(f64, f64, &[C], &mut [W]),
    ) -> Result<(), Error> {
        if out.numel() == 0 {
            return Ok(());
        }
        let (mut param_loops, sizes) = (LoopNest::<3>::new(), self.x.sizes());
        let (from, to) = (strides_of(&self.x), out_strides(out));
        let dims = self.x.dim_order().iter().map(|&dim| usize::from(dim));
        let has_params = |dim: &usize| self.param_strides[*dim] != 0 && sizes[*dim] > 1;
        for dim in dims.clone().filter(has_params) {
            param_loops.push(sizes[dim], [from[dim], to[dim], self.param_strides[dim]])?;
        }
        let mut inner_loops = LoopNest::<2>::new();
        for dim in dims.filter(|dim| !has_params(dim)) {
            inner_loops.push(sizes[dim], [from[dim], to[dim]])?;
        }
        let (len, [from_stride, to_stride]) = inner_loops.pop();
        let (x, mut out) =
            (Reader::<C>::of_components(self.x, 0)?, Writer::<W>::of_components(out, index)?);
        let (mut input, mut output) = ([C::default(); CHUNK], [W::default(); CHUNK]);
        param_loops.for_each([0; 3], |[from, to, at]| {
            let (scale, zero_point) = (self.scales.get(at), self.zero_points.get(at));
            inner_loops.for_each([from, to], |[from, to]| {
                for start in (0..len).step_by(CHUNK) {
                    let count = CHUNK.min(len - start);
                    x.read(from + start * from_stride, from_stride, &mut input[..count]);
                    f(scale, zero_point, &input[..count], &mut output[..count]);
                    out.write(to + start * to_stride, to_stride, &output[..count]);
                }
            });
        });
        Ok(())
    }
}

/// Converts `value` to an integer clamped to `quant_min..=quant_max`; NaN gives zero, as in
/// PyTorch.
pub(crate) fn clamp_to_range<C: Float>(value: C, [quant_min, quant_max]: [i64; 2]) -> i64 {
    if value.is_nan() {
        return 0;
    }
    (value.to_double() as i64).max(quant_min).min(quant_max)
}

/// Rounds `value` to `dtype`.
pub(crate) fn round_to_dtype<C: Float>(value: C, dtype: ScalarType) -> C {
    let value = value.to_double();
    C::from_double(match dtype {
        ScalarType::Half => f16::from_f64(value).to_f64(),
        ScalarType::BFloat16 => bf16::from_f64(value).to_f64(),
        _ => value,
    })
}

/// Reads `quant_min` (argument `index`) and `quant_max`. The next arguments are the dtype, which
/// must represent both, and the output, which must have that dtype.
fn range_args(args: &mut Args<'_>, index: u8) -> Result<[i64; 2], Error> {
    let at = usize::from(index);
    let range = [args.int(at)?, args.int(at + 1)?];
    let dtype = args.opt_dtype(at + 2)?;
    let found = args.out(at + 3)?.dtype();
    let is_supported = dtype == Some(found) && found.size() <= 4;
    if found == ScalarType::Bits16 && is_supported {
        return check_range(range, ScalarType::UInt16, index);
    }
    if is_supported {
        check_range(range, found, index)
    } else {
        Err(Error::InvalidType { index: index + 3, found })
    }
}

/// Returns `range` if `dtype` can represent both ends.
pub(crate) fn check_range(
    range: [i64; 2],
    dtype: ScalarType,
    index: u8,
) -> Result<[i64; 2], Error> {
    let representable = with_dtype!(int, dtype, index, T => {
        Ok(range.map(|end| <T as Number>::from_i64(end).to_i64() == end))
    })?;
    let expected = "an integer that the dtype can represent";
    match representable {
        [false, _] => Err(Error::InvalidArgument { index, expected }),
        [_, false] => Err(Error::InvalidArgument { index: index + 1, expected }),
        _ => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_clamped_to_their_range() {
        let check =
            |value, range, expected| assert_eq!(clamp_to_range::<f32>(value, range), expected);
        check(3.0, [-128, 127], 3);
        check(1e30, [-128, 127], 127);
        check(f32::NEG_INFINITY, [-128, 127], -128);
        check(f32::NAN, [5, 127], 0);
        // As in PyTorch, `quant_max` takes precedence.
        check(0.0, [5, -5], -5);
    }

    #[test]
    fn ranges_are_checked_against_the_dtype() {
        assert!(check_range([0, 255], ScalarType::Byte, 0).is_ok());
        assert!(check_range([-1, 255], ScalarType::Byte, 0).is_err());
        assert!(check_range([0, i64::MAX], ScalarType::Int, 0).is_err());
        assert!(check_range([0, 1], ScalarType::Float, 0).is_err());
    }
}
