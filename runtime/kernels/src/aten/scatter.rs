//! `aten::scatter.src_out`, `.value_out`: elements written by index along a dimension.
//!
//! | argument         | type                 | shape                                       |
//! |------------------|----------------------|---------------------------------------------|
//! | `self`           | tensor, any dtype    | any                                         |
//! | `dim`            | int                  |                                             |
//! | `index`          | i32 or i64 tensor    | rank of `self`; except in `dim`, not larger |
//! | `src` or `value` | as `self`, or scalar | at least as large as `index`                |
//! | `out`            | as `self`            | as `self`                                   |
//!
//! Computes `out = self`, then `out[index[i, j, …], j, …] = src[i, j, …]` for `dim` 0. Of repeated
//! indices, the last one counts. Tolerance: exact.
//! Errors: an `index` that is out of range, has another rank or is too large is
//! [`Error::InvalidArgument`] at index 2.
//! Source: ATen `scatter`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    cast::scalar_bytes,
    dim_args::dim_arg,
    indexing::{IndexedDim, for_each_index},
    strided_copy::{OUT_OF_BOUNDS, with_element_size},
    strided_view::{StridedView, clone_arg},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::scatter.src_out",
        &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Tensor, Arg::Out],
        scatter_src,
    ),
    Kernel::new(
        "aten::scatter.value_out",
        &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Scalar, Arg::Out],
        scatter_value,
    ),
];

fn scatter_src(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, source) = (args.tensor(0)?, args.tensor(3)?);
    if source.dtype() != input.dtype() {
        return Err(Error::InvalidType { index: 3, found: source.dtype() });
    }
    scatter(args, source.bytes(), &StridedView::of(&source))
}

fn scatter_value(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (dtype, index) = (args.tensor(0)?.dtype(), args.tensor(2)?);
    let value = scalar_bytes(args.scalar(3)?, dtype, 3)?;
    let mut view = StridedView::of(&index);
    view.strides.fill(0);
    scatter(args, &value[..dtype.size()], &view)
}

/// Copies `self` to `out`, then scatters the view `from` of `src` into it.
fn scatter(args: &mut Args<'_>, src: &[u8], from: &StridedView) -> Result<(), Error> {
    let (input, index) = (args.tensor(0)?, args.tensor(2)?);
    let dim = dim_arg(args, 1, input.rank())?;
    clone_arg(args, 4)?;
    let mut out = args.out(4)?;
    let to = StridedView::of_out(&out);
    with_element_size!(input.dtype().size(), N => {
        let (dst, src) = (out.bytes_mut()?.as_chunks_mut::<N>().0, src.as_chunks::<N>().0);
        for_each_index(IndexedDim { index, arg: 2, dim, values_arg: 3 }, from, &to, |from, to| {
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
        let (x, y) = (iota(&[2, 3]), Tensor::new(&[2, 2], &[7, 8, 9, 10]).unwrap());
        let run = |sizes: &[usize], index: &[i64], expected, filled| {
            let index = Tensor::new(sizes, index).unwrap();
            let inputs = |value| {
                let dim = Argument::Scalar(Scalar::Int(1));
                vec![Argument::Tensor(&x), dim, Argument::Tensor(&index), value]
            };
            check(&KERNELS[0], inputs(Argument::Tensor(&y)), expected);
            check(&KERNELS[1], inputs(Argument::Scalar(Scalar::Double(6.5))), filled);
        };
        let (sizes, invalid) =
            (&[2, 3], |expected| Err(Error::InvalidArgument { index: 2, expected }));
        run(
            &[2, 2],
            &[2, 0, 1, 1],
            Ok((sizes, &[8, 1, 7, 3, 10, 5])),
            Ok((sizes, &[6, 1, 6, 3, 6, 5])),
        );
        run(&[1, 1], &[1], Ok((sizes, &[0, 7, 2, 3, 4, 5])), Ok((sizes, &[0, 6, 2, 3, 4, 5])));
        run(&[0, 9], &[], Ok((sizes, &[0, 1, 2, 3, 4, 5])), Ok((sizes, &[0, 1, 2, 3, 4, 5])));
        let expected = "indices in range";
        run(&[1, 1], &[3], invalid(expected), invalid(expected));
        let expected = "an index no larger than the indexed tensor";
        run(&[3, 1], &[0; 3], invalid(expected), invalid(expected));
    }
}
