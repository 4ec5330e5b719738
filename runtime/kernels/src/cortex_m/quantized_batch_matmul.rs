//! `cortex_m::quantized_batch_matmul.out`: batched matrix product.
//!
//! | argument            | type                                | shape       |
//! |---------------------|-------------------------------------|-------------|
//! | `lhs`               | i8 tensor                           | `[b, m, k]` |
//! | `lhs_zero_point`    | int, -127 to 128; added to elements |             |
//! | `rhs_transposed`    | i8 tensor                           | `[b, n, k]` |
//! | `rhs_zero_point`    | int; added to elements              |             |
//! | `output_zero_point` | int                                 |             |
//! | `output_multiplier` | int                                 |             |
//! | `output_shift`      | int                                 |             |
//! | `scratch`           | written                             | any         |
//! | `out`               | i8 tensor                           | `[b, m, n]` |
//!
//! Sums `(l + lhs_zero_point) · (r + rhs_zero_point)`, requantizes, adds `output_zero_point` and
//! clamps to i8. The exporter negates the zero points of the operands. Exact.
//! Errors: sizes that do not fit, tensors that are not row-major, other dtypes.
//! Source: CMSIS-NN `arm_batch_matmul_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{check_int8, elements, int32, invalid},
    product::{self, Filters, Scales},
    requantize::{OutputRange, Requantizer},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_batch_matmul.out",
    &[
        Arg::Tensor,
        Arg::Int,
        Arg::Tensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Out,
        Arg::Out,
    ],
    batch_matmul,
)];

fn batch_matmul(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (lhs, rhs) = (args.tensor(0)?, args.tensor(2)?);
    let (&[batch, rows, len], &[rhs_batch, channels, rhs_len]) = (lhs.sizes(), rhs.sizes()) else {
        return Err(invalid(0, "two tensors of three dimensions"));
    };
    if batch != rhs_batch || len != rhs_len || len == 0 {
        return Err(invalid(2, "batch and last dimension of the first tensor, not empty"));
    }
    if !lhs.is_contiguous() || !rhs.is_contiguous() {
        return Err(invalid(0, "row-major tensors"));
    }
    let input_offset = int32(args, 1)?;
    if !(-127..=128).contains(&input_offset) {
        return Err(invalid(1, "an offset of -127 to 128"));
    }
    let (lhs, rhs) = (elements(lhs, 0)?, elements(rhs, 2)?);
    let filters = Filters {
        weights: rhs,
        len,
        bias: None,
        scales: Scales::PerTensor(Requantizer::from_args(args, 5)?),
        input_offset,
        filter_offset: int32(args, 3)?,
        output: OutputRange::full(int32(args, 4)?),
    };
    let [mut scratch, mut out] = args.outs([7, 8])?;
    check_int8(&out, 8)?;
    if !out.is_contiguous() {
        return Err(invalid(8, "a row-major tensor"));
    }
    out.resize(&[batch, rows, channels])?;
    let packed = product::scratch(cx, &mut scratch, filters.packed_words())?;
    let out = out.data_mut::<i8>()?;
    for matrix in 0..batch {
        let part = filters.slice(matrix * channels, (matrix + 1) * channels);
        let inputs = lhs.get(matrix * rows * len..(matrix + 1) * rows * len).unwrap_or_default();
        part.multiply(inputs, matrix * rows * channels, channels, out, packed);
    }
    Ok(())
}
