//! `aten::add.out`, `aten::add.Scalar_out`: sum.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real or complex tensor                 | any                             |
//! | `other`  | real or complex tensor, or scalar      | broadcasts with `self`          |
//! | `alpha`  | scalar; an integer for integer results |                                 |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `self + alpha · other` in the common dtype; integers wrap. Tolerance: exact if `alpha`
//! is 1; otherwise PyTorch may use a fused multiply-add.
//! Errors: a fractional `alpha` for integers is [`Error::InvalidArgument`] at index 2.
//! Source: ATen `add`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};

use crate::shared::{
    accumulator::{Accumulator, check_dtype},
    complex::{add, complex_result_type, map, with_complex},
    dtype::Number,
    pointwise::{Input, Pointwise, integer_scalar, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::add.out", &[Arg::Tensor, Arg::Tensor, Arg::Scalar, Arg::Out], add_out)
        .with_pattern(OpPattern::Elementwise),
    Kernel::new(
        "aten::add.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Out],
        add_out,
    )
    .with_pattern(OpPattern::Elementwise),
];

fn add_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    if let Some(dtype) = complex_result_type(&inputs) {
        check_dtype(args.out(3)?.dtype(), dtype, 3)?;
        let alpha = args.double(2)?;
        return with_complex!(dtype, A => map::<A, 2>(args, 3, |[a, b]| {
            add(a, b.map(|component| component * A::from_double(alpha)))
        }));
    }
    let call = Pointwise::new(inputs)?.with_unrounded_scalars();
    let alpha = args.scalar(2)?;
    let int = integer_scalar(alpha, call.dtype(), 2)?;
    call.run(
        args,
        3,
        numbers!(
            move |[a, b]| a.wrapping_add(b.wrapping_mul(int)),
            F => { let alpha = F::from_scalar(alpha); move |[a, b]| a + b * alpha }
        ),
    )
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, shaped, tensor};

    const ONE: Value = Value::Scalar(Scalar::Int(1));

    #[test]
    fn dtypes_are_promoted() {
        let floats = tensor(&[1.0_f32, f32::NAN]);
        check(&KERNELS[0], [floats, tensor(&[2_i64, 3]), ONE], Ok(&[3.0_f32, f32::NAN]));
        check(&KERNELS[0], [tensor(&[200_u8]), tensor(&[100_u8]), ONE], Ok(&[44_u8]));
        check(&KERNELS[0], [tensor(&[200_u8]), tensor(&[-1_i8]), ONE], Ok(&[199_i16]));
        let (yes, no) = (bools(&[true]), bools(&[false]));
        check(&KERNELS[0], [tensor(&yes), tensor(&yes), ONE], Ok(&yes));
        check(&KERNELS[0], [tensor(&no), tensor(&no), ONE], Ok(&no));
    }

    #[test]
    fn scalars_promote_only_across_categories() {
        let inputs = |scalar| [tensor(&[1_i8, 2]), Value::Scalar(scalar), ONE];
        check(&KERNELS[1], inputs(Scalar::Int(300)), Ok(&[45_i8, 46]));
        check(&KERNELS[1], inputs(Scalar::Double(0.5)), Ok(&[1.5_f32, 2.5]));
        let error = Error::InvalidType { index: 3, found: afferent_core::ScalarType::Char };
        check::<i8, 3>(&KERNELS[1], inputs(Scalar::Double(0.5)), Err(error));
    }

    #[test]
    fn empty_tensors_may_have_huge_sizes() {
        let empty = shaped::<f32>(&[1 << 40, 1 << 40, 0], &[]);
        check(&KERNELS[0], [empty, tensor(&[1_i32]), ONE], Ok::<&[f32], _>(&[]));
    }

    #[test]
    fn alpha_scales_other() {
        let inputs = |scalar| [tensor(&[1_i32]), tensor(&[3_i32]), Value::Scalar(scalar)];
        check(&KERNELS[0], inputs(Scalar::Int(-2)), Ok(&[-5_i32]));
        let error = Error::InvalidArgument { index: 2, expected: "an integer for integer results" };
        check::<i32, 3>(&KERNELS[0], inputs(Scalar::Double(2.0)), Err(error));
    }
}
