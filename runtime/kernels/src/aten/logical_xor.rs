//! `aten::logical_xor.out`: elementwise logical XOR.
//!
//! | argument | type        | shape                           |
//! |----------|-------------|---------------------------------|
//! | `self`   | real tensor | any                             |
//! | `other`  | real tensor | broadcasts with `self`          |
//! | `out`    | real tensor | broadcast of `self` and `other` |
//!
//! Computes `self xor other`; nonzero elements, NaN included, are true. Tolerance: exact.
//! Source: ATen `logical_xor`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::logical_xor.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], logical_xor_out)];

fn logical_xor_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.with_bool_result();
    call.run(
        args,
        2,
        numbers!(
            |[a, b]| ((a != 0) ^ (b != 0)).into(),
            F => |[a, b]| F::from((a != 0.0) ^ (b != 0.0))
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::pointwise::testing::{bools, check, tensor};

    #[test]
    fn values() {
        let (a, b) = (tensor(&[0.0_f32, 0.0, 0.5, f32::NAN]), tensor(&[0_i32, -1, 0, 2]));
        check(&KERNELS[0], [a, b], Ok(&bools(&[false, true, true, false])));
    }
}
