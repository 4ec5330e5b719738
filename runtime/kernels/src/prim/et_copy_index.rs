//! `executorch_prim::et_copy_index.tensor`: a result put into a row of a tensor of results.
//!
//! | argument    | type                                | shape                                     |
//! |-------------|-------------------------------------|-------------------------------------------|
//! | `copy_to`   | tensor, any dtype; read and written | as `copy_from`, after a dimension of rows |
//! | `copy_from` | as `copy_to`                        | any                                       |
//! | `index`     | int, not negative                   | the row                                   |
//!
//! A loop writes its rows one after the other from row 0 on, so `copy_to` has as many rows as were
//! written last: row 0 takes the others away, if the tensor may change.
//! Errors: other sizes, or rows left out, are [`Error::InvalidArgument`].
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
    let index = usize::try_from(index).map_err(|_| wrong(2, "a row"))?;
    let mut out = args.out(0)?;
    check_dtype(out.dtype(), source.dtype(), 0)?;
    let Some((&rows, row)) = out.sizes().split_first() else {
        return Err(wrong(0, "a dimension of rows"));
    };
    if index > 0 && row != source.sizes() {
        return Err(wrong(1, "a row as large as those before"));
    }
    let mut sizes = StridedView::of(&source).sizes;
    sizes.insert(0, index.checked_add(1).ok_or(wrong(2, "a row"))?)?;
    if index > rows {
        return Err(wrong(2, "a row that continues the others"));
    }
    let fits = index < rows && row == source.sizes();
    match out.resize(&sizes) {
        // The sizes of a static tensor stay.
        Err(Error::InvalidTensor { .. }) if fits => {}
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
    fn rows_follow_each_other() {
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
        assert_eq!(run(&mut out, &row, 3), wrong(2, "a row that continues the others"));
        assert_eq!(run(&mut out, &row, -1), wrong(2, "a row"));
        assert_eq!(run(&mut out, &row, i64::MAX), wrong(2, "a row that continues the others"));
        let longer = Tensor::from_slice(&[1, 2, 3]);
        assert_eq!(run(&mut out, &longer, 1), wrong(1, "a row as large as those before"));
    }
}
