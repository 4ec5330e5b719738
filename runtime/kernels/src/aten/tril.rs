//! `aten::tril.out`, `aten::triu.out`: lower or upper triangle of matrices.
//!
//! | argument   | type                                                  | shape                 |
//! |------------|-------------------------------------------------------|-----------------------|
//! | `self`     | tensor, any dtype                                     | at least 2 dimensions |
//! | `diagonal` | int: positive above the main diagonal, negative below |                       |
//! | `out`      | as `self`                                             | as `self`             |
//!
//! The triangle includes the diagonal; other elements are zero. Tolerance: exact.
//! Errors: fewer than 2 dimensions are [`Error::InvalidArgument`] at index 0.
//! Source: ATen `tril`, `triu`.

use afferent_core::{Arg, Args, Error, Kernel};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_view},
};

const ARGS: &[Arg] = &[Arg::Tensor, Arg::Int, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::tril.out", ARGS, |_, args| triangle(args, false)),
    Kernel::new("aten::triu.out", ARGS, |_, args| triangle(args, true)),
];

fn triangle(args: &mut Args<'_>, upper: bool) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let diagonal = args.int(1)?;
    let [.., rows, columns] = *input.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "at least 2 dimensions" });
    };
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(input.sizes())?;
    out.bytes_mut()?.fill(0);
    if input.numel() == 0 {
        return Ok(());
    }
    let (to, from) = (StridedView::of_out(&out), StridedView::of(&input));
    let last = input.rank() - 1;
    for row in 0..rows {
        // First column after the lower triangle, or of the upper one.
        let column = i64::try_from(row).unwrap_or(i64::MAX).saturating_add(diagonal);
        let column = if upper { column } else { column.saturating_add(1) };
        let column = usize::try_from(column.max(0)).unwrap_or(usize::MAX).min(columns);
        let (start, len) = if upper { (column, columns - column) } else { (0, column) };
        let (mut to, mut from) = (to, from);
        for view in [&mut to, &mut from] {
            view.slice(last, start, len, 1);
            view.select(last - 1, row);
        }
        copy_view(&mut out, &to, &input, &from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |kernel, diagonal, expected: &[i32]| {
            let diagonal = Argument::Scalar(Scalar::Int(diagonal));
            check(&KERNELS[kernel], vec![Argument::Tensor(&x), diagonal], Ok((&[2, 3], expected)));
        };
        run(0, 0, &[0, 0, 0, 3, 4, 0]);
        run(0, 1, &[0, 1, 0, 3, 4, 5]);
        run(0, -1, &[0, 0, 0, 3, 0, 0]);
        run(0, i64::MAX, &[0, 1, 2, 3, 4, 5]);
        run(0, i64::MIN, &[0; 6]);
        run(1, 0, &[0, 1, 2, 0, 4, 5]);
        run(1, 1, &[0, 1, 2, 0, 0, 5]);
        run(1, i64::MAX, &[0; 6]);
        run(1, i64::MIN, &[0, 1, 2, 3, 4, 5]);
    }
}
