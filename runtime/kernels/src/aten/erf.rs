//! `aten::erf.out`: error function.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `erf(x)`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `erf`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use afferent_simd::math;
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::erf.out", &[Arg::Tensor, Arg::Out], erf_out)];

fn erf_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    let function = floats!(F => |[x]| Libm::<F>::erf(x));
    call.run_simd(args, 1, function, math::Erf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[0.0, 1.0, f32::NEG_INFINITY]);
        check(&KERNELS[0], [x], Ok(&[0.0, 0.8427008, -1.0]));
    }
}
