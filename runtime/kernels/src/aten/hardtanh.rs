//! `aten::hardtanh.out`: clamp to a range.
//!
//! | argument  | type                         | shape     |
//! |-----------|------------------------------|-----------|
//! | `self`    | real tensor, not `bool`      | any       |
//! | `min_val` | scalar                       |           |
//! | `max_val` | scalar                       |           |
//! | `out`     | tensor, castable from `self` | as `self` |
//!
//! Computes `min(max(x, min_val), max_val)`; the bounds are truncated for integers. NaN propagates.
//! Tolerance: exact.
//! Errors: `bool` is [`Error::InvalidType`].
//! Source: ATen `hardtanh`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dtype::Number,
    pointwise::{Input, Pointwise, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::hardtanh.out",
    &[Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Out],
    hardtanh_out,
)];

fn hardtanh_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.reject_bool()?;
    let (min, max) = (args.scalar(1)?, args.scalar(2)?);
    let hardtanh = numbers!(
        {
            let (min, max) = (min.to_i64(), max.to_i64());
            move |[x]| x.max(min).min(max)
        },
        F => {
            let (min, max) = (F::from_scalar(min), F::from_scalar(max));
            move |[x]| {
                let x = if x < min { min } else { x };
                if x > max { max } else { x }
            }
        }
    );
    call.run(args, 3, hardtanh)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let bounds = |min, max| [min, max].map(|bound| Value::Scalar(Scalar::Double(bound)));
        let [min, max] = bounds(-1.0, 1.0);
        let x = tensor(&[-2.0_f32, 0.5, 2.0, f32::NAN]);
        check(&KERNELS[0], [x, min, max], Ok(&[-1.0_f32, 0.5, 1.0, f32::NAN]));
        let [min, max] = bounds(-1.5, 1.5);
        check(&KERNELS[0], [tensor(&[-2_i8, 2]), min, max], Ok(&[-1_i8, 1]));
    }
}
