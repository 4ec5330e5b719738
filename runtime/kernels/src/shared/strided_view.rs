//! Strided views of tensors, and copies between them, for slicing, permuting and joining.

use core::ops::Range;

use afferent_core::{Args, Dims, Error, TensorMut, TensorView, dims_equal};

use crate::shared::{
    accumulator::check_dtype,
    cast::cast_strided,
    element_copy::copy_permuted,
    strided_copy::{OUT_OF_BOUNDS, StridedCopy},
};

/// View of a tensor: sizes, strides and the offset of its first element, in elements.
///
/// Offsets use wrapping arithmetic: a negative stride is a wrapped negative number.
#[derive(Clone, Copy)]
pub(crate) struct StridedView {
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) offset: usize,
}

impl StridedView {
    /// View of all of an input tensor.
    pub(crate) fn of(tensor: &TensorView<'_>) -> Self {
        Self { sizes: dims(tensor.sizes()), strides: tensor.strides(), offset: 0 }
    }

    /// View of all of an output tensor.
    pub(crate) fn of_out(tensor: &TensorMut<'_, '_>) -> Self {
        Self { sizes: dims(tensor.sizes()), strides: tensor.strides(), offset: 0 }
    }

    /// Keeps `len` indices of dimension `dim`: `start`, `start + step` and so on.
    pub(crate) fn slice(&mut self, dim: usize, start: usize, len: usize, step: usize) {
        let stride = self.strides[dim];
        self.offset = self.offset.wrapping_add(start.wrapping_mul(stride));
        self.sizes[dim] = len;
        self.strides[dim] = stride.wrapping_mul(step);
    }

    /// Keeps index `index` of dimension `dim`, and removes the dimension.
    pub(crate) fn select(&mut self, dim: usize, index: usize) {
        self.slice(dim, index, 1, 1);
        self.sizes.remove(dim);
        self.strides.remove(dim);
    }

    /// Reverses dimension `dim`.
    pub(crate) fn flip(&mut self, dim: usize) {
        let size = self.sizes[dim];
        self.slice(dim, size.saturating_sub(1), size, 1_usize.wrapping_neg());
    }

    /// Swaps two dimensions.
    pub(crate) fn transpose(&mut self, a: usize, b: usize) {
        self.sizes.swap(a, b);
        self.strides.swap(a, b);
    }

    /// Byte range of the view with elements of `element_size` bytes; `None` unless it is contiguous
    /// in row-major order.
    fn contiguous_bytes(&self, element_size: usize) -> Option<Range<usize>> {
        let mut numel = 1_usize;
        for (&size, &stride) in self.sizes.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != numel {
                return None;
            }
            numel = numel.checked_mul(size)?;
        }
        let start = self.offset.checked_mul(element_size)?;
        Some(start..start.checked_add(numel.checked_mul(element_size)?)?)
    }

    /// Broadcasts the view to `sizes`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for argument `index` if its sizes do not broadcast.
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

/// Copies the view `from` of `input` to the view `to` of `out`, with a cast if the dtypes differ.
/// Both views have the same sizes.
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

/// Resizes `out`, argument `index`, to the sizes of the view `from` of `input` and copies the view.
///
/// # Errors
/// [`Error::InvalidType`] if the dtypes differ, and the errors of [`TensorMut::resize`].
pub(crate) fn materialize(
    out: &mut TensorMut<'_, '_>,
    index: u8,
    input: &TensorView<'_>,
    from: &StridedView,
) -> Result<(), Error> {
    check_dtype(out.dtype(), input.dtype(), index)?;
    out.resize(&from.sizes)?;
    if cfg!(feature = "std") {
        copy_from_view(out, input, from)
    } else {
        // The faster copy is several kilobytes of code.
        copy_permuted(out, input, &from.strides, from.offset)
    }
}

/// Copies argument 0 to argument `index`, which must have the same dtype.
pub(crate) fn clone_arg(args: &mut Args<'_>, index: u8) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(usize::from(index))?;
    check_dtype(out.dtype(), input.dtype(), index)?;
    out.resize(input.sizes())?;
    if cfg!(feature = "std") {
        copy_tensor(&mut out, &input)
    } else if input.dim_order() == out.dim_order() {
        out.bytes_mut()?.copy_from_slice(input.bytes());
        Ok(())
    } else {
        // The faster copy is several kilobytes of code.
        copy_permuted(&mut out, &input, &input.strides(), 0)
    }
}

/// Copies argument 0 to argument `out` with a cast.
pub(crate) fn cast_arg(args: &mut Args<'_>, out: usize) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut out = args.out(out)?;
    out.resize(input.sizes())?;
    copy_tensor(&mut out, &input)
}

/// Splits `input` along `dim` into the tensors of list argument `index`. `len` gives the size of
/// each in `dim`.
pub(crate) fn split_arg(
    args: &mut Args<'_>,
    index: u8,
    input: &TensorView<'_>,
    dim: usize,
    len: impl Fn(usize) -> usize,
) -> Result<(), Error> {
    let mut view = StridedView::of(input);
    let list = usize::from(index);
    let count = args.out_list_len(list)?;
    for item in 0..count {
        view.sizes[dim] = len(item);
        args.out_list(list, item)?.resize(&view.sizes)?;
    }
    for item in 0..count {
        view.sizes[dim] = len(item);
        let mut out = args.out_list(list, item)?;
        check_dtype(out.dtype(), input.dtype(), index)?;
        copy_from_view(&mut out, input, &view)?;
        view.slice(dim, len(item), len(item), 1);
    }
    Ok(())
}

/// Copies `input` to `out` with a cast. Both have the same sizes.
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

/// Copies the view `from` of `input` to `out` with a cast. Both have the same sizes.
pub(crate) fn copy_from_view(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    from: &StridedView,
) -> Result<(), Error> {
    if out.dtype() == input.dtype() && out.is_contiguous() && dims_equal(out.sizes(), &from.sizes) {
        let bytes =
            from.contiguous_bytes(input.dtype().size()).and_then(|bytes| input.bytes().get(bytes));
        if let Some(bytes) = bytes {
            out.bytes_mut()?.copy_from_slice(bytes);
            return Ok(());
        }
    }
    let to = StridedView::of_out(out);
    copy_view(out, &to, input, from)
}

/// Copies the elements of `input` to `out` in row-major order. The sizes may differ, the number of
/// elements may not.
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
        // A contiguous tensor is a view of any sizes.
        to = StridedView { sizes: from.sizes, strides: contiguous_strides(&from.sizes), offset: 0 };
    } else if input.is_contiguous() {
        from = StridedView { sizes: to.sizes, strides: contiguous_strides(&to.sizes), offset: 0 };
    } else if to.sizes != from.sizes {
        return reshape_copy_elementwise(out, input);
    }
    copy_view(out, &to, input, &from)
}

/// Like [`reshape_copy`], if neither tensor is contiguous.
fn reshape_copy_elementwise(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
) -> Result<(), Error> {
    let (to, from) = (StridedView::of_out(out), StridedView::of(input));
    let size = input.dtype().size();
    let (dst, src) = (out.bytes_mut()?, input.bytes());
    for index in 0..input.numel() {
        let (to, from) = (offset_of(&to, index) * size, offset_of(&from, index) * size);
        let element = src.get(from..from + size).ok_or(OUT_OF_BOUNDS)?;
        dst.get_mut(to..to + size).ok_or(OUT_OF_BOUNDS)?.copy_from_slice(element);
    }
    Ok(())
}

/// Offset of element `index`, in row-major order, of `view`.
pub(crate) fn offset_of(view: &StridedView, mut index: usize) -> usize {
    let mut offset = view.offset;
    for (&size, &stride) in view.sizes.iter().zip(view.strides.iter()).rev() {
        offset = offset.wrapping_add((index % size.max(1)).wrapping_mul(stride));
        index /= size.max(1);
    }
    offset
}

/// Strides of a contiguous tensor of `sizes`.
pub(crate) fn contiguous_strides(sizes: &[usize]) -> Dims {
    let mut strides = dims(sizes);
    let mut step = 1_usize;
    for (stride, &size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step = step.wrapping_mul(size.max(1));
    }
    strides
}

/// Calls `f` for each index of `sizes` in row-major order, with its offsets in `N` views of those
/// sizes, which are given by their offsets and strides.
pub(crate) fn for_each_position<const N: usize>(
    sizes: &[usize],
    offsets: [usize; N],
    strides: [&[usize]; N],
    mut f: impl FnMut([usize; N]) -> Result<(), Error>,
) -> Result<(), Error> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let (&last, outer) = sizes.split_last().unwrap_or((&1, &[]));
    let stride = |view: usize, dim: usize| strides[view].get(dim).copied().unwrap_or(0);
    let inner: [usize; N] = core::array::from_fn(|view| stride(view, outer.len()));
    let mut index = Dims::filled(outer.len(), 0);
    let mut start = offsets;
    loop {
        let mut at = start;
        for _ in 0..last {
            f(at)?;
            for view in 0..N {
                at[view] = at[view].wrapping_add(inner[view]);
            }
        }
        let mut dim = outer.len();
        loop {
            let Some(next) = dim.checked_sub(1) else { return Ok(()) };
            dim = next;
            index[dim] += 1;
            let ends = index[dim] == outer[dim];
            let steps = if ends { (outer[dim] - 1).wrapping_neg() } else { 1 };
            for (view, start) in start.iter_mut().enumerate() {
                *start = start.wrapping_add(stride(view, dim).wrapping_mul(steps));
            }
            if !ends {
                break;
            }
            index[dim] = 0;
        }
    }
}
