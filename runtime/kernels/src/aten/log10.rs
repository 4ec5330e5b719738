//! `aten::log10.out`: base-10 logarithm.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `log₁₀(x)`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `log10`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use afferent_simd::math;
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::log10.out", &[Arg::Tensor, Arg::Out], log10_out)];

fn log10_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    let function = floats!(F => |[x]| Libm::<F>::log10(x));
    call.run_simd(args, 1, function, math::Log10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[1000.0, 0.1, 0.0]);
        check(&KERNELS[0], [x], Ok(&[3.0, -1.0, f32::NEG_INFINITY]));
    }
}
