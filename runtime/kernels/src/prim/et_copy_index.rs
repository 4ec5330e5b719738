//! `executorch_prim::et_copy_index.tensor`: copy of a tensor to one row of another tensor.
//!
//! | argument    | type                       | shape                                     |
//! |-------------|----------------------------|-------------------------------------------|
//! | `copy_to`   | tensor, any dtype, mutable | `[rows, …]` with the sizes of `copy_from` |
//! | `copy_from` | as `copy_to`               | any                                       |
//! | `index`     | int, not negative          | row                                       |
//!
//! A loop writes row 0, row 1 and so on. `copy_to` is resized to `index + 1` rows, if it is
//! resizable: row 0 removes all other rows.
//! Errors: other sizes and a gap between rows are [`Error::InvalidArgument`].
//! Source: ExecuTorch `kernels/prim_ops/et_copy_index.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_view},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "executorch_prim::et_copy_index.tensor",
    &[Arg::InOut, Arg::Tensor, Arg::Int],
    et_copy_index,
)];

fn et_copy_index(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (source, index) = (args.tensor(1)?, args.int(2)?);
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let index = usize::try_from(index).map_err(|_| wrong(2, "a row index"))?;
    let mut out = args.out(0)?;
    check_dtype(out.dtype(), source.dtype(), 0)?;
    let Some((&rows, row)) = out.sizes().split_first() else {
        return Err(wrong(0, "a tensor that is not 0-d"));
    };
    if index > 0 && row != source.sizes() {
        return Err(wrong(1, "the sizes of the other rows"));
    }
    let mut sizes = StridedView::of(&source).sizes;
    sizes.insert(0, index.checked_add(1).ok_or(wrong(2, "a row index"))?)?;
    if index > rows {
        return Err(wrong(2, "the index of a row or of the next row"));
    }
    let is_writable = index < rows && row == source.sizes();
    match out.resize(&sizes) {
        // A static tensor keeps its sizes.
        Err(Error::InvalidTensor { .. }) if is_writable => {}
        result => result?,
    }
    let mut view = StridedView::of_out(&out);
    view.select(0, index);
    copy_view(&mut out, &view, &source, &StridedView::of(&source))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::iota;

    #[test]
    fn rows_are_appended() {
        let (mut out, row) = (iota(&[3, 2]), Tensor::from_slice(&[7, 8]));
        let run = |out: &mut Tensor, row: &Tensor, at| {
            let at = Argument::Scalar(Scalar::Int(at));
            let mut arguments = [Argument::Out(out), Argument::Tensor(row), at];
            Call::new(&KERNELS[0]).run(&mut arguments)
        };
        run(&mut out, &row, 0).unwrap();
        assert_eq!((out.sizes(), out.data().unwrap()), (&[1, 2][..], &[7, 8][..]));
        run(&mut out, &row, 1).unwrap();
        assert_eq!((out.sizes(), out.data().unwrap()), (&[2, 2][..], &[7, 8, 7, 8][..]));
        let wrong = |index, expected| Err(Error::InvalidArgument { index, expected });
        assert_eq!(run(&mut out, &row, 3), wrong(2, "the index of a row or of the next row"));
        assert_eq!(run(&mut out, &row, -1), wrong(2, "a row index"));
        assert_eq!(
            run(&mut out, &row, i64::MAX),
            wrong(2, "the index of a row or of the next row")
        );
        let longer = Tensor::from_slice(&[1, 2, 3]);
        assert_eq!(run(&mut out, &longer, 1), wrong(1, "the sizes of the other rows"));
    }
}
