//! `aten::reciprocal.out`: reciprocal.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `1 / x`. Integers and `bool` are promoted to `f32`. Tolerance: exact.
//! Source: ATen `reciprocal`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::reciprocal.out", &[Arg::Tensor, Arg::Out], reciprocal_out)];

fn reciprocal_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    call.run(args, 1, floats!(F => |[x]| 1.0 / x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let x = tensor(&[4.0, 0.0, f32::NEG_INFINITY]);
        check(&KERNELS[0], [x], Ok(&[0.25, f32::INFINITY, -0.0]));
    }
}
