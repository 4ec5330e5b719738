//! `aten::avg_pool2d.out`: average pooling over height and width.
//!
//! | argument            | type                                 | shape                    |
//! |---------------------|--------------------------------------|--------------------------|
//! | `self`              | floating-point or i64 tensor         | `[…, h, w]`, rank 3 or 4 |
//! | `kernel_size`       | 1 or 2 ints                          |                          |
//! | `stride`            | 1 or 2 ints; default `kernel_size`   |                          |
//! | `padding`           | 1 or 2 ints, at most half the window |                          |
//! | `ceil_mode`         | bool                                 |                          |
//! | `count_include_pad` | bool                                 |                          |
//! | `divisor_override`  | optional int, not 0                  |                          |
//! | `out`               | as `self`                            | `[…, h', w']`            |
//!
//! Divides the sum of each window by `divisor_override` or by its number of elements, with or
//! without padding. Half types accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: parameters that give an empty output, other dtypes. Source: ATen `avg_pool2d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::avg;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::avg_pool2d.out",
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
    |_, args| avg::avg_pool(args, 2, true),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(counts_padding: bool, divisor: Option<i64>, expected: &[f32]) {
        let x = Tensor::new(&[1, 3, 3], &[1.0_f32; 9]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2, 2]),
            Argument::Ints(vec![2, 2]),
            Argument::Ints(vec![1, 1]),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Bool(counts_padding)),
            divisor.map_or(Argument::None, |divisor| Argument::Scalar(Scalar::Int(divisor))),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn values() {
        check(true, None, &[0.25, 0.5, 0.5, 1.0]);
        check(false, None, &[1.0, 1.0, 1.0, 1.0]);
        check(false, Some(2), &[0.5, 1.0, 1.0, 2.0]);
    }
}
