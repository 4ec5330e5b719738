//! `aten::minimum.out`: elementwise minimum.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real tensor                            | any                             |
//! | `other`  | real tensor                            | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `min(self, other)` in the common dtype. NaN propagates. Tolerance: exact.
//! Source: ATen `minimum`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    min_max::nan_min,
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::minimum.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], minimum_out)];

fn minimum_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?;
    let minimum = numbers!(|[a, b]| nan_min(a, b), F => |[a, b]| nan_min(a, b));
    call.run(args, 2, minimum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[3.0_f32, f32::NAN, 1.0]), tensor(&[-1.0_f32, 1.0, f32::NAN]));
        check(&KERNELS[0], [a, b], Ok(&[-1.0, f32::NAN, f32::NAN]));
        check(&KERNELS[0], [tensor(&[3_i8]), tensor(&[5_i64])], Ok(&[3_i64]));
    }
}
