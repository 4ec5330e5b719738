//! `aten::glu.out`: gated linear unit.
//!
//! | argument | type                  | shape                             |
//! |----------|-----------------------|-----------------------------------|
//! | `self`   | floating-point tensor | even size in `dim`                |
//! | `dim`    | int                   |                                   |
//! | `out`    | floating-point tensor | as `self`, half the size in `dim` |
//!
//! Computes `a · sigmoid(b)`, where `a` and `b` are the halves of `self` along `dim`. Tolerance:
//! 1e-6 relative.
//! Errors: [`Error::InvalidArgument`] at index 1 for a `dim` out of range and at index 0 for an odd
//! size; [`Error::InvalidType`] for another dtype.
//! Source: ATen `glu`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use libm::Libm;

use crate::shared::pointwise::{DimRange, Input, Pointwise, floats};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::glu.out", &[Arg::Tensor, Arg::Int, Arg::Out], glu_out)];

fn glu_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dim = args.int(1)?;
    let dim = if dim < 0 { dim.checked_add(x.rank() as i64) } else { Some(dim) };
    let dim = dim.and_then(|dim| usize::try_from(dim).ok()).filter(|&dim| dim < x.rank());
    let dim =
        dim.ok_or(Error::InvalidArgument { index: 1, expected: "a dimension of the tensor" })?;
    let size = x.sizes()[dim];
    if size % 2 != 0 {
        return Err(Error::InvalidArgument { index: 0, expected: "an even size along `dim`" });
    }
    let len = size / 2;
    let half = |start| Input::Narrow(x, DimRange { dim, start, len });
    let call = Pointwise::new([half(0), half(len)])?.at_args([0, 0]).require_float()?;
    call.run(args, 2, floats!(F => |[a, b]| a / (1.0 + Libm::<F>::exp(-b))))
}

#[cfg(test)]
mod tests {
    use afferent_core::Scalar;

    use super::*;
    use crate::shared::pointwise::testing::{Value, check, shaped, tensor};

    #[test]
    fn values() {
        let dim = |dim| Value::Scalar(Scalar::Int(dim));
        let x = || shaped(&[2, 2], &[1.0_f32, 2.0, 0.0, f32::INFINITY]);
        check(&KERNELS[0], [x(), dim(0)], Ok(&[0.5_f32, 2.0]));
        check(&KERNELS[0], [x(), dim(-1)], Ok(&[0.880_797_1_f32, 0.0]));
        let error = |index, expected| Err(Error::InvalidArgument { index, expected });
        for out_of_range in [2, -3, i64::MIN] {
            check::<f32, 2>(
                &KERNELS[0],
                [x(), dim(out_of_range)],
                error(1, "a dimension of the tensor"),
            );
        }
        let odd = tensor(&[1.0_f32]);
        check::<f32, 2>(&KERNELS[0], [odd, dim(0)], error(0, "an even size along `dim`"));
    }
}
