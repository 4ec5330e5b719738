//! Index tensors: reads of indices, indexing along a dimension, and advanced indexing.

use afferent_core::{Dims, Error, ScalarType, TensorList, TensorView, broadcast_shapes, numel};

use crate::shared::{
    dim_args,
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, contiguous_strides, for_each_position},
};

/// Elements of an `i32` or `i64` index tensor.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// Borrows the elements of `tensor`, argument `index`.
    ///
    /// # Errors
    /// [`Error::InvalidType`] unless the dtype is `i32` or `i64`.
    pub(crate) fn new(tensor: &TensorView<'a>, index: u8) -> Result<Self, Error> {
        match tensor.dtype() {
            ScalarType::Int => tensor.data().map(Self::I32),
            ScalarType::Long => tensor.data().map(Self::I64),
            found => Err(Error::InvalidType { index, found }),
        }
    }

    /// Index at `offset`.
    pub(crate) fn get(self, offset: usize) -> Option<i64> {
        match self {
            Self::I32(items) => items.get(offset).map(|&item| i64::from(item)),
            Self::I64(items) => items.get(offset).copied(),
        }
    }

    /// Index at `offset`; `None` unless it is in `0..size`.
    pub(crate) fn get_in_range(self, offset: usize, size: usize) -> Option<usize> {
        usize::try_from(self.get(offset)?).ok().filter(|&index| index < size)
    }
}

/// Index tensor of `gather` or `scatter`, and the dimension that it indexes.
#[derive(Clone, Copy)]
pub(crate) struct IndexedDim<'a> {
    pub(crate) index: TensorView<'a>,
    /// Argument number of `index`.
    pub(crate) arg: u8,
    pub(crate) dim: usize,
    /// Argument number of the tensor with one element per index.
    pub(crate) values_arg: u8,
}

/// Calls `f` for each element of the index tensor with two offsets: of the same position in
/// `values`, and of that position in `indexed` with the index in place of dimension `dim`.
///
/// # Errors
/// [`Error::InvalidArgument`] if a view has another rank or smaller sizes than the index tensor, or
/// an index is out of range.
pub(crate) fn for_each_index(
    indexed_dim: IndexedDim<'_>,
    values: &StridedView,
    indexed: &StridedView,
    mut f: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let IndexedDim { index, arg, dim, values_arg } = indexed_dim;
    let wrong = |expected| Error::InvalidArgument { index: arg, expected };
    if index.numel() == 0 {
        return Ok(());
    }
    let at = |sizes: &[usize], dim: usize| sizes.get(dim).copied().unwrap_or(1);
    // A 0-d tensor counts as 1-d.
    let rank = index.rank().max(1);
    if indexed.sizes.len().max(1) != rank {
        return Err(wrong("an index with the rank of the indexed tensor"));
    }
    let mut sizes = index.sizes().iter().enumerate();
    if sizes.clone().any(|(d, &size)| d != dim && size > at(&indexed.sizes, d)) {
        return Err(wrong("an index no larger than the indexed tensor"));
    }
    let is_smaller = sizes.any(|(d, &size)| size > at(&values.sizes, d));
    if is_smaller || values.sizes.len().max(1) != rank {
        let expected = "an element for each index";
        return Err(Error::InvalidArgument { index: values_arg, expected });
    }
    let (size, stride) = (at(&indexed.sizes, dim), at(&indexed.strides, dim));
    let mut others = indexed.strides;
    if let Some(step) = others.get_mut(dim) {
        *step = 0;
    }
    let indices = Indices::new(&index, arg)?;
    let offsets = [0, values.offset, indexed.offset];
    let strides = [&*index.strides(), &*values.strides, &*others];
    for_each_position(index.sizes(), offsets, strides, |[at, values, indexed]| {
        let index = indices.get_in_range(at, size).ok_or(wrong("indices in range"))?;
        f(values, indexed.wrapping_add(index.wrapping_mul(stride)))
    })
}

/// Advanced indexing with a list of optional index tensors, as in `tensor[a, :, b]`.
///
/// An integer tensor indexes one dimension; a mask indexes as many dimensions as it has. Their
/// broadcast shape replaces the indexed dimensions: in place of the first one if they are adjacent,
/// otherwise in front.
pub(crate) struct AdvancedIndex {
    /// Broadcast shape of the index tensors.
    pub(crate) index_sizes: Dims,
    /// First dimension of `index_sizes` in the result.
    first: usize,
    /// View of the dimensions that are not indexed.
    pub(crate) rest: StridedView,
    /// Sizes of the result.
    pub(crate) sizes: Dims,
}

/// Argument number of the list of index tensors.
const LIST: u8 = 1;

fn wrong(expected: &'static str) -> Error {
    Error::InvalidArgument { index: LIST, expected }
}

/// Returns an error for `mask`, argument `index`, unless its dtype is `bool` or `u8`.
pub(crate) fn check_mask(mask: &TensorView<'_>, index: u8) -> Result<(), Error> {
    if is_mask(mask) { Ok(()) } else { Err(Error::InvalidType { index, found: mask.dtype() }) }
}

fn is_mask(index: &TensorView<'_>) -> bool {
    matches!(index.dtype(), ScalarType::Bool | ScalarType::Byte)
}

/// Number of true elements of a mask.
fn count_true(mask: &TensorView<'_>) -> usize {
    mask.bytes().iter().filter(|&&byte| byte != 0).count()
}

impl AdvancedIndex {
    /// Indexes `tensor` with `list`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if their shapes do not match.
    pub(crate) fn new(list: TensorList<'_>, tensor: &StridedView) -> Result<Self, Error> {
        let mut index_sizes = Dims::filled(0, 0);
        let mut rest = StridedView { sizes: index_sizes, strides: index_sizes, offset: 0 };
        let (mut first, mut last, mut indexed) = (None, 0, 0);
        let mut dim = 0;
        for item in 0..list.len() {
            let Some(index) = list.opt(item)? else {
                Self::push_unindexed(&mut rest, tensor, dim)?;
                dim += 1;
                continue;
            };
            let rank = if is_mask(&index) { index.rank() } else { 1 };
            let selected = [if is_mask(&index) { count_true(&index) } else { 0 }];
            let shape = if is_mask(&index) { &selected } else { index.sizes() };
            let covered = tensor.sizes.get(dim..dim.saturating_add(rank));
            let covered = covered.ok_or(wrong("no more indices than dimensions"))?;
            if is_mask(&index) && covered != index.sizes() {
                return Err(wrong("masks with the sizes of the dimensions that they index"));
            }
            let merged = broadcast_shapes(&index_sizes, shape);
            index_sizes = merged.ok_or(wrong("indices that broadcast"))?;
            first = first.or(Some(dim));
            dim += rank;
            last = dim;
            indexed += rank;
        }
        for dim in dim..tensor.sizes.len() {
            Self::push_unindexed(&mut rest, tensor, dim)?;
        }
        let first = first.filter(|first| last - first == indexed).unwrap_or(0);
        let mut sizes = rest.sizes;
        for (at, &size) in index_sizes.iter().enumerate() {
            sizes.insert(first + at, size)?;
        }
        Ok(Self { index_sizes, first, rest, sizes })
    }

    /// Adds dimension `dim` of `tensor` to the dimensions that are not indexed.
    fn push_unindexed(
        rest: &mut StridedView,
        tensor: &StridedView,
        dim: usize,
    ) -> Result<(), Error> {
        let too_many = wrong("no more indices than dimensions");
        rest.sizes.push(*tensor.sizes.get(dim).ok_or(too_many)?)?;
        rest.strides.push(*tensor.strides.get(dim).ok_or(too_many)?)
    }

    /// Number of elements of the broadcast index.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] on overflow.
    pub(crate) fn count(&self) -> Result<usize, Error> {
        numel(&self.index_sizes).ok_or(wrong("indices with a smaller broadcast shape"))
    }

    /// Writes the offset in `tensor` of each element of the broadcast index to `offsets`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if an index is out of range.
    pub(crate) fn write_offsets(
        &self,
        list: TensorList<'_>,
        tensor: &StridedView,
        offsets: &mut [usize],
    ) -> Result<(), Error> {
        offsets.fill(tensor.offset);
        let mut dim = 0;
        for item in 0..list.len() {
            let Some(index) = list.opt(item)? else {
                dim += 1;
                continue;
            };
            if is_mask(&index) {
                self.add_mask_offsets(&index, &tensor.strides[dim..dim + index.rank()], offsets)?;
                dim += index.rank();
                continue;
            }
            let (size, stride) = (tensor.sizes[dim], tensor.strides[dim]);
            let mut view = StridedView::of(&index);
            view.expand(&self.index_sizes, LIST)?;
            let indices = Indices::new(&index, LIST)?;
            let strides = [&*contiguous_strides(&self.index_sizes), &*view.strides];
            let add = |offset: &mut usize, at: usize| {
                let index = indices.get(at).and_then(|index| dim_args::wrap_index(index, size));
                let index = index.ok_or(wrong("indices in range"))?;
                *offset = offset.wrapping_add(index.wrapping_mul(stride));
                Ok(())
            };
            if strides[0] == strides[1] {
                for (at, offset) in offsets.iter_mut().enumerate() {
                    add(offset, at)?;
                }
            } else {
                for_each_position(&self.index_sizes, [0, 0], strides, |[nth, at]| {
                    add(offsets.get_mut(nth).ok_or(OUT_OF_BOUNDS)?, at)
                })?;
            }
            dim += 1;
        }
        Ok(())
    }

    /// Adds the offsets of the true elements of `mask`, an index of dimensions with `strides`.
    fn add_mask_offsets(
        &self,
        mask: &TensorView<'_>,
        strides: &[usize],
        offsets: &mut [usize],
    ) -> Result<(), Error> {
        let (count, bytes) = (count_true(mask), mask.bytes());
        let step =
            if count == 1 { 1 } else { self.index_sizes.last().copied().unwrap_or(1).max(1) };
        let mut nth = 0;
        for_each_position(mask.sizes(), [0, 0], [&mask.strides(), strides], |[at, mask_offset]| {
            if bytes.get(at).is_some_and(|&byte| byte != 0) {
                for offset in offsets.iter_mut().skip(nth).step_by(step) {
                    *offset = offset.wrapping_add(mask_offset);
                }
                // A mask with one true element broadcasts: its offset applies to all elements.
                nth += 1;
            }
            Ok(())
        })
    }

    /// Splits the strides of a result: those of the dimensions that are not indexed, and those of
    /// the broadcast index.
    pub(crate) fn split_strides(&self, strides: &Dims) -> Result<(Dims, Dims), Error> {
        let mut kept = *strides;
        let mut index_strides = self.index_sizes;
        for stride in index_strides.iter_mut() {
            *stride = *kept.get(self.first).ok_or(OUT_OF_BOUNDS)?;
            kept.remove(self.first);
        }
        Ok((kept, index_strides))
    }
}
