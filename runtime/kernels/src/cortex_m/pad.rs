//! `cortex_m::pad.out`: padding with a constant.
//!
//! | argument    | type           | shape                                      |
//! |-------------|----------------|--------------------------------------------|
//! | `input`     | i8 tensor      | at most four dimensions                    |
//! | `pre_pad`   | 4 ints         |                                            |
//! | `post_pad`  | 4 ints         |                                            |
//! | `pad_value` | int of 8 bits  |                                            |
//! | `out`       | i8 tensor      | sizes of `input`, plus both paddings       |
//!
//! The paddings are in memory order: N, H, W, C for an image with channels last. A tensor of fewer
//! dimensions uses the last ones. Exact.
//! Errors: negative paddings, other memory orders or dtypes. Source: CMSIS-NN `arm_pad_s8`.

use afferent_core::{Arg, Args, Dims, Error, IntList, Kernel, KernelContext, TensorView};

use crate::shared::int8::arguments::{check_int8, elements, invalid, same_order};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::pad.out",
    &[Arg::Tensor, Arg::IntList, Arg::IntList, Arg::Int, Arg::Out],
    pad,
)];

/// Dimensions of a padding.
const DIMS: usize = 4;

fn pad(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let data = elements(input, 0)?;
    let value = i8::try_from(args.int(3)?).map_err(|_| invalid(3, "an 8-bit int"))?;
    let order = memory_order(&input)?;
    let skip = DIMS - input.rank();
    let (before, after) = (padding(args.int_list(1)?, 1)?, padding(args.int_list(2)?, 2)?);
    // Sizes in memory order, of the input and of the output.
    let (mut from, mut to) = ([1_usize; DIMS], [1_usize; DIMS]);
    let mut sizes = Dims::filled(input.rank(), 0);
    for (at, &dim) in order.iter().enumerate().take(input.rank()) {
        let axis = skip + at;
        from[axis] = input.sizes()[usize::from(dim)];
        let both = before[axis].checked_add(after[axis]);
        let size = both.and_then(|both| both.checked_add(from[axis]));
        to[axis] = size.ok_or(invalid(1, "a smaller padding"))?;
        sizes[usize::from(dim)] = to[axis];
    }
    if before.iter().zip(after).take(skip).any(|(&before, after)| before + after > 0) {
        return Err(invalid(1, "zero for dimensions that the input lacks"));
    }
    let mut out = args.out(4)?;
    check_int8(&out, 4)?;
    if !same_order(&sizes, out.dim_order(), order.get(..input.rank()).unwrap_or_default()) {
        return Err(invalid(4, "the dim order of the input"));
    }
    out.resize(&sizes)?;
    let out = out.data_mut::<i8>()?;
    out.fill(value);
    let mut rows = data.chunks_exact(from[3].max(1));
    for a in 0..from[0] {
        for b in 0..from[1] {
            for c in 0..from[2] {
                let Some(row) = rows.next() else { return Ok(()) };
                let at = ((a + before[0]) * to[1] + b + before[1]) * to[2] + c + before[2];
                let at = at * to[3] + before[3];
                if let Some(out) = out.get_mut(at..at + row.len()) {
                    out.copy_from_slice(row);
                }
            }
        }
    }
    Ok(())
}

/// Dimensions in memory order: row-major, or channels last as PyTorch decides it.
fn memory_order(input: &TensorView<'_>) -> Result<[u8; DIMS], Error> {
    let sizes = input.sizes();
    if sizes.len() > DIMS {
        return Err(invalid(0, "at most four dimensions"));
    }
    let last = [0, 2, 3, 1];
    // An order is ambiguous if one channel, or one position, is all there is.
    let is_ambiguous = matches!(sizes, [_, 1, _, _] | [_, _, 1, 1]);
    if sizes.len() == DIMS && (is_ambiguous || same_order(sizes, input.dim_order(), &last)) {
        return Ok(last);
    }
    if input.is_contiguous() {
        return Ok([0, 1, 2, 3]);
    }
    Err(invalid(0, "a row-major tensor, or an image with channels last"))
}

fn padding(list: IntList<'_>, index: usize) -> Result<[usize; DIMS], Error> {
    let expected = invalid(index, "four ints that are not negative");
    let mut padding = [0; DIMS];
    if list.len() != DIMS {
        return Err(expected);
    }
    for (padding, value) in padding.iter_mut().zip(list.iter()) {
        *padding = u32::try_from(value).map_err(|_| expected)? as usize;
    }
    Ok(padding)
}
