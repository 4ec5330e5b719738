//! `aten::cat.out`: concatenation along a dimension.
//!
//! | argument  | type                | shape                   |
//! |-----------|---------------------|-------------------------|
//! | `tensors` | tensors, any dtypes | equal except in `dim`   |
//! | `dim`     | int                 |                         |
//! | `out`     | the common dtype    | `dim`: sum of the sizes |
//!
//! Tensors of shape `[0]` are skipped. Elements are cast to the dtype of `out`. Tolerance: exact.
//! Errors: an empty list or mismatched shapes are [`Error::InvalidArgument`].
//! Source: ATen `cat`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, TensorView};

use crate::shared::{
    dim_args::existing_dim_arg,
    strided_view::{StridedView, copy_view},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::cat.out", &[Arg::TensorList, Arg::Int, Arg::Out], cat)];

fn cat(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let invalid = |expected| Error::InvalidArgument { index: 0, expected };
    let tensors = args.tensor_list(0)?;
    let mut concatenated: Option<(Dims, usize)> = None;
    for item in 0..tensors.len() {
        let tensor = tensors.get(item)?;
        if is_skipped(&tensor) {
            continue;
        }
        let sizes = tensor.sizes();
        let Some((total, dim)) = &mut concatenated else {
            let dim = existing_dim_arg(args, 1, tensor.rank())?;
            let sizes = Dims::new(sizes).ok_or(invalid("at most 16 dimensions"))?;
            concatenated = Some((sizes, dim));
            continue;
        };
        let (size_so_far, dim) = (total[*dim], *dim);
        total[dim] = sizes.get(dim).copied().unwrap_or(0);
        if **total != *sizes {
            return Err(invalid("tensors whose sizes differ only in `dim`"));
        }
        total[dim] = total[dim].checked_add(size_so_far).ok_or(invalid("smaller tensors"))?;
    }
    if tensors.is_empty() {
        return Err(invalid("at least one tensor"));
    }
    let mut out = args.out(2)?;
    let Some((sizes, dim)) = concatenated else { return out.resize(&[0]) };
    out.resize(&sizes)?;
    let out_view = StridedView::of_out(&out);
    let mut start = 0;
    for item in 0..tensors.len() {
        let tensor = tensors.get(item)?;
        if !is_skipped(&tensor) {
            let mut view = out_view;
            let len = tensor.sizes()[dim];
            view.slice(dim, start, len, 1);
            copy_view(&mut out, &view, &tensor, &StridedView::of(&tensor))?;
            start += len;
        }
    }
    Ok(())
}

/// Returns true for tensors of shape `[0]`, which `cat` accepts next to any other shape.
fn is_skipped(tensor: &TensorView<'_>) -> bool {
    *tensor.sizes() == [0]
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[track_caller]
    fn run(tensors: &[&Tensor], dim: i64, expected: Result<(&[usize], &[i32]), Error>) {
        let list = Argument::Tensors(tensors.iter().map(|&tensor| Some(tensor)).collect());
        check(&KERNELS[0], vec![list, Argument::Scalar(Scalar::Int(dim))], expected);
    }

    #[test]
    fn values() {
        let (a, b) = (iota(&[2, 2]), iota(&[2, 1]));
        run(&[&a, &b], 1, Ok((&[2, 3], &[0, 1, 0, 2, 3, 1])));
        run(&[&b, &iota(&[0]), &b], -2, Ok((&[4, 1], &[0, 1, 0, 1])));
        run(&[&iota(&[0]), &iota(&[0])], 5, Ok((&[0], &[])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[&a, &b], 0, invalid(0, "tensors whose sizes differ only in `dim`"));
        run(&[&a, &iota(&[2])], 1, invalid(0, "tensors whose sizes differ only in `dim`"));
        run(&[&a], 2, invalid(1, "a dimension of the tensor"));
        run(&[], 0, invalid(0, "at least one tensor"));
    }

    #[test]
    fn elements_are_cast() {
        let (a, b) = (Tensor::from_slice(&[1.5_f32]), Tensor::from_slice(&[7_u8]));
        run(&[&a, &b], 0, Ok((&[2], &[1, 7])));
    }
}
