//! `quantized_decomposed::choose_qparams.Tensor_out`: scale and zero point from the range of a
//! tensor.
//!
//! | argument         | type                            | shape          |
//! |------------------|---------------------------------|----------------|
//! | `input`          | f32, f16 or bf16 tensor         | any, not empty |
//! | `quant_min`      | int                             |                |
//! | `quant_max`      | int, larger than `quant_min`    |                |
//! | `eps`            | double: minimum scale           |                |
//! | `dtype`          | dtype of the integers, not used |                |
//! | `scale_out`      | f64 tensor                      | `[1]`          |
//! | `zero_point_out` | i64 tensor                      | `[1]`          |
//!
//! `min ≤ 0` and `max ≥ 0` are the bounds of the elements, extended to include zero. The scale is
//! `(max - min) / (quant_max - quant_min)`, at least `eps`. The zero point is
//! `quant_min - round(min / scale)`, clamped. ExecuTorch's kernel ignores `eps` and uses a minimum
//! scale of 6.1e-5. Exact.
//! Errors: an empty tensor, NaN, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::check_dtype,
    quantize::{
        choose_qparams::{input_reader, min_max, scale},
        clamp_to_range,
    },
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::choose_qparams.Tensor_out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Double, Arg::OptDtype, Arg::Out, Arg::Out],
    choose_qparams_out,
)];

fn choose_qparams_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let range = [args.int(1)?, args.int(2)?];
    let quant_range = range[1].checked_sub(range[0]).filter(|&size| size > 0);
    let expected = "a value above `quant_min`";
    let quant_range = quant_range.ok_or(Error::InvalidArgument { index: 2, expected })?;
    let eps = args.double(3)? as f32;
    check_dtype(args.out(5)?.dtype(), ScalarType::Double, 5)?;
    check_dtype(args.out(6)?.dtype(), ScalarType::Long, 6)?;
    let bounds = min_max(&input_reader(x)?, 0, 1, x.numel())?;
    let (scale, [min, _]) = scale(bounds, quant_range as f32, x.dtype());
    let scale = scale.max(eps);
    let quantized_min = clamp_to_range(libm::rintf(min / scale), [i64::MIN, i64::MAX]);
    let zero_point = range[0].saturating_sub(quantized_min).max(range[0]).min(range[1]);
    let [mut scale_out, mut zero_point_out] = args.outs([5, 6])?;
    scale_out.resize(&[1])?;
    zero_point_out.resize(&[1])?;
    scale_out.data_mut::<f64>()?.fill(f64::from(scale));
    zero_point_out.data_mut::<i64>()?.fill(zero_point);
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(x: &[f32]) -> Result<(f64, i64), Error> {
        let x = Tensor::from_slice(x);
        let mut scale = Tensor::zeros(ScalarType::Double, &[1]);
        let mut zero_point = Tensor::zeros(ScalarType::Long, &[1]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let mut arguments = [
            Argument::Tensor(&x),
            int(-128),
            int(127),
            Argument::Scalar(Scalar::Double(0.125)),
            int(ScalarType::Char as i64),
            Argument::Out(&mut scale),
            Argument::Out(&mut zero_point),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok((scale.data()?[0], zero_point.data()?[0]))
    }

    #[test]
    fn values() {
        assert_eq!(run(&[-51.0, 76.5]), Ok((0.5, -26)));
        assert_eq!(run(&[255.0, 1.0]), Ok((1.0, -128)));
        assert_eq!(run(&[-1.0]), Ok((0.125, -120)));
        assert!(run(&[]).is_err());
        assert!(run(&[1.0, f32::NAN]).is_err());
    }
}
