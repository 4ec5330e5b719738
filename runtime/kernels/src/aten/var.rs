//! `aten::var.out`, `aten::var.correction_out`, `aten::var_mean.correction_out`: variance.
//!
//! | argument        | type                                       | shape                     |
//! |-----------------|--------------------------------------------|---------------------------|
//! | `self`          | floating-point tensor                      | any                       |
//! | `dim`           | optional ints; absent or empty reduces all |                           |
//! | `unbiased`      | bool: correction 1 or 0; only `var.out`    |                           |
//! | `correction`    | optional scalar; default 1                 |                           |
//! | `keepdim`       | bool                                       |                           |
//! | `out` or `out0` | floating-point tensor                      | `self` reduced over `dim` |
//! | `out1`          | as `out0`: the mean; only `var_mean`       | as `out0`                 |
//!
//! Computes `Σ (x - mean)² / max(0, n - correction)` in two passes, in `f64`. So does ATen, except
//! that `var` of `f32` with a single output rounds the mean to `f32` first. Tolerance: 1e-5
//! relative.
//! Errors: other dtypes, a `dim` that is repeated or out of range. Source: ATen `var`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorMut, TensorView};

use crate::shared::{
    accumulator::{check_dtype, sum, sum_of},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::var.out",
        &[Arg::Tensor, Arg::OptIntList, Arg::Bool, Arg::Bool, Arg::Out],
        var_out,
    ),
    Kernel::new(
        "aten::var.correction_out",
        &[Arg::Tensor, Arg::OptIntList, Arg::OptScalar, Arg::Bool, Arg::Out],
        var_correction_out,
    ),
    Kernel::new(
        "aten::var_mean.correction_out",
        &[Arg::Tensor, Arg::OptIntList, Arg::OptScalar, Arg::Bool, Arg::Out, Arg::Out],
        var_mean_correction_out,
    ),
];

/// Parameters of a variance.
struct VarParams {
    reduced: ReducedDims,
    correction: f64,
    keepdim: bool,
}

impl VarParams {
    fn new(args: &Args<'_>, correction: f64) -> Result<Self, Error> {
        let reduced = ReducedDims::list_or_all(args.opt_int_list(1)?, args.tensor(0)?.rank(), 1)?;
        Ok(Self { reduced, correction, keepdim: args.bool(3)? })
    }
}

fn var_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let params = VarParams::new(args, f64::from(u8::from(args.bool(2)?)))?;
    let x = args.tensor(0)?;
    var_mean(&x, &params, &mut args.out(4)?, None)
}

fn var_correction_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let params = VarParams::new(args, args.opt_double(2)?.unwrap_or(1.0))?;
    let x = args.tensor(0)?;
    var_mean(&x, &params, &mut args.out(4)?, None)
}

fn var_mean_correction_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let params = VarParams::new(args, args.opt_double(2)?.unwrap_or(1.0))?;
    let x = args.tensor(0)?;
    let [mut var, mut mean] = args.outs([4, 5])?;
    var_mean(&x, &params, &mut var, Some(&mut mean))
}

/// Writes the variance of `x` to `var`, and its mean to `mean` if given.
fn var_mean(
    x: &TensorView<'_>,
    params: &VarParams,
    var: &mut TensorMut<'_, '_>,
    mean: Option<&mut TensorMut<'_, '_>>,
) -> Result<(), Error> {
    for (found, index) in [(x.dtype(), 0), (var.dtype(), 4)] {
        if !found.is_float() {
            return Err(Error::InvalidType { index, found });
        }
    }
    let sizes = params.reduced.out_sizes(x.sizes(), params.keepdim)?;
    let count = params.reduced.count(x.sizes()) as f64;
    let reader = Reader::<f64>::new(*x, 0)?;
    let mean_at = |reduction: &Reduction, from| reduction.sum(&reader, from, sum) / count;
    if let Some(mean) = mean {
        check_dtype(mean.dtype(), var.dtype(), 5)?;
        mean.resize(&sizes)?;
        let reduction = Reduction::new(x, params.reduced, params.keepdim, mean)?;
        let mut mean = Writer::new(mean, 5)?;
        reduction.for_each(|from, to| mean.set(to, mean_at(&reduction, from)));
    }
    var.resize(&sizes)?;
    let reduction = Reduction::new(x, params.reduced, params.keepdim, var)?;
    let divisor = (count - params.correction).max(0.0);
    let mut var = Writer::new(var, 4)?;
    reduction.for_each(|from, to| {
        let mean = mean_at(&reduction, from);
        let squares = |chunk: &[f64]| sum_of(chunk, |x| (x - mean) * (x - mean));
        var.set(to, reduction.sum(&reader, from, squares) / divisor);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &[f32], correction: Option<Scalar>, expected: f32) {
        let (x, mut out) = (Tensor::from_slice(x), Tensor::new(&[], &[0.0_f32]).unwrap());
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::None,
            correction.map_or(Argument::None, Argument::Scalar),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        let found = out.data::<f32>().unwrap()[0];
        assert!(found == expected || (found.is_nan() && expected.is_nan()), "{found}");
    }

    #[test]
    fn values() {
        check(&[1.0, 2.0, 3.0], None, 1.0);
        check(&[1.0, 3.0], Some(Scalar::Int(0)), 1.0);
        check(&[1.0, 3.0], Some(Scalar::Int(5)), f32::INFINITY);
        check(&[1.0], None, f32::NAN);
        check(&[], None, f32::NAN);
    }

    /// Variance and mean of the rows of `x`, in outputs of `dtypes`.
    fn row_var_mean(x: &Tensor, dtypes: [ScalarType; 2]) -> Result<[Tensor; 2], Error> {
        let [mut var, mut mean] = dtypes.map(|dtype| Tensor::zeros(dtype, &[0]));
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Ints(vec![1]),
            Argument::None,
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut var),
            Argument::Out(&mut mean),
        ];
        Call::new(&KERNELS[2]).run(&mut arguments)?;
        Ok([var, mean])
    }

    #[test]
    fn mean_is_not_rounded_to_f32() {
        let x = Tensor::new(&[2, 2], &[16_777_216.0_f32, 16_777_218.0, 1.0, 3.0]).unwrap();
        let [var, mean] = row_var_mean(&x, [ScalarType::Float; 2]).unwrap();
        assert_eq!(var.data(), Ok(&[2.0_f32, 2.0][..]));
        assert_eq!(mean.data(), Ok(&[16_777_216.0_f32, 2.0][..]));
    }

    #[test]
    fn other_dtypes_are_rejected() {
        let check = |x, dtypes, index| {
            let found = row_var_mean(&Tensor::zeros(x, &[2, 2]), dtypes).map(|_| ());
            assert_eq!(found, Err(Error::InvalidType { index, found: ScalarType::Long }));
        };
        let (float, long) = (ScalarType::Float, ScalarType::Long);
        check(long, [float; 2], 0);
        check(float, [long; 2], 4);
        check(float, [float, long], 5);
    }
}
