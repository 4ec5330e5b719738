//! `aten::rsqrt.out`: reciprocal square root.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `1 / √x`. Integers and `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `rsqrt`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::rsqrt.out", &[Arg::Tensor, Arg::Out], rsqrt_out)
        .with_pattern(OpPattern::Elementwise)];

fn rsqrt_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| 1.0 / Libm::<F>::sqrt(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[4.0, 0.0, -1.0]);
        check(&KERNELS[0], [x], Ok(&[0.5, f32::INFINITY, f32::NAN]));
    }
}
