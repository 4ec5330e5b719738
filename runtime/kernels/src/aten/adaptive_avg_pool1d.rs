//! `aten::adaptive_avg_pool1d.out`: means over windows that share a line out evenly.
//!
//! | argument      | type                  | shape                    |
//! |---------------|-----------------------|--------------------------|
//! | `self`        | floating-point or i64 tensor | `[…, l]`, rank 2 or 3 |
//! | `output_size` | one int            |                          |
//! | `out`         | as `self`             | `[…, l']`            |
//!
//! Output `i` of `n` is the mean from `⌊i l / n⌋` to `⌈(i + 1) l / n⌉` of a dimension of size `l`.
//! Half types add in `f32`; i64 truncates. Tolerance: 1e-6 relative. Errors: an empty picture, other dtypes.
//! Source: ATen `adaptive_avg_pool1d`.

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
