//! Tensors of a loaded method.

#![expect(unsafe_code, reason = "accesses planned memory through pointers checked at load")]

use core::{cell::UnsafeCell, ptr::NonNull, slice};

#[cfg(feature = "alloc")]
use crate::ForeignBytes;
use crate::{
    Dims, Element, Error, ScalarType, TensorView, numel,
    shape::{MAX_DIMS, dims_equal, is_dim_order},
    view::alignment,
};

/// Shape dynamism of a tensor, as ExecuTorch `TensorShapeDynamism`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamism {
    /// The sizes never change.
    Static,
    /// The sizes may change within the memory that the program planned.
    Bounded,
    /// The sizes may grow without limit. The executor provides memory, if it can.
    Unbounded,
}

/// Tensor of a loaded method: sizes, which kernels may change, and the address of its elements.
#[derive(Debug)]
pub struct TensorSlot<'a> {
    dtype: ScalarType,
    dynamism: Dynamism,
    writable: bool,
    sizes: &'a mut [usize],
    dim_order: &'a [u8],
    data: NonNull<u8>,
    /// Bytes in use: those of `sizes`.
    len: usize,
    /// Bytes available at `data`.
    capacity: usize,
    /// Maximum of `len`, in bytes.
    limit: usize,
    slice: Slice,
    #[cfg(feature = "alloc")]
    device: Option<OnDevice>,
    #[cfg(feature = "alloc")]
    residence: Residence,
}

/// Right of a delegate to leave an output on its device.
#[cfg(feature = "alloc")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Residence {
    /// The elements must be in the planned memory: other tensors may share it.
    #[default]
    Host,
    /// The elements may be anywhere, but no delegate reads them.
    Any,
    /// A delegate reads the elements, or the caller of the method asked for them.
    Device,
}

/// Elements on a device.
#[cfg(feature = "alloc")]
#[derive(Debug)]
struct OnDevice {
    elements: ForeignBytes,
    /// Memory of the tensor when its elements are not on the device.
    host: Memory,
}

/// State of a tensor that is sliced to one position of a dimension.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    /// Size of the dimension before slicing; zero if the tensor is not sliced.
    full_size: usize,
    dim: u8,
    position: SlicePosition,
}

/// Position of a slice along a dimension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SlicePosition {
    /// Position 0.
    #[default]
    First,
    /// Position -1.
    Last,
}

/// Memory of a [`TensorSlot`].
#[derive(Debug, Clone, Copy)]
struct Memory {
    data: NonNull<u8>,
    capacity: usize,
    writable: bool,
}

impl<'a> TensorSlot<'a> {
    /// Tensor without memory. [`TensorSlot::borrow`] or [`TensorSlot::assign_memory`] provides it.
    ///
    /// `sizes` are the present sizes and, unless the tensor is unbounded, the largest ones.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if `dim_order` is not a permutation of the dimensions or the number
    /// of bytes overflows.
    pub fn new(
        dtype: ScalarType,
        dynamism: Dynamism,
        sizes: &'a mut [usize],
        dim_order: &'a [u8],
    ) -> Result<Self, Error> {
        if sizes.len() > MAX_DIMS || !is_dim_order(dim_order, sizes.len()) {
            let reason = "the dim order is not a permutation of the dimensions";
            return Err(Error::InvalidTensor { reason });
        }
        let len = bytes_of(dtype, sizes)?;
        let (data, writable) = (dangling(), false);
        let limit = if dynamism == Dynamism::Unbounded { isize::MAX.unsigned_abs() } else { len };
        let (capacity, slice) = (0, Slice::default());
        Ok(Self {
            dtype,
            dynamism,
            writable,
            sizes,
            dim_order,
            data,
            len,
            capacity,
            limit,
            slice,
            #[cfg(feature = "alloc")]
            device: None,
            #[cfg(feature = "alloc")]
            residence: Residence::Host,
        })
    }

    /// Tensor with memory, without checks: `len` bytes at `data`.
    ///
    /// # Safety
    /// `dim_order` is a permutation of the dimensions, `len` the number of bytes of `sizes`, and
    /// `data` aligned to the dtype. For `'a`, the bytes are initialized and valid for reads. If
    /// `writable`, they are also valid for writes, and only tensors of the same method access them.
    #[inline(always)]
    pub unsafe fn from_parts(
        dtype: ScalarType,
        dynamism: Dynamism,
        sizes: &'a mut [usize],
        dim_order: &'a [u8],
        data: NonNull<u8>,
        len: usize,
        writable: bool,
    ) -> Self {
        Self {
            dtype,
            dynamism,
            writable,
            sizes,
            dim_order,
            data,
            len,
            capacity: len,
            limit: len,
            slice: Slice::default(),
            #[cfg(feature = "alloc")]
            device: None,
            #[cfg(feature = "alloc")]
            residence: Residence::Host,
        }
    }

    /// Assigns `capacity` writable bytes at `data` to the tensor.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the sizes need more bytes, or `data` is not aligned.
    ///
    /// # Safety
    /// The bytes are initialized and valid for reads and writes for `'a`, and only tensors of the
    /// same method access them.
    pub unsafe fn assign_memory(
        &mut self,
        data: NonNull<u8>,
        capacity: usize,
    ) -> Result<(), Error> {
        self.set_memory(Memory { data, capacity, writable: true })
    }

    /// Moves the tensor and its contents to `capacity` bytes at `data`.
    ///
    /// # Errors
    /// As [`TensorSlot::assign_memory`].
    ///
    /// # Safety
    /// As for [`TensorSlot::assign_memory`]; the present memory of the tensor is still valid.
    pub unsafe fn relocate(&mut self, data: NonNull<u8>, capacity: usize) -> Result<(), Error> {
        let (old, copied) = (self.data, self.capacity.min(capacity));
        // SAFETY: guaranteed by the caller.
        unsafe { self.assign_memory(data, capacity)? };
        // SAFETY: both hold `copied` bytes, and only this tensor accesses the new ones.
        unsafe { data.copy_from_nonoverlapping(old, copied) };
        Ok(())
    }

    /// Makes the tensor a read-only view of `bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the present sizes need more bytes, or `bytes` is not aligned.
    ///
    /// # Safety
    /// `bytes` outlives every use of the tensor before the next call of `borrow`, `assign_memory`
    /// or [`TensorSlot::clear`].
    pub unsafe fn borrow(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let data = NonNull::from(bytes).cast();
        self.set_memory(Memory { data, capacity: bytes.len(), writable: false })
    }

    /// Detaches the tensor from its memory.
    pub fn clear(&mut self) {
        #[cfg(feature = "alloc")]
        {
            self.device = None;
        }
        (self.data, self.capacity, self.writable) = (dangling(), 0, false);
        self.slice = Slice::default();
    }

    fn set_memory(&mut self, memory: Memory) -> Result<(), Error> {
        if memory.capacity < self.len {
            return Err(Error::InvalidTensor { reason: "the sizes do not match the bytes" });
        }
        if !memory.data.addr().get().is_multiple_of(alignment(self.dtype)) {
            return Err(Error::InvalidTensor { reason: "the bytes are not aligned to the dtype" });
        }
        self.clear();
        Memory { data: self.data, capacity: self.capacity, writable: self.writable } = memory;
        Ok(())
    }

    /// Size of dimension `dim` if slices along it are contiguous in memory, that is if all outer
    /// dimensions have size one. `None` if they are not, or the tensor has no memory.
    pub fn sliceable_size(&self, dim: usize) -> Option<usize> {
        let (outer, rest) = self.sizes.split_at_checked(dim)?;
        let is_strided = outer.iter().any(|size| *size != 1) || !self.dim_order.is_sorted();
        if is_strided || !self.has_memory() { None } else { rest.first().copied() }
    }

    /// Slices the tensor to one position of `dim`, without a copy, until [`TensorSlot::unslice`] or
    /// a change of sizes. Has no effect if the dimension cannot be sliced
    /// ([`TensorSlot::sliceable_size`]) or the tensor is sliced already.
    pub fn slice(&mut self, dim: usize, position: SlicePosition) {
        let size = self.sliceable_size(dim);
        let size = size.filter(|size| *size > 1 && self.slice.full_size == 0);
        let Some(full_size) = size.filter(|_| self.len > 0) else { return };
        let len = self.len / full_size;
        let offset = if position == SlicePosition::Last { self.len - len } else { 0 };
        // SAFETY: `offset` is less than the bytes in use, which are at most those at `data`.
        self.data = unsafe { self.data.add(offset) };
        self.capacity -= offset;
        let slice = Slice { full_size, dim: dim as u8, position }; // at most `MAX_DIMS`
        (self.sizes[dim], self.len, self.slice) = (1, len, slice);
    }

    /// Undoes [`TensorSlot::slice`].
    pub fn unslice(&mut self) {
        let Slice { dim, full_size, .. } = self.slice;
        if full_size > 0 {
            self.restore_memory();
            (self.sizes[usize::from(dim)], self.len) = (full_size, self.len * full_size);
        }
    }

    /// Moves `data` back to the start of the memory and marks the tensor as not sliced.
    fn restore_memory(&mut self) {
        let Slice { full_size, position, .. } = core::mem::take(&mut self.slice);
        let skipped = if position == SlicePosition::Last { full_size.saturating_sub(1) } else { 0 };
        let offset = skipped * self.len;
        // SAFETY: slicing advanced `data` by `offset`, and the memory is the same.
        self.data = unsafe { self.data.sub(offset) };
        self.capacity += offset;
    }

    /// Returns true if there is memory for the present sizes.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.len <= self.capacity
    }

    /// Returns true if kernels may write the elements.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Shape dynamism of the tensor.
    pub fn dynamism(&self) -> Dynamism {
        self.dynamism
    }

    /// Addresses of the available memory: first byte, and one past the last byte.
    pub fn address_range(&self) -> (usize, usize) {
        let start = self.data.addr().get();
        (start, start + self.capacity)
    }

    /// Dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Size of each dimension.
    #[inline]
    pub fn sizes(&self) -> &[usize] {
        self.sizes
    }

    /// Dimensions in memory order, outermost first.
    #[inline]
    pub fn dim_order(&self) -> &'a [u8] {
        self.dim_order
    }

    /// Borrows the tensor for reading.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if it has no memory yet, [`Error::DeviceFailed`] if its elements were on
    /// a device that is lost.
    #[inline]
    pub fn view(&self) -> Result<TensorView<'_>, Error> {
        if !self.has_memory() {
            return self.device_view();
        }
        // SAFETY: `assign_memory` and `borrow` require `capacity` valid bytes, and `len` is not
        // larger.
        let bytes = unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) };
        Ok(TensorView::from_checked(self.dtype, self.sizes, self.dim_order, bytes))
    }

    /// Bytes of the present sizes.
    pub fn nbytes(&self) -> usize {
        self.len
    }

    /// Changes the sizes. There may be too little memory for them afterwards.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the rank differs or a static tensor would change,
    /// [`Error::MemoryAllocationFailed`] if the sizes exceed the upper bound.
    #[inline]
    pub fn set_sizes(&mut self, sizes: &[usize]) -> Result<(), Error> {
        if dims_equal(self.sizes, sizes) {
            return Ok(());
        }
        if self.sizes.len() != sizes.len() {
            return Err(Error::InvalidTensor { reason: "the rank of a tensor cannot change" });
        }
        if self.dynamism == Dynamism::Static {
            return Err(Error::InvalidTensor { reason: "the sizes of this tensor are static" });
        }
        let needed = bytes_of(self.dtype, sizes)?;
        if needed > self.limit {
            return Err(Error::MemoryAllocationFailed { needed, planned: self.limit });
        }
        self.restore_memory();
        self.sizes.copy_from_slice(sizes);
        self.len = needed;
        Ok(())
    }

    /// Makes this tensor a view with `sizes` of the memory of `source`.
    pub(crate) fn alias(&mut self, source: &TensorSlot<'_>, sizes: &[usize]) -> Result<(), Error> {
        if self.dtype != source.dtype || bytes_of(self.dtype, sizes)? != source.len {
            return Err(Error::InvalidTensor { reason: "a view has as many bytes as its source" });
        }
        self.set_sizes(sizes)?;
        let TensorSlot { data, capacity, writable, .. } = *source;
        self.set_memory(Memory { data, capacity, writable })
    }
}

impl<'a> TensorSlot<'a> {
    /// As [`TensorSlot::view`] for a tensor that has no memory, or memory of a device.
    #[cold]
    fn device_view(&self) -> Result<TensorView<'_>, Error> {
        #[cfg(feature = "alloc")]
        if let Some(OnDevice { elements, .. }) = &self.device {
            elements.fetch()?;
            let bytes = elements.as_slice().get(..self.len);
            let reason = "the sizes do not match the bytes";
            let bytes = bytes.ok_or(Error::InvalidTensor { reason })?;
            return TensorView::with_dim_order(self.dtype, self.sizes, self.dim_order, bytes);
        }
        Err(Error::InvalidTensor { reason: "it has no memory yet" })
    }

    /// Returns to the memory that the tensor had before its elements were on a device. They are
    /// unspecified afterwards. Returns false if that is too small.
    #[cold]
    pub fn leave_device(&mut self) -> bool {
        #[cfg(feature = "alloc")]
        if let Some(OnDevice { host, .. }) = self.device.take() {
            Memory { data: self.data, capacity: self.capacity, writable: self.writable } = host;
        }
        self.has_memory()
    }
}

#[cfg(feature = "alloc")]
impl TensorSlot<'_> {
    /// Elements on a device; `None` if they are in memory of the host.
    pub fn device_elements(&self) -> Option<&ForeignBytes> {
        self.device.as_ref().map(|device| &device.elements)
    }

    /// Replaces the elements by `elements` on a device. [`TensorSlot::view`] reads them back, and
    /// a kernel that writes the tensor gets its own memory again.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the present sizes need more bytes.
    pub fn put_on_device(&mut self, elements: ForeignBytes) -> Result<(), Error> {
        if elements.len() < self.len {
            return Err(Error::InvalidTensor { reason: "the sizes do not match the bytes" });
        }
        self.unslice();
        let TensorSlot { data, capacity, writable, .. } = *self;
        let host = match self.device.take() {
            Some(device) => device.host,
            None => Memory { data, capacity, writable },
        };
        self.clear();
        self.device = Some(OnDevice { elements, host });
        Ok(())
    }

    /// Right of a delegate to leave the elements on its device.
    pub fn residence(&self) -> Residence {
        self.residence
    }

    /// Changes [`TensorSlot::residence`].
    pub fn set_residence(&mut self, residence: Residence) {
        self.residence = residence;
    }
}

/// Output tensor of a kernel.
#[derive(Debug)]
pub struct TensorMut<'s, 'a> {
    slot: &'s mut TensorSlot<'a>,
}

impl<'s, 'a> TensorMut<'s, 'a> {
    /// Borrows the tensor in `cell` for writing.
    ///
    /// # Safety
    /// While the result lives, nothing else reads or writes the slot or its elements. The tensor
    /// has no memory, or writable memory.
    pub unsafe fn new(cell: &'s UnsafeCell<TensorSlot<'a>>) -> Self {
        // SAFETY: guaranteed by the caller.
        Self { slot: unsafe { &mut *cell.get() } }
    }

    /// Resizes the tensor; the elements are unspecified afterwards.
    ///
    /// An unbounded tensor may lack memory for the new sizes. The executor then provides it and
    /// calls the kernel again, so a kernel resizes all outputs before it writes any.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the rank differs or a static tensor would change,
    /// [`Error::MemoryAllocationFailed`] if the memory is too small.
    #[inline]
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), Error> {
        self.slot.set_sizes(sizes)?;
        let TensorSlot { len, capacity, .. } = *self.slot;
        if len <= capacity || self.slot.leave_device() { Ok(()) } else { Err(self.too_little()) }
    }

    #[cold]
    fn too_little(&self) -> Error {
        Error::MemoryAllocationFailed { needed: self.slot.len, planned: self.slot.capacity }
    }

    /// Dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.slot.dtype
    }

    /// Size of each dimension.
    #[inline]
    pub fn sizes(&self) -> &[usize] {
        self.slot.sizes
    }

    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.slot.sizes.len()
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.slot.len / self.slot.dtype.size()
    }

    /// Dimensions in memory order, outermost first.
    #[inline]
    pub fn dim_order(&self) -> &'a [u8] {
        self.slot.dim_order
    }

    /// Stride of each dimension, in elements.
    #[inline]
    pub fn strides(&self) -> Dims {
        Dims::strides(self.slot.sizes, self.slot.dim_order)
    }

    /// Returns true if the elements are in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        // As for `TensorView`.
        self.slot.dim_order.iter().is_sorted()
    }

    /// Borrows the tensor for reading.
    ///
    /// # Errors
    /// As [`TensorSlot::view`].
    #[inline]
    pub fn view(&self) -> Result<TensorView<'_>, Error> {
        self.slot.view()
    }

    /// True if the elements may be left on a device ([`TensorMut::put_on_device`]).
    #[cfg(feature = "alloc")]
    pub fn wants_device(&self) -> bool {
        self.slot.residence == Residence::Device
    }

    /// Resizes the tensor and replaces its elements by `elements` on a device.
    ///
    /// # Errors
    /// As [`TensorMut::resize`] and [`TensorSlot::put_on_device`].
    #[cfg(feature = "alloc")]
    pub fn put_on_device(&mut self, sizes: &[usize], elements: ForeignBytes) -> Result<(), Error> {
        self.slot.set_sizes(sizes)?;
        self.slot.put_on_device(elements)
    }

    /// Elements in memory order, as bytes.
    ///
    /// # Errors
    /// [`Error::MemoryAllocationFailed`] if there is too little memory for the sizes.
    #[inline]
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        if self.slot.len > self.slot.capacity && !self.slot.leave_device() {
            return Err(self.too_little());
        }
        let TensorSlot { len, data, .. } = *self.slot;
        // SAFETY: `assign_memory` requires `capacity` valid bytes, `len` is not larger, and `new`
        // requires that nothing else accesses them.
        Ok(unsafe { slice::from_raw_parts_mut(data.as_ptr(), len) })
    }

    /// Elements in memory order.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if `T` is not the element type of the tensor,
    /// [`Error::MemoryAllocationFailed`] if there is too little memory for the sizes.
    #[inline]
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        let found = self.slot.dtype;
        if T::DTYPE != found {
            return Err(Error::DtypeMismatch { expected: T::DTYPE, found });
        }
        let cast = bytemuck::try_cast_slice_mut(self.bytes_mut()?);
        cast.map_err(|_| Error::Internal { reason: "the bytes of a tensor are aligned" })
    }
}

/// Size in bytes of a tensor of `sizes`.
fn bytes_of(dtype: ScalarType, sizes: &[usize]) -> Result<usize, Error> {
    let bytes = numel(sizes).and_then(|n| n.checked_mul(dtype.size()));
    let bytes = bytes.filter(|&n| isize::try_from(n).is_ok());
    bytes.ok_or(Error::InvalidTensor { reason: "the number of bytes overflows" })
}

/// Address of an empty memory range, aligned for every dtype.
fn dangling() -> NonNull<u8> {
    NonNull::<u128>::dangling().cast()
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use core::{
        any::Any,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// Memory that counts its readbacks.
    #[derive(Default)]
    struct Device(crate::AlignedBytes, AtomicUsize, Option<Error>);

    impl crate::Memory for Device {
        fn bytes(&self) -> &[u8] {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.as_slice()
        }

        fn fetch(&self) -> Result<(), Error> {
            self.2.map_or(Ok(()), Err)
        }

        fn byte_len(&self) -> usize {
            self.0.as_slice().len()
        }

        fn device_buffer(&self) -> Option<&(dyn Any + Send + Sync)> {
            Some(self)
        }
    }

    #[test]
    fn elements_on_a_device_are_read_back_by_a_view() {
        let (mut memory, mut sizes) = ([7_u8; 4], [4]);
        let data = NonNull::from(&mut memory[..]).cast();
        let slot = TensorSlot::new(ScalarType::Byte, Dynamism::Bounded, &mut sizes, &[0]);
        let mut cell = UnsafeCell::new(slot.unwrap());
        // SAFETY: the memory outlives the tensor, and nothing else accesses it.
        unsafe { cell.get_mut().assign_memory(data, 4).unwrap() };
        let device = Arc::new(Device([1, 2, 3, 4][..].into(), AtomicUsize::new(0), None));
        let on_device = ForeignBytes::new(device.clone());
        // SAFETY: nothing else accesses the tensor.
        let mut out = unsafe { TensorMut::new(&cell) };
        assert!(!out.wants_device());
        out.put_on_device(&[3], on_device.clone()).unwrap();
        assert!(out.put_on_device(&[3], on_device.part(0, 2).unwrap()).is_err());
        let slot = cell.get_mut();
        assert!(slot.device_elements().is_some_and(|bytes| bytes.device_buffer().is_some()));
        assert_eq!((slot.has_memory(), device.1.load(Ordering::Relaxed)), (false, 0));
        assert_eq!((elements(slot), device.1.load(Ordering::Relaxed)), (vec![1, 2, 3], 1));
        // A kernel that writes the tensor gets its own memory.
        // SAFETY: nothing else accesses the tensor.
        let mut out = unsafe { TensorMut::new(&cell) };
        out.resize(&[4]).unwrap();
        out.bytes_mut().unwrap()[0] = 9;
        assert_eq!(elements(cell.get_mut()), [9, 7, 7, 7]);
        drop(on_device);
        assert_eq!(Arc::strong_count(&device), 1);
        let fault = Error::DeviceFailed { reason: "lost" };
        let lost = Device([0; 4][..].into(), AtomicUsize::new(0), Some(fault));
        cell.get_mut().put_on_device(lost.into()).unwrap();
        assert_eq!(cell.get_mut().view().err(), Some(fault));
    }

    fn elements(slot: &TensorSlot<'_>) -> Vec<u8> {
        slot.view().unwrap().bytes().to_vec()
    }

    #[test]
    fn unslice_undoes_slice() {
        let mut memory: Vec<u8> = (0..12).collect();
        let data = NonNull::from(&mut memory[..]).cast();
        for (sizes, dim, position, expected) in [
            ([1, 3, 4], 1, SlicePosition::Last, 8..12),
            ([1, 3, 4], 1, SlicePosition::First, 0..4),
            ([1, 3, 4], 0, SlicePosition::Last, 0..12),
            ([1, 1, 12], 2, SlicePosition::Last, 11..12),
            ([2, 3, 2], 1, SlicePosition::Last, 0..12),
            ([3, 2, 2], 0, SlicePosition::Last, 8..12),
            ([3, 2, 2], 0, SlicePosition::First, 0..4),
            ([1, 3, 0], 1, SlicePosition::Last, 0..0),
            ([1, 3, 4], 3, SlicePosition::Last, 0..12),
        ] {
            let mut current = sizes;
            let mut slot =
                TensorSlot::new(ScalarType::Byte, Dynamism::Static, &mut current, &[0, 1, 2])
                    .unwrap();
            // SAFETY: the memory outlives the tensor, and nothing else accesses it.
            unsafe { slot.assign_memory(data, memory.len()).unwrap() };
            let all = elements(&slot);
            slot.slice(dim, position);
            slot.slice(dim, position);
            assert_eq!(elements(&slot), memory[expected], "{sizes:?} along {dim}");
            slot.unslice();
            slot.unslice();
            assert_eq!((slot.sizes(), elements(&slot)), (&sizes[..], all), "{sizes:?} along {dim}");
        }
    }

    #[test]
    fn set_sizes_undoes_slice() {
        for position in [SlicePosition::First, SlicePosition::Last] {
            let (mut memory, mut sizes) = ([7_u8; 12], [3, 4]);
            let data = NonNull::from(&mut memory[..]).cast();
            let mut slot =
                TensorSlot::new(ScalarType::Byte, Dynamism::Bounded, &mut sizes, &[0, 1]).unwrap();
            // SAFETY: the memory outlives the tensor, and nothing else accesses it.
            unsafe { slot.assign_memory(data, memory.len()).unwrap() };
            slot.slice(0, position);
            slot.set_sizes(&[2, 4]).unwrap();
            slot.unslice();
            assert_eq!((slot.sizes(), elements(&slot).len()), (&[2, 4][..], 8));
            slot.set_sizes(&[3, 4]).unwrap();
            assert!(slot.has_memory());
        }
    }
}
