//! `cortex_m::quantized_div.out`: quotient of quantized tensors.
//!
//! | argument            | type             | shape     |
//! |---------------------|------------------|-----------|
//! | `self`              | i8 or i16 tensor | any       |
//! | `self_zero_point`   | int              |           |
//! | `other`             | as `self`        | as `self` |
//! | `other_zero_point`  | int              |           |
//! | `output_zero_point` | int              |           |
//! | `output_scale`      | double           |           |
//! | `out`               | as `self`        | as `self` |
//!
//! `round((a - a_zero_point) / (b - b_zero_point) · output_scale) + output_zero_point` in `f32`,
//! clamped to the dtype. Rounds half to even; a quotient by zero is zero. Exact.
//! Errors: other sizes, memory orders or dtypes.
//! Source: ExecuTorch `op_quantized_div.cpp` of the Cortex-M backend.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::int8::arguments::{float32, int32, invalid, same_order};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_div.out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Int, Arg::Int, Arg::Double, Arg::Out],
    div,
)];

fn div(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (a, b) = (args.tensor(0)?, args.tensor(2)?);
    let (a_zero, b_zero, zero) = (int32(args, 1)?, int32(args, 3)?, int32(args, 4)?);
    let scale = float32(args, 5)?;
    if a.sizes() != b.sizes() || !same_order(a.sizes(), a.dim_order(), b.dim_order()) {
        return Err(invalid(2, "sizes and dim order of the first tensor"));
    }
    let mut out = args.out(6)?;
    if !same_order(a.sizes(), a.dim_order(), out.dim_order()) {
        return Err(invalid(6, "the dim order of the first tensor"));
    }
    out.resize(a.sizes())?;
    let quotient = |a: i32, b: i32| {
        let (a, b) = (a.wrapping_sub(a_zero), b.wrapping_sub(b_zero));
        let quotient = if b == 0 { 0.0 } else { a as f32 / b as f32 };
        libm::rintf(quotient * scale) + zero as f32
    };
    let found = |dtype| move |_| Error::InvalidType { index: 0, found: dtype };
    match out.dtype() {
        ScalarType::Char => {
            let (a, b) = (a.data::<i8>().map_err(found(a.dtype()))?, b.data::<i8>()?);
            for (out, (&a, &b)) in out.data_mut::<i8>()?.iter_mut().zip(a.iter().zip(b)) {
                *out = quotient(a.into(), b.into()) as i8;
            }
        }
        _ => {
            let (a, b) = (a.data::<i16>().map_err(found(a.dtype()))?, b.data::<i16>()?);
            for (out, (&a, &b)) in out.data_mut::<i16>()?.iter_mut().zip(a.iter().zip(b)) {
                *out = quotient(a.into(), b.into()) as i16;
            }
        }
    }
    Ok(())
}
