//! `aten::logical_not.out`: elementwise logical NOT.
//!
//! | argument | type        | shape     |
//! |----------|-------------|-----------|
//! | `self`   | real tensor | any       |
//! | `out`    | real tensor | as `self` |
//!
//! Computes `x = 0`. Tolerance: exact.
//! Source: ATen `logical_not`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::logical_not.out", &[Arg::Tensor, Arg::Out], logical_not_out)];

fn logical_not_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.with_bool_result();
    call.run(args, 1, numbers!(|[x]| (x == 0).into(), F => |[x]| F::from(x == 0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, tensor};

    #[test]
    fn values() {
        check(&KERNELS[0], [tensor(&[0.0_f32, 0.5, f32::NAN])], Ok(&bools(&[true, false, false])));
        check(&KERNELS[0], [tensor(&[0_i32, 1])], Ok(&bools(&[true, false])));
    }
}
