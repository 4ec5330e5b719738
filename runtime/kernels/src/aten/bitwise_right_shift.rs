//! `aten::bitwise_right_shift.Tensor_out`, `.Tensor_Scalar_out`, `.Scalar_Tensor_out`: arithmetic
//! right shift.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | integer tensor or scalar               | any                             |
//! | `other`  | integer tensor or scalar               | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self >> other` in the common dtype; 0, or -1 for negative `self`, if `other` is
//! negative or at least the bit width. Tolerance: exact.
//! Errors: a `bool` or floating-point common dtype is [`Error::InvalidType`].
//! Source: ATen `bitwise_right_shift`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::pointwise::{Input, Pointwise, integers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::bitwise_right_shift.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Out],
        bitwise_right_shift_out,
    ),
    Kernel::new(
        "aten::bitwise_right_shift.Tensor_Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Out],
        bitwise_right_shift_out,
    ),
    Kernel::new(
        "aten::bitwise_right_shift.Scalar_Tensor_out",
        &[Arg::Scalar, Arg::Tensor, Arg::Out],
        bitwise_right_shift_out,
    ),
];

fn bitwise_right_shift_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    let call = Pointwise::new(inputs)?.reject_float()?.reject_bool()?;
    let bit_width = 8 * call.dtype().size() as i64;
    // Shifting by `last` leaves only the sign bit.
    let last = bit_width - i64::from(!is_unsigned(call.dtype()));
    let shifts = 0..last;
    let last = last.min(63);
    call.run(args, 2, integers!(|[a, b]| if shifts.contains(&b) { a >> b } else { a >> last }))
}

fn is_unsigned(dtype: ScalarType) -> bool {
    matches!(dtype, ScalarType::Byte | ScalarType::UInt16 | ScalarType::UInt32)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[-8_i8, 8, -8, 8]), tensor(&[1_i8, 9, -1, 2]));
        check(&KERNELS[0], [a, b], Ok(&[-4_i8, 0, -1, 2]));
        let (one, by) = (tensor(&[128_u8, 255]), Value::Scalar(Scalar::Int(7)));
        check(&KERNELS[1], [one, by], Ok(&[1_u8, 1]));
    }
}
