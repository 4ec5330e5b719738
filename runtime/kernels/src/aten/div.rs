//! `aten::div.out`, `.Scalar_out`, `.out_mode`, `.Scalar_mode_out`: quotient.
//!
//! | argument        | type                              | shape                           |
//! |-----------------|-----------------------------------|---------------------------------|
//! | `self`          | real or complex tensor            | any                             |
//! | `other`         | real or complex tensor, or scalar | broadcasts with `self`          |
//! | `rounding_mode` | optional `"floor"` or `"trunc"`   |                                 |
//! | `out`           | tensor, castable from the result  | broadcast of `self` and `other` |
//!
//! Computes `self / other`. Without a rounding mode, integers and `bool` are promoted to `f32`;
//! with one, the result has the common dtype. Complex tensors have no rounding mode. Tolerance:
//! exact, but PyTorch rounds a quotient of half types to the half type before it truncates.
//! Errors: [`Error::InvalidArgument`] at index 1 for a zero in an integer divisor and at index 2
//! for another mode; [`Error::InvalidType`] for a rounding mode with `bool`.
//! Source: ATen `div`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    complex::{complex_result_type, div, map, with_complex},
    division::{Divide, ZeroDivisor},
    pointwise::{Input, Pointwise, floats, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::div.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], div_out),
    Kernel::new("aten::div.Scalar_out", &[Arg::Tensor, Arg::Scalar, Arg::Out], div_out),
    Kernel::new(
        "aten::div.out_mode",
        &[Arg::Tensor, Arg::Tensor, Arg::OptStr, Arg::Out],
        div_mode_out,
    ),
    Kernel::new(
        "aten::div.Scalar_mode_out",
        &[Arg::Tensor, Arg::Scalar, Arg::OptStr, Arg::Out],
        div_mode_out,
    ),
];

fn div_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if let Some(dtype) = complex_result_type(&[Input::arg(args, 0)?, Input::arg(args, 1)?]) {
        check_dtype(args.out(2)?.dtype(), dtype, 2)?;
        return with_complex!(dtype, A => map::<A, 2>(args, 2, |[a, b]| div(a, b)));
    }
    true_divide(args, 2)
}

fn div_mode_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(mode) = args.opt_str(2)? else {
        return true_divide(args, 3);
    };
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.reject_bool()?;
    let zero = ZeroDivisor::default();
    match mode {
        "floor" => call.run(
            args,
            3,
            numbers!(
                |[a, b]| a.floor_divide(zero.replace_zero(b)),
                F => |[a, b]| Divide::floor_divide(a, b)
            ),
        )?,
        "trunc" => call.run(
            args,
            3,
            numbers!(
                |[a, b]| a.trunc_divide(zero.replace_zero(b)),
                F => |[a, b]| Divide::trunc_divide(a, b)
            ),
        )?,
        _ => {
            let expected = "\"floor\" or \"trunc\"";
            return Err(Error::InvalidArgument { index: 2, expected });
        }
    }
    zero.check()
}

fn true_divide(args: &mut Args<'_>, out: usize) -> Result<(), Error> {
    let inputs = [Input::arg(args, 0)?, Input::arg(args, 1)?];
    let call = Pointwise::new(inputs)?.promoting_ints_to_float().with_unrounded_scalars();
    call.run(args, out, floats!(F => |[a, b]| a / b))
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn integers_are_promoted_to_float() {
        check(
            &KERNELS[0],
            [tensor(&[7_i32, -1]), tensor(&[2_i32, 0])],
            Ok(&[3.5, f32::NEG_INFINITY]),
        );
        check(&KERNELS[1], [tensor(&[7_u8]), Value::Scalar(Scalar::Int(2))], Ok(&[3.5_f32]));
    }

    #[test]
    fn rounding_modes() {
        let check = |mode, expected: [i32; 2]| {
            let (a, b) = (tensor(&[7_i32, -7]), tensor(&[2_i32, 2]));
            check(&KERNELS[2], [a, b, Value::Str(mode)], Ok(&expected));
        };
        check("floor", [3, -4]);
        check("trunc", [3, -3]);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let error = |index, expected| Error::InvalidArgument { index, expected };
        let call = |other, mode| [tensor(&[1_i32]), Value::Scalar(Scalar::Int(other)), mode];
        let zero = error(1, "no integer divisor that is zero");
        check::<i32, 3>(&KERNELS[3], call(0, Value::Str("floor")), Err(zero));
        let mode = error(2, "\"floor\" or \"trunc\"");
        check::<i32, 3>(&KERNELS[3], call(1, Value::Str("up")), Err(mode));
        check(&KERNELS[3], call(2, Value::None), Ok(&[0.5_f32]));
    }
}
