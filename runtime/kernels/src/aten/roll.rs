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
    let wrong = |expected| Error::InvalidArgument { index: 1, expected };
    if dims.is_empty() {
        let [Some(shift), None] = [shifts.get(0), shifts.get(1)] else {
            return Err(wrong("one shift, or one for each dimension"));
        };
        return roll_all(args, &input, shift);
    }
    if shifts.len() != dims.len() {
        return Err(wrong("one shift for each dimension"));
    }
    let mut moved = Dims::filled(input.rank(), 0);
    for (shift, dim) in shifts.iter().zip(dims.iter()) {
        let dim = wrap_dim(dim, input.rank(), 2)?;
        if let (Some(moved), Some(&size)) = (moved.get_mut(dim), input.sizes().get(dim)) {
            // The same dimension may come twice.
            *moved = add_shift(*moved, shift, size);
        }
    }
    let mut segments = identity(input.sizes());
    for (dim, (&moved, &size)) in moved.iter().zip(input.sizes()).enumerate() {
        let left = size - moved;
        segments[dim][0] = Segment { to: moved, from: 0, len: left, step: 1 };
        segments[dim][1] = Segment { to: 0, from: left, len: moved, step: 1 };
    }
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(input.sizes())?;
    copy_segments(&mut out, &input, &segments)
}

/// Shifts all elements in row-major order.
fn roll_all(args: &mut Args<'_>, input: &TensorView<'_>, shift: i64) -> Result<(), Error> {
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(input.sizes())?;
    let (to, from) = (StridedView::of_out(&out), StridedView::of(input));
    let (count, size) = (input.numel(), input.dtype().size());
    let moved = add_shift(0, shift, count);
    let (src, dst) = (input.bytes(), out.bytes_mut()?);
    if to.strides == contiguous_strides(&to.sizes) && from.strides == to.strides {
        let (end, start) = src.split_at((count - moved) * size);
        let (first, last) = dst.split_at_mut(moved * size);
        first.copy_from_slice(start);
        last.copy_from_slice(end);
        return Ok(());
    }
    for at in 0..count {
        let next = if at < count - moved { at + moved } else { at + moved - count };
        let (from, to) = (offset_of(&from, at) * size, offset_of(&to, next) * size);
        let element = src.get(from..from + size).ok_or(OUT_OF_BOUNDS)?;
        dst.get_mut(to..to + size).ok_or(OUT_OF_BOUNDS)?.copy_from_slice(element);
    }
    Ok(())
}

/// `(moved + shift) % size`; 0 when that is 0.
fn add_shift(moved: usize, shift: i64, size: usize) -> usize {
    let size = i128::try_from(size).unwrap_or(0).max(1);
    let sum = i128::from(shift) + i128::try_from(moved).unwrap_or(0);
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
        let wrong = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[1, 2], &[], wrong(1, "one shift, or one for each dimension"));
        run(&[1, 2], &[0], wrong(1, "one shift for each dimension"));
        run(&[1], &[2], wrong(2, "a dimension of the tensor"));
    }
}
