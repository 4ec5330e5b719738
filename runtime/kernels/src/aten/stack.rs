//! `aten::stack.out`: tensors stacked along a new dimension.
//!
//! | argument  | type                | shape                    |
//! |-----------|---------------------|--------------------------|
//! | `tensors` | tensors, any dtypes | equal                    |
//! | `dim`     | int                 |                          |
//! | `out`     | the common dtype    | `dim`: number of tensors |
//!
//! Elements are cast to the dtype of `out`. Tolerance: exact.
//! Errors: an empty list or mismatched shapes are [`Error::InvalidArgument`].
//! Source: ATen `stack`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_arg,
    strided_view::{StridedView, copy_view},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::stack.out", &[Arg::TensorList, Arg::Int, Arg::Out], stack)];

fn stack(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let invalid = |expected| Error::InvalidArgument { index: 0, expected };
    let tensors = args.tensor_list(0)?;
    if tensors.is_empty() {
        return Err(invalid("at least one tensor"));
    }
    let first = tensors.get(0)?;
    let dim = dim_arg(args, 1, first.rank() + 1)?;
    for item in 1..tensors.len() {
        if tensors.get(item)?.sizes() != first.sizes() {
            return Err(invalid("tensors of the same sizes"));
        }
    }
    let mut sizes = StridedView::of(&first).sizes;
    sizes.insert(dim, tensors.len())?;
    let mut out = args.out(2)?;
    out.resize(&sizes)?;
    let out_view = StridedView::of_out(&out);
    for item in 0..tensors.len() {
        let tensor = tensors.get(item)?;
        let mut view = out_view;
        view.select(dim, item);
        copy_view(&mut out, &view, &tensor, &StridedView::of(&tensor))?;
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
        let (a, b) = (iota(&[2]), iota(&[3]));
        let run = |tensors: &[&Tensor], dim, expected| {
            let list = Argument::Tensors(tensors.iter().map(|&tensor| Some(tensor)).collect());
            check(&KERNELS[0], vec![list, Argument::Scalar(Scalar::Int(dim))], expected);
        };
        run(&[&a, &a], 0, Ok((&[2, 2], &[0, 1, 0, 1])));
        run(&[&b, &b], -1, Ok((&[3, 2], &[0, 0, 1, 1, 2, 2])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[&a, &b], 0, invalid(0, "tensors of the same sizes"));
        run(&[&a], 2, invalid(1, "a dimension of the tensor"));
        run(&[], 0, invalid(0, "at least one tensor"));
    }
}
