//! The planned buffers of a method: memory for its intermediate results and its state.

#![expect(unsafe_code, reason = "tensors of a method share its buffers")]

use core::{marker::PhantomData, ptr::NonNull};

/// One planned buffer: aligned to 16 bytes, initialised, used by one method at a time.
pub struct PlannedBuffer<'a> {
    data: NonNull<u8>,
    len: usize,
    is_shared: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> PlannedBuffer<'a> {
    /// A buffer in `memory`.
    pub fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        Self { data: NonNull::from(memory).cast(), len, is_shared: false, memory: PhantomData }
    }

    /// A buffer that methods share, such as the one in which they keep common state. No method
    /// writes initial values into it: whoever makes it does.
    ///
    /// # Safety
    /// `data` is valid for reads and writes of `len` initialised bytes for `'a`, and of the
    /// methods that share it only one is used at a time.
    pub unsafe fn shared(data: NonNull<u8>, len: usize) -> Self {
        Self { data, len, is_shared: true, memory: PhantomData }
    }

    /// The address of `len` bytes at `offset`.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: `offset` lies within the buffer.
        (end <= self.len).then(|| unsafe { self.data.add(offset) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(crate) fn zero(&mut self) {
        // SAFETY: the constructors demand `len` writable bytes, and no run is under way.
        unsafe { self.data.write_bytes(0, self.len) };
    }

    /// Writes `bytes` at `offset`, if there is room for them.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(target) = self.part(offset, bytes.len()) {
            let source = NonNull::from(bytes).cast();
            // SAFETY: `part` gives so many bytes of the buffer, and no run is under way.
            unsafe { target.copy_from(source, bytes.len()) };
        }
    }
}
