//! `aten::max_pool2d_with_indices.out`: max pooling over height and width.
//!
//! | argument      | type                                 | shape                    |
//! |---------------|--------------------------------------|--------------------------|
//! | `self`        | real tensor, neither `bool` nor u64  | `[…, h, w]`, rank 3 or 4 |
//! | `kernel_size` | 1 or 2 ints                          |                          |
//! | `stride`      | 1 or 2 ints; default `kernel_size`   |                          |
//! | `padding`     | 1 or 2 ints, at most half the window |                          |
//! | `dilation`    | 1 or 2 ints                          |                          |
//! | `ceil_mode`   | bool                                 |                          |
//! | `out`         | as `self`                            | `[…, h', w']`            |
//! | `indices`     | i64 tensor: `row · w + column`       | as `out`                 |
//!
//! NaN propagates. The index is the first among equal elements, but the last among NaN. Tolerance:
//! exact.
//! Errors: parameters that give an empty output, other dtypes. Source: ATen
//! `max_pool2d_with_indices`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::max;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::max_pool2d_with_indices.out",
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
    |_, args| max::max_pool(args, 2),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, kernel: i64, padding: i64, expected: (&[f32], &[i64])) {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Ints(vec![kernel, kernel]),
            Argument::Ints(vec![]),
            Argument::Ints(vec![padding]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((out.data().unwrap(), indices.data().unwrap()), expected);
    }

    #[test]
    fn values_and_indices() {
        let x = Tensor::new(&[1, 2, 4], &[1.0_f32, 2.0, 5.0, 5.0, 3.0, 0.0, 5.0, 1.0]).unwrap();
        check(&x, 2, 0, (&[3.0, 5.0], &[4, 2]));
        check(&x, 2, 1, (&[1.0, 5.0, 5.0, 3.0, 5.0, 1.0], &[0, 2, 3, 4, 6, 7]));
        let lowest = Tensor::new(&[1, 1, 1], &[f32::NEG_INFINITY]).unwrap();
        check(&lowest, 1, 0, (&[f32::NEG_INFINITY], &[0]));
    }

    #[test]
    fn huge_padding_takes_no_time() {
        const HUGE: i64 = 1 << 50;
        let x = Tensor::new(&[1, 1, 2], &[1.0_f32, 2.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut indices = Tensor::zeros(ScalarType::Long, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![1, 2 * HUGE]),
            Argument::Ints(vec![1, HUGE + 1]),
            Argument::Ints(vec![0, HUGE]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Out(&mut out),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(
            (out.data().unwrap(), indices.data().unwrap()),
            (&[2.0_f32, 2.0][..], &[1_i64, 1][..])
        );
    }
}
