//! `cortex_m::dequantize_per_tensor.out`: real values of an i8 tensor.
//!
//! | argument                 | type       | shape      |
//! |--------------------------|------------|------------|
//! | `input`                  | i8 tensor  | any        |
//! | `scale`                  | double     |            |
//! | `zero_point`             | int        |            |
//! | `quant_min`, `quant_max` | not used   |            |
//! | `dtype`                  | i8         |            |
//! | `out`                    | f32 tensor | as `input` |
//!
//! `(q - zero_point) · scale` in `f32`. Exact.
//! Errors: other dtypes or memory orders.
//! Source: PyTorch `quantized_decomposed::dequantize_per_tensor`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::int8::arguments::{elements, float32, int32, invalid, same_order};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::dequantize_per_tensor.out",
    &[Arg::Tensor, Arg::Double, Arg::Int, Arg::Int, Arg::Int, Arg::OptDtype, Arg::Out],
    dequantize_per_tensor,
)];

fn dequantize_per_tensor(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let data = elements(input, 0)?;
    let (scale, zero_point) = (float32(args, 1)?, int32(args, 2)?);
    if args.opt_dtype(5)? != Some(ScalarType::Char) {
        return Err(invalid(5, "i8"));
    }
    let mut out = args.out(6)?;
    if !same_order(input.sizes(), input.dim_order(), out.dim_order()) {
        return Err(invalid(6, "the dim order of the input"));
    }
    out.resize(input.sizes())?;
    let found = out.dtype();
    let target = out.data_mut::<f32>().map_err(|_| Error::InvalidType { index: 6, found })?;
    for (out, &q) in target.iter_mut().zip(data) {
        *out = i32::from(q).wrapping_sub(zero_point) as f32 * scale;
    }
    Ok(())
}
