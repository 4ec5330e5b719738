//! Bytes in memory that the runtime did not allocate.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::any::Any;

use crate::{AlignedBytes, Error};

/// Memory of another owner: a slot of shared memory, a buffer of a driver or of a network stack, a
/// buffer of a GPU.
///
/// Dropping the last [`ForeignBytes`] drops the memory, which returns it to its owner.
pub trait Memory: Send + Sync {
    /// The bytes. Every call returns the same slice, and its content does not change.
    ///
    /// Memory on a device is read back by the first call, into bytes that are aligned to
    /// [`AlignedBytes::ALIGNMENT`].
    fn bytes(&self) -> &[u8];

    /// Reads memory on a device back, unless that has been done.
    ///
    /// # Errors
    /// [`Error::DeviceFailed`] if the device was lost: [`Memory::bytes`] gives zeros then.
    fn fetch(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Number of bytes. It reads nothing back.
    fn byte_len(&self) -> usize {
        self.bytes().len()
    }

    /// Buffer of a device that holds the bytes, for a backend that knows its type; `None` for memory
    /// of the host.
    fn device_buffer(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}

impl Memory for AlignedBytes {
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Memory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Memory for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A part of a [`Memory`]. A clone holds the same memory and copies nothing.
#[derive(Clone)]
pub struct ForeignBytes {
    memory: Arc<dyn Memory>,
    start: usize,
    len: usize,
}

impl ForeignBytes {
    /// All bytes of `memory`.
    pub fn new(memory: Arc<dyn Memory>) -> Self {
        let len = memory.byte_len();
        Self { memory, start: 0, len }
    }

    /// The `len` bytes from `start` on; `None` if they are not all part of these bytes.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> Option<Self> {
        let end = start.checked_add(len)?;
        (end <= self.len).then(|| {
            let memory = self.memory.clone();
            Self { memory, start: self.start + start, len }
        })
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buffer of a device that begins with these bytes; `None` for memory of the host and for parts
    /// with an offset.
    pub fn device_buffer(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.memory.device_buffer().filter(|_| self.start == 0)
    }

    /// True if the bytes are on a device.
    pub fn is_on_device(&self) -> bool {
        self.memory.device_buffer().is_some()
    }

    /// Reads memory on a device back, unless that has been done.
    ///
    /// # Errors
    /// As [`Memory::fetch`].
    pub fn fetch(&self) -> Result<(), Error> {
        self.memory.fetch()
    }

    /// The bytes. Memory on a device is read back by the first call; [`ForeignBytes::fetch`] tells
    /// whether that fails.
    ///
    /// # Panics
    /// If the memory has become shorter, against the contract of [`Memory::bytes`].
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.bytes()[self.start..][..self.len]
    }
}

impl<M: Memory + 'static> From<M> for ForeignBytes {
    /// All bytes of `memory`.
    fn from(memory: M) -> Self {
        Self::new(Arc::new(memory))
    }
}

impl core::fmt::Debug for ForeignBytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ForeignBytes({})", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_the_memory() {
        let memory: Arc<dyn Memory> = Arc::new(vec![0_u8, 1, 2, 3, 4, 5]);
        let all = ForeignBytes::new(memory.clone());
        let part = all.part(1, 4).unwrap();
        assert_eq!(part.as_slice(), [1, 2, 3, 4]);
        assert_eq!(part.part(3, 1).unwrap().as_slice(), [4]);
        assert_eq!(all.part(6, 0).unwrap().as_slice(), []);
        for (start, len) in [(0, 5), (4, 1), (5, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(part.part(start, len).is_none(), "{start}, {len}");
        }
        drop(all);
        assert_eq!(Arc::strong_count(&memory), 2);
        drop(part);
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
