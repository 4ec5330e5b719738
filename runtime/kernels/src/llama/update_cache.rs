//! `llama::update_cache.out`: writes positions of a cache.
//!
//! | argument    | type              | shape                           |
//! |-------------|-------------------|---------------------------------|
//! | `value`     | tensor, any dtype | `[batch, len, heads, width]`    |
//! | `cache`     | as `value`        | `[batch, length, heads, width]` |
//! | `start_pos` | int               |                                 |
//! | `out`       | as `value`        | `[1]`: nothing of use, zero     |
//!
//! Computes `cache[:, start_pos .. start_pos + len] = value`. Exact.
//! Errors: another rank, sizes that differ elsewhere, or positions outside the cache are
//! [`Error::InvalidArgument`], another dtype [`Error::InvalidType`].
//! Source: ExecuTorch `op_update_cache.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorMut, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_view},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::update_cache.out",
    &[Arg::Tensor, Arg::InOut, Arg::Int, Arg::Out],
    update_cache,
)];

fn update_cache(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = args.tensor(0)?;
    let start = args.int(2)?;
    let to = positions((&args.out(1)?, 1), (&value, 0), (start, 2))?;
    write_placeholder(&mut args.out(3)?)?;
    copy_view(&mut args.out(1)?, &to, &value, &StridedView::of(&value))
}

/// The part of `cache`, the argument `at`, that `value`, the argument `index`, replaces from the
/// position `start` on, which is the argument `start_index`.
///
/// # Errors
/// As the operator.
pub(super) fn positions(
    (cache, at): (&TensorMut<'_, '_>, u8),
    (value, index): (&TensorView<'_>, u8),
    (start, start_index): (i64, u8),
) -> Result<StridedView, Error> {
    let (length, len) = lengths((cache, at), (value, index))?;
    let start = usize::try_from(start).ok();
    let start = start.filter(|&start| start < length && len <= length - start);
    let expected = "a position with room for all that follow";
    let start = start.ok_or(Error::InvalidArgument { index: start_index, expected })?;
    let mut view = StridedView::of_out(cache);
    view.slice(1, start, len, 1);
    Ok(view)
}

/// The positions of `cache`, the argument `at`, and those of `value`, the argument `index`, which
/// agree in everything else.
///
/// # Errors
/// As the operator.
pub(super) fn lengths(
    (cache, at): (&TensorMut<'_, '_>, u8),
    (value, index): (&TensorView<'_>, u8),
) -> Result<(usize, usize), Error> {
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    check_dtype(cache.dtype(), value.dtype(), at)?;
    let &[batch, length, heads, width] = cache.sizes() else {
        return Err(wrong(at, "a cache of 4 dimensions"));
    };
    let &[same_batch, len, same_heads, same_width] = value.sizes() else {
        return Err(wrong(index, "4 dimensions"));
    };
    if [batch, heads, width] != [same_batch, same_heads, same_width] {
        return Err(wrong(index, "the sizes of the cache in all dimensions but the second"));
    }
    Ok((length, len))
}

/// Fills the output that nobody reads.
pub(super) fn write_placeholder(out: &mut TensorMut<'_, '_>) -> Result<(), Error> {
    out.resize(&[1])?;
    out.bytes_mut()?.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::iota;

    #[track_caller]
    fn check(value: &Tensor, start: i64, expected: Result<&[i32], Error>) {
        let mut cache = Tensor::zeros(ScalarType::Int, &[1, 3, 1, 2]);
        let mut out = Tensor::zeros(ScalarType::Int, &[1]);
        let mut arguments = [
            Argument::Tensor(value),
            Argument::Out(&mut cache),
            Argument::Scalar(Scalar::Int(start)),
            Argument::Out(&mut out),
        ];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result.map(|()| cache.data().unwrap()), expected);
    }

    #[test]
    fn values() {
        check(&iota(&[1, 2, 1, 2]), 1, Ok(&[0, 0, 0, 1, 2, 3]));
        check(&iota(&[1, 0, 1, 2]), 2, Ok(&[0; 6]));
    }

    #[test]
    fn positions_outside_are_refused() {
        let expected = "a position with room for all that follow";
        for start in [-1, 2, i64::MIN, i64::MAX] {
            let error = Error::InvalidArgument { index: 2, expected };
            check(&iota(&[1, 2, 1, 2]), start, Err(error));
        }
        let expected = "the sizes of the cache in all dimensions but the second";
        check(&iota(&[1, 2, 2, 2]), 0, Err(Error::InvalidArgument { index: 0, expected }));
    }
}
