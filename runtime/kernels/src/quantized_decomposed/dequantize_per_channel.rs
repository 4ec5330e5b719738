//! `quantized_decomposed::dequantize_per_channel.out`: dequantization per channel.
//!
//! | argument      | type                            | shape        |
//! |---------------|---------------------------------|--------------|
//! | `input`       | integer tensor, at most 32 bits | any          |
//! | `scales`      | floating-point tensor           | `[channels]` |
//! | `zero_points` | tensor, optional                | as `scales`  |
//! | `axis`        | int: channel dimension          |              |
//! | `quant_min`   | int, not used                   |              |
//! | `quant_max`   | int, not used                   |              |
//! | `dtype`       | dtype of `input`                |              |
//! | `out_dtype`   | dtype of `out`, optional        |              |
//! | `out`         | floating-point tensor           | as `input`   |
//!
//! `(q - zero_point) · scale`, computed in the dtype of `scales`, then rounded to that of `out`.
//! ExecuTorch's kernel rounds the scales to `f32`. Exact.
//! Errors: parameters of other sizes, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::AffineQuantizer;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::dequantize_per_channel.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::OptTensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::OptDtype,
        Arg::OptDtype,
        Arg::Out,
    ],
    dequantize_per_channel_out,
)];

fn dequantize_per_channel_out(
    _cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    AffineQuantizer::per_channel(args, false)?.dequantize(args, 6, 7, 8)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[1_i8, 2, 3, 4]).unwrap();
        let scales = Tensor::from_slice(&[0.5_f32, 2.0]);
        let zero_points = Tensor::from_slice(&[1_i64, 0]);
        for (zero_points, expected) in [
            (Argument::Tensor(&zero_points), [0.0, 0.5, 6.0, 8.0]),
            (Argument::None, [0.5, 1.0, 6.0, 8.0]),
        ] {
            let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
            let int = |value| Argument::Scalar(Scalar::Int(value));
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Tensor(&scales),
                zero_points,
                int(0),
                int(-128),
                int(127),
                int(ScalarType::Char as i64),
                Argument::None,
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<f32>(), Ok(&expected[..]));
        }
    }
}
