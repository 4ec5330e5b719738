//! `aten::_adaptive_avg_pool3d.out`: adaptive average pooling over depth, height and width.
//!
//! | argument      | type                         | shape                       |
//! |---------------|------------------------------|-----------------------------|
//! | `self`        | floating-point or i64 tensor | `[…, d, h, w]`, rank 4 or 5 |
//! | `output_size` | 3 ints                       |                             |
//! | `out`         | as `self`                    | `[…, d', h', w']`           |
//!
//! In each dimension, output `i` of `d'` is the mean of the inputs from `⌊i d / d'⌋` to `⌈(i + 1) d
//! / d'⌉`, exclusive. Half types accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: an empty spatial dimension, other dtypes. Source: ATen `_adaptive_avg_pool3d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::adaptive;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_adaptive_avg_pool3d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out],
    |_, args| adaptive::adaptive_avg_pool(args, 3),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 2, 2, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 12.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 4]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Ints(vec![1, 2, 1]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[3.5, 6.5][..]));
    }
}
