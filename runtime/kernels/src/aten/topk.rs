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
    accumulator::{Accumulator, check_dtype, with_accumulator},
    dim_apply::DimSlices,
    dim_args::dim_arg,
    elements::{CHUNK, Reader, Writer},
    loop_nest::out_strides,
    min_max::{MinMax, may_prefer},
    order::{ascending, fill_indices},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::topk.values",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Bool, Arg::Bool, Arg::Out, Arg::Out],
    topk_values,
)];

fn topk_values(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if matches!(dtype, ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    check_dtype(args.out(6)?.dtype(), ScalarType::Long, 6)?;
    with_accumulator!(dtype, A => topk::<A>(cx, args))
}

fn topk<A: Accumulator>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
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
    values.resize(&sizes)?;
    indices.resize(&sizes)?;
    if values.numel() == 0 || k == 0 {
        return Ok(());
    }
    if *out_strides(&values) != *out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs with different dim orders" });
    }
    let slices = DimSlices::new(&x, &values, dim)?;
    let reader = Reader::<A>::new(x, 0)?;
    let (mut values, mut indices) = (Writer::new(&mut values, 5)?, Writer::new(&mut indices, 6)?);
    // One `u64` per index, then one per element, which takes all or half of it.
    let scratch = cx.scratch::<u64>(len.checked_mul(2).ok_or(invalid)?)?;
    let (order, slice) = scratch.split_at_mut(len);
    let slice: &mut [A] = bytemuck::cast_slice_mut(slice);
    let slice = &mut slice[..len];
    slices.for_each(|[from, to]| {
        reader.read(from, slices.strides[0], slice);
        let compare = |a: &u64, b: &u64| {
            let [x, y] = [*a, *b].map(|index| slice[index as usize]);
            if largest { ascending(y, x) } else { ascending(x, y) }.then(a.cmp(b))
        };
        if k > MAX_INSERTED || !insert_all(&mut order[..k], slice, largest, compare) {
            fill_indices(order);
            if k < len {
                order.select_nth_unstable_by(k - 1, compare);
            }
            order[..k].sort_unstable_by(compare);
        }
        for (i, &index) in order[..k].iter().enumerate() {
            values.set(to + i * slices.strides[1], slice[index as usize]);
            indices.set(to + i * slices.strides[1], index as i64);
        }
    });
    Ok(())
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
