//! `aten::lgamma.out`: logarithm of the absolute value of the gamma function.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `ln |Γ(x)|`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-5.
//! Source: ATen `lgamma`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::lgamma.out", &[Arg::Tensor, Arg::Out], lgamma_out)];

fn lgamma_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| Libm::<F>::lgamma(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let inf = f32::INFINITY;
        check(&KERNELS[0], [tensor(&[1.0_f32, 0.0, -1.0, inf])], Ok(&[0.0_f32, inf, inf, inf]));
        check(&KERNELS[0], [tensor(&[2_i64])], Ok(&[0.0_f32]));
    }
}
