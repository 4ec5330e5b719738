//! `aten::t_copy.out`: transpose of a matrix.
//!
//! | argument | type              | shape                |
//! |----------|-------------------|----------------------|
//! | `self`   | tensor, any dtype | at most 2 dimensions |
//! | `out`    | as `self`         | transposed           |
//!
//! Tensors with fewer than 2 dimensions are copied. Tolerance: exact.
//! Errors: more than 2 dimensions are [`Error::InvalidArgument`] at index 0.
//! Source: ATen `t_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::strided_view::{StridedView, materialize};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::t_copy.out", &[Arg::Tensor, Arg::Out], t_copy)];

fn t_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut view = StridedView::of(&input);
    match input.rank() {
        0 | 1 => {}
        2 => view.transpose(0, 1),
        _ => {
            let expected = "at most 2 dimensions";
            return Err(Error::InvalidArgument { index: 0, expected });
        }
    }
    materialize(&mut args.out(1)?, 1, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        check(
            &KERNELS[0],
            vec![Argument::Tensor(&iota(&[2, 3]))],
            Ok((&[3, 2], &[0, 3, 1, 4, 2, 5])),
        );
        check(&KERNELS[0], vec![Argument::Tensor(&iota(&[3]))], Ok((&[3], &[0, 1, 2])));
        let expected = "at most 2 dimensions";
        let error = Error::InvalidArgument { index: 0, expected };
        check(&KERNELS[0], vec![Argument::Tensor(&iota(&[1, 1, 1]))], Err(error));
    }
}
