//! `aten::exp2.out`: base-2 exponential.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `2ˣ`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `exp2`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::exp2.out", &[Arg::Tensor, Arg::Out], exp2_out)];

fn exp2_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| Libm::<F>::exp2(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[0.0, 3.0, -1.0]);
        check(&KERNELS[0], [x], Ok(&[1.0, 8.0, 0.5]));
    }
}
