//! Tensors of indices: reading them, and finding what they select.

use afferent_core::{Dims, Error, ScalarType, TensorList, TensorView, broadcast_shapes, numel};

use crate::shared::{
    dim_args,
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, contiguous_strides, for_each_position},
};

/// Indices of either width.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// The elements of the argument `index`.
    ///
    /// # Errors
    /// [`Error::InvalidType`] when they are not 32-bit or 64-bit integers.
    pub(crate) fn of(tensor: &TensorView<'a>, index: u8) -> Result<Self, Error> {
        match tensor.dtype() {
            ScalarType::Int => tensor.data().map(Self::I32),
            ScalarType::Long => tensor.data().map(Self::I64),
            found => Err(Error::InvalidType { index, found }),
        }
    }

    /// The index at `at` in the order of memory.
    pub(crate) fn get(self, at: usize) -> Option<i64> {
        match self {
            Self::I32(items) => items.get(at).map(|&item| i64::from(item)),
            Self::I64(items) => items.get(at).copied(),
        }
    }

    /// The index at `at`, not negative and less than `size`.
    pub(crate) fn below(self, at: usize, size: usize) -> Option<usize> {
        usize::try_from(self.get(at)?).ok().filter(|&index| index < size)
    }
}

/// The argument that holds indices, and the dimension that they index.
#[derive(Clone, Copy)]
pub(crate) struct IndexedDim<'a> {
    pub(crate) index: TensorView<'a>,
    /// Number of the argument.
    pub(crate) arg: u8,
    pub(crate) dim: usize,
    /// Number of the argument beside.
    pub(crate) beside_arg: u8,
}

/// Calls `each` for every index: with the place of the same position in `beside`, and the place
/// in `indexed` of that position with the index put in for dimension `dim`.
///
/// # Errors
/// [`Error::InvalidArgument`] when either part has other dimensions or fewer positions than the
/// indices, or one lies outside the dimension.
pub(crate) fn for_each_index(
    along: IndexedDim<'_>,
    beside: &StridedView,
    indexed: &StridedView,
    mut each: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let IndexedDim { index, arg, dim, beside_arg } = along;
    let wrong = |expected| Error::InvalidArgument { index: arg, expected };
    if index.numel() == 0 {
        return Ok(());
    }
    let at = |sizes: &[usize], dim: usize| sizes.get(dim).copied().unwrap_or(1);
    // A tensor without dimensions counts as one of one element.
    let rank = index.rank().max(1);
    if indexed.sizes.len().max(1) != rank {
        return Err(wrong("as many dimensions as the indexed tensor"));
    }
    let mut sizes = index.sizes().iter().enumerate();
    if sizes.clone().any(|(d, &size)| d != dim && size > at(&indexed.sizes, d)) {
        return Err(wrong("indices for no more positions than there are"));
    }
    let few = sizes.any(|(d, &size)| size > at(&beside.sizes, d));
    if few || beside.sizes.len().max(1) != rank {
        let expected = "an element for each index";
        return Err(Error::InvalidArgument { index: beside_arg, expected });
    }
    let (size, stride) = (at(&indexed.sizes, dim), at(&indexed.strides, dim));
    let mut others = indexed.strides;
    if let Some(step) = others.get_mut(dim) {
        *step = 0;
    }
    let indices = Indices::of(&index, arg)?;
    let offsets = [0, beside.offset, indexed.offset];
    let strides = [&*index.strides(), &*beside.strides, &*others];
    for_each_position(index.sizes(), offsets, strides, |[at, beside, indexed]| {
        let index = indices.below(at, size).ok_or(wrong("indices inside the dimension"))?;
        each(beside, indexed.wrapping_add(index.wrapping_mul(stride)))
    })
}

/// What a list of index tensors selects from a tensor, as in `tensor[a, :, b]`.
///
/// Each tensor of integers selects from one dimension; a mask selects from as many as it has.
/// Together they make the dimensions `picked`, which stand in the result where the first indexed
/// dimension was, or in front if the indexed dimensions are not neighbours.
pub(crate) struct AdvancedIndex {
    /// The shape to which the index tensors broadcast.
    pub(crate) picked: Dims,
    /// Dimension of the result where `picked` begins.
    first: usize,
    /// Sizes and strides of the dimensions that nothing indexes.
    pub(crate) rest: StridedView,
    /// Sizes of the result.
    pub(crate) sizes: Dims,
}

/// Number of the argument that holds the list of indices.
const LIST: u8 = 1;

fn wrong(expected: &'static str) -> Error {
    Error::InvalidArgument { index: LIST, expected }
}

/// Refuses a mask, the argument `index`, that is neither `bool` nor `u8`.
pub(crate) fn check_mask(mask: &TensorView<'_>, index: u8) -> Result<(), Error> {
    if is_mask(mask) { Ok(()) } else { Err(Error::InvalidType { index, found: mask.dtype() }) }
}

fn is_mask(index: &TensorView<'_>) -> bool {
    matches!(index.dtype(), ScalarType::Bool | ScalarType::Byte)
}

/// Number of elements of a mask that are true.
fn count(mask: &TensorView<'_>) -> usize {
    mask.bytes().iter().filter(|&&byte| byte != 0).count()
}

impl AdvancedIndex {
    /// What `list` selects from `tensor`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when they do not fit each other.
    pub(crate) fn new(list: TensorList<'_>, tensor: &StridedView) -> Result<Self, Error> {
        let mut picked = Dims::filled(0, 0);
        let mut rest = StridedView { sizes: picked, strides: picked, offset: 0 };
        let (mut first, mut last, mut indexed) = (None, 0, 0);
        let mut dim = 0;
        for item in 0..list.len() {
            let Some(index) = list.opt(item)? else {
                Self::keep(&mut rest, tensor, dim)?;
                dim += 1;
                continue;
            };
            let many = if is_mask(&index) { index.rank() } else { 1 };
            let selected = [if is_mask(&index) { count(&index) } else { 0 }];
            let shape = if is_mask(&index) { &selected } else { index.sizes() };
            let covered = tensor.sizes.get(dim..dim.saturating_add(many));
            let covered = covered.ok_or(wrong("no more indices than dimensions"))?;
            if is_mask(&index) && covered != index.sizes() {
                return Err(wrong("masks of the shape that they mask"));
            }
            let merged = broadcast_shapes(&picked, shape);
            picked = merged.ok_or(wrong("indices that broadcast"))?;
            first = first.or(Some(dim));
            dim += many;
            last = dim;
            indexed += many;
        }
        for dim in dim..tensor.sizes.len() {
            Self::keep(&mut rest, tensor, dim)?;
        }
        let first = first.filter(|first| last - first == indexed).unwrap_or(0);
        let mut sizes = rest.sizes;
        for (at, &size) in picked.iter().enumerate() {
            sizes.insert(first + at, size)?;
        }
        Ok(Self { picked, first, rest, sizes })
    }

    fn keep(rest: &mut StridedView, tensor: &StridedView, dim: usize) -> Result<(), Error> {
        let too_many = wrong("no more indices than dimensions");
        rest.sizes.push(*tensor.sizes.get(dim).ok_or(too_many)?)?;
        rest.strides.push(*tensor.strides.get(dim).ok_or(too_many)?)
    }

    /// Number of places that are picked.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when it overflows.
    pub(crate) fn count(&self) -> Result<usize, Error> {
        numel(&self.picked).ok_or(wrong("indices that broadcast to a shape that fits memory"))
    }

    /// Writes to `places` where in `tensor` each place that is picked lies.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when an index lies outside its dimension.
    pub(crate) fn locate(
        &self,
        list: TensorList<'_>,
        tensor: &StridedView,
        places: &mut [usize],
    ) -> Result<(), Error> {
        places.fill(tensor.offset);
        let mut dim = 0;
        for item in 0..list.len() {
            let Some(index) = list.opt(item)? else {
                dim += 1;
                continue;
            };
            if is_mask(&index) {
                self.locate_mask(&index, &tensor.strides[dim..dim + index.rank()], places)?;
                dim += index.rank();
                continue;
            }
            let (size, stride) = (tensor.sizes[dim], tensor.strides[dim]);
            let mut part = StridedView::of(&index);
            part.expand(&self.picked, LIST)?;
            let indices = Indices::of(&index, LIST)?;
            let strides = [&*contiguous_strides(&self.picked), &*part.strides];
            for_each_position(&self.picked, [0, 0], strides, |[place, at]| {
                let position = indices.get(at).and_then(|index| dim_args::wrap_index(index, size));
                let position = position.ok_or(wrong("indices inside the dimension"))?;
                let place = places.get_mut(place).ok_or(OUT_OF_BOUNDS)?;
                *place = place.wrapping_add(position.wrapping_mul(stride));
                Ok(())
            })?;
            dim += 1;
        }
        Ok(())
    }

    fn locate_mask(
        &self,
        mask: &TensorView<'_>,
        strides: &[usize],
        places: &mut [usize],
    ) -> Result<(), Error> {
        let (many, bytes) = (count(mask), mask.bytes());
        let step = if many == 1 { 1 } else { self.picked.last().copied().unwrap_or(1).max(1) };
        let mut nth = 0;
        for_each_position(mask.sizes(), [0, 0], [&mask.strides(), strides], |[at, offset]| {
            if bytes.get(at).is_some_and(|&byte| byte != 0) {
                for place in places.iter_mut().skip(nth).step_by(step) {
                    *place = place.wrapping_add(offset);
                }
                // A mask with one true element broadcasts: its offset is for every place.
                nth += 1;
            }
            Ok(())
        })
    }

    /// The strides of a result: of the dimensions that nothing indexes, and of those that are
    /// picked.
    pub(crate) fn split(&self, strides: &Dims) -> Result<(Dims, Dims), Error> {
        let mut kept = *strides;
        let mut picked = self.picked;
        for stride in picked.iter_mut() {
            *stride = *kept.get(self.first).ok_or(OUT_OF_BOUNDS)?;
            kept.remove(self.first);
        }
        Ok((kept, picked))
    }
}
