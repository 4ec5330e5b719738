//! `aten::avg_pool1d.out`: average pooling over one dimension.
//!
//! | argument            | type                           | shape                 |
//! |---------------------|--------------------------------|-----------------------|
//! | `self`              | floating-point or i64 tensor   | `[…, l]`, rank 2 or 3 |
//! | `kernel_size`       | 1 int                          |                       |
//! | `stride`            | 1 int; default `kernel_size`   |                       |
//! | `padding`           | 1 int, at most half the window |                       |
//! | `ceil_mode`         | bool                           |                       |
//! | `count_include_pad` | bool                           |                       |
//! | `out`               | as `self`                      | `[…, l']`             |
//!
//! Divides the sum of each window by its number of elements, with or without padding. Half types
//! accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: parameters that give an empty output, other dtypes. Source: ATen `avg_pool1d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::avg;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::avg_pool1d.out",
    &[Arg::Tensor, Arg::IntList, Arg::IntList, Arg::IntList, Arg::Bool, Arg::Bool, Arg::Out],
    |_, args| avg::avg_pool(args, 1, false),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 5], &[1.0_f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2]),
            Argument::Ints(vec![]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[1.0, 2.5, 4.5][..]));
    }
}
