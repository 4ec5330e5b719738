//! `aten::index.Tensor_out`: advanced indexing, as in `self[a, :, b]`.
//!
//! | argument  | type                                    | shape                            |
//! |-----------|-----------------------------------------|----------------------------------|
//! | `self`    | tensor, any dtype                       | any                              |
//! | `indices` | optional i32, i64, `bool` or u8 tensors | broadcast to one shape           |
//! | `out`     | as `self`                               | index shape for the indexed dims |
//!
//! Negative indices count from the end. A `bool` or u8 tensor is a mask over as many dimensions as
//! it has, and selects the positions where it is nonzero. If the indexed dimensions are not
//! adjacent, the index shape comes first. Tolerance: exact.
//! Scratch: a `usize` per element of the index shape.
//! Errors: indices that do not match `self` are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `index`; NumPy advanced indexing.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    indexing::AdvancedIndex,
    strided_copy::{OUT_OF_BOUNDS, StridedCopy, with_element_size},
    strided_view::{StridedView, contiguous_strides, for_each_position},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::index.Tensor_out", &[Arg::Tensor, Arg::OptTensorList, Arg::Out], index)];

fn index(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, list) = (args.tensor(0)?, args.tensor_list(1)?);
    let from = StridedView::of(&input);
    let selection = AdvancedIndex::new(list, &from)?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&selection.sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let offsets = cx.scratch::<usize>(selection.count()?)?;
    selection.write_offsets(list, &from, offsets)?;
    let (kept, indexed) = selection.split_strides(&out.strides())?;
    let copy = StridedCopy::new(&selection.rest.sizes, &kept, &selection.rest.strides)?;
    let (size, dst) = (input.dtype().size(), out.bytes_mut()?);
    let strides = [&*contiguous_strides(&selection.index_sizes), &*indexed];
    if selection.rest.sizes.iter().all(|&size| size == 1) {
        // Each index selects one element.
        return with_element_size!(size, N => {
            let (dst, src) = (dst.as_chunks_mut::<N>().0, input.bytes().as_chunks::<N>().0);
            if strides[0] == strides[1] {
                for (to, &from) in dst.iter_mut().zip(&*offsets) {
                    *to = *src.get(from).ok_or(OUT_OF_BOUNDS)?;
                }
                return Ok(());
            }
            for_each_position(&selection.index_sizes, [0, 0], strides, |[nth, to]| {
                let element = offsets.get(nth).and_then(|&from| src.get(from));
                *dst.get_mut(to).ok_or(OUT_OF_BOUNDS)? = *element.ok_or(OUT_OF_BOUNDS)?;
                Ok(())
            })
        });
    }
    for_each_position(&selection.index_sizes, [0, 0], strides, |[nth, to]| {
        let from = *offsets.get(nth).ok_or(OUT_OF_BOUNDS)?;
        copy.run(size, (dst, to), (input.bytes(), from))
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[track_caller]
    fn run(x: &Tensor, indices: &[Option<&Tensor>], expected: Result<(&[usize], &[i32]), Error>) {
        let list = Argument::Tensors(indices.to_vec());
        check(&KERNELS[0], vec![Argument::Tensor(x), list], expected);
    }

    #[test]
    fn integer_indices() {
        let x = iota(&[2, 3]);
        let (a, b) = (Tensor::from_slice(&[1_i64, -2]), Tensor::from_slice(&[2_i32, 0]));
        run(&x, &[Some(&a)], Ok((&[2, 3], &[3, 4, 5, 0, 1, 2])));
        run(&x, &[None, Some(&b)], Ok((&[2, 2], &[2, 0, 5, 3])));
        run(&x, &[Some(&a), Some(&b)], Ok((&[2], &[5, 0])));
        let column = Tensor::new(&[2, 1], &[0_i64, 1]).unwrap();
        run(&x, &[Some(&column), Some(&b)], Ok((&[2, 2], &[2, 0, 5, 3])));
        run(&x, &[None, None], Ok((&[2, 3], &[0, 1, 2, 3, 4, 5])));
    }

    #[test]
    fn nonadjacent_indices_move_to_the_front() {
        let x = iota(&[2, 2, 2]);
        let (a, b) = (Tensor::from_slice(&[1_i64, 1, 0]), Tensor::from_slice(&[0_i64]));
        run(&x, &[Some(&a), None, Some(&b)], Ok((&[3, 2], &[4, 6, 4, 6, 0, 2])));
    }

    #[test]
    fn masks() {
        let x = iota(&[2, 3]);
        let rows = Tensor::from_slice(&[false, true].map(Bool::from));
        let all = [true, false, false, false, true, true].map(Bool::from);
        run(&x, &[Some(&rows)], Ok((&[1, 3], &[3, 4, 5])));
        run(&x, &[Some(&Tensor::new(&[2, 3], &all).unwrap())], Ok((&[3], &[0, 4, 5])));
        let columns = Tensor::from_slice(&[0_i64, 2]);
        run(&x, &[Some(&rows), Some(&columns)], Ok((&[2], &[3, 5])));
        let both = Tensor::from_slice(&[1_u8, 1]);
        run(&x, &[Some(&both), Some(&columns)], Ok((&[2], &[0, 5])));
        for (all, expected) in [(true, &[0, 1, 2, 3, 4, 5][..]), (false, &[])] {
            let all = Tensor::new(&[], &[Bool::from(all)]).unwrap();
            run(&x, &[Some(&all)], Ok((&[expected.len() / 6, 2, 3], expected)));
        }
    }

    #[test]
    fn invalid_indices_are_rejected() {
        let x = iota(&[2, 3]);
        let invalid = |expected| Err(Error::InvalidArgument { index: 1, expected });
        let at = |index: i64| Tensor::from_slice(&[index]);
        let three = Tensor::from_slice(&[true; 3].map(Bool::from));
        run(&x, &[Some(&at(2))], invalid("indices in range"));
        run(&x, &[Some(&at(i64::MIN))], invalid("indices in range"));
        run(&x, &[Some(&three)], invalid("masks with the sizes of the dimensions that they index"));
        run(&x, &[None, None, Some(&at(0))], invalid("no more indices than dimensions"));
        let (two, three) = (Tensor::from_slice(&[0_i64; 2]), Tensor::from_slice(&[0_i64; 3]));
        run(&x, &[Some(&two), Some(&three)], invalid("indices that broadcast"));
    }
}
