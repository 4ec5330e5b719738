//! `aten::relu.out`: rectified linear unit.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `max(x, 0)`; NaN propagates. Tolerance: exact.
//! Errors: `bool` is [`Error::InvalidType`].
//! Source: ATen `relu`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::relu.out", &[Arg::Tensor, Arg::Out], relu_out)];

fn relu_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.reject_bool()?;
    call.run(args, 1, numbers!(|[x]| x.max(0), F => |[x]| if x < 0.0 { 0.0 } else { x }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[-1.5_f32, 2.0, f32::NAN])], Ok(&[0.0_f32, 2.0, f32::NAN]));
        check(&KERNELS[0], [tensor(&[-5_i8, 7])], Ok(&[0_i8, 7]));
    }
}
