//! `aten::masked_fill.Scalar_out`, `aten::masked_fill.Tensor_out`: fill where a mask is true.
//!
//! | argument | type                         | shape                          |
//! |----------|------------------------------|--------------------------------|
//! | `self`   | real tensor                  | any                            |
//! | `mask`   | `bool` tensor                | broadcasts with `self`         |
//! | `value`  | scalar or real tensor        | `[]`                           |
//! | `out`    | tensor, castable from `self` | broadcast of `self` and `mask` |
//!
//! Computes `value` where `mask` is true and `self` elsewhere, in the dtype of `self`. Tolerance:
//! exact.
//! Errors: another `mask` dtype is [`Error::InvalidType`]; a `value` that the dtype cannot
//! represent or that is not 0-d is [`Error::InvalidArgument`] at index 2.
//! Source: ATen `masked_fill`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::pointwise::{Input, Pointwise, fill_value, numbers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::masked_fill.Scalar_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Scalar, Arg::Out],
        masked_fill_out,
    ),
    Kernel::new(
        "aten::masked_fill.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Out],
        masked_fill_out,
    ),
];

fn masked_fill_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (x, mask) = (Input::arg(args, 0)?, Input::arg(args, 1)?);
    if mask.dtype() != ScalarType::Bool {
        return Err(Error::InvalidType { index: 1, found: mask.dtype() });
    }
    let value = fill_value(args, 2, x.dtype())?;
    let fill = numbers!(
        |[x, mask, value]| if mask != 0 { value } else { x },
        F => |[x, mask, value]| if mask != 0.0 { value } else { x }
    );
    Pointwise::in_dtype([x, mask, value], x.dtype()).run(args, 3, fill)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, shaped, tensor};

    #[test]
    fn values() {
        let mask = || tensor(&bools(&[true, false]));
        let scalar = |value| Value::Scalar(Scalar::Double(value));
        let expected = [f32::NEG_INFINITY, 2.0];
        check(
            &KERNELS[0],
            [tensor(&[1.0_f32, 2.0]), mask(), scalar(-f64::INFINITY)],
            Ok(&expected),
        );
        check(&KERNELS[0], [tensor(&[7_u8]), mask(), scalar(2.5)], Ok(&[2_u8, 7]));
        check(&KERNELS[1], [tensor(&[7_i64, 8]), mask(), shaped(&[], &[3_i32])], Ok(&[3_i64, 8]));
    }

    #[test]
    fn fractional_value_is_true_in_bool_tensor() {
        let (x, mask) = (|| tensor(&bools(&[false; 2])), || tensor(&bools(&[true, false])));
        let expected = bools(&[true, false]);
        for number in [0.5, f64::NAN] {
            let value = Value::Scalar(Scalar::Double(number));
            check(&KERNELS[0], [x(), mask(), value], Ok(&expected));
            check(&KERNELS[1], [x(), mask(), shaped(&[], &[number as f32])], Ok(&expected));
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let value = || Value::Scalar(Scalar::Int(300));
        let x = || tensor(&[1_u8]);
        let error = Error::InvalidType { index: 1, found: ScalarType::Byte };
        check::<u8, 3>(&KERNELS[0], [x(), x(), value()], Err(error));
        let error =
            Error::InvalidArgument { index: 2, expected: "a number that the dtype can represent" };
        check::<u8, 3>(&KERNELS[0], [x(), tensor(&bools(&[true])), value()], Err(error));
    }
}
