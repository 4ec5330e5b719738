//! `quantized_decomposed::choose_qparams_per_token_asymmetric.out`: scales and zero points by line.
//!
//! | argument         | type                            | shape    |
//! |------------------|---------------------------------|----------|
//! | `input`          | f32, f16 or bf16 tensor         | `[…, n]` |
//! | `dtype`          | dtype of the integers, not used |          |
//! | `scale_out`      | f64 tensor                      | `[…, 1]` |
//! | `zero_point_out` | i64 tensor                      | `[…, 1]` |
//!
//! For integers from -128 to 127. With `least ≤ 0 ≤ largest` the ends of a line and zero, the scale
//! is `(largest - least) / 255`, at least 2⁻²³. The zero point is `-128 - least / scale` or `127 -
//! largest / scale`, whichever has the smaller error, clamped and rounded. Each step is rounded to
//! the dtype of `input`. The official kernel computes in `f64`, with 6.1e-5 as the least scale.
//! Exact. Errors: empty lines, NaN, other dtypes. Source: PyTorch `quantized_decomposed`.

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
    let lines = Error::InvalidArgument { index: 0, expected: "lines of elements" };
    let mut sizes = Dims::new(x.sizes()).ok_or(lines)?;
    *sizes.last_mut().ok_or(lines)? = 1;
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
    tokens.for_each([0; 3], |[from, scale_at, zero_point_at]| {
        match min_max(&reader, from, strides[0][last], x.sizes()[last]) {
            Ok(ends) => {
                let (scale, zero_point) = parameters(ends, x.dtype());
                if let Some(place) = scales.get_mut(scale_at) {
                    *place = f64::from(scale);
                }
                if let Some(place) = zero_points.get_mut(zero_point_at) {
                    *place = zero_point;
                }
            }
            Err(error) => result = Err(error),
        }
    });
    result
}

/// Scale and zero point for numbers of `dtype` in `ends`.
fn parameters(ends: [f32; 2], dtype: ScalarType) -> (f32, i64) {
    let rounded = |value: f32| round_to_dtype(value, dtype);
    let (scale, ends) = scale(ends, 255.0, dtype);
    let scale = rounded(scale.max(f32::EPSILON));
    let [least, largest] = ends.map(|end| rounded(end / scale));
    let errors = [rounded(-128.0 + least), rounded(127.0 + largest)];
    let zero_point = if rounded(errors[0] + errors[1]) > 0.0 {
        rounded(-128.0 - least)
    } else {
        rounded(127.0 - largest)
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
