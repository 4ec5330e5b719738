//! `aten::histc.out`: histogram with bins of equal width.
//!
//! | argument     | type                  | shape    |
//! |--------------|-----------------------|----------|
//! | `self`       | floating-point tensor | any      |
//! | `bins`       | int, at least 1       |          |
//! | `min`, `max` | scalars               |          |
//! | `out`        | as `self`             | `[bins]` |
//!
//! Counts the elements in each bin between `min` and `max`, or if these are equal, between the
//! smallest and the largest element; if those are equal too, from 1 below to 1 above. The last bin
//! includes its end. Elements outside and NaN are not counted. Half types are computed in `f32`.
//! Tolerance: exact.
//! Errors: a range that is not finite or decreases, other dtypes. Source: ATen `histc`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::out_strides,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::histc.out",
    &[Arg::Tensor, Arg::Int, Arg::Scalar, Arg::Scalar, Arg::Out],
    histc_out,
)];

fn histc_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    with_float_accumulator!(dtype, 0, A => histc::<A>(cx, args))
}

fn histc<A: Float>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let bins = usize::try_from(args.int(1)?).ok().filter(|&bins| bins > 0);
    let bins = bins.ok_or(invalid(1, "a number of bins above zero"))?;
    let bounds = [A::from_arg(args.scalar(2)?), A::from_arg(args.scalar(3)?)];
    let reader = Reader::<A>::new(x, 0)?;
    let [low, high] = range(&reader, x.numel(), bounds);
    let is_finite = |x: A| x.to_double().is_finite();
    if !is_finite(low) || !is_finite(high) || low > high {
        return Err(invalid(2, "a finite range that does not decrease"));
    }
    let mut out = args.out(4)?;
    out.resize(&[bins])?;
    let counts = cx.scratch::<u64>(bins)?;
    counts.fill(0);
    let scale = A::from_double(bins as f64);
    reader.for_each_chunk(0, 1, x.numel(), |chunk| {
        for &x in chunk {
            if x >= low && x <= high {
                let bin = ((x - low) * scale / (high - low)).to_double() as usize;
                counts[bin.min(bins - 1)] += 1;
            }
        }
    });
    let stride = out_strides(&out)[0];
    let mut out = Writer::new(&mut out, 4)?;
    for (bin, &count) in counts.iter().enumerate() {
        out.set(bin * stride, A::from_double(count as f64));
    }
    Ok(())
}

/// Range of the histogram of `len` elements.
fn range<A: Float>(x: &Reader<'_, A>, len: usize, [low, high]: [A; 2]) -> [A; 2] {
    let (mut low, mut high) = (low, high);
    if low == high && len > 0 {
        (low, high) = (A::HIGHEST, A::LOWEST);
        x.for_each_chunk(0, 1, len, |chunk| {
            for &x in chunk {
                // NaN makes the range invalid.
                low = if x < low || x.is_nan() { x } else { low };
                high = if x > high || x.is_nan() { x } else { high };
            }
        });
    }
    if low == high { [low - A::ONE, high + A::ONE] } else { [low, high] }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(x: &[f32], bins: i64, low: f64, high: f64) -> Result<Vec<f32>, Error> {
        let (x, mut out) = (Tensor::from_slice(x), Tensor::from_slice::<f32>(&[]));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(bins)),
            Argument::Scalar(Scalar::Double(low)),
            Argument::Scalar(Scalar::Double(high)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn counts() {
        let x = [-1.0, 0.0, 0.5, 1.0, 2.0, 9.0];
        assert_eq!(run(&x, 2, 0.0, 2.0), Ok(vec![2.0, 2.0]));
        assert_eq!(run(&x, 2, 0.0, 0.0), Ok(vec![5.0, 1.0]));
        assert_eq!(run(&[3.0, 3.0], 3, 0.0, 0.0), Ok(vec![0.0, 2.0, 0.0]));
        assert_eq!(run(&[], 2, 0.0, 0.0), Ok(vec![0.0, 0.0]));
        assert_eq!(run(&[f32::NAN, 1.0], 1, 0.0, 2.0), Ok(vec![1.0]));
    }

    #[test]
    fn more_bins_than_the_output_holds_take_no_memory() {
        let (x, mut out) = (Tensor::from_slice(&[1.0_f32]), Tensor::from_slice::<f32>(&[0.0]));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(1 << 40)),
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Scalar(Scalar::Double(1.0)),
            Argument::Out(&mut out),
        ];
        let result = Call::with_memory_limit(&KERNELS[0], 1 << 20).run(&mut arguments);
        assert!(matches!(result, Err(Error::MemoryAllocationFailed { .. })), "{result:?}");
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        assert!(run(&[1.0], 0, 0.0, 1.0).is_err());
        assert!(run(&[1.0], 2, 1.0, 0.0).is_err());
        assert!(run(&[1.0], 2, 0.0, f64::INFINITY).is_err());
        assert!(run(&[f32::NAN, 1.0], 2, 0.0, 0.0).is_err());
    }
}
