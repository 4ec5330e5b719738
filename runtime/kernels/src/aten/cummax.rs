//! `aten::cummax.out`, `aten::cummin.out`: cumulative maximum or minimum along a dimension.
//!
//! | argument  | type                 | shape     |
//! |-----------|----------------------|-----------|
//! | `self`    | real tensor, not u64 | any       |
//! | `dim`     | int                  |           |
//! | `values`  | as `self`            | as `self` |
//! | `indices` | i64 tensor           | as `self` |
//!
//! Index of the last one among equal elements. NaN propagates. Tolerance: exact.
//! Scratch: one slice along `dim` and its indices.
//! Errors: a `dim` out of range, other dtypes. Source: ATen `cummax`, `cummin`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, with_accumulator},
    dim_args::dim_arg,
    min_max::MinMax,
    order::{IndexedOutputs, check_ordered},
};

const ARGS: &[Arg] = &[Arg::Tensor, Arg::Int, Arg::Out, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::cummax.out", ARGS, |cx, args| cumulative(cx, args, MinMax::Max)),
    Kernel::new("aten::cummin.out", ARGS, |cx, args| cumulative(cx, args, MinMax::Min)),
];

fn cumulative(cx: &mut KernelContext<'_>, args: &mut Args<'_>, kind: MinMax) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dim = dim_arg(args, 1, x.rank())?;
    check_ordered(x.dtype(), 0)?;
    let [mut values, mut indices] = args.outs([2, 3])?;
    let mut outputs = IndexedOutputs { values: &mut values, indices: &mut indices, index: 2 };
    outputs.resize(x.dtype(), x.sizes())?;
    with_accumulator!(x.dtype(), A => outputs.fill::<A>(cx, &x, dim, |slice, order| {
        fill_extremes(kind, slice, order);
        order
    }))
}

/// Writes the index of the extreme of the elements up to each one of `slice`.
fn fill_extremes<A: Accumulator>(kind: MinMax, slice: &[A], order: &mut [u64]) {
    let mut best = 0;
    for (at, (&x, index)) in slice.iter().zip(order).enumerate() {
        let current = slice[best];
        if x.is_nan() || !current.is_nan() && !kind.prefers(current, x) {
            best = at;
        }
        *index = best as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices() {
        let check = |kind, slice: &[f32], expected: &[u64]| {
            let mut order = vec![0; slice.len()];
            fill_extremes(kind, slice, &mut order);
            assert_eq!(order, expected, "{slice:?}");
        };
        check(MinMax::Max, &[1.0, 3.0, 2.0, 3.0], &[0, 1, 1, 3]);
        check(MinMax::Min, &[2.0, 3.0, 2.0, 1.0], &[0, 0, 2, 3]);
        check(MinMax::Max, &[1.0, f32::NAN, 2.0, f32::NAN], &[0, 1, 1, 3]);
    }
}
