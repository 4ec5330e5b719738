//! `aten::sign.out`: sign.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes -1, 0 or 1; 0 for NaN. Tolerance: exact.
//! Source: ATen `sign`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::sign.out", &[Arg::Tensor, Arg::Out], sign_out)];

fn sign_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?;
    let sign = numbers!(|[x]| x.signum(), F => |[x]| F::from(x > 0.0) - F::from(x < 0.0));
    call.run(args, 1, sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(
            &KERNELS[0],
            [tensor(&[-1.5_f32, -0.0, f32::NAN, f32::INFINITY])],
            Ok(&[-1.0_f32, 0.0, 0.0, 1.0]),
        );
        check(&KERNELS[0], [tensor(&[-5_i8, 0, 7])], Ok(&[-1_i8, 0, 1]));
    }
}
