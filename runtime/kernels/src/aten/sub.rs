//! `aten::sub.out`, `aten::sub.Scalar_out`: difference.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real tensor                            | any                             |
//! | `other`  | real tensor or scalar                  | broadcasts with `self`          |
//! | `alpha`  | scalar; an integer for integer results |                                 |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self - alpha · other` in the common dtype; integers wrap. Tolerance: exact if `alpha`
//! is 1; otherwise PyTorch may use a fused multiply-add.
//! Errors: a `bool` common dtype is [`Error::InvalidType`]; a fractional `alpha` for integers is
//! [`Error::InvalidArgument`] at index 2.
//! Source: ATen `sub`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dtype::Number,
    pointwise::{Input, Pointwise, integer_scalar, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::sub.out", &[Arg::Tensor, Arg::Tensor, Arg::Scalar, Arg::Out], sub_out),
    Kernel::new(
        "aten::sub.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Out],
        sub_out,
    ),
];

fn sub_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    let call = Pointwise::new(inputs)?.reject_bool()?.with_unrounded_scalars();
    let alpha = args.scalar(2)?;
    let int = integer_scalar(alpha, call.dtype(), 2)?;
    call.run(
        args,
        3,
        numbers!(
            move |[a, b]| a.wrapping_sub(b.wrapping_mul(int)),
            F => {
                let alpha = F::from_scalar(alpha);
                move |[a, b]| a - b * alpha
            }
        ),
    )
}

#[cfg(test)]
mod tests {
    use afferent_core::{Scalar, ScalarType};

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, tensor};

    #[test]
    fn values() {
        let two = || Value::Scalar(Scalar::Int(2));
        check(&KERNELS[0], [tensor(&[1_i32]), tensor(&[3_i64]), two()], Ok(&[-5_i64]));
        check(&KERNELS[1], [tensor(&[1_u8]), Value::Scalar(Scalar::Int(3)), two()], Ok(&[251_u8]));
        let half = Value::Scalar(Scalar::Double(0.5));
        check(&KERNELS[0], [tensor(&[1.0_f32]), tensor(&[4_i64]), half], Ok(&[-1.0_f32]));
    }

    #[test]
    fn bool_is_rejected() {
        let flags = || tensor(&bools(&[true]));
        let error = Error::InvalidType { index: 0, found: ScalarType::Bool };
        let one = Value::Scalar(Scalar::Int(1));
        check::<i32, 3>(&KERNELS[0], [flags(), flags(), one], Err(error));
    }
}
