//! `aten::acosh.out`: inverse hyperbolic cosine.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `arcosh(x)`; NaN for `x < 1`. Integers and `bool` are promoted to `f32`. Tolerance:
//! 1e-6 relative.
//! Source: ATen `acosh`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::acosh.out", &[Arg::Tensor, Arg::Out], acosh_out)];

fn acosh_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    // `libm` returns numbers for some `x` below the domain.
    let acosh = floats!(F => |[x]| if x < 1.0 { F::NAN } else { Libm::<F>::acosh(x) });
    call.run(args, 1, acosh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[1.0, 2.0, 0.0, -10.0]);
        check(&KERNELS[0], [x], Ok(&[0.0, 1.316_958, f32::NAN, f32::NAN]));
    }
}
