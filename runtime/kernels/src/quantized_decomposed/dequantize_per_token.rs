//! `quantized_decomposed::dequantize_per_token.out`: dequantization per token.
//!
//! | argument       | type                            | shape                 |
//! |----------------|---------------------------------|-----------------------|
//! | `input`        | integer tensor, at most 32 bits | `[…, n]`              |
//! | `scales`       | floating-point tensor           | one element per token |
//! | `zero_points`  | tensor                          | as `scales`           |
//! | `quant_min`    | int, not used                   |                       |
//! | `quant_max`    | int, not used                   |                       |
//! | `dtype`        | dtype of `input`                |                       |
//! | `output_dtype` | dtype of `out`                  |                       |
//! | `out`          | floating-point tensor           | as `input`            |
//!
//! `(q - zero_point) · scale`, computed in the dtype of `scales`, then rounded to that of `out`.
//! Exact.
//! Errors: parameters of other sizes, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::AffineQuantizer;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::dequantize_per_token.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Int,
        Arg::Int,
        Arg::OptDtype,
        Arg::OptDtype,
        Arg::Out,
    ],
    dequantize_per_token_out,
)];

fn dequantize_per_token_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    AffineQuantizer::per_token(args)?.dequantize(args, 5, 6, 7)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 2, 2], &[1_i8, 2, 3, 4]).unwrap();
        let scales = Tensor::new(&[1, 2, 1], &[1.0_f64, 0.25]).unwrap();
        let zero_points = Tensor::new(&[1, 2, 1], &[1_i64, -1]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&scales),
            Argument::Tensor(&zero_points),
            int(-128),
            int(127),
            int(ScalarType::Char as i64),
            int(ScalarType::Float as i64),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[0.0, 1.0, 1.0, 1.25][..]));
    }
}
