//! `aten::sqrt.out`: square root.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `√x`. Integers and `bool` are promoted to `f32`. Tolerance: exact.
//! Source: ATen `sqrt`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::sqrt.out", &[Arg::Tensor, Arg::Out], sqrt_out)];

fn sqrt_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| Libm::<F>::sqrt(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[4.0, -1.0, 0.0]);
        check(&KERNELS[0], [x], Ok(&[2.0, f32::NAN, 0.0]));
    }
}
