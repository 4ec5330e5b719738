//! `aten::fill.Scalar_out`, `aten::fill.Tensor_out`: fill with one value.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `value`  | scalar or real tensor        | `[]`      |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `out[…] = value`, cast to the dtype of `self`. Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] at index 1 for a `value` that the dtype cannot represent or
//! that is not 0-d.
//! Source: ATen `fill`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, fill_value, numbers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::fill.Scalar_out", &[Arg::Tensor, Arg::Scalar, Arg::Out], fill_out),
    Kernel::new("aten::fill.Tensor_out", &[Arg::Tensor, Arg::Tensor, Arg::Out], fill_out),
];

fn fill_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = Input::arg(args, 0)?;
    let value = fill_value(args, 1, x.dtype())?;
    let fill = numbers!(|[_, value]| value, F => |[_, value]| value);
    Pointwise::in_dtype([x, value], x.dtype()).run(args, 2, fill)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, shaped, tensor};

    #[test]
    fn values() {
        let number = Value::Scalar(Scalar::Double(2.5));
        check(&KERNELS[0], [tensor(&[0.0_f32; 3]), number], Ok(&[2.5_f32; 3]));
        check(&KERNELS[1], [tensor(&[0_i32; 2]), shaped(&[], &[7_i64])], Ok(&[7_i32; 2]));
    }

    #[test]
    fn value_must_be_0d() {
        let error = Error::InvalidArgument { index: 1, expected: "a 0-d tensor" };
        check::<i32, 2>(&KERNELS[1], [tensor(&[0_i32]), tensor(&[1_i32])], Err(error));
    }
}
