//! `aten::round.out`, `aten::round.decimals_out`: rounding to nearest, ties to even.
//!
//! | argument   | type                         | shape     |
//! |------------|------------------------------|-----------|
//! | `self`     | real tensor                  | any       |
//! | `decimals` | int; only `decimals_out`     |           |
//! | `out`      | tensor, castable from `self` | as `self` |
//!
//! Computes `round(x · 10ᵈ) / 10ᵈ`, where `d` is `decimals`; copies integers. Tolerance: exact.
//! Source: ATen `round`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::round.out", &[Arg::Tensor, Arg::Out], round_out),
    Kernel::new("aten::round.decimals_out", &[Arg::Tensor, Arg::Int, Arg::Out], round_decimals_out),
];

fn round_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    call.run(args, 1, numbers!(|[x]| x, F => |[x]| Libm::<F>::rint(x)))
}

fn round_decimals_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    let decimals = args.int(1)?;
    let power = libm::pow(10.0, decimals.unsigned_abs() as f64);
    let round = numbers!(|[x]| x, F => {
        let power = power as F;
        move |[x]| match decimals {
            0 => Libm::<F>::rint(x),
            1.. => Libm::<F>::rint(x * power) / power,
            _ => Libm::<F>::rint(x / power) * power,
        }
    });
    call.run(args, 2, round)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn ties_go_to_even() {
        let x = tensor(&[0.5_f32, 1.5, -2.5, 2.6, f32::NAN]);
        check(&KERNELS[0], [x], Ok(&[0.0_f32, 2.0, -2.0, 3.0, f32::NAN]));
        check(&KERNELS[0], [tensor(&[5_i32])], Ok(&[5_i32]));
    }

    #[test]
    fn decimals_may_be_negative() {
        let call = |decimals| [tensor(&[125.0_f32, 1.276]), Value::Scalar(Scalar::Int(decimals))];
        check(&KERNELS[1], call(-1), Ok(&[120.0_f32, 0.0]));
        check(&KERNELS[1], call(0), Ok(&[125.0_f32, 1.0]));
        check(&KERNELS[1], call(2), Ok(&[125.0_f32, 1.28]));
        check(&KERNELS[1], call(i64::MIN), Ok(&[f32::NAN, f32::NAN]));
    }
}
