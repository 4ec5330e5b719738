//! `aten::bitwise_or.Tensor_out`, `.Scalar_out`, `.Scalar_Tensor_out`: bitwise OR.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | integer or `bool` tensor or scalar     | any                             |
//! | `other`  | integer or `bool` tensor or scalar     | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self | other` in the common dtype. Tolerance: exact.
//! Errors: a floating-point common dtype is [`Error::InvalidType`].
//! Source: ATen `bitwise_or`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, integers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::bitwise_or.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Out],
        bitwise_or_out,
    ),
    Kernel::new(
        "aten::bitwise_or.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Out],
        bitwise_or_out,
    ),
    Kernel::new(
        "aten::bitwise_or.Scalar_Tensor_out",
        &[Arg::Scalar, Arg::Tensor, Arg::Out],
        bitwise_or_out,
    ),
];

fn bitwise_or_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.reject_float()?;
    call.run(args, 2, integers!(|[a, b]| a | b))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Scalar, ScalarType};

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[12_i8, -1]), tensor(&[10_i8, 6]));
        check(&KERNELS[0], [a, b], Ok(&[14_i8, -1]));
        let scalar = Value::Scalar(Scalar::Int(10));
        check(&KERNELS[1], [tensor(&[12_u8]), scalar], Ok(&[14_u8]));
        let bits = [bools(&[false, true, true]), bools(&[true, false, true])];
        check(&KERNELS[0], bits.map(|b| tensor(&b)), Ok(&bools(&[true, true, true])));
    }

    #[test]
    fn float_is_rejected() {
        let error = Error::InvalidType { index: 0, found: ScalarType::Float };
        check::<f32, 2>(&KERNELS[0], [tensor(&[1.0_f32]), tensor(&[1_i32])], Err(error));
    }
}
