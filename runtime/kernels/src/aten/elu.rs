//! `aten::elu.out`: exponential linear unit.
//!
//! | argument      | type                  | shape     |
//! |---------------|-----------------------|-----------|
//! | `self`        | floating-point tensor | any       |
//! | `alpha`       | scalar                |           |
//! | `scale`       | scalar                |           |
//! | `input_scale` | scalar                |           |
//! | `out`         | floating-point tensor | as `self` |
//!
//! Computes `scale · x` for `x ≥ 0`, and `scale · alpha · (exp(input_scale · x) - 1)` otherwise.
//! Tolerance: 1e-6 relative.
//! Errors: another dtype is [`Error::InvalidType`].
//! Source: ATen `elu`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::{
    dtype::Number,
    pointwise::{Input, Pointwise, floats},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::elu.out",
    &[Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Scalar, Arg::Out],
    elu_out,
)];

fn elu_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.require_float()?;
    let (alpha, scale, input_scale) = (args.scalar(1)?, args.scalar(2)?, args.scalar(3)?);
    let elu = floats!(F => {
        let scale = F::from_scalar(scale);
        let negative_scale = F::from_scalar(alpha) * scale;
        let input_scale = F::from_scalar(input_scale);
        move |[x]| {
            if x < 0.0 {
                negative_scale * Libm::<F>::expm1(x * input_scale)
            } else {
                x * scale
            }
        }
    });
    call.run(args, 4, elu)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let number = |value| Value::Scalar(Scalar::Double(value));
        let x = tensor(&[-1.0_f32, 0.0, 2.0, f32::NAN]);
        let expected = [-2.593_994_2_f32, 0.0, 6.0, f32::NAN];
        check(&KERNELS[0], [x, number(1.0), number(3.0), number(2.0)], Ok(&expected));
    }
}
