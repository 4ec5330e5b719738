//! `aten::logit.out`: log-odds, the inverse of the sigmoid.
//!
//! | argument | type                  | shape     |
//! |----------|-----------------------|-----------|
//! | `self`   | real tensor           | any       |
//! | `eps`    | optional double       |           |
//! | `out`    | floating-point tensor | as `self` |
//!
//! Computes `ln(x / (1 - x))`, with `x` clamped to `eps..1 - eps` if `eps` is given. Integers and
//! `bool` are promoted to `f32`. Tolerance: 1e-6 relative.
//! Source: ATen `logit`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::logit.out", &[Arg::Tensor, Arg::OptDouble, Arg::Out], logit_out)];

fn logit_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let call = Pointwise::new([Input::arg(args, 0)?])?.promoting_ints_to_float();
    // As in PyTorch, a negative `eps` means none.
    let eps = args.opt_double(1)?.filter(|&eps| eps >= 0.0);
    let logit = floats!(F => {
        let bounds = eps.map(|eps| (eps as F, 1.0 - eps as F));
        move |[x]| {
            let x = match bounds {
                Some((min, _)) if x < min => min,
                Some((_, max)) if x > max => max,
                _ => x,
            };
            Libm::<F>::log(x / (1.0 - x))
        }
    });
    call.run(args, 2, logit)
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, tensor};

    #[test]
    fn values() {
        let x = || tensor(&[0.5_f32, 0.9, 1.0, 2.0]);
        let expected = [0.0_f32, 2.197_224_6, f32::INFINITY, f32::NAN];
        check(&KERNELS[0], [x(), Value::None], Ok(&expected));
        let expected = [0.0_f32, 1.386_294_4, 1.386_294_4, 1.386_294_4];
        check(&KERNELS[0], [x(), Value::Scalar(Scalar::Double(0.2))], Ok(&expected));
    }
}
