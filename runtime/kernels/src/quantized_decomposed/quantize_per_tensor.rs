//! `quantized_decomposed::quantize_per_tensor.out`, `.Tensor_out`: quantization per tensor.
//!
//! | argument     | type                                         | shape      |
//! |--------------|----------------------------------------------|------------|
//! | `input`      | floating-point tensor                        | any        |
//! | `scale`      | double; `.Tensor_out`: tensor of one element |            |
//! | `zero_point` | int; `.Tensor_out`: tensor of one element    |            |
//! | `quant_min`  | int                                          |            |
//! | `quant_max`  | int                                          |            |
//! | `dtype`      | dtype of `out`                               |            |
//! | `out`        | integer tensor, at most 32 bits              | as `input` |
//!
//! `round(x · (1 / scale)) + zero_point`, clamped to `quant_min..=quant_max`. Rounds half to even;
//! NaN gives zero. Computes in `f32`, for `f64` tensors in `f64`. ExecuTorch's kernel rounds
//! `scale` to `f32` before the division. Exact.
//! Errors: a range that the dtype cannot represent, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::{AffineQuantizer, Rounding};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "quantized_decomposed::quantize_per_tensor.out",
        &[Arg::Tensor, Arg::Double, Arg::Int, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
        quantize_per_tensor_out,
    ),
    Kernel::new(
        "quantized_decomposed::quantize_per_tensor.Tensor_out",
        &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
        quantize_per_tensor_out,
    ),
];

fn quantize_per_tensor_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    AffineQuantizer::per_tensor(args)?.quantize(args, 6, Rounding::BeforeZeroPoint)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    fn run(range: [i64; 2]) -> Result<Vec<i8>, Error> {
        let x = Tensor::from_slice(&[0.25_f32, 0.75, -1.0, 100.0, f32::NAN]);
        let mut out = Tensor::zeros(ScalarType::Char, &[0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Double(0.5)),
            int(3),
            int(range[0]),
            int(range[1]),
            int(ScalarType::Char as i64),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn values() {
        assert_eq!(run([-128, 127]), Ok(vec![3, 5, 1, 127, 0]));
        assert_eq!(run([2, 4]), Ok(vec![3, 4, 2, 4, 0]));
        assert!(run([-129, 127]).is_err());
        assert!(run([-128, 128]).is_err());
    }
}
