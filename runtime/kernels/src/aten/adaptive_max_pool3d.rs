//! `aten::adaptive_max_pool3d.out`: adaptive max pooling over depth, height and width.
//!
//! | argument      | type                                         | shape                       |
//! |---------------|----------------------------------------------|-----------------------------|
//! | `self`        | floating-point tensor                        | `[…, d, h, w]`, rank 4 or 5 |
//! | `output_size` | 3 ints                                       |                             |
//! | `out`         | as `self`                                    | `[…, d', h', w']`           |
//! | `indices`     | i64 tensor: `(depth · h + row) · w + column` | as `out`                    |
//!
//! In each dimension, the window of output `i` of `d'` is `⌊i d / d'⌋` to `⌈(i + 1) d / d'⌉`,
//! exclusive. NaN propagates. The index is the first among equal elements, but the last among NaN.
//! Tolerance: exact.
//! Errors: an empty spatial dimension, other dtypes. Source: ATen `adaptive_max_pool3d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::adaptive;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::adaptive_max_pool3d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out, Arg::Out],
    |_, args| adaptive::adaptive_max_pool(args, 3),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values_and_indices() {
        let x = Tensor::new(&[1, 2, 2, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 12.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 4]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0; 4]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![1, 2, 1]),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[6.0, 12.0][..]));
        assert_eq!(indices.data::<i64>(), Ok(&[5, 7][..]));
    }
}
