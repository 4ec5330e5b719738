//! `aten::floor_divide.out`, `.Scalar_out`: division rounded toward negative infinity.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real tensor                            | any                             |
//! | `other`  | real tensor or scalar                  | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `⌊self / other⌋` in the common dtype. Tolerance: exact.
//! Errors: a zero in an integer divisor is [`Error::InvalidArgument`] at index 1; a `bool` common
//! dtype is [`Error::InvalidType`].
//! Source: ATen `floor_divide`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    division::{Divide, ZeroDivisor},
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::floor_divide.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], floor_divide_out),
    Kernel::new(
        "aten::floor_divide.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Out],
        floor_divide_out,
    ),
];

fn floor_divide_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.reject_bool()?;
    let zero = ZeroDivisor::default();
    call.run(
        args,
        2,
        numbers!(
            |[a, b]| a.floor_divide(zero.replace_zero(b)),
            F => |[a, b]| Divide::floor_divide(a, b)
        ),
    )?;
    zero.check()
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[-7_i32, -7, i32::MIN]), tensor(&[2_i32, -2, -1]));
        check(&KERNELS[0], [a, b], Ok(&[-4, 3, i32::MIN]));
        check(
            &KERNELS[0],
            [tensor(&[-7.0_f32, 1.0]), tensor(&[2.0_f32, 0.0])],
            Ok(&[-4.0, f32::INFINITY]),
        );
    }

    #[test]
    fn integer_division_by_zero_is_rejected() {
        let error =
            Error::InvalidArgument { index: 1, expected: "no integer divisor that is zero" };
        let zero = Value::Scalar(Scalar::Int(0));
        check::<u8, 2>(&KERNELS[1], [tensor(&[1_u8]), zero], Err(error));
    }
}
