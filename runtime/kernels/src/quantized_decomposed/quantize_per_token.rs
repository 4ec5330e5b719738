//! `quantized_decomposed::quantize_per_token.out`: quantization per token.
//!
//! | argument      | type                            | shape                 |
//! |---------------|---------------------------------|-----------------------|
//! | `input`       | floating-point tensor           | `[…, n]`              |
//! | `scales`      | floating-point tensor           | one element per token |
//! | `zero_points` | tensor                          | as `scales`           |
//! | `quant_min`   | int                             |                       |
//! | `quant_max`   | int                             |                       |
//! | `dtype`       | dtype of `out`                  |                       |
//! | `out`         | integer tensor, at most 32 bits | as `input`            |
//!
//! `round(x · (1 / scale) + zero_point)`, clamped to `quant_min..=quant_max`. Rounds half to even;
//! NaN gives zero. Computes in the wider dtype of `input` and `scales`. ExecuTorch's kernel
//! computes in `f32` and adds the zero point after rounding. Exact.
//! Errors: parameters of other sizes, a range that the dtype cannot represent, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::{AffineQuantizer, Rounding};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::quantize_per_token.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
    quantize_per_token_out,
)];

fn quantize_per_token_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    AffineQuantizer::per_token(args)?.quantize(args, 6, Rounding::AfterZeroPoint)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[0.5_f32, 2.0, 3.0, 4.0]).unwrap();
        let scales = Tensor::new(&[2, 1], &[1.0_f64, 0.25]).unwrap();
        let zero_points = Tensor::new(&[2, 1], &[1_i64, -2]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Char, &[0, 0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&scales),
            Argument::Tensor(&zero_points),
            int(-128),
            int(127),
            int(ScalarType::Char as i64),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i8>(), Ok(&[2, 3, 10, 14][..]));
    }
}
