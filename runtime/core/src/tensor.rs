//! Owned tensor.

use alloc::{vec, vec::Vec};

use crate::{
    AlignedBytes, CONTIGUOUS_DIM_ORDER, Element, Error, ForeignBytes, ScalarType, TensorView,
    numel,
    shape::{MAX_DIMS, is_dim_order, is_row_major},
    view::check_parts,
};

/// Dense tensor that owns its elements, or borrows them from [foreign memory](ForeignBytes).
///
/// Foreign memory is copied before the first change; until then a clone holds the same memory. It
/// may be memory of a device: then it is read back when the elements are lent for the first time.
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

    /// Tensor laid out in `dim_order` that borrows `bytes`, or copies them if they are not aligned
    /// to [`AlignedBytes::ALIGNMENT`].
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the parts do not describe a tensor, [`Error::OutOfResources`] if
    /// the allocation for a copy fails.
    pub fn from_foreign(
        dtype: ScalarType,
        sizes: &[usize],
        dim_order: &[u8],
        bytes: ForeignBytes,
    ) -> Result<Self, Error> {
        let len = bytes.len();
        check_parts(dtype, sizes, dim_order, len)?;
        let bytes = AlignedBytes::try_from_foreign(bytes);
        let bytes = bytes.ok_or(Error::OutOfResources { bytes: len })?;
        Ok(Self { dtype, sizes: sizes.to_vec(), dim_order: dim_order.to_vec(), bytes })
    }

    /// True if the elements are borrowed from foreign memory.
    pub fn is_foreign(&self) -> bool {
        self.bytes.is_foreign()
    }

    /// Memory of a device that holds the elements; `None` if they are in memory of the host.
    ///
    /// Every other function that lends the elements reads them back once.
    pub fn device_memory(&self) -> Option<&ForeignBytes> {
        self.bytes.foreign().filter(|bytes| bytes.is_on_device())
    }

    /// Reads elements on a device back, unless that has been done. A reader of a tensor that may be on
    /// a device calls it first, since a lost device gives zeros.
    ///
    /// # Errors
    /// [`Error::DeviceFailed`] if the device was lost.
    pub fn fetch(&self) -> Result<(), Error> {
        self.device_memory().map_or(Ok(()), ForeignBytes::fetch)
    }

    /// Releases foreign memory: the tensor is empty afterwards, of the same dtype and rank, or of
    /// rank 1 if it was a scalar. A tensor that owns its elements does not change.
    pub fn release_foreign(&mut self) {
        if self.bytes.is_foreign() {
            self.bytes = AlignedBytes::default();
            self.sizes.fill(0);
            if self.sizes.is_empty() {
                self.sizes.push(0);
                self.dim_order.push(0);
            }
        }
    }

    /// Borrows the tensor for reading.
    pub fn view(&self) -> TensorView<'_> {
        if self.bytes.is_foreign() { self.foreign_view() } else { self.any_view() }
    }

    #[inline]
    fn any_view(&self) -> TensorView<'_> {
        TensorView::from_checked(self.dtype, &self.sizes, &self.dim_order, self.bytes.as_slice())
    }

    /// As [`Tensor::view`]. A call of its own keeps the view of an allocation free of spilled
    /// registers.
    #[cold]
    fn foreign_view(&self) -> TensorView<'_> {
        self.any_view()
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
        numel(&self.sizes).unwrap_or_default()
    }

    /// Number of bytes of the elements. It reads nothing back.
    pub fn byte_len(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// Resizes the tensor. The dim order stays if the rank does, else it becomes row-major. The
    /// elements are unspecified afterwards. Memory is reused if it suffices.
    ///
    /// # Errors
    /// As [`Tensor::try_zeros`]; the tensor is unchanged then.
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), Error> {
        let len = byte_len(self.dtype, sizes)?;
        let missing = Error::OutOfResources { bytes: len };
        if self.bytes.is_foreign() {
            // The elements need not be copied.
            self.bytes = AlignedBytes::try_zeroed(len).ok_or(missing)?;
        } else {
            self.bytes.try_resize(len).ok_or(missing)?;
        }
        if sizes.len() != self.sizes.len() {
            self.dim_order.clear();
            self.dim_order.extend_from_slice(&CONTIGUOUS_DIM_ORDER[..sizes.len()]);
        }
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        Ok(())
    }

    /// Changes the sizes to others of the same number of elements, in row-major order. The elements
    /// stay where they are, also on a device.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] for another number of elements, or a tensor that is not row-major.
    pub fn set_sizes(&mut self, sizes: &[usize]) -> Result<(), Error> {
        if byte_len(self.dtype, sizes)? != self.byte_len() {
            let reason = "the sizes do not match the number of elements";
            return Err(Error::InvalidTensor { reason });
        }
        if !is_row_major(&self.sizes, &self.dim_order) {
            return Err(Error::InvalidTensor { reason: "the tensor is not row-major" });
        }
        self.dim_order.clear();
        self.dim_order.extend_from_slice(&CONTIGUOUS_DIM_ORDER[..sizes.len()]);
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        Ok(())
    }

    /// Becomes a copy of `view`. Memory is reused if it suffices.
    ///
    /// # Errors
    /// As [`Tensor::resize`].
    pub fn copy_from(&mut self, view: &TensorView<'_>) -> Result<(), Error> {
        if self.dtype != view.dtype() {
            *self = Self::try_zeros(view.dtype(), view.sizes())?;
        }
        self.resize(view.sizes())?;
        self.set_dim_order(view.dim_order())?;
        self.bytes_mut().copy_from_slice(view.bytes());
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

    /// Elements in memory order, as bytes. Foreign memory is copied first.
    ///
    /// # Panics
    /// If the allocation for that copy fails.
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

    /// Elements in memory order. Foreign memory is copied first.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if `T` is not the element type of the tensor,
    /// [`Error::OutOfResources`] if the allocation for that copy fails.
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        if T::DTYPE != self.dtype {
            return Err(Error::DtypeMismatch { expected: T::DTYPE, found: self.dtype });
        }
        if self.bytes.try_make_own().is_none() {
            return Err(Error::OutOfResources { bytes: self.view().bytes().len() });
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
    use alloc::sync::Arc;

    use super::*;
    use crate::Memory;

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

    fn memory() -> (Arc<dyn Memory>, ForeignBytes) {
        let values = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let memory = AlignedBytes::from(bytemuck::cast_slice(&values));
        let memory: Arc<dyn Memory> = Arc::new(memory);
        (memory.clone(), ForeignBytes::new(memory))
    }

    #[test]
    fn foreign_memory_is_read_in_place_and_copied_on_write() {
        let (memory, bytes) = memory();
        let mut tensor =
            Tensor::from_foreign(ScalarType::Float, &[2, 3], &[1, 0], bytes.clone()).unwrap();
        let clone = tensor.clone();
        assert_eq!(clone.view().bytes().as_ptr(), memory.bytes().as_ptr());
        assert_eq!((clone.dim_order(), Arc::strong_count(&memory)), (&[1, 0][..], 4));
        tensor.data_mut::<f32>().unwrap()[0] = 9.0;
        assert_eq!(tensor.data::<f32>().unwrap(), [9.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(clone.data::<f32>().unwrap()[0], 1.0);
        let mut other = clone.clone();
        other.bytes_mut()[0] = 1;
        assert_eq!((other.is_foreign(), clone.is_foreign()), (false, true));
        drop((bytes, clone));
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    #[test]
    fn resize_and_release_return_foreign_memory() {
        let (memory, bytes) = memory();
        let tensor = Tensor::from_foreign(ScalarType::Float, &[6], &[0], bytes).unwrap();
        let (mut resized, mut released) = (tensor.clone(), tensor);
        resized.resize(&[2, 2]).unwrap();
        assert_eq!((resized.numel(), resized.is_foreign()), (4, false));
        released.release_foreign();
        assert_eq!((released.sizes(), released.data()), (&[0][..], Ok(&[0.0_f32; 0][..])));
        assert_eq!(Arc::strong_count(&memory), 1);
        let mut own = Tensor::from_slice(&[1.0_f32]);
        own.release_foreign();
        assert_eq!(own.data(), Ok(&[1.0_f32][..]));
        let bytes = ForeignBytes::new(memory.clone()).part(0, 4).unwrap();
        let mut scalar = Tensor::from_foreign(ScalarType::Float, &[], &[], bytes).unwrap();
        scalar.release_foreign();
        assert_eq!((scalar.sizes(), scalar.dim_order()), (&[0][..], &[0][..]));
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    #[test]
    fn foreign_memory_must_describe_a_tensor() {
        let (_, bytes) = memory();
        let check = |sizes: &[usize], order: &[u8], len, reason| {
            let bytes = bytes.part(0, len).unwrap();
            let found = Tensor::from_foreign(ScalarType::Float, sizes, order, bytes);
            assert_eq!(found.map(drop), Err(Error::InvalidTensor { reason }), "{sizes:?}");
        };
        let length = "the sizes do not match the number of bytes";
        let order = "the dim order is not a permutation of the dimensions";
        check(&[2, 3], &[0, 1], 20, length);
        check(&[2, 3], &[0, 1], 0, length);
        check(&[usize::MAX, 3], &[0, 1], 24, length);
        check(&[2, 3], &[0, 0], 24, order);
        check(&[2, 3], &[0], 24, order);
        check(&[1; MAX_DIMS + 1], &[0; MAX_DIMS + 1], 4, order);
        let misaligned = bytes.part(3, 8).unwrap();
        let copy = Tensor::from_foreign(ScalarType::Float, &[2], &[0], misaligned).unwrap();
        assert!(!copy.is_foreign());
        assert_eq!(copy.view().bytes(), &bytes.as_slice()[3..11]);
    }
}
