//! `aten::_native_batch_norm_legit.out`, `.no_stats_out`: batch normalization.
//!
//! | argument                      | type                           | shape          |
//! |-------------------------------|--------------------------------|----------------|
//! | `input`                       | floating-point tensor          | `[n, c, …]`    |
//! | `weight`, `bias`              | optional floating-point tensor | `[c]`          |
//! | `running_mean`, `running_var` | floating-point tensor          | `[c]`          |
//! | `training`                    | bool                           |                |
//! | `momentum`                    | double, ignored                |                |
//! | `eps`                         | double                         |                |
//! | `out`                         | as `input`                     | as `input`     |
//! | `save_mean`, `save_invstd`    | floating-point tensor          | `[0]` or `[c]` |
//!
//! Computes `(x - mean) / √(var + eps) · weight + bias`. `.out` uses the running statistics and
//! saves none. `.no_stats_out` has no running statistics: it uses those of the batch and saves
//! `mean` and `1 / √(var + eps)`. Half types are computed in `f32`. Tolerance: 1e-5.
//! Not supported: `.out` with `training`, which would update the running statistics.
//! Errors: mismatched sizes, other dtypes. Source: ATen `_native_batch_norm_legit`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{check_dtype, with_float_accumulator},
    batch_norm::{ArgIndices, batch_norm},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::_native_batch_norm_legit.out",
        &[
            Arg::Tensor,
            Arg::OptTensor,
            Arg::OptTensor,
            Arg::OptTensor,
            Arg::OptTensor,
            Arg::Bool,
            Arg::Double,
            Arg::Double,
            Arg::Out,
            Arg::Out,
            Arg::Out,
        ],
        legit_out,
    ),
    Kernel::new(
        "aten::_native_batch_norm_legit.no_stats_out",
        &[
            Arg::Tensor,
            Arg::OptTensor,
            Arg::OptTensor,
            Arg::Bool,
            Arg::Double,
            Arg::Double,
            Arg::Out,
            Arg::Out,
            Arg::Out,
        ],
        no_stats_out,
    ),
];

fn legit_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(8)?.dtype(), dtype, 8)?;
    if args.bool(5)? {
        return Err(Error::NotSupported { what: "batch normalization in training" });
    }
    args.opt_tensor(3)?.ok_or(Error::InvalidArgument { index: 3, expected: "a tensor" })?;
    args.opt_tensor(4)?.ok_or(Error::InvalidArgument { index: 4, expected: "a tensor" })?;
    let arg_indices = ArgIndices { running: Some(3), eps: 7, out: 8 };
    with_float_accumulator!(dtype, 0, A => batch_norm::<A>(args, arg_indices))
}

fn no_stats_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(6)?.dtype(), dtype, 6)?;
    if !args.bool(3)? {
        return Err(Error::InvalidArgument {
            index: 3,
            expected: "true without running statistics",
        });
    }
    let arg_indices = ArgIndices { running: None, eps: 5, out: 6 };
    with_float_accumulator!(dtype, 0, A => batch_norm::<A>(args, arg_indices))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn batch_statistics() {
        let x = Tensor::new(&[2, 1, 1], &[1.0_f32, 3.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut saved = [[0]; 2].map(|sizes| Tensor::zeros(ScalarType::Float, &sizes));
        let [mean, rstd] = &mut saved;
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::None,
            Argument::None,
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Double(0.1)),
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Out(&mut out),
            Argument::Out(mean),
            Argument::Out(rstd),
        ];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[-1.0, 1.0][..]));
        assert_eq!(saved[0].data::<f32>(), Ok(&[2.0][..]));
        assert_eq!(saved[1].data::<f32>(), Ok(&[1.0][..]));
    }
}
