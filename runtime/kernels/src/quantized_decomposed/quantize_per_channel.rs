//! `quantized_decomposed::quantize_per_channel.out`: quantization per channel.
//!
//! | argument      | type                            | shape        |
//! |---------------|---------------------------------|--------------|
//! | `input`       | floating-point tensor           | any          |
//! | `scales`      | floating-point tensor           | `[channels]` |
//! | `zero_points` | tensor                          | as `scales`  |
//! | `axis`        | int: channel dimension          |              |
//! | `quant_min`   | int                             |              |
//! | `quant_max`   | int                             |              |
//! | `dtype`       | dtype of `out`                  |              |
//! | `out`         | integer tensor, at most 32 bits | as `input`   |
//!
//! `round(x · (1 / scale)) + zero_point`, clamped to `quant_min..=quant_max`. Rounds half to even;
//! NaN gives zero. Computes in the wider dtype of `input` and `scales`, ExecuTorch's kernel in
//! `f32`. Exact.
//! Errors: parameters of other sizes, a range that the dtype cannot represent, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::quantize::{AffineQuantizer, Rounding};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::quantize_per_channel.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
    quantize_per_channel_out,
)];

fn quantize_per_channel_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    AffineQuantizer::per_channel(args, true)?.quantize(args, 7, Rounding::BeforeZeroPoint)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    fn run(axis: i64) -> Result<Vec<i16>, Error> {
        let x = Tensor::new(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let scales = Tensor::from_slice(&[0.5_f64, 0.25]);
        let zero_points = Tensor::from_slice(&[0_i64, 100]);
        let mut out = Tensor::zeros(ScalarType::Short, &[0, 0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&scales),
            Argument::Tensor(&zero_points),
            int(axis),
            int(-9),
            int(115),
            int(ScalarType::Short as i64),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn values() {
        assert_eq!(run(0), Ok(vec![2, 4, 112, 115]));
        assert_eq!(run(-1), Ok(vec![2, 108, 6, 115]));
        assert!(run(2).is_err());
    }
}
