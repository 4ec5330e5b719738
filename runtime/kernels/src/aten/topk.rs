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
    elements::{Reader, Writer},
    loop_nest::out_strides,
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
        for (i, index) in order.iter_mut().enumerate() {
            *index = i as u64;
        }
        let compare = |a: &u64, b: &u64| {
            let [x, y] = [*a, *b].map(|index| slice[index as usize]);
            if largest { descending(x, y) } else { descending(y, x) }.then(a.cmp(b))
        };
        if k < len {
            order.select_nth_unstable_by(k - 1, compare);
        }
        order[..k].sort_unstable_by(compare);
        for (i, &index) in order[..k].iter().enumerate() {
            values.set(to + i * slices.strides[1], slice[index as usize]);
            indices.set(to + i * slices.strides[1], index as i64);
        }
    });
    Ok(())
}

/// Compares in descending order. NaN compares greater than any number.
fn descending<A: Accumulator>(a: A, b: A) -> Ordering {
    b.is_nan().cmp(&a.is_nan()).then(b.partial_cmp(&a).unwrap_or(Ordering::Equal))
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
