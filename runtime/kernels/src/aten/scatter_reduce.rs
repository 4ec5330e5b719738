//! `aten::scatter_reduce.two_out`: elements reduced by index along a dimension.
//!
//! | argument       | type              | shape                                       |
//! |----------------|-------------------|---------------------------------------------|
//! | `self`         | real tensor       | any                                         |
//! | `dim`          | int               |                                             |
//! | `index`        | i32 or i64 tensor | rank of `self`; except in `dim`, not larger |
//! | `src`          | as `self`         | at least as large as `index`                |
//! | `reduce`       | string            |                                             |
//! | `include_self` | bool              |                                             |
//! | `out`          | as `self`         | as `self`                                   |
//!
//! `reduce` is `sum`, `prod`, `mean`, `amax` or `amin`. Reduces `out[index[i, j, …], j, …]` and
//! `src[i, j, …]` for `dim` 0, in the order of `index`. `out` starts as `self`, or without
//! `include_self` as the identity where an index points. A mean of integers rounds down. NaN
//! propagates. Integers wrap. Tolerance: exact; half types round after each step.
//! Scratch: a count for each element of `out`.
//! Errors: an `index` that is out of range, has another rank or is too large is
//! [`Error::InvalidArgument`] at index 2; another `reduce` at index 4.
//! Source: ATen `scatter_reduce`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    dim_args::dim_arg,
    dtype::with_dtype,
    indexing::{IndexedDim, for_each_index},
    min_max::{nan_max, nan_min},
    order::check_ordered,
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, clone_arg},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::scatter_reduce.two_out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Tensor, Arg::Str, Arg::Bool, Arg::Out],
    scatter_reduce,
)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduce {
    Sum,
    Prod,
    Mean,
    Amax,
    Amin,
}

fn scatter_reduce(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, index, source) = (args.tensor(0)?, args.tensor(2)?, args.tensor(3)?);
    let dim = dim_arg(args, 1, input.rank())?;
    let reduce = match args.opt_str(4)? {
        Some("sum") => Reduce::Sum,
        Some("prod") => Reduce::Prod,
        Some("mean") => Reduce::Mean,
        Some("amax") => Reduce::Amax,
        Some("amin") => Reduce::Amin,
        _ => {
            let expected = "`sum`, `prod`, `mean`, `amax` or `amin`";
            return Err(Error::InvalidArgument { index: 4, expected });
        }
    };
    let include_self = args.bool(5)?;
    if source.dtype() != input.dtype() {
        return Err(Error::InvalidType { index: 3, found: source.dtype() });
    }
    if matches!(reduce, Reduce::Amax | Reduce::Amin) {
        check_ordered(input.dtype(), 0)?;
    }
    let counts = cx.scratch::<u64>(input.numel())?;
    counts.fill(u64::from(include_self));
    clone_arg(args, 6)?;
    let mut out = args.out(6)?;
    let (to, from) = (StridedView::of_out(&out), StridedView::of(&source));
    let indexed_dim = IndexedDim { index, arg: 2, dim, values_arg: 3 };
    with_dtype!(all, input.dtype(), 0, T => {
        let (data, source) = (out.data_mut::<T>()?, source.data::<T>()?);
        for_each_index(indexed_dim, &from, &to, |from, to| {
            let (result, &x) = data.get_mut(to).zip(source.get(from)).ok_or(OUT_OF_BOUNDS)?;
            let count = counts.get_mut(to).ok_or(OUT_OF_BOUNDS)?;
            *result = if *count == 0 { x } else { combine(reduce, *result, x) };
            *count += 1;
            Ok(())
        })?;
        if reduce == Reduce::Mean {
            for (result, &count) in data.iter_mut().zip(&*counts) {
                *result = divide(*result, count.max(1));
            }
        }
        Ok(())
    })
}

fn combine<T: Operand>(reduce: Reduce, a: T, b: T) -> T {
    let (x, y) = (a.widen(), b.widen());
    let result = match reduce {
        Reduce::Sum | Reduce::Mean => x.add(y),
        Reduce::Prod => x.mul(y),
        Reduce::Amax => nan_max(x, y),
        Reduce::Amin => nan_min(x, y),
    };
    result.to_element()
}

/// Quotient; integers round down.
fn divide<T: Operand>(x: T, count: u64) -> T {
    if T::DTYPE.is_float() {
        T::from_f64(x.to_f64() / count as f64)
    } else {
        T::from_i64(x.to_i64().div_euclid(i64::try_from(count).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn values() {
        let x = Tensor::new(&[4], &[1_i32, 2, 3, 4]).unwrap();
        let (index, source) =
            (Tensor::from_slice(&[0_i64, 0, 2]), Tensor::from_slice(&[5_i32, -8, 7]));
        let run = |reduce: &'static str, include_self, expected| {
            let inputs = vec![
                Argument::Tensor(&x),
                Argument::Scalar(Scalar::Int(-1)),
                Argument::Tensor(&index),
                Argument::Tensor(&source),
                Argument::Str(reduce),
                Argument::Scalar(Scalar::Bool(include_self)),
            ];
            check(&KERNELS[0], inputs, expected);
        };
        run("sum", true, Ok((&[4], &[-2, 2, 10, 4])));
        run("sum", false, Ok((&[4], &[-3, 2, 7, 4])));
        run("prod", true, Ok((&[4], &[-40, 2, 21, 4])));
        run("prod", false, Ok((&[4], &[-40, 2, 7, 4])));
        run("mean", true, Ok((&[4], &[-1, 2, 5, 4])));
        run("mean", false, Ok((&[4], &[-2, 2, 7, 4])));
        run("amax", true, Ok((&[4], &[5, 2, 7, 4])));
        run("amin", false, Ok((&[4], &[-8, 2, 7, 4])));
        let expected = "`sum`, `prod`, `mean`, `amax` or `amin`";
        run("median", true, Err(Error::InvalidArgument { index: 4, expected }));
    }
}
