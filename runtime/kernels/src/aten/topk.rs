//! `aten::topk.values`: the `k` largest or smallest elements along a dimension, in order.
//!
//! | argument  | type                                | shape                 |
//! |-----------|-------------------------------------|-----------------------|
//! | `self`    | real tensor, neither `bool` nor u64 | any                   |
//! | `k`       | int                                 |                       |
//! | `dim`     | int                                 |                       |
//! | `largest` | bool                                |                       |
//! | `sorted`  | bool, ignored: always sorted        |                       |
//! | `values`  | as `self`                           | as `self`; `dim`: `k` |
//! | `indices` | i64 tensor                          | as `values`           |
//!
//! NaN compares greater than any number. Equal elements are in the order of their indices; PyTorch
//! does not specify it. Tolerance: exact.
//! Scratch: one slice along `dim` and its indices.
//! Errors: a `k` or `dim` out of range, other dtypes. Source: ATen `topk`.

use core::cmp::Ordering;

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, with_accumulator},
    dim_args::dim_arg,
    elements::CHUNK,
    min_max::{MinMax, may_prefer},
    order::{IndexedOutputs, by_element, fill_indices},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::topk.values",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Bool, Arg::Bool, Arg::Out, Arg::Out],
    topk_values,
)];

fn topk_values(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    if matches!(x.dtype(), ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: x.dtype() });
    }
    let dim = dim_arg(args, 2, x.rank())?;
    let invalid =
        Error::InvalidArgument { index: 1, expected: "at most the size of the dimension" };
    let len = x.sizes().get(dim).copied().unwrap_or(1);
    let k = usize::try_from(args.int(1)?).ok().filter(|&k| k <= len).ok_or(invalid)?;
    // As in PyTorch, a 0-d tensor always returns its element.
    let k = if x.rank() == 0 { 1 } else { k };
    let largest = args.bool(3)?;
    let mut sizes = Dims::new(x.sizes()).ok_or(invalid)?;
    if let Some(size) = sizes.get_mut(dim) {
        *size = k;
    }
    let [mut values, mut indices] = args.outs([5, 6])?;
    let mut outputs = IndexedOutputs { values: &mut values, indices: &mut indices, index: 5 };
    outputs.resize(x.dtype(), &sizes)?;
    with_accumulator!(x.dtype(), A => outputs.fill::<A>(cx, &x, dim, |slice, order| {
        fill_first(slice, order, k, largest);
        &order[..k]
    }))
}

/// Writes the indices of the first `k` elements of `slice` in descending order, or ascending unless
/// `largest`, to the start of `order`.
fn fill_first<A: Accumulator>(slice: &[A], order: &mut [u64], k: usize, largest: bool) {
    let compare = by_element(slice, largest);
    if k > MAX_INSERTED || !insert_all(&mut order[..k], slice, largest, &compare) {
        fill_indices(order);
        if k < slice.len() {
            order.select_nth_unstable_by(k - 1, &compare);
        }
        order[..k].sort_unstable_by(compare);
    }
}

/// Largest `k` for which the best elements are kept in order while the others are compared with the
/// last of them.
const MAX_INSERTED: usize = 256;

/// Writes the indices of the first `best.len()` elements of `slice` in the order of `compare`.
/// Returns false if this takes too many insertions, as for sorted elements.
fn insert_all<A: Accumulator>(
    best: &mut [u64],
    slice: &[A],
    largest: bool,
    compare: impl Fn(&u64, &u64) -> Ordering,
) -> bool {
    let k = best.len();
    fill_indices(best);
    best.sort_unstable_by(&compare);
    let kind = if largest { MinMax::Max } else { MinMax::Min };
    let mut insertions_left = slice.len() / 32 + 16;
    for start in (k..slice.len()).step_by(CHUNK) {
        let chunk = &slice[start..slice.len().min(start + CHUNK)];
        let last = slice[best[k - 1] as usize];
        // Every number precedes NaN among the smallest elements.
        if !last.is_nan() && !may_prefer(kind, chunk, last) {
            continue;
        }
        for index in (start as u64..).take(chunk.len()) {
            if compare(&index, &best[k - 1]).is_lt() {
                let at = best.partition_point(|other| compare(other, &index).is_lt());
                best[at..].rotate_right(1);
                best[at] = index;
                let Some(left) = insertions_left.checked_sub(1) else { return false };
                insertions_left = left;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(k: i64, largest: bool, expected: &[i64]) {
        let x = Tensor::from_slice(&[3.0_f32, 1.0, f32::NAN, 5.0, 3.0]);
        let (mut values, mut indices) =
            (Tensor::from_slice::<f32>(&[]), Tensor::from_slice::<i64>(&[]));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(k)),
            Argument::Scalar(Scalar::Int(-1)),
            Argument::Scalar(Scalar::Bool(largest)),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Out(&mut values),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(indices.data::<i64>().unwrap(), expected);
        let x = x.data::<f32>().unwrap();
        for (value, &index) in values.data::<f32>().unwrap().iter().zip(expected) {
            assert_eq!(value.to_bits(), x[index as usize].to_bits());
        }
    }

    #[test]
    fn indices() {
        check(4, true, &[2, 3, 0, 4]);
        check(3, false, &[1, 0, 4]);
        check(5, false, &[1, 0, 4, 3, 2]);
        check(0, true, &[]);
    }
}
