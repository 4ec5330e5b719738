//! `aten::index_put.out`, `aten::index_put_`: assignment by advanced indexing, as in `self[a, :, b]
//! = values`.
//!
//! | argument     | type                                    | shape                           |
//! |--------------|-----------------------------------------|---------------------------------|
//! | `self`       | tensor, any dtype                       | any; written by `index_put_`    |
//! | `indices`    | optional i32, i64, `bool` or u8 tensors | broadcast to one shape          |
//! | `values`     | as `self`                               | broadcasts to the indexed shape |
//! | `accumulate` | bool: add instead of assign             |                                 |
//! | `out`        | as `self`; only `index_put.out`         | as `self`                       |
//!
//! Indices are those of `index`. Of repeated indices without `accumulate`, the last one counts.
//! Tolerance: exact.
//! Scratch: a `usize` per element of the index shape.
//! Errors: indices or values that do not match `self` are [`Error::InvalidArgument`].
//! Source: ATen `index_put`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    cast::add_strided,
    indexing::AdvancedIndex,
    strided_copy::{OUT_OF_BOUNDS, StridedCopy},
    strided_view::{StridedView, contiguous_strides, copy_tensor, for_each_position},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::index_put.out",
        &[Arg::Tensor, Arg::OptTensorList, Arg::Tensor, Arg::Bool, Arg::Out],
        |cx, args| {
            let input = args.tensor(0)?;
            index_put(cx, args, 4, Some(input))
        },
    ),
    Kernel::new(
        "aten::index_put_",
        &[Arg::InOut, Arg::OptTensorList, Arg::Tensor, Arg::Bool],
        |cx, args| index_put(cx, args, 0, None),
    ),
];

/// Assigns the values to argument `index`. With `input`, first copies `input` to it.
fn index_put(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
    index: u8,
    input: Option<TensorView<'_>>,
) -> Result<(), Error> {
    let (list, values, accumulate) = (args.tensor_list(1)?, args.tensor(2)?, args.bool(3)?);
    let mut out = args.out(usize::from(index))?;
    let dtype = out.dtype();
    if let Some(input) = &input {
        check_dtype(dtype, input.dtype(), index)?;
        out.resize(input.sizes())?;
    }
    if values.dtype() != dtype {
        return Err(Error::InvalidType { index: 2, found: values.dtype() });
    }
    let to = StridedView::of_out(&out);
    let selection = AdvancedIndex::new(list, &to)?;
    let mut from = StridedView::of(&values);
    from.expand(&selection.sizes, 2)?;
    let is_empty = from.sizes.contains(&0);
    let offsets = cx.scratch(if is_empty { 0 } else { selection.count()? })?;
    if !is_empty {
        selection.write_offsets(list, &to, offsets)?;
    }
    if let Some(input) = &input {
        copy_tensor(&mut out, input)?;
    }
    if is_empty {
        return Ok(());
    }
    let (kept, indexed) = selection.split_strides(&from.strides)?;
    let copy = StridedCopy::new(&selection.rest.sizes, &selection.rest.strides, &kept)?;
    let dst = out.bytes_mut()?;
    let strides = [&*contiguous_strides(&selection.index_sizes), &*indexed];
    for_each_position(&selection.index_sizes, [0, 0], strides, |[nth, from]| {
        let to = *offsets.get(nth).ok_or(OUT_OF_BOUNDS)?;
        if accumulate {
            add_strided(&copy, dtype, (dst, to), (values.bytes(), from))
        } else {
            copy.run(dtype.size(), (dst, to), (values.bytes(), from))
        }
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Scalar, Tensor};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[track_caller]
    fn run(
        indices: &[Option<&Tensor>],
        values: &Tensor,
        accumulate: bool,
        expected: Result<(&[usize], &[i32]), Error>,
    ) {
        let mut x = iota(&[2, 3]);
        let rest = || {
            let accumulate = Argument::Scalar(Scalar::Bool(accumulate));
            [Argument::Tensors(indices.to_vec()), Argument::Tensor(values), accumulate]
        };
        let inputs = [Argument::Tensor(&x)].into_iter().chain(rest()).collect();
        check(&KERNELS[0], inputs, expected);
        let mut arguments: Vec<_> = [Argument::Out(&mut x)].into_iter().chain(rest()).collect();
        let result = Call::new(&KERNELS[1]).run(&mut arguments);
        drop(arguments);
        assert_eq!(result.map(|()| (x.sizes(), x.data().unwrap())), expected);
    }

    #[test]
    fn values() {
        let (one, row) = (Tensor::new(&[], &[9]).unwrap(), iota(&[3]));
        let (a, b) = (Tensor::from_slice(&[1_i64, -1]), Tensor::from_slice(&[0_i64, 0]));
        run(&[Some(&a)], &row, false, Ok((&[2, 3], &[0, 1, 2, 0, 1, 2])));
        run(&[Some(&a)], &row, true, Ok((&[2, 3], &[0, 1, 2, 3, 6, 9])));
        run(&[None, Some(&b)], &one, false, Ok((&[2, 3], &[9, 1, 2, 9, 4, 5])));
        run(&[Some(&a), Some(&b)], &one, true, Ok((&[2, 3], &[0, 1, 2, 21, 4, 5])));
        let mask = [true, false, false, false, true, true].map(Bool::from);
        let mask = Tensor::new(&[2, 3], &mask).unwrap();
        run(&[Some(&mask)], &row, false, Ok((&[2, 3], &[0, 1, 2, 3, 1, 2])));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let (row, out_of_range) = (iota(&[2]), Tensor::from_slice(&[2_i64]));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[Some(&out_of_range)], &iota(&[1]), false, invalid(1, "indices in range"));
        run(&[Some(&out_of_range)], &row, false, invalid(2, "a shape that broadcasts"));
        let floats = Tensor::from_slice(&[1.0_f32]);
        let error = Error::InvalidType { index: 2, found: floats.dtype() };
        run(&[Some(&out_of_range)], &floats, false, Err(error));
    }
}
