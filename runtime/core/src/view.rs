//! A borrowed tensor, as a kernel reads it.

use crate::{
    CONTIGUOUS, Dims, Element, Error, ScalarType, numel,
    shape::{MAX_DIMS, is_dim_order},
};

/// A tensor that somebody else owns: dtype, sizes, dim order and bytes.
///
/// The elements are dense: laid out in `dim_order`, from the outermost dimension to the innermost,
/// without gaps. The bytes are aligned to the dtype and exactly as many as the sizes say.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    dtype: ScalarType,
    sizes: &'a [usize],
    dim_order: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// A row-major tensor over `data`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when `data` does not hold the number of elements that `sizes` say.
    pub fn new<T: Element>(sizes: &'a [usize], data: &'a [T]) -> Result<Self, Error> {
        Self::from_bytes(T::DTYPE, sizes, bytemuck::cast_slice(data))
    }

    /// A row-major tensor of `dtype` over `bytes`.
    ///
    /// # Errors
    /// As [`TensorView::with_dim_order`].
    pub fn from_bytes(
        dtype: ScalarType,
        sizes: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        let order = CONTIGUOUS.get(..sizes.len());
        let order = order.ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
        Self::with_dim_order(dtype, sizes, order, bytes)
    }

    /// A tensor of `dtype`, laid out in `dim_order`, over `bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when the rank exceeds [`MAX_DIMS`], when `dim_order` is not a
    /// permutation, or when `bytes` has another length or a lesser alignment than needed.
    pub fn with_dim_order(
        dtype: ScalarType,
        sizes: &'a [usize],
        dim_order: &'a [u8],
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        let invalid = |reason| Err(Error::InvalidTensor { reason });
        if sizes.len() > MAX_DIMS || !is_dim_order(dim_order, sizes.len()) {
            return invalid("the dim order is not a permutation of the dimensions");
        }
        let needed = numel(sizes).and_then(|n| n.checked_mul(dtype.size()));
        if needed != Some(bytes.len()) {
            return invalid("the sizes do not match the number of bytes");
        }
        if !bytes.as_ptr().addr().is_multiple_of(alignment(dtype)) {
            return invalid("the bytes are not aligned to the dtype");
        }
        Ok(Self { dtype, sizes, dim_order, bytes })
    }

    /// As [`TensorView::with_dim_order`], for parts that were checked when a method was loaded.
    pub(crate) fn from_checked(
        dtype: ScalarType,
        sizes: &'a [usize],
        dim_order: &'a [u8],
        bytes: &'a [u8],
    ) -> Self {
        Self { dtype, sizes, dim_order, bytes }
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Extent of each dimension.
    pub fn sizes(&self) -> &'a [usize] {
        self.sizes
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// The dimensions from the outermost in memory to the innermost.
    pub fn dim_order(&self) -> &'a [u8] {
        self.dim_order
    }

    /// Elements between neighbours along each dimension.
    pub fn strides(&self) -> Dims {
        Dims::strides(self.sizes, self.dim_order)
    }

    /// Whether the elements lie in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.dim_order.is_sorted()
    }

    /// The elements in the order of memory, as bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements in the order of memory.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] when `T` is not what the tensor holds.
    pub fn data<T: Element>(&self) -> Result<&'a [T], Error> {
        if T::DTYPE != self.dtype {
            return Err(Error::DtypeMismatch { wanted: T::DTYPE, found: self.dtype });
        }
        let cast = bytemuck::try_cast_slice(self.bytes);
        cast.map_err(|_| Error::Internal { reason: "a tensor's bytes are aligned" })
    }
}

/// Alignment that elements of `dtype` need.
pub(crate) fn alignment(dtype: ScalarType) -> usize {
    dtype.size().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let data = [0.0_f32; 6];
        assert!(TensorView::new(&[2, 3], &data).is_ok());
        assert!(TensorView::new(&[2, 4], &data).is_err());
        assert!(TensorView::new(&[usize::MAX, 2], &data).is_err());
        let bytes: &[u8] = bytemuck::cast_slice(&data);
        let view = |order, bytes| {
            TensorView::with_dim_order(ScalarType::Float, &[2, 3], order, bytes).is_ok()
        };
        assert!(view(&[1, 0], bytes));
        assert!(!view(&[1, 1], bytes));
        assert!(!view(&[0], bytes));
        assert!(TensorView::from_bytes(ScalarType::Float, &[1], &bytes[1..5]).is_err());
    }

    #[test]
    fn elements_come_out_only_as_what_they_are() {
        let data = [1.0_f32, 2.0];
        let view = TensorView::new(&[2], &data).unwrap();
        assert_eq!(view.data::<f32>(), Ok(&data[..]));
        let error = Error::DtypeMismatch { wanted: ScalarType::Int, found: ScalarType::Float };
        assert_eq!(view.data::<i32>(), Err(error));
    }
}
