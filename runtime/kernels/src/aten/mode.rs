//! `aten::mode.values`: most frequent element along a dimension.
//!
//! | argument  | type                 | shape                     |
//! |-----------|----------------------|---------------------------|
//! | `self`    | real tensor, not u64 | any                       |
//! | `dim`     | int                  |                           |
//! | `keepdim` | bool                 |                           |
//! | `values`  | as `self`            | `self` reduced over `dim` |
//! | `indices` | i64 tensor           | as `values`               |
//!
//! Returns the smallest of several most frequent elements, and the index of its last occurrence;
//! PyTorch does not specify the index. Each NaN is a different element. Tolerance: exact.
//! Scratch: one slice along `dim` and its indices.
//! Errors: an empty dimension or one out of range, other dtypes. Source: ATen `mode`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, with_accumulator},
    order::{by_element, check_ordered, fill_indices},
    reduce::{ReducedDims, reduce_slices},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::mode.values",
    &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
    mode_values,
)];

fn mode_values(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    check_ordered(x.dtype(), 0)?;
    let (reduced, keepdim) = (ReducedDims::one(args.int(1)?, x.rank(), 1)?, args.bool(2)?);
    if reduced.count(x.sizes()) == 0 {
        return Err(Error::InvalidArgument { index: 1, expected: "a dimension that is not empty" });
    }
    let reduction = (reduced, keepdim);
    with_accumulator!(x.dtype(), A => reduce_slices::<A>(cx, args, reduction, 3, mode_index))
}

/// Index of the last occurrence of the most frequent element of `slice`.
fn mode_index<A: Accumulator>(slice: &[A], order: &mut [u64]) -> usize {
    fill_indices(order);
    order.sort_unstable_by(by_element(slice, false));
    let (mut best, mut most) = (0, 0);
    for run in order.chunk_by(|&a, &b| slice[a as usize] == slice[b as usize]) {
        if run.len() > most {
            (best, most) = (run[run.len() - 1] as usize, run.len());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices() {
        let check = |slice: &[f32], expected: usize| {
            assert_eq!(mode_index(slice, &mut vec![0; slice.len()]), expected, "{slice:?}");
        };
        check(&[2.0, 1.0, 2.0, 1.0], 3);
        check(&[3.0, 1.0, 3.0], 2);
        check(&[f32::NAN, f32::NAN, 1.0], 2);
        check(&[f32::NAN], 0);
        check(&[-0.0, 0.0, -1.0], 1);
    }
}
