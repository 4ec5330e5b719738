//! `aten::_adaptive_avg_pool2d.out`: adaptive average pooling over height and width.
//!
//! | argument      | type                         | shape                    |
//! |---------------|------------------------------|--------------------------|
//! | `self`        | floating-point or i64 tensor | `[…, h, w]`, rank 3 or 4 |
//! | `output_size` | 2 ints                       |                          |
//! | `out`         | as `self`                    | `[…, h', w']`            |
//!
//! In each dimension, output `i` of `h'` is the mean of the inputs from `⌊i h / h'⌋` to `⌈(i + 1) h
//! / h'⌉`, exclusive. Half types accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: an empty spatial dimension, other dtypes. Source: ATen `_adaptive_avg_pool2d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::adaptive;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_adaptive_avg_pool2d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out],
    |_, args| adaptive::adaptive_avg_pool(args, 2),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 1, 3], &[1.0_f32, 2.0, 6.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Ints(vec![1, 2]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[1.5, 4.0][..]));
    }
}
