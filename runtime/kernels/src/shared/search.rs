//! Binary search in sorted sequences.

use afferent_core::{Args, Error, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
    order::check_ordered,
    pointwise::{Input, result_type},
};

/// Sorted sequences along the last dimension of a tensor.
pub(crate) struct Sequences<'a> {
    /// Argument index of the tensor.
    pub(crate) index: u8,
    /// Indices that sort each sequence, and their argument index.
    pub(crate) sorter: Option<(TensorView<'a>, u8)>,
}

/// Writes the positions of the values in argument `values` to argument `out`: of the first element
/// that is not less, or of the first one that is greater if `right` is true.
pub(crate) fn search(
    args: &mut Args<'_>,
    sequences: &Sequences<'_>,
    values: u8,
    right: bool,
    out: u8,
) -> Result<(), Error> {
    let (tensor, input) =
        (args.tensor(usize::from(sequences.index))?, Input::arg(args, values.into())?);
    check_ordered(tensor.dtype(), sequences.index)?;
    check_ordered(input.dtype(), values)?;
    let expected = if args.bool(2)? { ScalarType::Int } else { ScalarType::Long };
    let sizes = match &input {
        Input::Tensor(view) => view.sizes(),
        _ => &[],
    };
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let Some((&len, batch)) = tensor.sizes().split_last() else {
        return Err(wrong(sequences.index, "a tensor with dimensions"));
    };
    let value_batch = sizes.split_last().map_or(&[][..], |(_, batch)| batch);
    if tensor.rank() > 1 && (sizes.is_empty() || value_batch != batch) {
        return Err(wrong(values, "values for each sequence"));
    }
    if let Some((sorter, index)) = sequences.sorter {
        check_dtype(sorter.dtype(), ScalarType::Long, index)?;
        let indices: &[i64] = sorter.data()?;
        let is_valid = |&index: &i64| usize::try_from(index).is_ok_and(|index| index < len);
        if sorter.sizes() != tensor.sizes() || !indices.iter().all(is_valid) {
            return Err(wrong(index, "indices in range, one for each element"));
        }
    }
    let mut to = args.out(usize::from(out))?;
    check_dtype(to.dtype(), expected, out)?;
    to.resize(sizes)?;
    if to.numel() == 0 {
        return Ok(());
    }
    let dtype = result_type(&[tensor.into(), input])?;
    with_accumulator!(dtype, A => {
        write_positions::<A>((tensor, sequences), (input, values), right, (&mut to, out))
    })
}

fn write_positions<A: Accumulator>(
    (tensor, sequences): (TensorView<'_>, &Sequences<'_>),
    (input, values): (Input<'_>, u8),
    right: bool,
    (to, out): (&mut TensorMut<'_, '_>, u8),
) -> Result<(), Error> {
    let (len, strides) = (tensor.sizes()[tensor.rank() - 1], strides_of(&tensor));
    let sorter_strides = sequences.sorter.map(|(sorter, _)| strides_of(&sorter));
    let to_strides = out_strides(to);
    let mut loops = LoopNest::<4>::new();
    if let Input::Tensor(view) = &input {
        let from = strides_of(view);
        for (dim, &size) in view.sizes().iter().enumerate() {
            // A single sequence serves all values.
            let is_batch = dim + 1 < view.rank() && tensor.rank() > 1;
            let of = |strides: &[usize]| if is_batch { strides[dim] } else { 0 };
            let sorter = sorter_strides.as_ref().map_or(0, |strides| of(strides));
            loops.push(size, [from[dim], to_strides[dim], of(&strides), sorter])?;
        }
    }
    let reader = Reader::<A>::new(tensor, sequences.index)?;
    let source = match &input {
        Input::Tensor(view) => Some(Reader::<A>::new(*view, values)?),
        _ => None,
    };
    let constant = match input {
        Input::Scalar(scalar) => A::from_arg(scalar),
        _ => A::default(),
    };
    let sorter = sequences.sorter.map(|(sorter, index)| Reader::<i64>::new(sorter, index));
    let sorter = sorter.transpose()?;
    let step = |strides: &[usize]| strides.last().copied().unwrap_or(1);
    let (stride, sorter_stride) = (step(&strides), sorter_strides.as_ref().map_or(0, |s| step(s)));
    let mut writer = Writer::<i64>::new(to, out)?;
    loops.for_each([0; 4], |[from, to, start, sorter_start]| {
        let value = source.as_ref().map_or(constant, |source| source.get(from));
        let element = |at: usize| {
            let at = match &sorter {
                Some(sorter) => sorter.get(sorter_start + at * sorter_stride) as usize,
                None => at,
            };
            reader.get(start + at * stride)
        };
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low + (high - low) / 2;
            let x = element(middle);
            // A comparison with NaN is false, so NaN comes after all elements.
            if if right { x > value } else { x >= value } {
                high = middle
            } else {
                low = middle + 1
            }
        }
        writer.set(to, low as i64);
    });
    Ok(())
}
