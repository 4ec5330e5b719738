//! `aten::neg.out`: negation.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `-x`; integers wrap. Tolerance: exact.
//! Errors: `bool` is [`Error::InvalidType`].
//! Source: ATen `neg`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::neg.out", &[Arg::Tensor, Arg::Out], neg_out)];

fn neg_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.reject_bool()?;
    call.run(args, 1, numbers!(|[x]| x.wrapping_neg(), F => |[x]| -x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[1.5_f32, f32::NEG_INFINITY])], Ok(&[-1.5_f32, f32::INFINITY]));
        check(&KERNELS[0], [tensor(&[1_u8, 0])], Ok(&[255_u8, 0]));
    }
}
