//! `aten::gelu.out`: Gaussian error linear unit.
//!
//! | argument      | type                  | shape     |
//! |---------------|-----------------------|-----------|
//! | `self`        | floating-point tensor | any       |
//! | `approximate` | `"none"` or `"tanh"`  |           |
//! | `out`         | floating-point tensor | as `self` |
//!
//! Computes `x/2 · (1 + erf(x/√2))`; for `"tanh"`, `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
//! Tolerance: 1e-6. Infinity gives infinity; PyTorch on x86 gives NaN for `"none"`.
//! Errors: another `approximate` is [`Error::InvalidArgument`] at index 1; another dtype is
//! [`Error::InvalidType`].
//! Source: Hendrycks and Gimpel 2016, arXiv 1606.08415; ATen `gelu`.

use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};
use afferent_simd::math;
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::gelu.out", &[Arg::Tensor, Arg::Str, Arg::Out], gelu_out)
        .with_pattern(OpPattern::Elementwise)];

fn gelu_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.require_float()?;
    match args.opt_str(1)? {
        Some("none") => {
            let function =
                floats!(F => |[x]| 0.5 * x * (1.0 + Libm::<F>::erf(x * FRAC_1_SQRT_2 as F)));
            call.run_simd(args, 2, function, math::Gelu)
        }
        Some("tanh") => {
            let function = floats!(F => |[x]| {
                let inner = SQRT_2_OVER_PI as F * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + Libm::<F>::tanh(inner))
            });
            call.run_simd(args, 2, function, math::GeluTanh)
        }
        _ => Err(Error::InvalidArgument { index: 1, expected: "\"none\" or \"tanh\"" }),
    }
}

const SQRT_2_OVER_PI: f64 = FRAC_2_SQRT_PI / SQRT_2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let x = || tensor(&[0.0_f32, 1.0, -1.0, f32::NAN]);
        let erf = [0.0_f32, 0.841_344_7, -0.158_655_26, f32::NAN];
        check(&KERNELS[0], [x(), Value::Str("none")], Ok(&erf));
        let tanh = [0.0_f32, 0.841_192, -0.158_808, f32::NAN];
        check(&KERNELS[0], [x(), Value::Str("tanh")], Ok(&tanh));
    }

    #[test]
    fn unknown_approximation_is_rejected() {
        let error = Error::InvalidArgument { index: 1, expected: "\"none\" or \"tanh\"" };
        check::<f32, 2>(&KERNELS[0], [tensor(&[1.0_f32]), Value::Str("cubic")], Err(error));
    }
}
