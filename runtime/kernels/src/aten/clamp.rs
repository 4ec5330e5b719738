//! `aten::clamp.out`, `aten::clamp.Tensor_out`: clamp to a range.
//!
//! | argument | type                                   | shape                                |
//! |----------|----------------------------------------|--------------------------------------|
//! | `self`   | real tensor                            | any                                  |
//! | `min`    | optional scalar or real tensor         | broadcasts with `self`               |
//! | `max`    | optional scalar or real tensor         | broadcasts with `self`               |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self`, `min` and `max` |
//!
//! Computes `min(max(self, min), max)` in the common dtype. NaN propagates from all inputs.
//! Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] at index 1 if `min` and `max` are both absent, and at its own
//! index for a scalar that the common dtype cannot represent.
//! Source: ATen `clamp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    min_max::{nan_max, nan_min},
    pointwise::{Input, Pointwise, check_range, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::clamp.out",
        &[Arg::Tensor, Arg::OptScalar, Arg::OptScalar, Arg::Out],
        clamp_out,
    ),
    Kernel::new(
        "aten::clamp.Tensor_out",
        &[Arg::Tensor, Arg::OptTensor, Arg::OptTensor, Arg::Out],
        clamp_out,
    ),
];

fn clamp_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = Input::arg(args, 0)?;
    match (Input::opt_arg(args, 1)?, Input::opt_arg(args, 2)?) {
        (None, None) => Err(Error::InvalidArgument { index: 1, expected: "`min` or `max`" }),
        (Some(min), None) => {
            let call = bounded([x, min], [(1, min)])?;
            let clamp_min = numbers!(|[x, min]| nan_max(x, min), F => |[x, min]| nan_max(x, min));
            call.run(args, 3, clamp_min)
        }
        (None, Some(max)) => {
            let call = bounded([x, max], [(2, max)])?;
            let clamp_max = numbers!(|[x, max]| nan_min(x, max), F => |[x, max]| nan_min(x, max));
            call.run(args, 3, clamp_max)
        }
        (Some(min), Some(max)) => {
            let call = bounded([x, min, max], [(1, min), (2, max)])?;
            let clamp = numbers!(
                |[x, min, max]| nan_min(nan_max(x, min), max),
                F => |[x, min, max]| nan_min(nan_max(x, min), max)
            );
            call.run(args, 3, clamp)
        }
    }
}

/// Pointwise call on `self` and `bounds`, each with its argument index.
///
/// # Errors
/// [`Error::InvalidArgument`] for a scalar bound that the common dtype cannot represent.
fn bounded<'a, const K: usize, const L: usize>(
    inputs: [Input<'a>; K],
    bounds: [(u8, Input<'a>); L],
) -> Result<Pointwise<'a, K>, Error> {
    let mut indices = [0; K];
    for (to, (index, _)) in indices.iter_mut().skip(1).zip(bounds) {
        *to = index;
    }
    let call = Pointwise::new(inputs)?.at_args(indices);
    for (index, bound) in bounds {
        if let Input::Scalar(scalar) = bound {
            check_range(scalar, call.dtype(), index)?;
        }
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, shaped, tensor};

    fn number(value: f64) -> Value {
        Value::Scalar(Scalar::Double(value))
    }

    #[test]
    fn scalar_bounds() {
        let x = || tensor(&[-2.0_f32, 0.5, 2.0, f32::NAN]);
        check(&KERNELS[0], [x(), number(-1.0), number(1.0)], Ok(&[-1.0_f32, 0.5, 1.0, f32::NAN]));
        check(&KERNELS[0], [x(), number(0.0), Value::None], Ok(&[0.0_f32, 0.5, 2.0, f32::NAN]));
        check(&KERNELS[0], [x(), Value::None, number(0.0)], Ok(&[-2.0_f32, 0.0, 0.0, f32::NAN]));
        check(&KERNELS[0], [x(), number(2.0), number(1.0)], Ok(&[1.0_f32, 1.0, 1.0, f32::NAN]));
        check(&KERNELS[0], [tensor(&[1_i8, 3]), number(1.5), Value::None], Ok(&[1.5_f32, 3.0]));
    }

    #[test]
    fn tensor_bounds() {
        let (x, min) = (shaped(&[2, 1], &[1_i32, 4]), tensor(&[2_i64, 3]));
        check(&KERNELS[1], [x, min, tensor(&[3_i32])], Ok(&[2_i64, 3, 3, 3]));
    }

    #[test]
    fn invalid_bounds_are_rejected() {
        let error = |index, expected| Err(Error::InvalidArgument { index, expected });
        let x = || tensor(&[1_u8]);
        check::<u8, 3>(&KERNELS[0], [x(), Value::None, Value::None], error(1, "`min` or `max`"));
        let max = Value::Scalar(Scalar::Int(300));
        let range = error(2, "a number that the dtype can represent");
        check::<u8, 3>(&KERNELS[0], [x(), Value::None, max], range);
        let (x, max) = (tensor(&[1_u8; 3]), tensor(&[1_u8; 2]));
        let shape = error(2, "a tensor that broadcasts with the others");
        check::<u8, 3>(&KERNELS[1], [x, Value::None, max], shape);
    }
}
