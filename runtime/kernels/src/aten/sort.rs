//! `aten::sort.values`, `aten::sort.values_stable`: elements sorted along a dimension.
//!
//! | argument     | type                           | shape     |
//! |--------------|--------------------------------|-----------|
//! | `self`       | real tensor, not u64           | any       |
//! | `stable`     | optional bool: `values_stable` |           |
//! | `dim`        | int                            |           |
//! | `descending` | bool                           |           |
//! | `values`     | as `self`                      | as `self` |
//! | `indices`    | i64 tensor                     | as `self` |
//!
//! NaN compares greater than any number. Equal elements are in the order of their indices, also
//! without `stable`. Tolerance: exact.
//! Scratch: one slice along `dim` and its indices.
//! Errors: a `dim` out of range, other dtypes. Source: ATen `sort`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::with_accumulator,
    dim_args::dim_arg,
    order::{IndexedOutputs, by_element, check_ordered, fill_indices},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::sort.values",
        &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
        |cx, args| sort(cx, args, 1),
    ),
    Kernel::new(
        "aten::sort.values_stable",
        &[Arg::Tensor, Arg::OptBool, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
        |cx, args| sort(cx, args, 2),
    ),
];

/// Sorts along the dimension in argument `dim_index`.
fn sort(cx: &mut KernelContext<'_>, args: &mut Args<'_>, dim_index: u8) -> Result<(), Error> {
    let (x, at) = (args.tensor(0)?, usize::from(dim_index));
    let (dim, descending) = (dim_arg(args, dim_index, x.rank())?, args.bool(at + 1)?);
    check_ordered(x.dtype(), 0)?;
    let [mut values, mut indices] = args.outs([at + 2, at + 3])?;
    let mut outputs =
        IndexedOutputs { values: &mut values, indices: &mut indices, index: dim_index + 2 };
    outputs.resize(x.dtype(), x.sizes())?;
    with_accumulator!(x.dtype(), A => outputs.fill::<A>(cx, &x, dim, |slice, order| {
        fill_indices(order);
        order.sort_unstable_by(by_element(slice, descending));
        order
    }))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, dim: i64, descending: bool, expected: &[i64]) {
        let rank = x.sizes().len();
        let mut values = Tensor::zeros(x.dtype(), &vec![0; rank]);
        let mut indices = Tensor::zeros(ScalarType::Long, &vec![0; rank]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Scalar(Scalar::Int(dim)),
            Argument::Scalar(Scalar::Bool(descending)),
            Argument::Out(&mut values),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(indices.data::<i64>().unwrap(), expected);
        assert_eq!(values.sizes(), x.sizes());
    }

    #[test]
    fn order() {
        let nan = f32::NAN;
        let x = Tensor::new(&[2, 3], &[3.0, nan, 1.0, 3.0, 2.0, nan]).unwrap();
        check(&x, 1, false, &[2, 0, 1, 1, 0, 2]);
        check(&x, -1, true, &[1, 0, 2, 2, 0, 1]);
        check(&x, 0, false, &[0, 1, 0, 1, 0, 1]);
        check(&Tensor::new(&[], &[2_i64]).unwrap(), 0, false, &[0]);
        check(&Tensor::zeros(ScalarType::Float, &[0, 2]), 0, false, &[]);
        check(&Tensor::from_slice(&[3_u8, 200, 3]), 0, true, &[1, 0, 2]);
    }
}
