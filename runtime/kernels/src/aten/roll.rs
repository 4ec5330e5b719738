//! `aten::roll.out`: circular shift along dimensions.
//!
//! | argument | type                                                        | shape     |
//! |----------|-------------------------------------------------------------|-----------|
//! | `self`   | tensor, any dtype                                           | any       |
//! | `shifts` | ints                                                        |           |
//! | `dims`   | ints, as many as `shifts`; empty rolls the flattened tensor |           |
//! | `out`    | as `self`                                                   | as `self` |
//!
//! Computes `out[(i + shift) mod size] = self[i]`. Tolerance: exact.
//! Errors: another number of shifts or a dimension out of range is [`Error::InvalidArgument`].
//! Source: ATen `roll`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    dim_args::wrap_dim,
    padding::{Segment, copy_segments, identity},
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, contiguous_strides, offset_of},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::roll.out", &[Arg::Tensor, Arg::IntList, Arg::IntList, Arg::Out], roll)];

fn roll(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let (shifts, dims) = (args.int_list(1)?, args.int_list(2)?);
    let invalid = |expected| Error::InvalidArgument { index: 1, expected };
    if dims.is_empty() {
        let [Some(shift), None] = [shifts.get(0), shifts.get(1)] else {
            return Err(invalid("one shift, or one per dimension"));
        };
        return roll_flattened(args, &input, shift);
    }
    if shifts.len() != dims.len() {
        return Err(invalid("one shift per dimension"));
    }
    let mut offsets = Dims::filled(input.rank(), 0);
    for (shift, dim) in shifts.iter().zip(dims.iter()) {
        let dim = wrap_dim(dim, input.rank(), 2)?;
        if let (Some(offset), Some(&size)) = (offsets.get_mut(dim), input.sizes().get(dim)) {
            // A dimension may be repeated: its shifts add up.
            *offset = add_shift(*offset, shift, size);
        }
    }
    let mut segments = identity(input.sizes());
    for (dim, (&offset, &size)) in offsets.iter().zip(input.sizes()).enumerate() {
        let rest = size - offset;
        segments[dim][0] = Segment { to: offset, from: 0, len: rest, step: 1 };
        segments[dim][1] = Segment { to: 0, from: rest, len: offset, step: 1 };
    }
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(input.sizes())?;
    copy_segments(&mut out, &input, &segments)
}

/// Rolls the flattened tensor.
fn roll_flattened(args: &mut Args<'_>, input: &TensorView<'_>, shift: i64) -> Result<(), Error> {
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(input.sizes())?;
    let (to, from) = (StridedView::of_out(&out), StridedView::of(input));
    let (count, size) = (input.numel(), input.dtype().size());
    let offset = add_shift(0, shift, count);
    let (src, dst) = (input.bytes(), out.bytes_mut()?);
    if to.strides == contiguous_strides(&to.sizes) && from.strides == to.strides {
        let (head, tail) = src.split_at((count - offset) * size);
        let (first, last) = dst.split_at_mut(offset * size);
        first.copy_from_slice(tail);
        last.copy_from_slice(head);
        return Ok(());
    }
    for i in 0..count {
        let rolled = if i < count - offset { i + offset } else { i + offset - count };
        let (from, to) = (offset_of(&from, i) * size, offset_of(&to, rolled) * size);
        let element = src.get(from..from + size).ok_or(OUT_OF_BOUNDS)?;
        dst.get_mut(to..to + size).ok_or(OUT_OF_BOUNDS)?.copy_from_slice(element);
    }
    Ok(())
}

/// Computes `(offset + shift) mod size`; 0 if `size` is 0.
fn add_shift(offset: usize, shift: i64, size: usize) -> usize {
    let size = i128::try_from(size).unwrap_or(0).max(1);
    let sum = i128::from(shift) + i128::try_from(offset).unwrap_or(0);
    usize::try_from(sum.rem_euclid(size)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |shifts, dims, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(shifts), ints(dims)], expected);
        };
        run(&[1], &[1], Ok((&[2, 3], &[2, 0, 1, 5, 3, 4])));
        run(&[1, -1], &[0, -1], Ok((&[2, 3], &[4, 5, 3, 1, 2, 0])));
        run(&[2, 2], &[1, 1], Ok((&[2, 3], &[2, 0, 1, 5, 3, 4])));
        run(&[7], &[], Ok((&[2, 3], &[5, 0, 1, 2, 3, 4])));
        run(&[i64::MIN], &[1], Ok((&[2, 3], &[2, 0, 1, 5, 3, 4])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[1, 2], &[], invalid(1, "one shift, or one per dimension"));
        run(&[1, 2], &[0], invalid(1, "one shift per dimension"));
        run(&[1], &[2], invalid(2, "a dimension of the tensor"));
    }
}
