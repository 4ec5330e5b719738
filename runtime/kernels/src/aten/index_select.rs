//! `aten::index_select.out`: slices selected by index along a dimension.
//!
//! | argument | type              | shape                    |
//! |----------|-------------------|--------------------------|
//! | `self`   | tensor, any dtype | any                      |
//! | `dim`    | int               |                          |
//! | `index`  | i32 or i64 tensor | at most 1 dimension      |
//! | `out`    | as `self`         | `dim`: number of indices |
//!
//! Tolerance: exact.
//! Errors: an index out of range is [`Error::InvalidArgument`] at index 2.
//! Source: ATen `index_select`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype, dim_args::dim_arg, indexing::Indices, strided_copy::StridedCopy,
    strided_view::StridedView,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::index_select.out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Out],
    index_select,
)];

fn index_select(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, index) = (args.tensor(0)?, args.tensor(2)?);
    let dim = dim_arg(args, 1, input.rank())?;
    let invalid = |expected| Error::InvalidArgument { index: 2, expected };
    let indices = Indices::new(&index, 2)?;
    let (mut from, count) = (StridedView::of(&input), index.numel());
    if index.rank() > 1 || (input.rank() == 0 && count != 1) {
        return Err(invalid("at most 1 dimension, and one index for a 0-d tensor"));
    }
    let (mut size, mut stride) = (1, 0);
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    if dim < input.rank() {
        (size, stride) = (from.sizes[dim], from.strides[dim]);
        from.sizes[dim] = count;
    }
    out.resize(&from.sizes)?;
    let mut to = StridedView::of_out(&out);
    let step = to.strides.get(dim).copied().unwrap_or(0);
    for view in [&mut to, &mut from].into_iter().filter(|view| dim < view.sizes.len()) {
        view.sizes.remove(dim);
        view.strides.remove(dim);
    }
    let copy = StridedCopy::new(&to.sizes, &to.strides, &from.strides)?;
    for at in 0..count {
        let position = indices.get_in_range(at, size).ok_or(invalid("indices in range"))?;
        let (to, from) = (at.wrapping_mul(step), position.wrapping_mul(stride));
        let dst = (out.bytes_mut()?, to);
        copy.run(input.dtype().size(), dst, (input.bytes(), from))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |dim, index: &[i64], expected| {
            let index = Tensor::from_slice(index);
            let dim = Argument::Scalar(Scalar::Int(dim));
            check(&KERNELS[0], vec![Argument::Tensor(&x), dim, Argument::Tensor(&index)], expected);
        };
        run(0, &[1, 1, 0], Ok((&[3, 3], &[3, 4, 5, 3, 4, 5, 0, 1, 2])));
        run(-1, &[2, 0], Ok((&[2, 2], &[2, 0, 5, 3])));
        run(1, &[], Ok((&[2, 0], &[])));
        let expected = "indices in range";
        run(0, &[2], Err(Error::InvalidArgument { index: 2, expected }));
        run(0, &[-1], Err(Error::InvalidArgument { index: 2, expected }));
    }
}
