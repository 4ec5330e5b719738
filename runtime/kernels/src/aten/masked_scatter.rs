//! `aten::masked_scatter.out`: consecutive elements written where a mask is true.
//!
//! | argument | type                | shape                          |
//! |----------|---------------------|--------------------------------|
//! | `self`   | tensor, any dtype   | any                            |
//! | `mask`   | `bool` or u8 tensor | broadcasts with `self`         |
//! | `source` | as `self`           | any                            |
//! | `out`    | as `self`           | broadcast of `self` and `mask` |
//!
//! `source` is read in row-major order. Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] at index 2 for a `source` with too few elements and at index
//! 1 for shapes that do not broadcast.
//! Source: ATen `masked_scatter`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, broadcast_shapes};

use crate::shared::{
    accumulator::check_dtype,
    indexing::check_mask,
    strided_copy::{OUT_OF_BOUNDS, with_element_size},
    strided_view::{StridedView, copy_from_view, for_each_position, offset_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::masked_scatter.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Out],
    masked_scatter,
)];

fn masked_scatter(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, mask, source) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    check_mask(&mask, 1)?;
    if source.dtype() != input.dtype() {
        return Err(Error::InvalidType { index: 2, found: source.dtype() });
    }
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let sizes = broadcast_shapes(input.sizes(), mask.sizes());
    let sizes = sizes.ok_or(invalid(1, "a shape that broadcasts"))?;
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), input.dtype(), 3)?;
    out.resize(&sizes)?;
    let (mut from, mut mask_view) = (StridedView::of(&input), StridedView::of(&mask));
    from.expand(&sizes, 0)?;
    mask_view.expand(&sizes, 1)?;
    copy_from_view(&mut out, &input, &from)?;
    let mut next = 0;
    let source_view = StridedView::of(&source);
    let strides = [&*mask_view.strides, &*out.strides()];
    with_element_size!(input.dtype().size(), N => {
        let dst = out.bytes_mut()?.as_chunks_mut::<N>().0;
        let src = source.bytes().as_chunks::<N>().0;
        for_each_position(&sizes, [0, 0], strides, |[mask_offset, to]| {
            if *mask.bytes().get(mask_offset).ok_or(OUT_OF_BOUNDS)? == 0 {
                return Ok(());
            }
            let from = if source.is_contiguous() { next } else { offset_of(&source_view, next) };
            let element = (next < src.len()).then(|| src.get(from)).flatten();
            let too_few = invalid(2, "at least one element per true element of `mask`");
            let element = element.ok_or(too_few)?;
            *dst.get_mut(to).ok_or(OUT_OF_BOUNDS)? = *element;
            next += 1;
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
        let run = |mask: [bool; 2], source: &[i32], expected| {
            let mask = Tensor::from_slice(&mask.map(Bool::from));
            let (x, source) = (iota(&[2, 2]), Tensor::from_slice(source));
            check(&KERNELS[0], [&x, &mask, &source].map(Argument::Tensor).into(), expected);
        };
        run([false, true], &[7, 8, 9], Ok((&[2, 2], &[0, 7, 2, 8])));
        run([false, false], &[], Ok((&[2, 2], &[0, 1, 2, 3])));
        let expected = "at least one element per true element of `mask`";
        run([true, false], &[7], Err(Error::InvalidArgument { index: 2, expected }));
    }
}
