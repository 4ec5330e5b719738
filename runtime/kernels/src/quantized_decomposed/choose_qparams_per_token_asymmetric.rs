//! `quantized_decomposed::choose_qparams_per_token_asymmetric.out`: scale and zero point per token.
//!
//! | argument         | type                            | shape    |
//! |------------------|---------------------------------|----------|
//! | `input`          | f32, f16 or bf16 tensor         | `[…, n]` |
//! | `dtype`          | dtype of the integers, not used |          |
//! | `scale_out`      | f64 tensor                      | `[…, 1]` |
//! | `zero_point_out` | i64 tensor                      | `[…, 1]` |
//!
//! The range of the integers is -128 to 127. `min ≤ 0` and `max ≥ 0` are the bounds of a token,
//! extended to include zero. The scale is `(max - min) / 255`, at least 2⁻²³. The zero point is
//! `-128 - min / scale` or `127 - max / scale`, the one with the smaller error, clamped and
//! rounded. Intermediate results are rounded to the dtype of `input`. ExecuTorch's kernel computes
//! in `f64` with a minimum scale of 6.1e-5. Exact.
//! Errors: empty tokens, NaN, other dtypes.
//! Source: PyTorch `quantized_decomposed`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::check_dtype,
    loop_nest::{LoopNest, out_strides, strides_of},
    quantize::{
        choose_qparams::{input_reader, min_max, scale},
        clamp_to_range, round_to_dtype,
    },
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out",
    &[Arg::Tensor, Arg::OptDtype, Arg::Out, Arg::Out],
    choose_qparams_per_token_asymmetric_out,
)];

fn choose_qparams_per_token_asymmetric_out(
    _cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let reader = input_reader(x)?;
    let is_0d = Error::InvalidArgument { index: 0, expected: "a tensor that is not 0-d" };
    let mut sizes = Dims::new(x.sizes()).ok_or(is_0d)?;
    *sizes.last_mut().ok_or(is_0d)? = 1;
    check_dtype(args.out(2)?.dtype(), ScalarType::Double, 2)?;
    check_dtype(args.out(3)?.dtype(), ScalarType::Long, 3)?;
    let [mut scale_out, mut zero_point_out] = args.outs([2, 3])?;
    scale_out.resize(&sizes)?;
    zero_point_out.resize(&sizes)?;
    let strides = [strides_of(&x), out_strides(&scale_out), out_strides(&zero_point_out)];
    let last = x.rank() - 1;
    let mut tokens = LoopNest::<3>::new();
    for (dim, &size) in x.sizes()[..last].iter().enumerate() {
        tokens.push(size, strides.each_ref().map(|strides| strides[dim]))?;
    }
    let (scales, zero_points) = (scale_out.data_mut::<f64>()?, zero_point_out.data_mut::<i64>()?);
    let mut result = Ok(());
    tokens.for_each([0; 3], |[from, scale_offset, zero_point_offset]| {
        match min_max(&reader, from, strides[0][last], x.sizes()[last]) {
            Ok(bounds) => {
                let (scale, zero_point) = qparams(bounds, x.dtype());
                if let Some(out) = scales.get_mut(scale_offset) {
                    *out = f64::from(scale);
                }
                if let Some(out) = zero_points.get_mut(zero_point_offset) {
                    *out = zero_point;
                }
            }
            Err(error) => result = Err(error),
        }
    });
    result
}

/// Scale and zero point for values of `dtype` in `bounds`.
fn qparams(bounds: [f32; 2], dtype: ScalarType) -> (f32, i64) {
    let rounded = |value: f32| round_to_dtype(value, dtype);
    let (scale, bounds) = scale(bounds, 255.0, dtype);
    let scale = rounded(scale.max(f32::EPSILON));
    let [min, max] = bounds.map(|bound| rounded(bound / scale));
    let errors = [rounded(-128.0 + min), rounded(127.0 + max)];
    let zero_point = if rounded(errors[0] + errors[1]) > 0.0 {
        rounded(-128.0 - min)
    } else {
        rounded(127.0 - max)
    };
    (scale, clamp_to_range(libm::rintf(zero_point.clamp(-128.0, 127.0)), [-128, 127]))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[-51.0_f32, 76.5, 0.0, 0.0]).unwrap();
        let mut scale = Tensor::zeros(ScalarType::Double, &[0, 0]);
        let mut zero_point = Tensor::zeros(ScalarType::Long, &[0, 0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(ScalarType::Char as i64)),
            Argument::Out(&mut scale),
            Argument::Out(&mut zero_point),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(scale.data::<f64>(), Ok(&[0.5, f64::from(f32::EPSILON)][..]));
        assert_eq!(zero_point.data::<i64>(), Ok(&[-26, 127][..]));
    }
}
