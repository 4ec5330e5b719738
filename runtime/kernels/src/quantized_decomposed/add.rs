//! `quantized_decomposed::add.out`: sum of quantized tensors.
//!
//! | argument         | type                         | shape                 |
//! |------------------|------------------------------|-----------------------|
//! | `a`              | integer tensor               | any                   |
//! | `a_scale`        | double                       |                       |
//! | `a_zero_point`   | int                          |                       |
//! | `a_quant_min`    | int, not used                |                       |
//! | `a_quant_max`    | int, not used                |                       |
//! | `b`              | as `a`                       | broadcasts with `a`   |
//! | …                | parameters of `b`, as of `a` |                       |
//! | `out_scale`      | double                       |                       |
//! | `out_zero_point` | int                          |                       |
//! | `out_quant_min`  | int                          |                       |
//! | `out_quant_max`  | int                          |                       |
//! | `out`            | as `a`                       | broadcast of `a`, `b` |
//!
//! `round((a' + b') · (1 / out_scale)) + out_zero_point`, clamped to
//! `out_quant_min..=out_quant_max`, with `a' = (a - a_zero_point) · a_scale`, and `b'` likewise,
//! all in `f32`. Rounds half to even. Exact.
//! Errors: a range that the dtype cannot represent, other dtypes.
//! Source: ExecuTorch `op_add.cpp` of the quantized kernels; PyTorch has only the schema.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    pointwise::{Input, Pointwise, integers},
    quantize::{check_range, clamp_to_range},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::add.out",
    &[
        Arg::Tensor,
        Arg::Double,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Tensor,
        Arg::Double,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Double,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Out,
    ],
    add_out,
)];

fn add_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (a, b) = (args.tensor(0)?, args.tensor(5)?);
    check_dtype(b.dtype(), a.dtype(), 5)?;
    check_dtype(args.out(14)?.dtype(), a.dtype(), 14)?;
    let range = check_range([args.int(12)?, args.int(13)?], a.dtype(), 12)?;
    let dequantize = |index: usize| -> Result<_, Error> {
        let scale = f64::from(args.double(index)? as f32);
        let zero_point = args.int(index + 1)?;
        Ok(move |value: i64| (value.wrapping_sub(zero_point) as f64 * scale) as f32)
    };
    let (dequantize_a, dequantize_b) = (dequantize(1)?, dequantize(6)?);
    let inverse = 1.0 / args.double(10)? as f32;
    let zero_point = args.int(11)? as f32;
    let call = Pointwise::new([Input::Tensor(a), Input::Tensor(b)])?;
    let call = call.at_args([0, 5]).reject_float()?;
    call.run(
        args,
        14,
        integers!(|[a, b]| {
            let sum = dequantize_a(a) + dequantize_b(b);
            clamp_to_range(libm::rintf(inverse * sum) + zero_point, range)
        }),
    )
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    fn run(b: &[u8], range: [i64; 2]) -> Result<Vec<u8>, Error> {
        let (a, b) = (Tensor::from_slice(&[0_u8, 10, 255]), Tensor::from_slice(b));
        let mut out = Tensor::zeros(ScalarType::Byte, &[0]);
        let int = |value| Argument::Scalar(Scalar::Int(value));
        let double = |value| Argument::Scalar(Scalar::Double(value));
        let mut arguments = [
            Argument::Tensor(&a),
            double(0.5),
            int(2),
            int(0),
            int(255),
            Argument::Tensor(&b),
            double(0.25),
            int(0),
            int(0),
            int(255),
            double(0.5),
            int(1),
            int(range[0]),
            int(range[1]),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn values() {
        assert_eq!(run(&[4], [0, 255]), Ok(vec![1, 11, 255]));
        assert_eq!(run(&[4], [2, 9]), Ok(vec![2, 9, 9]));
        assert!(run(&[4], [-1, 255]).is_err());
        let expected = "a tensor that broadcasts with the others";
        assert_eq!(run(&[4; 2], [0, 255]), Err(Error::InvalidArgument { index: 5, expected }));
    }
}
