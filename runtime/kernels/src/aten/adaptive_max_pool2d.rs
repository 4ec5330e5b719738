//! `aten::adaptive_max_pool2d.out`: adaptive max pooling over height and width.
//!
//! | argument      | type                           | shape                    |
//! |---------------|--------------------------------|--------------------------|
//! | `self`        | floating-point tensor          | `[…, h, w]`, rank 3 or 4 |
//! | `output_size` | 2 ints                         |                          |
//! | `out`         | as `self`                      | `[…, h', w']`            |
//! | `indices`     | i64 tensor: `row · w + column` | as `out`                 |
//!
//! In each dimension, the window of output `i` of `h'` is `⌊i h / h'⌋` to `⌈(i + 1) h / h'⌉`,
//! exclusive. NaN propagates. The index is the first among equal elements, but the last among NaN.
//! Tolerance: exact.
//! Errors: an empty spatial dimension, other dtypes. Source: ATen `adaptive_max_pool2d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::adaptive;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::adaptive_max_pool2d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out, Arg::Out],
    |_, args| adaptive::adaptive_max_pool(args, 2),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values_and_indices() {
        let x = Tensor::new(&[1, 2, 3], &[1.0_f32, 2.0, 6.0, 7.0, 2.0, 6.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 3]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0; 3]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![1, 2]),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[7.0, 6.0][..]));
        assert_eq!(indices.data::<i64>(), Ok(&[3, 2][..]));
    }
}
