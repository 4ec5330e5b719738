//! `llama::update_cache_with_indices.out`: write of positions of a KV cache by index.
//!
//! | argument    | type              | shape                               |
//! |-------------|-------------------|-------------------------------------|
//! | `value`     | tensor, any dtype | `[batch, len, heads, head_dim]`     |
//! | `cache`     | as `value`        | `[batch, max_len, heads, head_dim]` |
//! | `start_pos` | int               | not used                            |
//! | `indices`   | `i64` tensor      | `[batch, len]`                      |
//! | `out`       | as `value`        | `[1]`: placeholder, zero            |
//!
//! Computes `cache[b, indices[b, i]] = value[b, i]`; of equal indices, the last one wins. Exact.
//! Errors: as `update_cache`; an index out of range is [`Error::InvalidArgument`]. Nothing is
//! written on error.
//! Source: ExecuTorch `op_update_cache.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::{
    llama::update_cache::{lengths, write_placeholder},
    shared::strided_view::{StridedView, copy_view},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::update_cache_with_indices.out",
    &[Arg::Tensor, Arg::InOut, Arg::Int, Arg::Tensor, Arg::Out],
    update_cache_with_indices,
)];

fn update_cache_with_indices(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (value, indices) = (args.tensor(0)?, args.tensor(3)?);
    args.int(2)?;
    write_placeholder(&mut args.out(4)?)?;
    let mut cache = args.out(1)?;
    let (max_len, len) = lengths((&cache, 1), (&value, 0))?;
    let wrong = |expected| Error::InvalidArgument { index: 3, expected };
    if Some(indices.sizes()) != value.sizes().get(..2) || !indices.is_contiguous() {
        return Err(wrong("a row-major tensor with the first two sizes of the value"));
    }
    let indices = indices.data::<i64>()?;
    let at = |index: i64| usize::try_from(index).ok().filter(|&index| index < max_len);
    if indices.iter().any(|&index| at(index).is_none()) {
        return Err(wrong("indices in range"));
    }
    let (from, to) = (StridedView::of(&value), StridedView::of_out(&cache));
    let token = |mut view: StridedView, batch, position| {
        view.slice(0, batch, 1, 1);
        view.slice(1, position, 1, 1);
        view
    };
    for (item, &index) in indices.iter().enumerate() {
        let (batch, position) = (item / len, item % len);
        let to = token(to, batch, at(index).unwrap_or(0));
        copy_view(&mut cache, &to, &value, &token(from, batch, position))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::iota;

    #[track_caller]
    fn check(indices: &[i64], expected: Result<&[i32], Error>) {
        let value = iota(&[2, 1, 1, 2]);
        let indices = Tensor::new(&[2, 1], indices).unwrap();
        let mut cache = Tensor::zeros(ScalarType::Int, &[2, 2, 1, 2]);
        let mut out = Tensor::zeros(ScalarType::Int, &[1]);
        let mut arguments = [
            Argument::Tensor(&value),
            Argument::Out(&mut cache),
            Argument::Scalar(Scalar::Int(0)),
            Argument::Tensor(&indices),
            Argument::Out(&mut out),
        ];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result.map(|()| cache.data().unwrap()), expected);
    }

    #[test]
    fn values() {
        check(&[1, 0], Ok(&[0, 0, 0, 1, 2, 3, 0, 0]));
    }

    #[test]
    fn indices_out_of_range_are_rejected() {
        let error = Error::InvalidArgument { index: 3, expected: "indices in range" };
        check(&[0, 2], Err(error));
        check(&[-1, 0], Err(error));
    }
}
