//! `aten::expand_copy.out`: broadcast to larger sizes.
//!
//! | argument   | type                  | shape                       |
//! |------------|-----------------------|-----------------------------|
//! | `self`     | tensor, any dtype     | any                         |
//! | `size`     | ints; -1 keeps a size | at least the rank of `self` |
//! | `implicit` | ignored               |                             |
//! | `out`      | as `self`             | `size`                      |
//!
//! Tolerance: exact.
//! Errors: sizes to which `self` does not broadcast are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `expand_copy`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext};

use crate::shared::strided_view::{StridedView, materialize};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::expand_copy.out",
    &[Arg::Tensor, Arg::IntList, Arg::Ignored, Arg::Out],
    expand_copy,
)];

fn expand_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let invalid = Error::InvalidArgument { index: 1, expected: "a shape that broadcasts" };
    let requested = args.int_list(1)?;
    let added = requested.len().checked_sub(input.rank()).ok_or(invalid)?;
    let mut sizes = Dims::filled(0, 0);
    for (dim, size) in requested.iter().enumerate() {
        let input_size = dim.checked_sub(added).and_then(|dim| input.sizes().get(dim)).copied();
        let size = if size == -1 { input_size } else { usize::try_from(size).ok() };
        sizes.push(size.ok_or(invalid)?)?;
    }
    let mut view = StridedView::of(&input);
    view.expand(&sizes, 1)?;
    materialize(&mut args.out(3)?, 3, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 1]);
        let run = |size, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(size), Argument::None], expected);
        };
        run(&[-1, 3], Ok((&[2, 3], &[0, 0, 0, 1, 1, 1])));
        run(&[2, 2, -1], Ok((&[2, 2, 1], &[0, 1, 0, 1])));
        run(&[2, 0], Ok((&[2, 0], &[])));
        let invalid = Error::InvalidArgument { index: 1, expected: "a shape that broadcasts" };
        run(&[-1, 2, 1], Err(invalid));
        run(&[3, 1], Err(invalid));
        run(&[1], Err(invalid));
    }
}
