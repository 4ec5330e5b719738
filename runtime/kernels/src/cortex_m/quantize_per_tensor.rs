//! `cortex_m::quantize_per_tensor.out`: quantization to i8.
//!
//! | argument                  | type           | shape      |
//! |---------------------------|----------------|------------|
//! | `input`                   | f32 tensor     | any        |
//! | `scale`                   | double         |            |
//! | `zero_point`              | int of 8 bits  |            |
//! | `quant_min`, `quant_max`  | ints of 8 bits |            |
//! | `dtype`                   | i8             |            |
//! | `out`                     | i8 tensor      | as `input` |
//!
//! `round(x · (1 / scale)) + zero_point` in `f32`, clamped. Rounds half to even; NaN gives zero.
//! Exact.
//! Errors: other dtypes or memory orders.
//! Source: PyTorch `quantized_decomposed::quantize_per_tensor`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::int8::{
    arguments::{check_int8, float32, invalid, same_order},
    requantize::OutputRange,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantize_per_tensor.out",
    &[Arg::Tensor, Arg::Double, Arg::Int, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
    quantize_per_tensor,
)];

fn quantize_per_tensor(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let data: &[f32] =
        input.data().map_err(|_| Error::InvalidType { index: 0, found: input.dtype() })?;
    // A scale is an f32 number, so this is the reciprocal in f64, rounded.
    let inverse = 1.0 / float32(args, 1)?;
    let zero_point = i8::try_from(args.int(2)?).map_err(|_| invalid(2, "an 8-bit int"))?;
    let range = OutputRange::from_args(args, zero_point.into(), 3, 4)?;
    if args.opt_dtype(5)? != Some(ScalarType::Char) {
        return Err(invalid(5, "i8"));
    }
    let mut out = args.out(6)?;
    check_int8(&out, 6)?;
    if !same_order(input.sizes(), input.dim_order(), out.dim_order()) {
        return Err(invalid(6, "the dim order of the input"));
    }
    out.resize(input.sizes())?;
    // The bounds are integers, so clamping first gives the same number, and a small one to round.
    let [min, max] = [range.min, range.max].map(|bound| (bound - range.zero_point) as f32);
    for (out, &x) in out.data_mut::<i8>()?.iter_mut().zip(data) {
        let scaled = x * inverse;
        // NaN survives the comparisons, and the cast makes it zero.
        let high = if scaled < min { min } else { scaled };
        let clamped = if high > max { max } else { high };
        let quantized = (clamped + INTEGERS) - INTEGERS + range.zero_point as f32;
        *out = quantized as i32 as i8;
    }
    Ok(())
}

/// From here to twice as much, the numbers of f32 are the integers, and additions round to them.
const INTEGERS: f32 = 12_582_912.0; // 1.5 · 2²³
