//! `aten::adaptive_avg_pool1d.out`: adaptive average pooling over one dimension.
//!
//! | argument      | type                         | shape                 |
//! |---------------|------------------------------|-----------------------|
//! | `self`        | floating-point or i64 tensor | `[…, l]`, rank 2 or 3 |
//! | `output_size` | 1 int                        |                       |
//! | `out`         | as `self`                    | `[…, l']`             |
//!
//! Output `i` of `l'` is the mean of the inputs from `⌊i l / l'⌋` to `⌈(i + 1) l / l'⌉`, exclusive.
//! Half types accumulate in `f32`; i64 truncates. Tolerance: 1e-6 relative.
//! Errors: an empty spatial dimension, other dtypes. Source: ATen `adaptive_avg_pool1d`.

use afferent_core::{Arg, Kernel};

use crate::shared::pooling::adaptive;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::adaptive_avg_pool1d.out",
    &[Arg::Tensor, Arg::IntList, Arg::Out],
    |_, args| adaptive::adaptive_avg_pool(args, 1),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 3], &[1.0_f32, 2.0, 6.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 2]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Ints(vec![2]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[1.5, 4.0][..]));
    }
}
