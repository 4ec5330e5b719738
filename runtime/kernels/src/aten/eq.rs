//! `aten::eq.Tensor_out`, `aten::eq.Scalar_out`: elementwise "equal".
//!
//! | argument | type                  | shape                           |
//! |----------|-----------------------|---------------------------------|
//! | `self`   | real tensor           | any                             |
//! | `other`  | real tensor or scalar | broadcasts with `self`          |
//! | `out`    | real tensor           | broadcast of `self` and `other` |
//!
//! Computes `self = other` in the common dtype. Tolerance: exact.
//! Source: ATen `eq`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::pointwise::{Input, Pointwise, numbers};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::eq.Tensor_out", &[Arg::Tensor, Arg::Tensor, Arg::Out], eq_out),
    Kernel::new("aten::eq.Scalar_out", &[Arg::Tensor, Arg::Scalar, Arg::Out], eq_out),
];

fn eq_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?, Input::arg(args, 1)?])?.with_bool_result();
    call.run(args, 2, numbers!(|[a, b]| (a == b).into(), F => |[a, b]| F::from(a == b)))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Scalar, f16};

    use super::*;
    use crate::shared::pointwise::testing::{Value, bools, check, tensor};

    #[test]
    fn values() {
        let (a, b) =
            (tensor(&[1.0_f32, 2.0, 3.0, f32::NAN]), tensor(&[2.0_f64, 2.0, 2.0, f64::NAN]));
        check(&KERNELS[0], [a, b], Ok(&bools(&[false, true, false, false])));
    }

    #[test]
    fn scalar_is_rounded_to_tensor_dtype() {
        let (tenth, number) = (f16::from_f32(0.1), Value::Scalar(Scalar::Double(0.1)));
        check(&KERNELS[1], [tensor(&[tenth]), number], Ok(&bools(&[true])));
    }

    #[test]
    fn scalars_promote_only_across_categories() {
        let other = |scalar| [tensor(&[0_u8, 1, 2]), Value::Scalar(scalar)];
        check(&KERNELS[1], other(Scalar::Int(257)), Ok(&bools(&[false, true, false])));
        check(&KERNELS[1], other(Scalar::Double(1.5)), Ok(&bools(&[false, false, false])));
    }
}
