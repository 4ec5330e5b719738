//! Planned buffers of a method: memory for intermediate results and mutable buffers.

#![expect(unsafe_code, reason = "tensors of a method share its buffers")]

use core::{marker::PhantomData, ptr::NonNull};

/// Planned buffer: initialized memory, aligned to 16 bytes, used by one method at a time.
pub struct PlannedBuffer<'a> {
    data: NonNull<u8>,
    len: usize,
    is_shared: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> PlannedBuffer<'a> {
    /// Buffer in `memory`, used by one method.
    pub fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        Self { data: NonNull::from(memory).cast(), len, is_shared: false, memory: PhantomData }
    }

    /// Buffer that several methods share, for example for common mutable buffers. Methods write no
    /// initial values into it; the caller does.
    ///
    /// # Safety
    /// `data` is valid for reads and writes of `len` initialized bytes for `'a`, and of the methods
    /// that share it, only one is used at a time.
    pub unsafe fn shared(data: NonNull<u8>, len: usize) -> Self {
        Self { data, len, is_shared: true, memory: PhantomData }
    }

    /// Address of `len` bytes at `offset`; `None` if they exceed the buffer.
    pub(crate) fn address(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: `offset` is within the buffer.
        (end <= self.len).then(|| unsafe { self.data.add(offset) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Contents, while no method runs.
    #[cfg(feature = "std")]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the constructors require `len` initialized bytes, and nothing writes them now.
        unsafe { core::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// Sets all bytes to zero.
    pub(crate) fn zero(&mut self) {
        // SAFETY: the constructors require `len` writable bytes, and the method is not running.
        unsafe { self.data.write_bytes(0, self.len) };
    }

    /// Writes `bytes` at `offset`. Does nothing if they exceed the buffer.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(target) = self.address(offset, bytes.len()) {
            let source = NonNull::from(bytes).cast();
            // SAFETY: `address` checked the length, and the method is not running.
            unsafe { target.copy_from(source, bytes.len()) };
        }
    }
}
