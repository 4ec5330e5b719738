//! `aten::avg_pool3d.out`: average pooling over depth, height and width.
//!
//! | argument            | type                                 | shape                       |
//! |---------------------|--------------------------------------|-----------------------------|
//! | `self`              | floating-point or i64 tensor         | `[…, d, h, w]`, rank 4 or 5 |
//! | `kernel_size`       | 1 or 3 ints                          |                             |
//! | `stride`            | 1 or 3 ints; default `kernel_size`   |                             |
//! | `padding`           | 1 or 3 ints, at most half the window |                             |
//! | `ceil_mode`         | bool                                 |                             |
//! | `count_include_pad` | bool                                 |                             |
//! | `divisor_override`  | optional int, not 0                  |                             |
//! | `out`               | as `self`                            | `[…, d', h', w']`           |
//!
//! Divides the sum of each window by `divisor_override` or by its number of elements, with or
//! without padding. Half types accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: parameters that give an empty output, other dtypes. Source: ATen `avg_pool3d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::avg;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::avg_pool3d.out",
    &[
        Arg::Tensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::Bool,
        Arg::OptInt,
        Arg::Out,
    ],
    |_, args| avg::avg_pool(args, 3, true),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x: Vec<f32> = (0..16_u8).map(f32::from).collect();
        let x = Tensor::new(&[1, 2, 2, 4], &x).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2]),
            Argument::Ints(vec![]),
            Argument::Ints(vec![0]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[6.5, 8.5][..]));
    }
}
