//! `aten::masked_select.out`: elements where a mask is true.
//!
//! | argument | type                | shape                                  |
//! |----------|---------------------|----------------------------------------|
//! | `self`   | tensor, any dtype   | any                                    |
//! | `mask`   | `bool` or u8 tensor | broadcasts with `self`                 |
//! | `out`    | as `self`           | `[n]`, the number of selected elements |
//!
//! `out` is in row-major order of the broadcast shape. Tolerance: exact.
//! Errors: shapes that do not broadcast are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `masked_select`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, broadcast_shapes, numel};

use crate::shared::{
    accumulator::check_dtype,
    indexing::check_mask,
    strided_copy::{OUT_OF_BOUNDS, with_element_size},
    strided_view::{StridedView, for_each_position},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::masked_select.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], masked_select)];

fn masked_select(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, mask) = (args.tensor(0)?, args.tensor(1)?);
    check_mask(&mask, 1)?;
    let invalid = Error::InvalidArgument { index: 1, expected: "a shape that broadcasts" };
    let sizes = broadcast_shapes(input.sizes(), mask.sizes()).ok_or(invalid)?;
    let (mut from, mut mask_view) = (StridedView::of(&input), StridedView::of(&mask));
    from.expand(&sizes, 0)?;
    mask_view.expand(&sizes, 1)?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    // Each mask element counts once per broadcast copy.
    let selected = mask.bytes().iter().filter(|&&byte| byte != 0).count();
    let repeats = numel(&sizes).map(|numel| numel.checked_div(mask.numel()).unwrap_or(0));
    out.resize(&[repeats.and_then(|repeats| repeats.checked_mul(selected)).ok_or(invalid)?])?;
    if selected == 0 {
        return Ok(());
    }
    let mut to = 0;
    let strides = [&*mask_view.strides, &*from.strides];
    with_element_size!(input.dtype().size(), N => {
        let dst = out.bytes_mut()?.as_chunks_mut::<N>().0;
        let src = input.bytes().as_chunks::<N>().0;
        for_each_position(&sizes, [0, 0], strides, |[mask_offset, from]| {
            if *mask.bytes().get(mask_offset).ok_or(OUT_OF_BOUNDS)? != 0 {
                *dst.get_mut(to).ok_or(OUT_OF_BOUNDS)? = *src.get(from).ok_or(OUT_OF_BOUNDS)?;
                to += 1;
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let run = |x: &[usize], sizes: &[usize], mask: &[bool], expected| {
            let mask: Vec<_> = mask.iter().map(|&bit| Bool::from(bit)).collect();
            let mask = Tensor::new(sizes, &mask).unwrap();
            check(&KERNELS[0], vec![Argument::Tensor(&iota(x)), Argument::Tensor(&mask)], expected);
        };
        run(&[2, 2], &[2, 2], &[false, true, true, true], Ok((&[3], &[1, 2, 3])));
        run(&[2, 2], &[2], &[false, true], Ok((&[2], &[1, 3])));
        run(&[2], &[2, 1], &[true, false], Ok((&[2], &[0, 1])));
        run(&[0], &[1], &[true], Ok((&[0], &[])));
        let expected = "a shape that broadcasts";
        run(&[3], &[2], &[true; 2], Err(Error::InvalidArgument { index: 1, expected }));
    }
}
