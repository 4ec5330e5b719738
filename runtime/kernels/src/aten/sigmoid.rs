//! `aten::sigmoid.out`: logistic sigmoid.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `1 / (1 + e⁻ˣ)`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `sigmoid`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};
use afferent_simd::math;
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::sigmoid.out", &[Arg::Tensor, Arg::Out], sigmoid_out)
        .with_pattern(OpPattern::Elementwise)];

fn sigmoid_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    let function = floats!(F => |[x]| 1.0 / (1.0 + Libm::<F>::exp(-x)));
    call.run_simd(args, 1, function, math::Sigmoid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[0.0, 1.0, f32::NEG_INFINITY]);
        check(&KERNELS[0], [x], Ok(&[0.5, 0.7310586, 0.0]));
    }
}
