//! Borrowed tensor: the input of a kernel.

use crate::{
    CONTIGUOUS_DIM_ORDER, Dims, Element, Error, ScalarType, numel,
    shape::{MAX_DIMS, is_dim_order},
};

/// Borrowed tensor: dtype, sizes, dim order and bytes.
///
/// The elements are dense: laid out in `dim_order`, from the outermost dimension to the innermost,
/// without gaps. The bytes are aligned to the dtype, and their number follows from the sizes.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    dtype: ScalarType,
    sizes: &'a [usize],
    dim_order: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Row-major tensor over `data`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the number of elements differs from the product of `sizes`.
    pub fn new<T: Element>(sizes: &'a [usize], data: &'a [T]) -> Result<Self, Error> {
        Self::from_bytes(T::DTYPE, sizes, bytemuck::cast_slice(data))
    }

    /// Row-major tensor of `dtype` over `bytes`.
    ///
    /// # Errors
    /// As [`TensorView::with_dim_order`].
    pub fn from_bytes(
        dtype: ScalarType,
        sizes: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        let order = CONTIGUOUS_DIM_ORDER.get(..sizes.len());
        let order = order.ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
        Self::with_dim_order(dtype, sizes, order, bytes)
    }

    /// Tensor of `dtype`, laid out in `dim_order`, over `bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the rank exceeds [`MAX_DIMS`], `dim_order` is not a permutation,
    /// or the length or alignment of `bytes` is wrong.
    pub fn with_dim_order(
        dtype: ScalarType,
        sizes: &'a [usize],
        dim_order: &'a [u8],
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        check_parts(dtype, sizes, dim_order, bytes.len())?;
        if !bytes.as_ptr().addr().is_multiple_of(alignment(dtype)) {
            let reason = "the bytes are not aligned to the dtype";
            return Err(Error::InvalidTensor { reason });
        }
        Ok(Self { dtype, sizes, dim_order, bytes })
    }

    /// As [`TensorView::with_dim_order`], without checks: loading a method has checked the parts.
    #[inline]
    pub(crate) fn from_checked(
        dtype: ScalarType,
        sizes: &'a [usize],
        dim_order: &'a [u8],
        bytes: &'a [u8],
    ) -> Self {
        Self { dtype, sizes, dim_order, bytes }
    }

    /// Dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Size of each dimension.
    #[inline]
    pub fn sizes(&self) -> &'a [usize] {
        self.sizes
    }

    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Dimensions in memory order, outermost first.
    #[inline]
    pub fn dim_order(&self) -> &'a [u8] {
        self.dim_order
    }

    /// Stride of each dimension, in elements.
    #[inline]
    pub fn strides(&self) -> Dims {
        Dims::strides(self.sizes, self.dim_order)
    }

    /// Returns true if the elements are in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        // That of slices has a path that panics.
        self.dim_order.iter().is_sorted()
    }

    /// Elements in memory order, as bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Elements in memory order.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if `T` is not the element type of the tensor.
    #[inline]
    pub fn data<T: Element>(&self) -> Result<&'a [T], Error> {
        if T::DTYPE != self.dtype {
            return Err(Error::DtypeMismatch { expected: T::DTYPE, found: self.dtype });
        }
        let cast = bytemuck::try_cast_slice(self.bytes);
        cast.map_err(|_| Error::Internal { reason: "the bytes of a tensor are aligned" })
    }
}

/// Checks that `len` bytes hold a dense tensor of `sizes`, laid out in `dim_order`.
#[inline]
pub(crate) fn check_parts(
    dtype: ScalarType,
    sizes: &[usize],
    dim_order: &[u8],
    len: usize,
) -> Result<(), Error> {
    let invalid = |reason| Err(Error::InvalidTensor { reason });
    if sizes.len() > MAX_DIMS || !is_dim_order(dim_order, sizes.len()) {
        return invalid("the dim order is not a permutation of the dimensions");
    }
    let needed = numel(sizes).and_then(|n| n.checked_mul(dtype.size()));
    if needed != Some(len) {
        return invalid("the sizes do not match the number of bytes");
    }
    Ok(())
}

/// Alignment of elements of `dtype`, in bytes.
pub(crate) fn alignment(dtype: ScalarType) -> usize {
    dtype.size().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_parts_are_rejected() {
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
    fn data_requires_the_element_type() {
        let data = [1.0_f32, 2.0];
        let view = TensorView::new(&[2], &data).unwrap();
        assert_eq!(view.data::<f32>(), Ok(&data[..]));
        let error = Error::DtypeMismatch { expected: ScalarType::Int, found: ScalarType::Float };
        assert_eq!(view.data::<i32>(), Err(error));
    }
}
