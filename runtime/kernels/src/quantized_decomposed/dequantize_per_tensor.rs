//! `quantized_decomposed::dequantize_per_tensor.out`, `.Tensor_out`: dequantization per tensor.
//!
//! | argument     | type                                         | shape      |
//! |--------------|----------------------------------------------|------------|
//! | `input`      | integer tensor, at most 32 bits              | any        |
//! | `scale`      | double; `.Tensor_out`: tensor of one element |            |
//! | `zero_point` | int; `.Tensor_out`: tensor of one element    |            |
//! | `quant_min`  | int, not used                                |            |
//! | `quant_max`  | int, not used                                |            |
//! | `dtype`      | dtype of `input`                             |            |
//! | `out_dtype`  | dtype of `out`, optional                     |            |
//! | `out`        | floating-point tensor                        | as `input` |
//!
//! `(q - zero_point) · scale`, computed in the dtype of `out`. Exact.
//! Errors: other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::AffineQuantizer;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "quantized_decomposed::dequantize_per_tensor.out",
        &[
            Arg::Tensor,
            Arg::Double,
            Arg::Int,
            Arg::Int,
            Arg::Int,
            Arg::OptDtype,
            Arg::OptDtype,
            Arg::Out,
        ],
        dequantize_per_tensor_out,
    ),
    Kernel::new(
        "quantized_decomposed::dequantize_per_tensor.Tensor_out",
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
        dequantize_per_tensor_out,
    ),
];

fn dequantize_per_tensor_out(
    _cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    AffineQuantizer::per_tensor(args)?.dequantize(args, 5, 6, 7)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    fn run(dtype: ScalarType) -> Result<Vec<f32>, Error> {
        let x = Tensor::from_slice(&[0_u8, 3, 255]);
        let (scale, zero_point) = (Tensor::from_slice(&[0.5_f64]), Tensor::from_slice(&[3_i64]));
        let mut out = Tensor::zeros(ScalarType::Float, &[0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&scale),
            Argument::Tensor(&zero_point),
            int(0),
            int(255),
            int(dtype as i64),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[1]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn values() {
        assert_eq!(run(ScalarType::Byte), Ok(vec![-1.5, 0.0, 126.0]));
        assert!(run(ScalarType::Char).is_err());
    }
}
