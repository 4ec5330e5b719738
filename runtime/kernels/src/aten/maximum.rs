//! `aten::maximum.out`: elementwise maximum.
//!
//! | argument | type                                   | shape                           |
//! |----------|----------------------------------------|---------------------------------|
//! | `self`   | real tensor                            | any                             |
//! | `other`  | real tensor                            | broadcasts with `self`          |
//! | `out`    | tensor, castable from the common dtype | broadcast of `self` and `other` |
//!
//! Computes `max(self, other)` in the common dtype. NaN propagates. Tolerance: exact.
//! Source: ATen `maximum`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    min_max::nan_max,
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::maximum.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], maximum_out)];

fn maximum_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?;
    let maximum = numbers!(|[a, b]| nan_max(a, b), F => |[a, b]| nan_max(a, b));
    call.run(args, 2, maximum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[3.0_f32, f32::NAN, 1.0]), tensor(&[-1.0_f32, 1.0, f32::NAN]));
        check(&KERNELS[0], [a, b], Ok(&[3.0, f32::NAN, f32::NAN]));
        check(&KERNELS[0], [tensor(&[3_i8]), tensor(&[5_i64])], Ok(&[5_i64]));
    }
}
