//! `aten::asin.out`: arc sine.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `arcsin(x)`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `asin`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::asin.out", &[Arg::Tensor, Arg::Out], asin_out)];

fn asin_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| Libm::<F>::asin(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};
    use std::f32::consts::FRAC_PI_2;

    #[test]
    fn values() {
        let x = tensor(&[0.0, 1.0, 2.0]);
        check(&KERNELS[0], [x], Ok(&[0.0, FRAC_PI_2, f32::NAN]));
    }
}
