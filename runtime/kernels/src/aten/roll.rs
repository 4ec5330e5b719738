//! `aten::roll.out`: dimensions shifted around.
//!
//! | argument | type              | shape                                                 |
//! |----------|-------------------|-------------------------------------------------------|
//! | `self`   | tensor, any dtype | any                                                   |
//! | `shifts` | ints              |                                                       |
//! | `dims`   | ints              | as many as `shifts`, or none: all elements as one row |
//! | `out`    | as `self`         | as `self`                                             |
//!
//! Computes `out[(i + shift) mod size] = self[i]`. Exact.
//! Errors: other numbers of shifts, or no such dimension, are [`Error::InvalidArgument`].
//! Source: ATen `roll`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, TensorView};

use crate::{
    axis::wrap_dim,
    runs::{Run, copy_runs, identity},
    strided::same_dtype,
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
    let mut runs = identity(input.sizes());
    for (dim, (&moved, &size)) in moved.iter().zip(input.sizes()).enumerate() {
        let left = size - moved;
        runs[dim][0] = Run { to: moved, from: 0, len: left, step: 1 };
        runs[dim][1] = Run { to: 0, from: left, len: moved, step: 1 };
    }
    let mut out = args.out(3)?;
    same_dtype(&out, &input, 0)?;
    out.resize(input.sizes())?;
    copy_runs(&mut out, &input, &runs)
}

/// Shifts all elements in row-major order.
fn roll_all(args: &mut Args<'_>, input: &TensorView<'_>, shift: i64) -> Result<(), Error> {
    let mut out = args.out(3)?;
    same_dtype(&out, input, 0)?;
    out.resize(input.sizes())?;
    if !out.is_contiguous() || !input.is_contiguous() {
        return Err(Error::NotSupported { what: "rolling all dimensions of another dim order" });
    }
    let moved = add_shift(0, shift, input.numel()) * input.dtype().size();
    let (end, start) = input.bytes().split_at(input.bytes().len() - moved);
    let bytes = out.bytes_mut()?;
    bytes[..moved].copy_from_slice(start);
    bytes[moved..].copy_from_slice(end);
    Ok(())
}

/// `moved + shift`, modulo `size`; 0 when that is 0.
fn add_shift(moved: usize, shift: i64, size: usize) -> usize {
    let size = i128::try_from(size).unwrap_or(0).max(1);
    let sum = i128::from(shift) + i128::try_from(moved).unwrap_or(0);
    usize::try_from(sum.rem_euclid(size)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::testing::{check, ints, iota};

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
        run(&[1], &[2], wrong(2, "a dimension"));
    }
}
