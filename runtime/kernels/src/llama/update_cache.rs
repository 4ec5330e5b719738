//! `llama::update_cache.out`: write of consecutive positions of a KV cache.
//!
//! | argument    | type              | shape                               |
//! |-------------|-------------------|-------------------------------------|
//! | `value`     | tensor, any dtype | `[batch, len, heads, head_dim]`     |
//! | `cache`     | as `value`        | `[batch, max_len, heads, head_dim]` |
//! | `start_pos` | int               |                                     |
//! | `out`       | as `value`        | `[1]`: placeholder, zero            |
//!
//! Computes `cache[:, start_pos .. start_pos + len] = value`. Exact.
//! Errors: another rank, sizes that do not match, and positions outside the cache are
//! [`Error::InvalidArgument`]; another dtype is [`Error::InvalidType`].
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
    let to = cache_view((&args.out(1)?, 1), (&value, 0), (start, 2))?;
    write_placeholder(&mut args.out(3)?)?;
    copy_view(&mut args.out(1)?, &to, &value, &StridedView::of(&value))
}

/// View of the positions of a cache that a value replaces. The cache, the value and the first
/// position come with their argument indices.
///
/// # Errors
/// The errors of the operator.
pub(super) fn cache_view(
    (cache, cache_index): (&TensorMut<'_, '_>, u8),
    (value, value_index): (&TensorView<'_>, u8),
    (start, start_index): (i64, u8),
) -> Result<StridedView, Error> {
    let (max_len, len) = lengths((cache, cache_index), (value, value_index))?;
    let start = usize::try_from(start).ok();
    let start = start.filter(|&start| start < max_len && len <= max_len - start);
    let expected = "a position with enough positions after it";
    let start = start.ok_or(Error::InvalidArgument { index: start_index, expected })?;
    let mut view = StridedView::of_out(cache);
    view.slice(1, start, len, 1);
    Ok(view)
}

/// Number of positions of a cache and of a value. Both come with their argument indices.
///
/// # Errors
/// The errors of the operator: the other sizes and the dtypes must be equal.
pub(super) fn lengths(
    (cache, cache_index): (&TensorMut<'_, '_>, u8),
    (value, value_index): (&TensorView<'_>, u8),
) -> Result<(usize, usize), Error> {
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    check_dtype(cache.dtype(), value.dtype(), cache_index)?;
    let &[batch, max_len, heads, head_dim] = cache.sizes() else {
        return Err(wrong(cache_index, "4 dimensions"));
    };
    let &[value_batch, len, value_heads, value_head_dim] = value.sizes() else {
        return Err(wrong(value_index, "4 dimensions"));
    };
    if [batch, heads, head_dim] != [value_batch, value_heads, value_head_dim] {
        return Err(wrong(value_index, "the sizes of the cache in all dimensions but the second"));
    }
    Ok((max_len, len))
}

/// Writes the placeholder output.
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
    fn positions_out_of_range_are_rejected() {
        let expected = "a position with enough positions after it";
        for start in [-1, 2, i64::MIN, i64::MAX] {
            let error = Error::InvalidArgument { index: 2, expected };
            check(&iota(&[1, 2, 1, 2]), start, Err(error));
        }
        let expected = "the sizes of the cache in all dimensions but the second";
        check(&iota(&[1, 2, 2, 2]), 0, Err(Error::InvalidArgument { index: 0, expected }));
    }
}
