//! `aten::cumsum.out`: cumulative sum along a dimension.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `dim`    | int                          |           |
//! | `dtype`  | optional; the dtype of `out` |           |
//! | `out`    | real tensor, not `bool`      | as `self` |
//!
//! Accumulates in `f64` if `out` is floating point, otherwise in `i64` with wrap-around. Tolerance:
//! 1e-6 relative.
//! Errors: a `dim` out of range, a `dtype` other than that of `out`.
//! Source: ATen `cumsum`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{accumulator::Accumulator, dim_apply::accumulate};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::cumsum.out",
    &[Arg::Tensor, Arg::Int, Arg::OptDtype, Arg::Out],
    cumsum_out,
)];

fn cumsum_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    accumulate(args, 0.0, Accumulator::add, Accumulator::add)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        for (dim, expected) in [(0, [1, 2, 3, 5, 7, 9]), (-1, [1, 3, 6, 4, 9, 15])] {
            let dim = Argument::Scalar(Scalar::Int(dim));
            let inputs = vec![Argument::Tensor(&x), dim, Argument::None];
            check(&KERNELS[0], inputs, Ok((&[2, 3], &expected)));
        }
    }
}
