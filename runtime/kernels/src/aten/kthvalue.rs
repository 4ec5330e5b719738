//! `aten::kthvalue.values`: `k`-th smallest element along a dimension.
//!
//! | argument  | type                              | shape                     |
//! |-----------|-----------------------------------|---------------------------|
//! | `self`    | real tensor, neither bool nor u64 | any                       |
//! | `k`       | int: 1 is the smallest            |                           |
//! | `dim`     | int                               |                           |
//! | `keepdim` | bool                              |                           |
//! | `values`  | as `self`                         | `self` reduced over `dim` |
//! | `indices` | i64 tensor                        | as `values`               |
//!
//! NaN compares greater than any number. Among equal elements, PyTorch does not specify the index.
//! Tolerance: exact.
//! Scratch: one slice along `dim` and its indices.
//! Errors: a `k` or `dim` out of range, other dtypes. Source: ATen `kthvalue`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::with_accumulator,
    order::{by_element, check_ordered, fill_indices},
    reduce::{ReducedDims, reduce_slices},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::kthvalue.values",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
    kthvalue,
)];

fn kthvalue(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    if x.dtype() == ScalarType::Bool {
        return Err(Error::InvalidType { index: 0, found: x.dtype() });
    }
    check_ordered(x.dtype(), 0)?;
    let (reduced, keepdim) = (ReducedDims::one(args.int(2)?, x.rank(), 2)?, args.bool(3)?);
    let nth = args.int(1)?.checked_sub(1).and_then(|nth| usize::try_from(nth).ok());
    let nth = nth.filter(|&nth| nth < reduced.count(x.sizes()));
    let expected = "a number from 1 to the size of the dimension";
    let nth = nth.ok_or(Error::InvalidArgument { index: 1, expected })?;
    let reduction = (reduced, keepdim);
    with_accumulator!(x.dtype(), A => reduce_slices::<A>(cx, args, reduction, 4, |slice, order| {
        fill_indices(order);
        *order.select_nth_unstable_by(nth, by_element(slice, false)).1 as usize
    }))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(k: i64, dim: i64) -> Result<(Vec<f32>, Vec<i64>), Error> {
        let x = Tensor::new(&[2, 3], &[3.0, f32::INFINITY, 1.0, f32::NAN, 2.0, 5.0]).unwrap();
        let (mut values, mut indices) =
            (Tensor::from_slice::<f32>(&[]), Tensor::from_slice::<i64>(&[]));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(k)),
            Argument::Scalar(Scalar::Int(dim)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut values),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok((values.data()?.to_vec(), indices.data()?.to_vec()))
    }

    #[test]
    fn values() {
        assert_eq!(run(1, 1), Ok((vec![1.0, 2.0], vec![2, 1])));
        assert_eq!(run(1, 0), Ok((vec![3.0, 2.0, 1.0], vec![0, 1, 0])));
        let (values, indices) = run(3, -1).unwrap();
        assert!(values[0].is_infinite() && values[1].is_nan());
        assert_eq!(indices, [1, 0]);
    }

    #[test]
    fn k_out_of_range_is_rejected() {
        for k in [0, 4, -1, i64::MIN] {
            assert!(run(k, 1).is_err());
        }
    }
}
