//! `aten::median.dim_values`, `aten::median.out`: median along a dimension, or of all elements.
//!
//! | argument          | type                                | shape                     |
//! |-------------------|-------------------------------------|---------------------------|
//! | `self`            | real tensor, neither `bool` nor u64 | any                       |
//! | `dim`             | int                                 |                           |
//! | `keepdim`         | bool                                |                           |
//! | `values` or `out` | tensor of the same dtype            | `self` reduced over `dim` |
//! | `indices`         | i64 tensor                          | as `values`               |
//!
//! `median.out` takes only `self` and `out`. Returns the lower of two middle elements, or the first
//! NaN. Among equal elements, PyTorch does not specify the index. The median of an empty tensor is
//! NaN, or 0 for integers. Tolerance: exact.
//! Scratch: the elements of one reduction and their indices.
//! Errors: an empty dimension or one out of range, other dtypes. Source: ATen `median`.

use core::cmp::Ordering;

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    loop_nest::out_strides,
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::median.dim_values",
        &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
        median_dim,
    ),
    Kernel::new("aten::median.out", &[Arg::Tensor, Arg::Out], median_out),
];

fn median_dim(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let (reduced, keepdim) = (ReducedDims::one(args.int(1)?, x.rank(), 1)?, args.bool(2)?);
    let len = reduced.count(x.sizes());
    if len == 0 {
        return Err(Error::InvalidArgument { index: 1, expected: "a dimension that is not empty" });
    }
    let sizes = reduced.out_sizes(x.sizes(), keepdim)?;
    let [mut values, mut indices] = args.outs([3, 4])?;
    values.resize(&sizes)?;
    check_dtype(indices.dtype(), ScalarType::Long, 4)?;
    indices.resize(&sizes)?;
    if *out_strides(&values) != *out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs with different dim orders" });
    }
    let reduction = (reduced, len, keepdim);
    write_medians(cx, x, reduction, (values, 3), Some(indices))
}

fn median_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let mut out = args.out(1)?;
    out.resize(&[])?;
    write_medians(cx, x, (ReducedDims::ALL, x.numel(), false), (out, 1), None)
}

/// Writes the median of each reduction of `len` elements of `x` to `values`, argument `index`, and
/// its index to `indices`.
fn write_medians(
    cx: &mut KernelContext<'_>,
    x: TensorView<'_>,
    (reduced, len, keepdim): (ReducedDims, usize, bool),
    (mut values, index): (TensorMut<'_, '_>, u8),
    mut indices: Option<TensorMut<'_, '_>>,
) -> Result<(), Error> {
    let dtype = x.dtype();
    if matches!(dtype, ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(values.dtype(), dtype, index)?;
    if values.numel() == 0 {
        return Ok(());
    }
    with_accumulator!(dtype, A => {
        if len == 0 {
            Writer::<A>::new(&mut values, index)?.set(0, A::from_double(f64::NAN));
            return Ok(());
        }
        let reduction = Reduction::new(&x, reduced, keepdim, &values)?;
        let (x, mut values) = (Reader::<A>::new(x, 0)?, Writer::new(&mut values, index)?);
        let mut indices = match &mut indices {
            Some(indices) => Some(Writer::<i64>::new(indices, 4)?),
            None => None,
        };
        // One `u64` per index, then one per element, which takes all or half of it.
        let words = len.checked_mul(2).ok_or(Error::OutOfResources { bytes: usize::MAX })?;
        let (order, elements) = cx.scratch::<u64>(words)?.split_at_mut(len);
        let elements: &mut [A] = bytemuck::cast_slice_mut(elements);
        reduction.for_each(|from, to| {
            let mut done = 0;
            reduction.for_each_chunk(&x, from, |chunk| {
                for (to, &x) in elements[..len].iter_mut().skip(done).zip(chunk) {
                    *to = x;
                }
                done += chunk.len();
            });
            let index = median_index(&elements[..len], order);
            values.set(to, elements[index]);
            if let Some(indices) = &mut indices {
                indices.set(to, i64::try_from(index).unwrap_or(i64::MAX));
            }
        });
        Ok(())
    })
}

/// Index of the median of `elements`, which are not empty. `order` has the same length.
fn median_index<A: Accumulator>(elements: &[A], order: &mut [u64]) -> usize {
    if let Some(index) = elements.iter().position(|x| x.is_nan()) {
        return index;
    }
    for (i, index) in order.iter_mut().enumerate() {
        *index = i as u64;
    }
    let compare = |a: &u64, b: &u64| {
        let [x, y] = [*a, *b].map(|index| elements[index as usize]);
        x.partial_cmp(&y).unwrap_or(Ordering::Equal).then(a.cmp(b))
    };
    *order.select_nth_unstable_by((elements.len() - 1) / 2, compare).1 as usize
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, dim: i64, keepdim: bool, expected: (&[usize], &[f32], &[i64])) {
        let zeros = |dtype| Tensor::zeros(dtype, &[0; 2][..expected.0.len()]);
        let (mut values, mut indices) = (zeros(ScalarType::Float), zeros(ScalarType::Long));
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Scalar(Scalar::Int(dim)),
            Argument::Scalar(Scalar::Bool(keepdim)),
            Argument::Out(&mut values),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(values.sizes(), expected.0);
        assert_eq!(bits(values.data().unwrap()), bits(expected.1));
        assert_eq!(indices.data::<i64>().unwrap(), expected.2);
    }

    #[track_caller]
    fn check_all(x: &Tensor, expected: f32) {
        let mut out = Tensor::zeros(ScalarType::Float, &[]);
        Call::new(&KERNELS[1]).run(&mut [Argument::Tensor(x), Argument::Out(&mut out)]).unwrap();
        assert_eq!(out.data::<f32>().unwrap()[0].to_bits(), expected.to_bits());
    }

    #[test]
    fn values() {
        let nan = f32::NAN;
        let x = Tensor::new(&[2, 4], &[3.0, 1.0, 4.0, 2.0, 5.0, nan, 0.0, nan]).unwrap();
        check(&x, 1, true, (&[2, 1], &[2.0, nan], &[3, 1]));
        check(&x, 0, false, (&[4], &[3.0, nan, 0.0, nan], &[0, 1, 1, 1]));
        check_all(&x, nan);
        check_all(&Tensor::from_slice(&[5.0_f32, -1.0, 2.0]), 2.0);
        check_all(&Tensor::from_slice::<f32>(&[]), nan);
        check(&Tensor::new(&[], &[7.0_f32]).unwrap(), -1, false, (&[], &[7.0], &[0]));
        check(&Tensor::zeros(ScalarType::Float, &[0, 3]), 1, false, (&[0], &[], &[]));
    }

    #[test]
    fn invalid_dims_are_rejected() {
        let x = Tensor::zeros(ScalarType::Float, &[0, 3]);
        for dim in [0, 2] {
            let (mut values, mut indices) =
                (Tensor::from_slice(&[0.0_f32; 3]), Tensor::from_slice(&[0_i64; 3]));
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Scalar(Scalar::Int(dim)),
                Argument::Scalar(Scalar::Bool(false)),
                Argument::Out(&mut values),
                Argument::Out(&mut indices),
            ];
            assert!(Call::new(&KERNELS[0]).run(&mut arguments).is_err(), "{dim}");
        }
    }
}
