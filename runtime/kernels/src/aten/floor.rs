//! `aten::floor.out`: floor.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `⌊x⌋`. Tolerance: exact.
//! Source: ATen `floor`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::floor.out", &[Arg::Tensor, Arg::Out], floor_out)];

fn floor_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    call.run(args, 1, numbers!(|[x]| x, F => |[x]| Libm::<F>::floor(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(
            &KERNELS[0],
            [tensor(&[-1.5_f32, 2.9, f32::INFINITY])],
            Ok(&[-2.0_f32, 2.0, f32::INFINITY]),
        );
        check(&KERNELS[0], [tensor(&[-5_i8, 7])], Ok(&[-5_i8, 7]));
    }
}
