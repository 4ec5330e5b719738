//! `aten::copy.out`, `aten::copy_`: copy with broadcasting and cast.
//!
//! | argument       | type                       | shape                   |
//! |----------------|----------------------------|-------------------------|
//! | `self`         | tensor, any dtype          | any; written by `copy_` |
//! | `src`          | tensor, any dtype          | broadcasts to `self`    |
//! | `non_blocking` | ignored                    |                         |
//! | `out`          | as `self`; only `copy.out` | as `self`               |
//!
//! Elements of `src` are cast to the dtype of `self`. Tolerance: exact.
//! Errors: a `src` that does not broadcast is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_from_view},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::copy.out", &[Arg::Tensor, Arg::Tensor, Arg::Ignored, Arg::Out], copy_out),
    Kernel::new("aten::copy_", &[Arg::InOut, Arg::Tensor, Arg::Ignored], copy_in_place),
];

fn copy_out(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, source) = (args.tensor(0)?, args.tensor(1)?);
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    let mut view = StridedView::of(&source);
    view.expand(input.sizes(), 1)?;
    out.resize(input.sizes())?;
    copy_from_view(&mut out, &source, &view)
}

fn copy_in_place(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let source = args.tensor(1)?;
    let mut out = args.out(0)?;
    let mut view = StridedView::of(&source);
    view.expand(out.sizes(), 1)?;
    copy_from_view(&mut out, &source, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let (x, row) = (iota(&[2, 2]), Tensor::from_slice(&[1.5_f32, -2.5]));
        let inputs = |source| vec![Argument::Tensor(&x), Argument::Tensor(source), Argument::None];
        check(&KERNELS[0], inputs(&row), Ok((&[2, 2], &[1, -2, 1, -2])));
        let error = Error::InvalidArgument { index: 1, expected: "a shape that broadcasts" };
        check(&KERNELS[0], inputs(&iota(&[3])), Err(error));
    }

    #[test]
    fn in_place() {
        let mut x = iota(&[2, 2]);
        let row = iota(&[2, 1]);
        let mut arguments = [Argument::Out(&mut x), Argument::Tensor(&row), Argument::None];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(x.data::<i32>().unwrap(), [0, 0, 1, 1]);
    }
}
