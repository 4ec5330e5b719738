//! `aten::diagonal_copy.out`: diagonal of two dimensions.
//!
//! | argument | type              | shape                                               |
//! |----------|-------------------|-----------------------------------------------------|
//! | `self`   | tensor, any dtype | at least 2 dimensions                               |
//! | `offset` | int               |                                                     |
//! | `dim1`   | int: rows         |                                                     |
//! | `dim2`   | int: columns      |                                                     |
//! | `out`    | as `self`         | `self` without `dim1` and `dim2`, then the diagonal |
//!
//! A positive `offset` is above the main diagonal, a negative one below. Tolerance: exact.
//! Errors: equal dimensions or one out of range are [`Error::InvalidArgument`].
//! Source: ATen `diagonal_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::existing_dim_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::diagonal_copy.out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::Out],
    diagonal_copy,
)];

fn diagonal_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let offset = args.int(1)?;
    let rows = existing_dim_arg(args, 2, input.rank())?;
    let columns = existing_dim_arg(args, 3, input.rank())?;
    if rows == columns {
        return Err(Error::InvalidArgument { index: 3, expected: "a dimension other than `dim1`" });
    }
    let mut view = StridedView::of(&input);
    let skip = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let skip_dim = if offset < 0 { rows } else { columns };
    let rest = view.sizes[skip_dim].saturating_sub(skip);
    let skip = if rest == 0 { 0 } else { skip };
    view.slice(skip_dim, skip, rest, 1);
    let len = view.sizes[rows].min(view.sizes[columns]);
    let stride = view.strides[rows].wrapping_add(view.strides[columns]);
    view.select(rows.max(columns), 0);
    view.select(rows.min(columns), 0);
    view.sizes.push(len)?;
    view.strides.push(stride)?;
    materialize(&mut args.out(4)?, 4, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |offset: i64, a: i64, b: i64, expected| {
            let [offset, a, b] = [offset, a, b].map(|value| Argument::Scalar(Scalar::Int(value)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), offset, a, b], expected);
        };
        run(0, 0, 1, Ok((&[2], &[0, 4])));
        run(1, 0, 1, Ok((&[2], &[1, 5])));
        run(-1, 0, 1, Ok((&[1], &[3])));
        run(1, 1, 0, Ok((&[1], &[3])));
        run(i64::MIN, 0, -1, Ok((&[0], &[])));
        let expected = "a dimension other than `dim1`";
        run(0, 1, -1, Err(Error::InvalidArgument { index: 3, expected }));
    }
}
