//! `aten::isinf.out`: test for infinity.
//!
//! | argument | type          | shape     |
//! |----------|---------------|-----------|
//! | `self`   | real tensor   | any       |
//! | `out`    | `bool` tensor | as `self` |
//!
//! Computes `|x| = ∞`; false for integers and `bool`. Tolerance: exact.
//! Source: ATen `isinf`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::isinf.out", &[Arg::Tensor, Arg::Out], isinf_out)];

fn isinf_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.with_bool_result();
    call.run(args, 1, numbers!(|_| 0, F => |[x]| F::from(x.is_infinite())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, tensor};

    #[test]
    fn values() {
        check(
            &KERNELS[0],
            [tensor(&[f32::NEG_INFINITY, f32::NAN, 1.0])],
            Ok(&bools(&[true, false, false])),
        );
        check(&KERNELS[0], [tensor(&[0_i32, 1])], Ok(&bools(&[false, false])));
    }
}
