//! A tensor of a loaded method, as a kernel writes it.

#![expect(unsafe_code, reason = "planned memory is reached through pointers checked at load")]

use core::{cell::UnsafeCell, ptr::NonNull, slice};

use crate::{
    Dims, Element, Error, ScalarType, TensorView, numel,
    shape::{MAX_DIMS, is_dim_order, same},
    view::alignment,
};

/// How the sizes of a tensor may change between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamism {
    /// Not at all.
    Static,
    /// Up to the memory that the program planned.
    Bounded,
    /// Without bound; the executor provides memory where it can.
    Unbounded,
}

/// One tensor of a loaded method: sizes that kernels may change, and where its elements are.
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
    /// Bytes that may be used at `data`.
    capacity: usize,
    /// Bytes that the sizes may ever need.
    limit: usize,
    hidden: Hidden,
}

/// Rows of which one is shown.
#[derive(Debug, Clone, Copy, Default)]
struct Hidden {
    dim: usize,
    /// How many there are; zero where none is hidden.
    rows: usize,
    /// Bytes of those before the one that is shown, which lie before `data`.
    before: usize,
}

/// One of several rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Row {
    /// That at position 0.
    #[default]
    First,
    /// That at position -1.
    Last,
}

/// Where the elements of a [`TensorSlot`] lie.
#[derive(Debug, Clone, Copy)]
struct Memory {
    data: NonNull<u8>,
    capacity: usize,
    writable: bool,
}

impl<'a> TensorSlot<'a> {
    /// A tensor without memory; it gets some from [`TensorSlot::borrow`] or [`TensorSlot::place`].
    ///
    /// `sizes` are the present sizes and, unless it is unbounded, also the largest ones.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when `dim_order` is not a permutation of the dimensions or the
    /// number of bytes overflows.
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
        let (capacity, hidden) = (0, Hidden::default());
        Ok(Self { dtype, dynamism, writable, sizes, dim_order, data, len, capacity, limit, hidden })
    }

    /// Gives the tensor `capacity` bytes of its own at `data`.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when they are fewer than the sizes need, or not aligned.
    ///
    /// # Safety
    /// The bytes are initialised and valid for reads and writes for `'a`, and nothing but the
    /// tensors of the same method reaches them.
    pub unsafe fn place(&mut self, data: NonNull<u8>, capacity: usize) -> Result<(), Error> {
        self.set_memory(Memory { data, capacity, writable: true })
    }

    /// Moves the tensor to `capacity` bytes at `data` and takes along what it holds.
    ///
    /// # Errors
    /// As [`TensorSlot::place`].
    ///
    /// # Safety
    /// As for [`TensorSlot::place`]; the present memory of the tensor is still valid.
    pub unsafe fn relocate(&mut self, data: NonNull<u8>, capacity: usize) -> Result<(), Error> {
        let (old, kept) = (self.data, self.capacity.min(capacity));
        // SAFETY: demanded of the caller.
        unsafe { self.place(data, capacity)? };
        // SAFETY: both hold `kept` bytes, and the new ones belong to this tensor alone.
        unsafe { data.copy_from_nonoverlapping(old, kept) };
        Ok(())
    }

    /// Lets the tensor read `bytes`, which it may not write.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when they are fewer than the present sizes need, or not aligned.
    ///
    /// # Safety
    /// `bytes` outlives every use of the tensor before the next call of `borrow`, `place` or
    /// [`TensorSlot::clear`].
    pub unsafe fn borrow(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let data = NonNull::from(bytes).cast();
        self.set_memory(Memory { data, capacity: bytes.len(), writable: false })
    }

    /// Takes the memory away.
    pub fn clear(&mut self) {
        (self.data, self.capacity, self.writable) = (dangling(), 0, false);
        self.hidden = Hidden::default();
    }

    fn set_memory(&mut self, memory: Memory) -> Result<(), Error> {
        if memory.capacity < self.len {
            return Err(Error::InvalidTensor { reason: "the sizes do not match the bytes" });
        }
        if !memory.data.addr().get().is_multiple_of(alignment(self.dtype)) {
            return Err(Error::InvalidTensor { reason: "the bytes are not aligned to the dtype" });
        }
        Memory { data: self.data, capacity: self.capacity, writable: self.writable } = memory;
        self.hidden = Hidden::default();
        Ok(())
    }

    /// The rows along `dim`, where they lie one behind the other in memory: no dimension before `dim`
    /// has more than one position. `None` where they do not, or there is no memory.
    pub fn rows(&self, dim: usize) -> Option<usize> {
        let (before, rest) = self.sizes.split_at_checked(dim)?;
        let apart = before.iter().any(|size| *size != 1) || !self.dim_order.is_sorted();
        if apart || !self.has_memory() { None } else { rest.first().copied() }
    }

    /// Hides all rows along `dim` but one, until [`TensorSlot::show_rows`] or other sizes. Without
    /// effect where [`TensorSlot::rows`] knows of none, or some are hidden.
    pub fn keep_row(&mut self, dim: usize, row: Row) {
        let rows = self.rows(dim).filter(|rows| *rows > 1 && self.hidden.rows == 0);
        let Some(rows) = rows.filter(|_| self.len > 0) else { return };
        let len = self.len / rows;
        let before = if row == Row::Last { self.len - len } else { 0 };
        // SAFETY: the bytes in use are no more than those at `data`.
        self.data = unsafe { self.data.add(before) };
        self.capacity -= before;
        (self.sizes[dim], self.len, self.hidden) = (1, len, Hidden { dim, rows, before });
    }

    /// Shows the rows that [`TensorSlot::keep_row`] hides.
    pub fn show_rows(&mut self) {
        let Hidden { dim, rows, .. } = self.hidden;
        if rows > 0 {
            self.show_memory();
            (self.sizes[dim], self.len) = (rows, self.len * rows);
        }
    }

    /// Takes the bytes of hidden rows back.
    fn show_memory(&mut self) {
        let Hidden { before, .. } = core::mem::take(&mut self.hidden);
        // SAFETY: these bytes were skipped when the rows were hidden, and the memory is the same.
        self.data = unsafe { self.data.sub(before) };
        self.capacity += before;
    }

    /// Whether there is memory for the present sizes.
    pub fn has_memory(&self) -> bool {
        self.len <= self.capacity
    }

    /// Whether kernels may write the elements.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// How the sizes may change.
    pub fn dynamism(&self) -> Dynamism {
        self.dynamism
    }

    /// Addresses of the first byte that the tensor may use, and of the one after the last.
    pub fn extent(&self) -> (usize, usize) {
        let start = self.data.addr().get();
        (start, start + self.capacity)
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Extent of each dimension.
    pub fn sizes(&self) -> &[usize] {
        self.sizes
    }

    /// The dimensions from the outermost in memory to the innermost.
    pub fn dim_order(&self) -> &'a [u8] {
        self.dim_order
    }

    /// The tensor, to read.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when it has no memory yet.
    #[inline]
    pub fn view(&self) -> Result<TensorView<'_>, Error> {
        if !self.has_memory() {
            return Err(Error::InvalidTensor { reason: "it has no memory yet" });
        }
        // SAFETY: `place` and `borrow` demand `capacity` valid bytes, and `len` is not larger.
        let bytes = unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) };
        Ok(TensorView::from_checked(self.dtype, self.sizes, self.dim_order, bytes))
    }

    /// Bytes that the present sizes need.
    pub fn bytes_needed(&self) -> usize {
        self.len
    }

    /// Changes the sizes without asking whether there is memory for them.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when the rank differs or a static tensor would change,
    /// [`Error::MemoryAllocationFailed`] when the sizes exceed the bound.
    #[inline]
    pub fn set_sizes(&mut self, sizes: &[usize]) -> Result<(), Error> {
        if same(self.sizes, sizes) {
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
        self.show_memory();
        self.sizes.copy_from_slice(sizes);
        self.len = needed;
        Ok(())
    }

    /// Makes this tensor read and write the memory of `source`, with `sizes`.
    pub(crate) fn alias(&mut self, source: &TensorSlot<'_>, sizes: &[usize]) -> Result<(), Error> {
        if self.dtype != source.dtype || bytes_of(self.dtype, sizes)? != source.len {
            return Err(Error::InvalidTensor { reason: "a view has as many bytes as its source" });
        }
        self.set_sizes(sizes)?;
        let TensorSlot { data, capacity, writable, .. } = *source;
        self.set_memory(Memory { data, capacity, writable })
    }
}

/// A tensor that a kernel writes.
#[derive(Debug)]
pub struct TensorMut<'s, 'a> {
    slot: &'s mut TensorSlot<'a>,
}

impl<'s, 'a> TensorMut<'s, 'a> {
    /// Access to the tensor in `cell`.
    ///
    /// # Safety
    /// While the result lives, nothing else reads or writes the slot or its elements. The tensor
    /// has no memory, or memory that may be written.
    pub unsafe fn new(cell: &'s UnsafeCell<TensorSlot<'a>>) -> Self {
        // SAFETY: demanded of the caller.
        Self { slot: unsafe { &mut *cell.get() } }
    }

    /// Gives the tensor the sizes `sizes`; the elements are unspecified afterwards.
    ///
    /// A tensor without bound may lack memory for them; the executor then provides it and calls
    /// the kernel again, so a kernel resizes before it writes anything.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] when the rank differs or a static tensor would change,
    /// [`Error::MemoryAllocationFailed`] when the memory is too small.
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), Error> {
        self.slot.set_sizes(sizes)?;
        let TensorSlot { len, capacity, .. } = *self.slot;
        if len > capacity {
            return Err(Error::MemoryAllocationFailed { needed: len, planned: capacity });
        }
        Ok(())
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> ScalarType {
        self.slot.dtype
    }

    /// Extent of each dimension.
    pub fn sizes(&self) -> &[usize] {
        self.slot.sizes
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.slot.sizes.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.slot.len / self.slot.dtype.size()
    }

    /// The dimensions from the outermost in memory to the innermost.
    pub fn dim_order(&self) -> &'a [u8] {
        self.slot.dim_order
    }

    /// Elements between neighbours along each dimension.
    pub fn strides(&self) -> Dims {
        Dims::strides(self.slot.sizes, self.slot.dim_order)
    }

    /// Whether the elements lie in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.slot.dim_order.is_sorted()
    }

    /// The tensor, to read.
    ///
    /// # Errors
    /// As [`TensorSlot::view`].
    #[inline]
    pub fn view(&self) -> Result<TensorView<'_>, Error> {
        self.slot.view()
    }

    /// The elements in the order of memory, as bytes.
    ///
    /// # Errors
    /// [`Error::MemoryAllocationFailed`] when the tensor has no memory for its sizes.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        let TensorSlot { len, capacity, data, .. } = *self.slot;
        if len > capacity {
            return Err(Error::MemoryAllocationFailed { needed: len, planned: capacity });
        }
        // SAFETY: `place` demands `capacity` valid bytes, `len` is not larger, and `new` demands
        // that nothing else reaches them.
        Ok(unsafe { slice::from_raw_parts_mut(data.as_ptr(), len) })
    }

    /// The elements in the order of memory.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] when `T` is not what the tensor holds,
    /// [`Error::MemoryAllocationFailed`] when the tensor has no memory for its sizes.
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        let found = self.slot.dtype;
        if T::DTYPE != found {
            return Err(Error::DtypeMismatch { wanted: T::DTYPE, found });
        }
        let cast = bytemuck::try_cast_slice_mut(self.bytes_mut()?);
        cast.map_err(|_| Error::Internal { reason: "a tensor's bytes are aligned" })
    }
}

fn bytes_of(dtype: ScalarType, sizes: &[usize]) -> Result<usize, Error> {
    let bytes = numel(sizes).and_then(|n| n.checked_mul(dtype.size()));
    let bytes = bytes.filter(|&n| isize::try_from(n).is_ok());
    bytes.ok_or(Error::InvalidTensor { reason: "the number of bytes overflows" })
}

/// An address for no bytes, aligned for every dtype.
fn dangling() -> NonNull<u8> {
    NonNull::<u128>::dangling().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements that a tensor shows.
    fn shown(slot: &TensorSlot<'_>) -> Vec<u8> {
        slot.view().unwrap().bytes().to_vec()
    }

    #[test]
    fn one_row_is_shown_and_then_all() {
        let mut memory: Vec<u8> = (0..12).collect();
        let data = NonNull::from(&mut memory[..]).cast();
        for (sizes, dim, row, expected) in [
            ([1, 3, 4], 1, Row::Last, 8..12),
            ([1, 3, 4], 1, Row::First, 0..4),
            ([1, 3, 4], 0, Row::Last, 0..12),
            ([1, 1, 12], 2, Row::Last, 11..12),
            ([2, 3, 2], 1, Row::Last, 0..12),
            ([3, 2, 2], 0, Row::Last, 8..12),
            ([3, 2, 2], 0, Row::First, 0..4),
            ([1, 3, 0], 1, Row::Last, 0..0),
            ([1, 3, 4], 3, Row::Last, 0..12),
        ] {
            let mut place = sizes;
            let mut slot =
                TensorSlot::new(ScalarType::Byte, Dynamism::Static, &mut place, &[0, 1, 2])
                    .unwrap();
            // SAFETY: the memory outlives the tensor, and nothing else reaches it.
            unsafe { slot.place(data, memory.len()).unwrap() };
            let all = shown(&slot);
            slot.keep_row(dim, row);
            slot.keep_row(dim, row);
            assert_eq!(shown(&slot), memory[expected], "{sizes:?} along {dim}");
            slot.show_rows();
            slot.show_rows();
            assert_eq!((slot.sizes(), shown(&slot)), (&sizes[..], all), "{sizes:?} along {dim}");
        }
    }

    #[test]
    fn other_sizes_have_all_of_the_memory() {
        for row in [Row::First, Row::Last] {
            let (mut memory, mut sizes) = ([7_u8; 12], [3, 4]);
            let data = NonNull::from(&mut memory[..]).cast();
            let mut slot =
                TensorSlot::new(ScalarType::Byte, Dynamism::Bounded, &mut sizes, &[0, 1]).unwrap();
            // SAFETY: the memory outlives the tensor, and nothing else reaches it.
            unsafe { slot.place(data, memory.len()).unwrap() };
            slot.keep_row(0, row);
            slot.set_sizes(&[2, 4]).unwrap();
            slot.show_rows();
            assert_eq!((slot.sizes(), shown(&slot).len()), (&[2, 4][..], 8));
            slot.set_sizes(&[3, 4]).unwrap();
            assert!(slot.has_memory());
        }
    }
}
