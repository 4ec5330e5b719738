//! `quantized_decomposed::embedding_byte.out`, `.dtype_out`: embedding lookup in a table of 8-bit
//! weights.
//!
//! | argument             | type                                   | shape                        |
//! |----------------------|----------------------------------------|------------------------------|
//! | `weight`             | u8 or i8 tensor                        | `[rows, k]`                  |
//! | `weight_scales`      | floating-point tensor                  | `[rows]` or `[rows, groups]` |
//! | `weight_zero_points` | floating-point tensor, optional        | as `weight_scales`           |
//! | `weight_quant_min`   | int                                    |                              |
//! | `weight_quant_max`   | int, at least `weight_quant_min`       |                              |
//! | `indices`            | i32 or i64 tensor                      | any                          |
//! | `dtype`              | `.dtype_out`: dtype of `out`, optional |                              |
//! | `out`                | floating-point tensor                  | `[indices…, k]`              |
//!
//! `(q - zero_point) · scale`, computed in `f32`. Tolerance: one rounding to the dtype of `out`.
//! Errors: an index out of range, groups that do not divide a row, other dtypes.
//! Source: ExecuTorch `quantized_decomposed::embedding_byte`.

use afferent_core::{Arg, Kernel};

use crate::shared::quantize::embedding::lookup;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "quantized_decomposed::embedding_byte.dtype_out",
        &[
            Arg::Tensor,
            Arg::Tensor,
            Arg::OptTensor,
            Arg::Int,
            Arg::Int,
            Arg::Tensor,
            Arg::OptDtype,
            Arg::Out,
        ],
        |_, args| lookup(args, 1, true),
    ),
    Kernel::new(
        "quantized_decomposed::embedding_byte.out",
        &[Arg::Tensor, Arg::Tensor, Arg::OptTensor, Arg::Int, Arg::Int, Arg::Tensor, Arg::Out],
        |_, args| lookup(args, 1, false),
    ),
];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Error, Scalar, ScalarType, Tensor};

    use super::*;

    fn run(indices: &[i64]) -> Result<Vec<f32>, Error> {
        let weight = Tensor::new(&[2, 2], &[1_i8, 2, 3, 4]).unwrap();
        let scales = Tensor::from_slice(&[0.5_f32; 2]);
        let zero_points = Tensor::from_slice(&[1.0_f32, 0.0]);
        let indices = Tensor::from_slice(indices);
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&weight),
            Argument::Tensor(&scales),
            Argument::Tensor(&zero_points),
            int(-8),
            int(7),
            Argument::Tensor(&indices),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[1]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn rows() {
        assert_eq!(run(&[1, 0]), Ok(vec![1.5, 2.0, 0.0, 0.5]));
        assert_eq!(run(&[]), Ok(vec![]));
        for outside in [-1, 2, i64::MIN] {
            assert!(run(&[outside]).is_err());
        }
    }
}
