//! Parts of tensors, and copies between them: what slicing, permuting and joining have in common.

use core::ops::Range;

use afferent_core::{Args, Dims, Error, TensorMut, TensorView, same};

use crate::shared::{
    accumulator::check_dtype,
    cast::cast_strided,
    strided_copy::{OUT_OF_BOUNDS, StridedCopy},
};

/// A part of a tensor: the position of its first element, and its sizes and strides, in elements.
///
/// Strides add up in wrapping arithmetic, so that a step backwards is a wrapped negative number.
#[derive(Clone, Copy)]
pub(crate) struct StridedView {
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) offset: usize,
}

impl StridedView {
    /// The whole of a tensor.
    pub(crate) fn of(tensor: &TensorView<'_>) -> Self {
        Self { sizes: dims(tensor.sizes()), strides: tensor.strides(), offset: 0 }
    }

    /// The whole of a tensor to write.
    pub(crate) fn of_out(tensor: &TensorMut<'_, '_>) -> Self {
        Self { sizes: dims(tensor.sizes()), strides: tensor.strides(), offset: 0 }
    }

    /// Keeps `len` positions of dimension `dim`, from `start` on, each `step` after the last.
    pub(crate) fn slice(&mut self, dim: usize, start: usize, len: usize, step: usize) {
        let stride = self.strides[dim];
        self.offset = self.offset.wrapping_add(start.wrapping_mul(stride));
        self.sizes[dim] = len;
        self.strides[dim] = stride.wrapping_mul(step);
    }

    /// Keeps position `at` of dimension `dim`, and drops the dimension.
    pub(crate) fn select(&mut self, dim: usize, at: usize) {
        self.slice(dim, at, 1, 1);
        self.sizes.remove(dim);
        self.strides.remove(dim);
    }

    /// Runs through dimension `dim` backwards.
    pub(crate) fn flip(&mut self, dim: usize) {
        let size = self.sizes[dim];
        self.slice(dim, size.saturating_sub(1), size, 1_usize.wrapping_neg());
    }

    /// Exchanges two dimensions.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        self.sizes.swap(a, b);
        self.strides.swap(a, b);
    }

    /// The bytes of the part, of elements of `width` bytes, if those lie one after the other in
    /// row-major order.
    fn bytes(&self, width: usize) -> Option<Range<usize>> {
        let mut numel = 1_usize;
        for (&size, &stride) in self.sizes.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != numel {
                return None;
            }
            numel = numel.checked_mul(size)?;
        }
        let start = self.offset.checked_mul(width)?;
        Some(start..start.checked_add(numel.checked_mul(width)?)?)
    }

    /// Repeats a part of smaller or equal rank to `sizes`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for the argument `index` when it does not broadcast.
    pub(crate) fn expand(&mut self, sizes: &[usize], index: u8) -> Result<(), Error> {
        let wrong = Error::InvalidArgument { index, expected: "a shape that broadcasts" };
        let added = sizes.len().checked_sub(self.sizes.len()).ok_or(wrong)?;
        for _ in 0..added {
            self.sizes.insert(0, 1)?;
            self.strides.insert(0, 0)?;
        }
        for (dim, &size) in sizes.iter().enumerate() {
            if self.sizes[dim] != size {
                if self.sizes[dim] != 1 {
                    return Err(wrong);
                }
                self.sizes[dim] = size;
                self.strides[dim] = 0;
            }
        }
        Ok(())
    }
}

fn dims(sizes: &[usize]) -> Dims {
    // A tensor has at most as many dimensions as `Dims` holds.
    Dims::new(sizes).unwrap_or(Dims::filled(0, 0))
}

/// Copies the part `from` of `input` to the part `to` of `out`, which has the same sizes;
/// elements of another dtype are converted.
pub(crate) fn copy_view(
    out: &mut TensorMut<'_, '_>,
    to: &StridedView,
    input: &TensorView<'_>,
    from: &StridedView,
) -> Result<(), Error> {
    let (dtype, source) = (out.dtype(), input.dtype());
    let copy = StridedCopy::new(&to.sizes, &to.strides, &from.strides)?;
    if to.sizes != from.sizes {
        return Err(OUT_OF_BOUNDS);
    }
    let (dst, src) = ((out.bytes_mut()?, to.offset), (input.bytes(), from.offset));
    if dtype == source {
        copy.run(dtype.size(), dst, src)
    } else {
        cast_strided(&copy, (dst.0, dst.1, dtype), (src.0, src.1, source))
    }
}

/// Gives `out`, the argument `index`, the sizes and elements of the part `from` of `input`.
///
/// # Errors
/// [`Error::InvalidType`] when it has another dtype, and those of [`TensorMut::resize`].
pub(crate) fn materialize(
    out: &mut TensorMut<'_, '_>,
    index: u8,
    input: &TensorView<'_>,
    from: &StridedView,
) -> Result<(), Error> {
    check_dtype(out.dtype(), input.dtype(), index)?;
    out.resize(&from.sizes)?;
    copy_from_view(out, input, from)
}

/// Copies the tensor 0 to the argument `index`, which has the same dtype.
pub(crate) fn clone_arg(args: &mut Args<'_>, index: u8) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(usize::from(index))?;
    check_dtype(out.dtype(), input.dtype(), index)?;
    out.resize(input.sizes())?;
    copy_tensor(&mut out, &input)
}

/// Copies the tensor 0 to the argument `out`, and converts it to the dtype of that.
pub(crate) fn cast_arg(args: &mut Args<'_>, out: usize) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(out)?;
    out.resize(input.sizes())?;
    copy_tensor(&mut out, &input)
}

/// Splits `input` along `dim` to the list of tensors at `index`, each as long as `len` says.
pub(crate) fn split_arg(
    args: &mut Args<'_>,
    index: u8,
    input: &TensorView<'_>,
    dim: usize,
    len: impl Fn(usize) -> usize,
) -> Result<(), Error> {
    let mut part = StridedView::of(input);
    let list = usize::from(index);
    let count = args.out_list_len(list)?;
    for item in 0..count {
        part.sizes[dim] = len(item);
        args.out_list(list, item)?.resize(&part.sizes)?;
    }
    for item in 0..count {
        part.sizes[dim] = len(item);
        let mut out = args.out_list(list, item)?;
        check_dtype(out.dtype(), input.dtype(), index)?;
        copy_from_view(&mut out, input, &part)?;
        part.slice(dim, len(item), len(item), 1);
    }
    Ok(())
}

/// Fills `out` with the elements of `input`, converted, where both have the same sizes.
pub(crate) fn copy_tensor(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
) -> Result<(), Error> {
    if out.dtype() == input.dtype()
        && out.sizes() == input.sizes()
        && out.dim_order() == input.dim_order()
    {
        out.bytes_mut()?.copy_from_slice(input.bytes());
        return Ok(());
    }
    copy_from_view(out, input, &StridedView::of(input))
}

/// Fills `out` with the part `from` of `input`, converted, where both have the same sizes.
pub(crate) fn copy_from_view(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    from: &StridedView,
) -> Result<(), Error> {
    if out.dtype() == input.dtype() && out.is_contiguous() && same(out.sizes(), &from.sizes) {
        let run = from.bytes(input.dtype().size()).and_then(|bytes| input.bytes().get(bytes));
        if let Some(run) = run {
            out.bytes_mut()?.copy_from_slice(run);
            return Ok(());
        }
    }
    let to = StridedView::of_out(out);
    copy_view(out, &to, input, from)
}

/// Gives `out` the elements of `input` in row-major order, whatever the sizes of both, as long as
/// the number of elements is the same.
pub(crate) fn reshape_copy(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
) -> Result<(), Error> {
    let numel = input.numel();
    if out.numel() != numel || out.dtype() != input.dtype() {
        return Err(OUT_OF_BOUNDS);
    }
    if out.is_contiguous() && input.is_contiguous() {
        out.bytes_mut()?.copy_from_slice(input.bytes());
        return Ok(());
    }
    let mut to = StridedView::of_out(out);
    let mut from = StridedView::of(input);
    if out.is_contiguous() {
        // Row-major memory can be seen with any sizes.
        to = StridedView { sizes: from.sizes, strides: contiguous_strides(&from.sizes), offset: 0 };
    } else if input.is_contiguous() {
        from = StridedView { sizes: to.sizes, strides: contiguous_strides(&to.sizes), offset: 0 };
    } else if to.sizes != from.sizes {
        return reshape_copy_elementwise(out, input);
    }
    copy_view(out, &to, input, &from)
}

/// As [`reshape_copy`], for two tensors neither of which is row-major.
fn reshape_copy_elementwise(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
) -> Result<(), Error> {
    let (to, from) = (StridedView::of_out(out), StridedView::of(input));
    let size = input.dtype().size();
    let (dst, src) = (out.bytes_mut()?, input.bytes());
    for position in 0..input.numel() {
        let (to, from) = (offset_of(&to, position) * size, offset_of(&from, position) * size);
        let element = src.get(from..from + size).ok_or(OUT_OF_BOUNDS)?;
        dst.get_mut(to..to + size).ok_or(OUT_OF_BOUNDS)?.copy_from_slice(element);
    }
    Ok(())
}

/// Where the element at `position` in row-major order lies.
pub(crate) fn offset_of(part: &StridedView, mut position: usize) -> usize {
    let mut at = part.offset;
    for (&size, &stride) in part.sizes.iter().zip(part.strides.iter()).rev() {
        at = at.wrapping_add((position % size.max(1)).wrapping_mul(stride));
        position /= size.max(1);
    }
    at
}

/// The strides of a row-major tensor of `sizes`.
pub(crate) fn contiguous_strides(sizes: &[usize]) -> Dims {
    let mut strides = dims(sizes);
    let mut step = 1_usize;
    for (stride, &size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step = step.wrapping_mul(size.max(1));
    }
    strides
}

/// Calls `each` for every position of `sizes` in row-major order, with the places that it has in
/// `N` parts of those sizes, given by their offsets and strides.
pub(crate) fn for_each_position<const N: usize>(
    sizes: &[usize],
    offsets: [usize; N],
    strides: [&[usize]; N],
    mut each: impl FnMut([usize; N]) -> Result<(), Error>,
) -> Result<(), Error> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let (&last, outer) = sizes.split_last().unwrap_or((&1, &[]));
    let step = |part: usize, dim: usize| strides[part].get(dim).copied().unwrap_or(0);
    let inner: [usize; N] = core::array::from_fn(|part| step(part, outer.len()));
    let mut position = Dims::filled(outer.len(), 0);
    let mut start = offsets;
    loop {
        let mut at = start;
        for _ in 0..last {
            each(at)?;
            for part in 0..N {
                at[part] = at[part].wrapping_add(inner[part]);
            }
        }
        let mut dim = outer.len();
        loop {
            let Some(next) = dim.checked_sub(1) else { return Ok(()) };
            dim = next;
            position[dim] += 1;
            let ends = position[dim] == outer[dim];
            let steps = if ends { (outer[dim] - 1).wrapping_neg() } else { 1 };
            for (part, start) in start.iter_mut().enumerate() {
                *start = start.wrapping_add(step(part, dim).wrapping_mul(steps));
            }
            if !ends {
                break;
            }
            position[dim] = 0;
        }
    }
}
