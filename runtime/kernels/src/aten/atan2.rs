//! `aten::atan2.out`: arc tangent of a quotient, by quadrant.
//!
//! | argument | type                  | shape                           |
//! |----------|-----------------------|---------------------------------|
//! | `self`   | real tensor           | any                             |
//! | `other`  | real tensor           | broadcasts with `self`          |
//! | `out`    | floating-point tensor | broadcast of `self` and `other` |
//!
//! Computes the angle of the point `(other, self)`. Integers and `bool` are promoted to `f32`.
//! Tolerance: 1e-6 relative.
//! Source: ATen `atan2`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::atan2.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], atan2_out)];

fn atan2_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call =
        Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.promoting_ints_to_float();
    call.run(args, 2, floats!(F => |[a, b]| Libm::<F>::atan2(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};
    use std::f32::consts::FRAC_PI_2;
    use std::f32::consts::PI;

    #[test]
    fn values() {
        let (a, b) = (tensor(&[1.0_f32, -1.0, 0.0]), tensor(&[0.0_f32, -1.0, -1.0]));
        check(&KERNELS[0], [a, b], Ok(&[FRAC_PI_2, -2.356_194_5, PI]));
    }
}
