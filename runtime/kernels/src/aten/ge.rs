//! `aten::ge.Tensor_out`, `aten::ge.Scalar_out`: elementwise "greater than or equal".
//!
//! | argument | type                  | shape                           |
//! |----------|-----------------------|---------------------------------|
//! | `self`   | real tensor           | any                             |
//! | `other`  | real tensor or scalar | broadcasts with `self`          |
//! | `out`    | real tensor           | broadcast of `self` and `other` |
//!
//! Computes `self ≥ other` in the common dtype. Tolerance: exact.
//! Source: ATen `ge`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::ge.Tensor_out", &[Arg::Tensor, Arg::Tensor, Arg::Out], ge_out),
    Kernel::new("aten::ge.Scalar_out", &[Arg::Tensor, Arg::Scalar, Arg::Out], ge_out),
];

fn ge_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.with_bool_result();
    call.run(args, 2, numbers!(|[a, b]| (a >= b).into(), F => |[a, b]| F::from(a >= b)))
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, tensor};

    #[test]
    fn values() {
        let (a, b) =
            (tensor(&[1.0_f32, 2.0, 3.0, f32::NAN]), tensor(&[2.0_f64, 2.0, 2.0, f64::NAN]));
        check(&KERNELS[0], [a, b], Ok(&bools(&[false, true, true, false])));
    }

    #[test]
    fn scalars_promote_only_across_categories() {
        let other = |scalar| [tensor(&[0_u8, 1, 2]), Value::Scalar(scalar)];
        check(&KERNELS[1], other(Scalar::Int(257)), Ok(&bools(&[false, true, true])));
        check(&KERNELS[1], other(Scalar::Double(1.5)), Ok(&bools(&[false, false, true])));
    }
}
