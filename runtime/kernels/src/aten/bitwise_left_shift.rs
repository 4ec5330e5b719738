//! `aten::bitwise_left_shift.Tensor_out`, `.Tensor_Scalar_out`, `.Scalar_Tensor_out`: left shift.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | integer tensor or scalar               | any                             |
//! | `other`  | integer tensor or scalar               | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self << other` in the common dtype; 0 if `other` is negative or at least the bit
//! width. Tolerance: exact.
//! Errors: a `bool` or floating-point common dtype is [`Error::InvalidType`].
//! Source: ATen `bitwise_left_shift`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, integers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::bitwise_left_shift.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Out],
        bitwise_left_shift_out,
    ),
    Kernel::new(
        "aten::bitwise_left_shift.Tensor_Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Out],
        bitwise_left_shift_out,
    ),
    Kernel::new(
        "aten::bitwise_left_shift.Scalar_Tensor_out",
        &[Arg::Scalar, Arg::Tensor, Arg::Out],
        bitwise_left_shift_out,
    ),
];

fn bitwise_left_shift_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    let call = Pointwise::new(inputs)?.reject_float()?.reject_bool()?;
    let shifts = 0..8 * call.dtype().size() as i64;
    call.run(args, 2, integers!(|[a, b]| if shifts.contains(&b) { a << b } else { 0 }))
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[1_i8, 1, 1, -1]), tensor(&[7_i8, 8, -1, 1]));
        check(&KERNELS[0], [a, b], Ok(&[i8::MIN, 0, 0, -2]));
        let (one, by) = (tensor(&[1_u8, 255]), Value::Scalar(Scalar::Int(7)));
        check(&KERNELS[1], [one, by], Ok(&[128_u8, 128]));
    }
}
