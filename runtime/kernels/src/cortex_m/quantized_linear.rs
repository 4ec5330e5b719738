//! `cortex_m::quantized_linear.out`: linear layer.
//!
//! | argument                 | type                    | shape    |
//! |--------------------------|-------------------------|----------|
//! | `input`                  | i8 tensor               | `[…, k]` |
//! | `weights`                | i8 tensor               | `[o, k]` |
//! | `bias`                   | optional i32 tensor     | `o` elements |
//! | `kernel_sum`             | optional i32 tensor     | `o` elements |
//! | `input_offset`           | int, -127 to 128        |          |
//! | `filter_offset`          | int                     |          |
//! | `output_offset`          | int                     |          |
//! | `requantize_multipliers` | ints; the first is used |          |
//! | `requantize_shifts`      | ints; the first is used |          |
//! | `activation_max`, `_min` | ints of 8 bits          |          |
//! | `out`                    | i8 tensor               | `[…, o]` |
//!
//! Without `kernel_sum`: sums `(x + input_offset) · (w + filter_offset)` and the bias. With it: sums
//! `x · (w + filter_offset)` and `kernel_sum`, which contains the offset and the bias. Requantizes,
//! adds `output_offset` and clamps. Exact.
//! Errors: sizes that do not fit, tensors that are not row-major, other dtypes.
//! Source: CMSIS-NN `arm_fully_connected_s8`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{check_int8, elements, int32, invalid, parameters},
    product::{Filters, Scales},
    requantize::{OutputRange, Requantizer},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_linear.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::IntList,
        Arg::IntList,
        Arg::Int,
        Arg::Int,
        Arg::Out,
    ],
    linear,
)];

fn linear(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, weights) = (args.tensor(0)?, args.tensor(1)?);
    let &[channels, len] = weights.sizes() else {
        return Err(invalid(1, "two dimensions"));
    };
    if !weights.is_contiguous() || len == 0 || input.sizes().last() != Some(&len) {
        return Err(invalid(1, "row-major weights with the columns of the input, at least one"));
    }
    if !input.is_contiguous() {
        return Err(invalid(0, "a row-major tensor"));
    }
    let filters = filters(args, channels, len)?;
    let data = elements(input, 0)?;
    let mut sizes = Dims::new(input.sizes()).unwrap_or(Dims::filled(0, 0));
    if let Some(last) = sizes.last_mut() {
        *last = channels;
    }
    let mut out = args.out(11)?;
    check_int8(&out, 11)?;
    if !out.is_contiguous() {
        return Err(invalid(11, "a row-major tensor"));
    }
    out.resize(&sizes)?;
    let packed = cx.scratch::<u32>(filters.packed_words())?;
    filters.multiply(data, 0, channels, out.data_mut::<i8>()?, packed);
    Ok(())
}

/// Filters from the arguments 1 to 10.
fn filters<'a>(args: &Args<'a>, channels: usize, len: usize) -> Result<Filters<'a>, Error> {
    let per_channel = |index: u8| match args.opt_tensor(index.into())? {
        Some(tensor) => parameters(tensor, index, channels).map(Some),
        None => Ok(None),
    };
    let sums = per_channel(3)?;
    let input_offset = if sums.is_some() { 0 } else { int32(args, 4)? };
    if !(-127..=128).contains(&input_offset) {
        return Err(invalid(4, "an offset of -127 to 128"));
    }
    let first = |index: usize| {
        let value = args.int_list(index)?.get(0).and_then(|value| i32::try_from(value).ok());
        value.ok_or(invalid(index, "at least one 32-bit int"))
    };
    Ok(Filters {
        weights: elements(args.tensor(1)?, 1)?,
        len,
        bias: if sums.is_some() { sums } else { per_channel(2)? },
        scales: Scales::PerTensor(Requantizer::new(first(7)?, first(8)?)),
        input_offset,
        filter_offset: int32(args, 5)?,
        output: OutputRange::from_args(args, int32(args, 6)?, 10, 9)?,
    })
}
