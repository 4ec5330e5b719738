//! `aten::leaky_relu.out`: leaky rectified linear unit.
//!
//! | argument         | type                  | shape     |
//! |------------------|-----------------------|-----------|
//! | `self`           | floating-point tensor | any       |
//! | `negative_slope` | scalar                |           |
//! | `out`            | floating-point tensor | as `self` |
//!
//! Computes `x` for `x > 0`, and `negative_slope · x` otherwise. Tolerance: exact.
//! Errors: another dtype is [`Error::InvalidType`].
//! Source: ATen `leaky_relu`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dtype::Number,
    pointwise::{Input, Pointwise, floats},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::leaky_relu.out", &[Arg::Tensor, Arg::Scalar, Arg::Out], leaky_relu_out)];

fn leaky_relu_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.require_float()?;
    let slope = args.scalar(1)?;
    let leaky_relu = floats!(F => {
        let slope = F::from_scalar(slope);
        move |[x]| if x > 0.0 { x } else { x * slope }
    });
    call.run(args, 2, leaky_relu)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let (x, slope) = (tensor(&[-2.0_f32, 3.0, f32::NAN]), Value::Scalar(Scalar::Double(0.1)));
        check(&KERNELS[0], [x, slope], Ok(&[-0.2_f32, 3.0, f32::NAN]));
    }
}
