//! `aten::max_pool3d_with_indices.out`: max pooling over depth, height and width.
//!
//! | argument      | type                                         | shape                       |
//! |---------------|----------------------------------------------|-----------------------------|
//! | `self`        | real tensor, neither `bool` nor u64          | `[…, d, h, w]`, rank 4 or 5 |
//! | `kernel_size` | 1 or 3 ints                                  |                             |
//! | `stride`      | 1 or 3 ints; default `kernel_size`           |                             |
//! | `padding`     | 1 or 3 ints, at most half the window         |                             |
//! | `dilation`    | 1 or 3 ints                                  |                             |
//! | `ceil_mode`   | bool                                         |                             |
//! | `out`         | as `self`                                    | `[…, d', h', w']`           |
//! | `indices`     | i64 tensor: `(depth · h + row) · w + column` | as `out`                    |
//!
//! NaN propagates. The index is the first among equal elements, but the last among NaN. Tolerance:
//! exact.
//! Errors: parameters that give an empty output, other dtypes. Source: ATen
//! `max_pool3d_with_indices`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::max;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::max_pool3d_with_indices.out",
    &[
        Arg::Tensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::Out,
        Arg::Out,
    ],
    |_, args| max::max_pool(args, 3),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values_and_indices() {
        let mut x = [0.0_f32; 16];
        (x[9], x[14], x[7]) = (3.0, 4.0, 4.0);
        let x = Tensor::new(&[1, 2, 2, 4], &x).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0, 0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2]),
            Argument::Ints(vec![]),
            Argument::Ints(vec![0]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[3.0, 4.0][..]));
        assert_eq!(indices.data::<i64>(), Ok(&[9, 7][..]));
    }
}
