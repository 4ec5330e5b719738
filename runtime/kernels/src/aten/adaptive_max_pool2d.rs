//! `aten::adaptive_max_pool2d.out`: largest elements of windows that share a picture out evenly.
//!
//! | argument      | type                                    | shape                    |
//! |---------------|-----------------------------------------|--------------------------|
//! | `self`        | floating-point tensor                   | `[…, h, w]`, rank 3 or 4 |
//! | `output_size` | two ints                              |                          |
//! | `out`         | as `self`                               | `[…, h', w']`            |
//! | `indices`     | i64 tensor: `row · w + column`                       | as `out`                 |
//!
//! Output `i` of `n` is the largest from `⌊i l / n⌋` to `⌈(i + 1) l / n⌉` of a dimension of size
//! `l`: the first of equal elements, but the last NaN; NaN wins over every number. Exact.
//! Errors: an empty picture, other dtypes. Source: ATen `adaptive_max_pool2d`.

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
