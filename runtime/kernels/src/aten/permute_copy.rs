//! `aten::permute_copy.out`: permutation of dimensions.
//!
//! | argument | type                                  | shape    |
//! |----------|---------------------------------------|----------|
//! | `self`   | tensor, any dtype                     | any      |
//! | `dims`   | ints: a permutation of the dimensions |          |
//! | `out`    | as `self`                             | permuted |
//!
//! Dimension `i` of `out` is dimension `dims[i]` of `self`. Tolerance: exact.
//! Errors: a `dims` that is not a permutation is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `permute_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::{dim_mask, wrap_dim},
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::permute_copy.out", &[Arg::Tensor, Arg::IntList, Arg::Out], permute_copy)];

fn permute_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dims = args.int_list(1)?;
    let expected = "no dimension twice";
    let mask = dim_mask(dims, input.rank(), 1)?;
    if dims.len() != input.rank() || mask.count_ones() as usize != input.rank() {
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    let input_view = StridedView::of(&input);
    let mut view = input_view;
    for (to, dim) in dims.iter().enumerate() {
        let from = wrap_dim(dim, input.rank(), 1)?;
        (view.sizes[to], view.strides[to]) = (input_view.sizes[from], input_view.strides[from]);
    }
    materialize(&mut args.out(2)?, 2, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |dims, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(dims)], expected);
        };
        run(&[1, 0], Ok((&[3, 2], &[0, 3, 1, 4, 2, 5])));
        run(&[-2, -1], Ok((&[2, 3], &[0, 1, 2, 3, 4, 5])));
        for dims in [&[0][..], &[0, 0], &[0, 2], &[0, i64::MIN]] {
            let expected = if dims.len() == 2 && dims[1] == 0 || dims.len() == 1 {
                "no dimension twice"
            } else {
                "a dimension of the tensor"
            };
            run(dims, Err(Error::InvalidArgument { index: 1, expected }));
        }
        let x = Tensor::zeros(ScalarType::Float, &[2, 3]);
        let error = Error::InvalidType { index: 2, found: ScalarType::Int };
        check(&KERNELS[0], vec![Argument::Tensor(&x), ints(&[1, 0])], Err(error));
    }
}
