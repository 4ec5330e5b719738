//! `aten::isnan.out`: test for NaN.
//!
//! | argument | type          | shape     |
//! |----------|---------------|-----------|
//! | `self`   | real tensor   | any       |
//! | `out`    | `bool` tensor | as `self` |
//!
//! Computes `x ≠ x`; false for integers and `bool`. Tolerance: exact.
//! Source: ATen `isnan`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::isnan.out", &[Arg::Tensor, Arg::Out], isnan_out)];

fn isnan_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.with_bool_result();
    call.run(args, 1, numbers!(|_| 0, F => |[x]| F::from(x.is_nan())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, tensor};

    #[test]
    fn values() {
        check(
            &KERNELS[0],
            [tensor(&[1.0_f32, f32::NAN, f32::INFINITY])],
            Ok(&bools(&[false, true, false])),
        );
        check(&KERNELS[0], [tensor(&[0_i32, 1])], Ok(&bools(&[false, false])));
    }
}
