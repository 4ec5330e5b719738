//! `aten::_native_batch_norm_legit_no_training.out`: batch normalization with running statistics.
//!
//! | argument                      | type                           | shape       |
//! |-------------------------------|--------------------------------|-------------|
//! | `input`                       | floating-point tensor          | `[n, c, …]` |
//! | `weight`, `bias`              | optional floating-point tensor | `[c]`       |
//! | `running_mean`, `running_var` | floating-point tensor          | `[c]`       |
//! | `momentum`                    | double, ignored                |             |
//! | `eps`                         | double                         |             |
//! | `out0`                        | as `input`                     | as `input`  |
//! | `out1`, `out2`                | floating-point tensor          | `[0]`       |
//!
//! Computes `(x - mean) / √(var + eps) · weight + bias`. Half types are computed in `f32`.
//! Tolerance: 1e-5.
//! Errors: mismatched sizes, other dtypes. Source: ATen `_native_batch_norm_legit_no_training`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{check_dtype, with_float_accumulator},
    batch_norm::{ArgIndices, batch_norm},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_native_batch_norm_legit_no_training.out",
    &[
        Arg::Tensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::Double,
        Arg::Double,
        Arg::Out,
        Arg::Out,
        Arg::Out,
    ],
    no_training_out,
)];

fn no_training_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(7)?.dtype(), dtype, 7)?;
    args.opt_tensor(3)?.ok_or(Error::InvalidArgument { index: 3, expected: "a tensor" })?;
    args.opt_tensor(4)?.ok_or(Error::InvalidArgument { index: 4, expected: "a tensor" })?;
    let arg_indices = ArgIndices { running: Some(3), eps: 6, out: 7 };
    with_float_accumulator!(dtype, 0, A => batch_norm::<A>(args, arg_indices))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let (mean, var) =
            (Tensor::from_slice(&[1.0_f32, 2.0]), Tensor::from_slice(&[1.0_f32, 4.0]));
        let bias = Tensor::from_slice(&[0.0_f32, 10.0]);
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut saved = [[7]; 2].map(|sizes| Tensor::zeros(ScalarType::Float, &sizes));
        let [saved_mean, saved_rstd] = &mut saved;
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::None,
            Argument::Tensor(&bias),
            Argument::Tensor(&mean),
            Argument::Tensor(&var),
            Argument::Scalar(Scalar::Double(0.1)),
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Out(&mut out),
            Argument::Out(saved_mean),
            Argument::Out(saved_rstd),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[0.0, 1.0, 10.5, 11.0][..]));
        assert_eq!(saved[0].sizes(), [0]);
    }
}
