//! `aten::hypot.out`: length of the hypotenuse.
//!
//! | argument | type                  | shape                           |
//! |----------|-----------------------|---------------------------------|
//! | `self`   | real tensor           | any                             |
//! | `other`  | real tensor           | broadcasts with `self`          |
//! | `out`    | floating-point tensor | broadcast of `self` and `other` |
//!
//! Computes `√(self² + other²)`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6
//! relative.
//! Source: ATen `hypot`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::hypot.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], hypot_out)];

fn hypot_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call =
        Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.promoting_ints_to_float();
    call.run(args, 2, floats!(F => |[a, b]| Libm::<F>::hypot(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[3.0_f32, f32::INFINITY]), tensor(&[4.0_f32, f32::NAN]));
        check(&KERNELS[0], [a, b], Ok(&[5.0_f32, f32::INFINITY]));
    }
}
