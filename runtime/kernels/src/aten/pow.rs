//! `aten::pow.Tensor_Tensor_out`, `.Tensor_Scalar_out`, `.Scalar_out`: power.
//!
//! | argument   | type                                   | shape                              |
//! |------------|----------------------------------------|------------------------------------|
//! | `self`     | real tensor or scalar                  | any                                |
//! | `exponent` | real tensor or scalar                  | broadcasts with `self`             |
//! | `out`      | tensor, castable from the common dtype | broadcast of `self` and `exponent` |
//!
//! Computes `pow(self, exponent)` in the common dtype; integers wrap. Tolerance: 1e-6 relative.
//! Errors: [`Error::InvalidArgument`] at index 1 for a scalar exponent that is negative with
//! integers, or that the dtype cannot represent.
//! Source: ATen `pow`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use afferent_simd::math;
use libm::Libm;

use crate::shared::{
    pointwise::{Function, Input, Pointwise, check_range, numbers},
    simd::isa,
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::pow.Tensor_Tensor_out", &[Arg::Tensor, Arg::Tensor, Arg::Out], pow_out),
    Kernel::new(
        "aten::pow.Tensor_Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Out],
        pow_scalar_out,
    ),
    Kernel::new("aten::pow.Scalar_out", &[Arg::Scalar, Arg::Tensor, Arg::Out], pow_out),
];

fn pow_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?;
    let Function { int, float, double } =
        numbers!(|[a, b]| int_pow(a, b), F => |[a, b]| Libm::<F>::pow(a, b));
    let float = |inputs: [&[f32]; 2], out: &mut [f32]| match isa() {
        Some(isa) => math::pow(isa, inputs[0], inputs[1], out),
        None => float(inputs, out),
    };
    call.run(args, 2, Function { int, float, double })
}

fn pow_scalar_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let exponent = args.scalar(1)?;
    let inputs = [Input::arg(args, 0)?, exponent.into()];
    let call = Pointwise::new(inputs)?;
    if !call.dtype().is_float() && exponent.to_i64() < 0 {
        let expected = "an exponent that is not negative for integers";
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    check_range(exponent, call.dtype(), 1)?;
    // Special cases of PyTorch, for the same results and speed.
    match exponent.to_f64() {
        3.0 => call.run(
            args,
            2,
            numbers!(|[a, _]| a.wrapping_mul(a).wrapping_mul(a), F => |[a, _]| a * a * a),
        ),
        2.0 => call.run(args, 2, numbers!(|[a, _]| a.wrapping_mul(a), F => |[a, _]| a * a)),
        0.5 => call.run(args, 2, numbers!(|[a, _]| a, F => |[a, _]| Libm::<F>::sqrt(a))),
        -0.5 => call.run(args, 2, numbers!(|[a, _]| a, F => |[a, _]| 1.0 / Libm::<F>::sqrt(a))),
        _ => pow_out(cx, args),
    }
}

/// Integer power with wrap-around. A negative exponent gives the fraction truncated toward zero.
fn int_pow(base: i64, exponent: i64) -> i64 {
    let Ok(mut exponent_bits) = u64::try_from(exponent) else {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    };
    let (mut result, mut square) = (1_i64, base);
    while exponent_bits > 0 {
        if exponent_bits % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent_bits /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn integers_wrap_and_truncate() {
        let (a, b) = (tensor(&[2_i32, -3, 0, -1, 2]), tensor(&[10_i32, 3, 0, -3, -1]));
        check(&KERNELS[0], [a, b], Ok(&[1024, -27, 1, -1, 0]));
        check(&KERNELS[0], [tensor(&[3_u8]), tensor(&[6_u8])], Ok(&[217_u8]));
    }

    #[test]
    fn floats() {
        let scalar = |value| Value::Scalar(Scalar::Double(value));
        let x = || tensor(&[4.0_f32, f32::NEG_INFINITY]);
        check(&KERNELS[1], [x(), scalar(0.5)], Ok(&[2.0_f32, f32::NAN]));
        check(&KERNELS[1], [x(), scalar(2.0)], Ok(&[16.0_f32, f32::INFINITY]));
        check(&KERNELS[1], [x(), scalar(-1.5)], Ok(&[0.125_f32, 0.0]));
        check(&KERNELS[2], [scalar(2.0), tensor(&[3_i64])], Ok(&[8.0_f32]));
    }

    #[test]
    fn exponents_out_of_range_are_rejected() {
        let error = |expected| Err(Error::InvalidArgument { index: 1, expected });
        let call = |exponent| [tensor(&[2_i8]), Value::Scalar(Scalar::Int(exponent))];
        let negative = "an exponent that is not negative for integers";
        check::<i8, 2>(&KERNELS[1], call(-1), error(negative));
        check::<i8, 2>(&KERNELS[1], call(300), error("a number that the dtype can represent"));
    }
}
