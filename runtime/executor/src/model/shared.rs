//! Planned memory that the methods of a model share.

#![expect(unsafe_code, reason = "methods of one model share planned memory")]

use core::ptr::NonNull;

use afferent_core::AlignedBytes;

use crate::PlannedBuffer;

/// Memory that the methods of a model share; it neither moves nor shrinks.
pub(super) struct SharedBuffer {
    data: NonNull<u8>,
    len: usize,
    /// Owns what `data` points to.
    _bytes: AlignedBytes,
}

// SAFETY: the bytes are reached only through the methods of the model that owns the buffer,
// which run under an exclusive borrow of the model.
unsafe impl Send for SharedBuffer {}

impl SharedBuffer {
    pub(super) fn new(len: usize) -> Self {
        let mut bytes = AlignedBytes::zeroed(len);
        let data = NonNull::from(bytes.as_mut_slice()).cast();
        Self { data, len, _bytes: bytes }
    }

    /// The buffer for one method. The model drops its methods before its buffers.
    pub(super) fn planned(&self) -> PlannedBuffer<'static> {
        // SAFETY: the bytes live as long as the model, whose methods run one at a time.
        unsafe { PlannedBuffer::shared(self.data, self.len) }
    }
}
