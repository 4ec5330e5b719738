//! `aten::bitwise_not.out`: bitwise NOT.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | integer or `bool` tensor     | any       |
//! | `out`    | tensor, castable from `self` | as `self` |
//!
//! Computes `!x`; for `bool`, logical NOT. Tolerance: exact.
//! Errors: a floating-point dtype is [`Error::InvalidType`].
//! Source: ATen `bitwise_not`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::pointwise::{Input, Pointwise, integers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::bitwise_not.out", &[Arg::Tensor, Arg::Out], bitwise_not_out)];

fn bitwise_not_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.reject_float()?;
    let ones = if call.dtype() == ScalarType::Bool { 1 } else { -1 };
    call.run(args, 1, integers!(|[x]| x ^ ones))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[5_u8, 0])], Ok(&[250_u8, 255]));
        check(&KERNELS[0], [tensor(&[5_i32, -1])], Ok(&[-6_i32, 0]));
        check(&KERNELS[0], [tensor(&bools(&[true, false]))], Ok(&bools(&[false, true])));
    }
}
