//! Affine quantization: numbers `x` as integers `q` with `x ≈ (q - zero point) · scale`.

pub(crate) mod choose_qparams;
pub(crate) mod embedding;

use afferent_core::{Args, Dims, Error, ScalarType, TensorMut, TensorView, bf16, f16, numel};

use crate::shared::{
    accumulator::{Float, check_dtype},
    dim_args::existing_dim_arg,
    dtype::{Number, with_dtype},
    elements::{CHUNK, Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// Scales or zero points.
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

/// When the zero point is added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    BeforeZeroPoint,
    AfterZeroPoint,
}

/// A tensor and the parameters of each of its elements.
pub(crate) struct AffineQuantizer<'a> {
    x: TensorView<'a>,
    scales: Values<'a>,
    zero_points: Values<'a>,
    /// Steps of the parameters along the dimensions of `x`.
    steps: Dims,
    scale_dtype: Option<ScalarType>,
}

impl<'a> AffineQuantizer<'a> {
    /// The tensor 0 with one scale at 1 and one zero point at 2: numbers or tensors of one element.
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
        let steps = Dims::filled(x.rank(), 0);
        Ok(Self { x, scales: one(1)?, zero_points: one(2)?, steps, scale_dtype: None })
    }

    /// The tensor 0 with scales at 1 and zero points or none at 2, for each place along the
    /// dimension at 3.
    pub(crate) fn per_channel(args: &Args<'a>, zero_points: bool) -> Result<Self, Error> {
        let x = args.tensor(0)?;
        let axis = existing_dim_arg(args, 3, x.rank())?;
        let mut steps = Dims::filled(x.rank(), 0);
        steps[axis] = 1;
        let zero_points = if zero_points { Some(args.tensor(2)?) } else { args.opt_tensor(2)? };
        Self::with(x, args.tensor(1)?, zero_points, steps, x.sizes()[axis])
    }

    /// The tensor 0 with scales at 1 and zero points at 2, for each line along its last dimension.
    pub(crate) fn per_token(args: &Args<'a>) -> Result<Self, Error> {
        let x = args.tensor(0)?;
        let Some((_, leading)) = x.sizes().split_last() else {
            return Err(Error::InvalidArgument { index: 0, expected: "a tensor with dimensions" });
        };
        let mut steps = Dims::filled(x.rank(), 0);
        let mut tokens = 1_usize;
        for (step, &size) in steps.iter_mut().zip(leading).rev() {
            *step = tokens;
            tokens = tokens.saturating_mul(size.max(1));
        }
        let tokens = numel(leading).unwrap_or(usize::MAX);
        Self::with(x, args.tensor(1)?, Some(args.tensor(2)?), steps, tokens)
    }

    fn with(
        x: TensorView<'a>,
        scales: TensorView<'a>,
        zero_points: Option<TensorView<'a>>,
        steps: Dims,
        count: usize,
    ) -> Result<Self, Error> {
        let fits = |tensor: TensorView<'a>, index: u8| {
            if tensor.numel() != count {
                let expected = "as many parameters as channels or tokens";
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
            Some(tensor) => fits(tensor, 2)?,
            None => Values::One(0.0),
        };
        let scales = fits(scales, 1)?;
        Ok(Self { x, scales, zero_points, steps, scale_dtype: Some(scale_dtype) })
    }

    /// Writes the integers to the argument `out`. The arguments before it are the least and the
    /// largest integer and the dtype of `out`.
    pub(crate) fn quantize(
        &self,
        args: &mut Args<'_>,
        out: u8,
        rounding: Rounding,
    ) -> Result<(), Error> {
        let range = range(args, out - 3)?;
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
            // The reciprocal of a number is rounded once, that of an element to its dtype.
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

    /// Writes the numbers to the argument `out`, which has the dtype at `wanted`, if there is one.
    /// The dtype at `stored` is that of the tensor.
    pub(crate) fn dequantize(
        &self,
        args: &mut Args<'_>,
        stored: u8,
        wanted: u8,
        out: u8,
    ) -> Result<(), Error> {
        let found = self.x.dtype();
        let is_stored = found.is_integer() && found.size() <= 4 || found == ScalarType::Bits16;
        if !is_stored || args.opt_dtype(usize::from(stored))? != Some(found) {
            return Err(Error::InvalidType { index: 0, found });
        }
        let wanted = args.opt_dtype(usize::from(wanted))?;
        let mut out_tensor = args.out(usize::from(out))?;
        let dtype = out_tensor.dtype();
        check_dtype(dtype, wanted.unwrap_or(dtype), out)?;
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
        // With one scale PyTorch computes in the dtype of the result.
        let rounds = self.scale_dtype.is_none() && out.dtype().size() == 2;
        let dtype = out.dtype();
        self.map::<C, C>(out, index, |scale, zero_point, from, to| {
            let (scale, zero_point) = (C::from_double(scale), C::from_double(zero_point));
            for (to, &from) in to.iter_mut().zip(from) {
                *to = if rounds {
                    round(round(from, dtype) - zero_point, dtype) * scale
                } else {
                    (from - zero_point) * scale
                };
            }
        })
    }

    /// Calls `f` for chunks of elements that share their parameters: with scale, zero point, what
    /// is read and what is written.
    fn map<C: Float, W: crate::shared::accumulator::Accumulator>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: u8,
        mut f: impl FnMut(f64, f64, &[C], &mut [W]),
    ) -> Result<(), Error> {
        if out.numel() == 0 {
            return Ok(());
        }
        let (mut lines, sizes) = (LoopNest::<3>::new(), self.x.sizes());
        let (from, to) = (strides_of(&self.x), out_strides(out));
        let dims = self.x.dim_order().iter().map(|&dim| usize::from(dim));
        let has_own = |dim: &usize| self.steps[*dim] != 0 && sizes[*dim] > 1;
        for dim in dims.clone().filter(has_own) {
            lines.push(sizes[dim], [from[dim], to[dim], self.steps[dim]])?;
        }
        let mut shared = LoopNest::<2>::new();
        for dim in dims.filter(|dim| !has_own(dim)) {
            shared.push(sizes[dim], [from[dim], to[dim]])?;
        }
        let (len, [from_step, to_step]) = shared.pop();
        let (x, mut out) =
            (Reader::<C>::of_components(self.x, 0)?, Writer::<W>::of_components(out, index)?);
        let (mut read, mut written) = ([C::default(); CHUNK], [W::default(); CHUNK]);
        lines.for_each([0; 3], |[from, to, at]| {
            let (scale, zero_point) = (self.scales.get(at), self.zero_points.get(at));
            shared.for_each([from, to], |[from, to]| {
                for start in (0..len).step_by(CHUNK) {
                    let count = CHUNK.min(len - start);
                    x.read(from + start * from_step, from_step, &mut read[..count]);
                    f(scale, zero_point, &read[..count], &mut written[..count]);
                    out.write(to + start * to_step, to_step, &written[..count]);
                }
            });
        });
        Ok(())
    }
}

/// `value` as a whole number in `range`; NaN is zero, as in PyTorch.
pub(crate) fn clamp_to_range<C: Float>(value: C, [least, largest]: [i64; 2]) -> i64 {
    if value.is_nan() {
        return 0;
    }
    (value.to_double() as i64).max(least).min(largest)
}

/// `value` rounded to `dtype`.
pub(crate) fn round<C: Float>(value: C, dtype: ScalarType) -> C {
    let value = value.to_double();
    C::from_double(match dtype {
        ScalarType::Half => f16::from_f64(value).to_f64(),
        ScalarType::BFloat16 => bf16::from_f64(value).to_f64(),
        _ => value,
    })
}

/// The least and the largest integer at `index` and after it; behind them stands the dtype that
/// holds both, which is that of the output after it.
fn range(args: &mut Args<'_>, index: u8) -> Result<[i64; 2], Error> {
    let at = usize::from(index);
    let range = [args.int(at)?, args.int(at + 1)?];
    let dtype = args.opt_dtype(at + 2)?;
    let found = args.out(at + 3)?.dtype();
    let holds = dtype == Some(found) && found.size() <= 4;
    if found == ScalarType::Bits16 && holds {
        return check_range(range, ScalarType::UInt16, index);
    }
    if holds {
        check_range(range, found, index)
    } else {
        Err(Error::InvalidType { index: index + 3, found })
    }
}

/// `range` if `dtype` holds both ends.
pub(crate) fn check_range(
    range: [i64; 2],
    dtype: ScalarType,
    index: u8,
) -> Result<[i64; 2], Error> {
    let holds = with_dtype!(int, dtype, index, T => {
        Ok(range.map(|end| <T as Number>::from_i64(end).to_i64() == end))
    })?;
    let expected = "a number that the dtype holds";
    match holds {
        [false, _] => Err(Error::InvalidArgument { index, expected }),
        [_, false] => Err(Error::InvalidArgument { index: index + 1, expected }),
        _ => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_meet_their_range() {
        let check =
            |value, range, expected| assert_eq!(clamp_to_range::<f32>(value, range), expected);
        check(3.0, [-128, 127], 3);
        check(1e30, [-128, 127], 127);
        check(f32::NEG_INFINITY, [-128, 127], -128);
        check(f32::NAN, [5, 127], 0);
        // As in PyTorch, the largest wins.
        check(0.0, [5, -5], -5);
    }

    #[test]
    fn ranges_fit_their_dtype() {
        assert!(check_range([0, 255], ScalarType::Byte, 0).is_ok());
        assert!(check_range([-1, 255], ScalarType::Byte, 0).is_err());
        assert!(check_range([0, i64::MAX], ScalarType::Int, 0).is_err());
        assert!(check_range([0, 1], ScalarType::Float, 0).is_err());
    }
}
