//! `aten::repeat_interleave.Tensor_out`: indices repeated by given counts.
//!
//! | argument      | type                               | shape              |
//! |---------------|------------------------------------|--------------------|
//! | `repeats`     | i32 or i64 tensor, not negative    | `[n]`              |
//! | `output_size` | optional int: the sum of `repeats` |                    |
//! | `out`         | as `repeats`                       | `[sum of repeats]` |
//!
//! Writes index `i` `repeats[i]` times. Tolerance: exact.
//! Errors: negative repeats or a mismatched `output_size` are [`Error::InvalidArgument`].
//! Source: ATen `repeat_interleave`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, Scalar};

use crate::shared::{
    accumulator::check_dtype,
    cast::{fill, scalar_bytes},
    indexing::Indices,
    strided_copy::OUT_OF_BOUNDS,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::repeat_interleave.Tensor_out",
    &[Arg::Tensor, Arg::OptInt, Arg::Out],
    repeat_interleave,
)];

fn repeat_interleave(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let repeats = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    if repeats.rank() != 1 {
        return Err(invalid(0, "a 1-d tensor"));
    }
    let counts = Indices::new(&repeats, 0)?;
    let count = |i| counts.get(i).and_then(|count| usize::try_from(count).ok());
    let sum = (0..repeats.numel()).try_fold(0_usize, |sum, i| sum.checked_add(count(i)?));
    let sum = sum.ok_or(invalid(0, "repeats that are not negative"))?;
    if args.opt_int(1)?.is_some_and(|size| usize::try_from(size) != Ok(sum)) {
        return Err(invalid(1, "the sum of the repeats"));
    }
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), repeats.dtype(), 2)?;
    out.resize(&[sum])?;
    let (dtype, mut bytes) = (out.dtype(), out.bytes_mut()?);
    for i in 0..repeats.numel() {
        let index = Scalar::Int(i64::try_from(i).unwrap_or(i64::MAX));
        let len = count(i).unwrap_or(0).saturating_mul(dtype.size());
        let (chunk, rest) = bytes.split_at_mut_checked(len).ok_or(OUT_OF_BOUNDS)?;
        fill(chunk, dtype, scalar_bytes(index, dtype, 2)?)?;
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn values() {
        let run = |repeats: &[i32], size: Option<i64>, expected| {
            let size = size.map_or(Argument::None, |size| Argument::Scalar(Scalar::Int(size)));
            let repeats = Tensor::from_slice(repeats);
            check(&KERNELS[0], vec![Argument::Tensor(&repeats), size], expected);
        };
        run(&[2, 0, 1], None, Ok((&[3], &[0, 0, 2])));
        run(&[], Some(0), Ok((&[0], &[])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[1, -1], None, invalid(0, "repeats that are not negative"));
        run(&[1], Some(2), invalid(1, "the sum of the repeats"));
    }
}
