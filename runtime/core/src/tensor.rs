//! Owned tensor.

use alloc::{boxed::Box, vec, vec::Vec};

use bytemuck::allocation::try_zeroed_slice_box;

use crate::{
    CONTIGUOUS_DIM_ORDER, Element, Error, ScalarType, TensorView, numel,
    shape::{MAX_DIMS, is_dim_order},
};

/// Heap memory aligned to 64 bytes, the width of the widest vector registers.
#[derive(Default)]
pub struct AlignedBytes {
    /// Allocation with slack; the aligned bytes begin at byte `start`. The default alignment lets
    /// the allocator use zeroed pages of the system. With a greater alignment it writes the zeros.
    words: Box<[u64]>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    const ALIGNMENT: usize = 64;

    /// Allocates `len` zero bytes.
    ///
    /// # Panics
    /// If the allocation fails.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).expect("the allocator has enough memory")
    }

    /// Allocates `len` zero bytes; `None` if the allocation fails.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self::default());
        }
        let count = len.div_ceil(8).checked_add(Self::ALIGNMENT / 8)?;
        let words = try_zeroed_slice_box::<u64>(count).ok()?;
        let start = words.as_ptr().addr().wrapping_neg() % Self::ALIGNMENT;
        Some(Self { words, start, len })
    }

    /// Changes the length; new bytes are zero. `None` if the allocation fails; then nothing
    /// changes.
    pub fn try_resize(&mut self, len: usize) -> Option<()> {
        let kept = self.len.min(len);
        if self.start.checked_add(len)? <= self.words.len() * 8 {
            self.len = len;
            self.as_mut_slice()[kept..].fill(0);
        } else {
            let mut bytes = Self::try_zeroed(len)?;
            bytes.as_mut_slice()[..kept].copy_from_slice(&self.as_slice()[..kept]);
            *self = bytes;
        }
        Some(())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[self.start..][..self.len]
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.start..][..self.len]
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        Self::from(self.as_slice())
    }
}

impl core::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AlignedBytes({})", self.len)
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }
}

/// Dense tensor that owns its elements.
#[derive(Clone)]
pub struct Tensor {
    dtype: ScalarType,
    sizes: Vec<usize>,
    dim_order: Vec<u8>,
    bytes: AlignedBytes,
}

impl Tensor {
    /// Row-major tensor of zeros.
    ///
    /// # Panics
    /// If the allocation fails. Use [`Tensor::try_zeros`] for untrusted sizes.
    pub fn zeros(dtype: ScalarType, sizes: &[usize]) -> Self {
        Self::try_zeros(dtype, sizes).expect("the allocator has enough memory for these sizes")
    }

    /// Row-major tensor of zeros.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the rank is too high or the number of bytes overflows,
    /// [`Error::OutOfResources`] if the allocation fails.
    pub fn try_zeros(dtype: ScalarType, sizes: &[usize]) -> Result<Self, Error> {
        let len = byte_len(dtype, sizes)?;
        let bytes = AlignedBytes::try_zeroed(len).ok_or(Error::OutOfResources { bytes: len })?;
        let dim_order = CONTIGUOUS_DIM_ORDER[..sizes.len()].to_vec();
        Ok(Self { dtype, sizes: sizes.to_vec(), dim_order, bytes })
    }

    /// Row-major tensor with a copy of `data`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the number of elements differs from the product of `sizes`.
    pub fn new<T: Element>(sizes: &[usize], data: &[T]) -> Result<Self, Error> {
        TensorView::new(sizes, data).map(Self::from)
    }

    /// One-dimensional tensor with a copy of `data`.
    pub fn from_slice<T: Element>(data: &[T]) -> Self {
        Self {
            dtype: T::DTYPE,
            sizes: vec![data.len()],
            dim_order: vec![0],
            bytes: bytemuck::cast_slice(data).into(),
        }
    }

    /// Tensor laid out in `dim_order`, with a copy of `bytes`. They may have any alignment.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the parts do not describe a tensor.
    pub fn from_bytes(
        dtype: ScalarType,
        sizes: &[usize],
        dim_order: &[u8],
        bytes: &[u8],
    ) -> Result<Self, Error> {
        let bytes = AlignedBytes::from(bytes);
        TensorView::with_dim_order(dtype, sizes, dim_order, bytes.as_slice())?;
        Ok(Self { dtype, sizes: sizes.to_vec(), dim_order: dim_order.to_vec(), bytes })
    }

    /// Borrows the tensor for reading.
    pub fn view(&self) -> TensorView<'_> {
        TensorView::from_checked(self.dtype, &self.sizes, &self.dim_order, self.bytes.as_slice())
    }

    /// Dtype of the elements.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Dimensions in memory order, outermost first.
    pub fn dim_order(&self) -> &[u8] {
        &self.dim_order
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.view().numel()
    }

    /// Resizes the tensor. The dim order stays if the rank does, else it becomes row-major. The
    /// elements are unspecified afterwards. Memory is reused if it suffices.
    ///
    /// # Errors
    /// As [`Tensor::try_zeros`]; the tensor is unchanged then.
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), Error> {
        let len = byte_len(self.dtype, sizes)?;
        self.bytes.try_resize(len).ok_or(Error::OutOfResources { bytes: len })?;
        if sizes.len() != self.sizes.len() {
            self.dim_order.clear();
            self.dim_order.extend_from_slice(&CONTIGUOUS_DIM_ORDER[..sizes.len()]);
        }
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        Ok(())
    }

    /// Reinterprets the elements as laid out in `dim_order`; none is moved.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if `dim_order` is not a permutation of the dimensions.
    pub fn set_dim_order(&mut self, dim_order: &[u8]) -> Result<(), Error> {
        if !is_dim_order(dim_order, self.sizes.len()) {
            let reason = "the dim order is not a permutation of the dimensions";
            return Err(Error::InvalidTensor { reason });
        }
        self.dim_order.clear();
        self.dim_order.extend_from_slice(dim_order);
        Ok(())
    }

    /// Elements in memory order, as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }

    /// Elements in memory order.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if `T` is not the element type of the tensor.
    pub fn data<T: Element>(&self) -> Result<&[T], Error> {
        self.view().data()
    }

    /// Elements in memory order.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if `T` is not the element type of the tensor.
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        if T::DTYPE != self.dtype {
            return Err(Error::DtypeMismatch { expected: T::DTYPE, found: self.dtype });
        }
        let cast = bytemuck::try_cast_slice_mut(self.bytes.as_mut_slice());
        cast.map_err(|_| Error::Internal { reason: "the bytes of a tensor are aligned" })
    }
}

/// Size in bytes of a tensor of `sizes`.
fn byte_len(dtype: ScalarType, sizes: &[usize]) -> Result<usize, Error> {
    let bytes = numel(sizes).and_then(|n| n.checked_mul(dtype.size()));
    let bytes = bytes.filter(|&n| isize::try_from(n).is_ok() && sizes.len() <= MAX_DIMS);
    bytes.ok_or(Error::InvalidTensor { reason: "the number of bytes overflows" })
}

impl From<TensorView<'_>> for Tensor {
    fn from(view: TensorView<'_>) -> Self {
        Self {
            dtype: view.dtype(),
            sizes: view.sizes().to_vec(),
            dim_order: view.dim_order().to_vec(),
            bytes: view.bytes().into(),
        }
    }
}

impl core::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Tensor({}, {:?})", self.dtype, self.sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_resize_changes_nothing() {
        const HUGE: usize = (1 << 31) - 1;
        let overflows = Error::InvalidTensor { reason: "the number of bytes overflows" };
        let missing = Error::OutOfResources { bytes: HUGE << 30 };
        let mut tensor = Tensor::new(&[2], &[1.0_f32, 2.0]).unwrap();
        for (sizes, expected) in [
            (&[HUGE, 1 << 28][..], missing),
            (&[HUGE, HUGE, HUGE], overflows),
            (&[1; MAX_DIMS + 1], overflows),
        ] {
            let found = Tensor::try_zeros(ScalarType::Float, sizes).map(|_| ());
            assert_eq!(found, Err(expected), "{sizes:?}");
            assert_eq!(tensor.resize(sizes), Err(expected), "{sizes:?}");
            assert_eq!(tensor.sizes(), [2]);
            assert_eq!(tensor.data::<f32>(), Ok(&[1.0, 2.0][..]));
        }
        assert!(AlignedBytes::zeroed(8).try_resize(usize::MAX).is_none());
    }
}
