//! `aten::scatter_add.out`: elements added by index along a dimension.
//!
//! | argument | type              | shape                                       |
//! |----------|-------------------|---------------------------------------------|
//! | `self`   | real tensor       | any                                         |
//! | `dim`    | int               |                                             |
//! | `index`  | i32 or i64 tensor | rank of `self`; except in `dim`, not larger |
//! | `src`    | as `self`         | at least as large as `index`                |
//! | `out`    | as `self`         | as `self`                                   |
//!
//! Computes `out = self`, then `out[index[i, j, …], j, …] += src[i, j, …]` for `dim` 0, in the
//! order of `index`. Integers wrap. Tolerance: exact.
//! Errors: an `index` that is out of range, has another rank or is too large is
//! [`Error::InvalidArgument`] at index 2.
//! Source: ATen `scatter_add`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    cast::wrapping_sum,
    dim_args::dim_arg,
    dtype::with_dtype,
    indexing::{IndexedDim, for_each_index},
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, clone_arg},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::scatter_add.out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Tensor, Arg::Out],
    scatter_add,
)];

fn scatter_add(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, index, source) = (args.tensor(0)?, args.tensor(2)?, args.tensor(3)?);
    let dim = dim_arg(args, 1, input.rank())?;
    if source.dtype() != input.dtype() {
        return Err(Error::InvalidType { index: 3, found: source.dtype() });
    }
    clone_arg(args, 4)?;
    let mut out = args.out(4)?;
    let (to, from) = (StridedView::of_out(&out), StridedView::of(&source));
    let indexed_dim = IndexedDim { index, arg: 2, dim, values_arg: 3 };
    with_dtype!(all, input.dtype(), 0, T => {
        let (data, source) = (out.data_mut::<T>()?, source.data::<T>()?);
        for_each_index(indexed_dim, &from, &to, |from, to| {
            let (sum, &term) = data.get_mut(to).zip(source.get(from)).ok_or(OUT_OF_BOUNDS)?;
            *sum = wrapping_sum(*sum, term);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |index: &[i64], source: &[i32], expected| {
            let index = Tensor::new(&[2, 2], index).unwrap();
            let source = Tensor::new(&[2, 2], source).unwrap();
            let dim = Argument::Scalar(Scalar::Int(1));
            let tensors = [&index, &source].map(Argument::Tensor);
            let inputs = [Argument::Tensor(&x), dim].into_iter().chain(tensors).collect();
            check(&KERNELS[0], inputs, expected);
        };
        run(&[0, 0, 2, 1], &[1, 2, 3, 4], Ok((&[2, 3], &[3, 1, 2, 3, 8, 8])));
        run(&[2, 2, 2, 2], &[i32::MAX, 0, 0, 0], Ok((&[2, 3], &[0, 1, i32::MIN + 1, 3, 4, 5])));
        let expected = "indices in range";
        run(&[3, 0, 0, 0], &[0; 4], Err(Error::InvalidArgument { index: 2, expected }));
    }

    #[test]
    fn too_small_src_is_rejected() {
        let (x, index) = (iota(&[2, 3]), Tensor::new(&[2, 2], &[0_i64; 4]).unwrap());
        for source in [iota(&[2, 1]), iota(&[4])] {
            let dim = Argument::Scalar(Scalar::Int(1));
            let inputs = vec![
                Argument::Tensor(&x),
                dim,
                Argument::Tensor(&index),
                Argument::Tensor(&source),
            ];
            let expected = "an element for each index";
            check(&KERNELS[0], inputs, Err(Error::InvalidArgument { index: 3, expected }));
        }
    }
}
