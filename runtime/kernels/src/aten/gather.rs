//! `aten::gather.out`: elements selected by index along a dimension.
//!
//! | argument      | type              | shape                                       |
//! |---------------|-------------------|---------------------------------------------|
//! | `self`        | tensor, any dtype | any                                         |
//! | `dim`         | int               |                                             |
//! | `index`       | i32 or i64 tensor | rank of `self`; except in `dim`, not larger |
//! | `sparse_grad` | ignored           |                                             |
//! | `out`         | as `self`         | as `index`                                  |
//!
//! Computes `out[i, j, …] = self[index[i, j, …], j, …]` for `dim` 0. Tolerance: exact.
//! Errors: an `index` that is out of range, has another rank or is too large is
//! [`Error::InvalidArgument`] at index 2.
//! Source: ATen `gather`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    dim_args::dim_arg,
    indexing::{IndexedDim, for_each_index},
    strided_copy::{OUT_OF_BOUNDS, with_element_size},
    strided_view::StridedView,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::gather.out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Ignored, Arg::Out],
    gather,
)];

fn gather(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, index) = (args.tensor(0)?, args.tensor(2)?);
    let dim = dim_arg(args, 1, input.rank())?;
    let mut out = args.out(4)?;
    check_dtype(out.dtype(), input.dtype(), 4)?;
    out.resize(index.sizes())?;
    let (to, from) = (StridedView::of_out(&out), StridedView::of(&input));
    let indexed_dim = IndexedDim { index, arg: 2, dim, values_arg: 2 };
    with_element_size!(input.dtype().size(), N => {
        let dst = out.bytes_mut()?.as_chunks_mut::<N>().0;
        let src = input.bytes().as_chunks::<N>().0;
        for_each_index(indexed_dim, &to, &from, |to, from| {
            *dst.get_mut(to).ok_or(OUT_OF_BOUNDS)? = *src.get(from).ok_or(OUT_OF_BOUNDS)?;
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
        let run = |dim, sizes: &[usize], index: &[i64], expected| {
            let index = Tensor::new(sizes, index).unwrap();
            let dim = Argument::Scalar(Scalar::Int(dim));
            let inputs = vec![Argument::Tensor(&x), dim, Argument::Tensor(&index), Argument::None];
            check(&KERNELS[0], inputs, expected);
        };
        run(0, &[1, 3], &[1, 0, 1], Ok((&[1, 3], &[3, 1, 5])));
        run(1, &[2, 2], &[2, 0, 1, 1], Ok((&[2, 2], &[2, 0, 4, 4])));
        let invalid = |expected| Err(Error::InvalidArgument { index: 2, expected });
        run(1, &[2, 1], &[3, 0], invalid("indices in range"));
        run(1, &[2, 1], &[-1, 0], invalid("indices in range"));
        run(1, &[3, 1], &[0, 0, 0], invalid("an index no larger than the indexed tensor"));
    }
}
