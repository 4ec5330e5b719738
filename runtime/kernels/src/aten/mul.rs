//! `aten::mul.out`, `aten::mul.Scalar_out`: product.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real or complex tensor                 | any                             |
//! | `other`  | real or complex tensor, or scalar      | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self · other` in the common dtype; integers wrap. Tolerance: exact.
//! Source: ATen `mul`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};

use crate::shared::{
    accumulator::check_dtype,
    complex::{complex_result_type, map, mul, with_complex},
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::mul.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], mul_out)
        .with_pattern(OpPattern::Elementwise),
    Kernel::new("aten::mul.Scalar_out", &[Arg::Tensor, Arg::Scalar, Arg::Out], mul_out)
        .with_pattern(OpPattern::Elementwise),
];

fn mul_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    if let Some(dtype) = complex_result_type(&inputs) {
        check_dtype(args.out(2)?.dtype(), dtype, 2)?;
        return with_complex!(dtype, A => map::<A, 2>(args, 2, |[a, b]| mul(a, b)));
    }
    let call = Pointwise::new(inputs)?.with_unrounded_scalars();
    call.run(args, 2, numbers!(|[a, b]| a.wrapping_mul(b), F => |[a, b]| a * b))
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, shaped, tensor};

    #[test]
    fn values() {
        let column = shaped(&[2, 1], &[2.0_f32, -1.0]);
        check(&KERNELS[0], [column, tensor(&[1_i64, 3])], Ok(&[2.0_f32, 6.0, -1.0, -3.0]));
        check(&KERNELS[0], [tensor(&[100_i8]), tensor(&[3_i8])], Ok(&[44_i8]));
        check(&KERNELS[1], [tensor(&[3_i16]), Value::Scalar(Scalar::Int(-2))], Ok(&[-6_i16]));
    }

    #[test]
    fn bool_product_is_logical_and() {
        let (a, b) = (bools(&[true, true, false]), bools(&[true, false, false]));
        check(&KERNELS[0], [tensor(&a), tensor(&b)], Ok(&bools(&[true, false, false])));
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_rejected() {
        let expected = "a tensor that broadcasts with the others";
        let error = Error::InvalidArgument { index: 1, expected };
        check::<f32, 2>(&KERNELS[0], [tensor(&[1.0_f32; 3]), tensor(&[1.0_f32; 2])], Err(error));
    }
}
