//! Device buffers.

use std::sync::atomic::Ordering;

use wgpu::{BufferDescriptor, BufferUsages};

use crate::{Device, GpuError};

/// Size of an element of a buffer, in bytes. Sizes and offsets are multiples of it.
const WORD_BYTES: u64 = 4;

/// Buffer on the device, which shaders read and write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Buffer(pub(crate) wgpu::Buffer);

impl Buffer {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.size()
    }
}

impl Device {
    /// Buffer of zeros with at least `bytes` bytes.
    ///
    /// # Errors
    /// If it exceeds a limit of the device, or the device has no memory for it.
    pub fn buffer(&self, bytes: u64) -> Result<Buffer, GpuError> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        self.any_buffer(bytes, usage)
    }

    /// Buffer that shaders read as `var<uniform>`.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn uniform_buffer(&self, bytes: u64) -> Result<Buffer, GpuError> {
        self.any_buffer(bytes, BufferUsages::UNIFORM | BufferUsages::COPY_DST)
    }

    /// Buffer for [`Readback`](crate::Readback)s.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn readback_buffer(&self, bytes: u64) -> Result<Buffer, GpuError> {
        self.any_buffer(bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST)
    }

    fn any_buffer(&self, bytes: u64, usage: BufferUsages) -> Result<Buffer, GpuError> {
        self.check()?;
        let limit = self.max_binding_bytes();
        let too_large = GpuError::BufferTooLarge { bytes, limit };
        let size = bytes.max(WORD_BYTES).checked_next_multiple_of(WORD_BYTES);
        let size = size.filter(|size| *size <= limit).ok_or(too_large)?;
        let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        match self.scoped(|| self.device.create_buffer(&descriptor)) {
            Err(GpuError::Exhausted) => Err(GpuError::OutOfMemory { bytes: size }),
            made => made.map(Buffer),
        }
    }

    /// Writes `bytes` at `offset` before the next dispatch. A rest of fewer than four bytes is
    /// filled with zeros.
    ///
    /// # Errors
    /// If they exceed the buffer, `offset` is not a multiple of four, or the driver has no memory. On a
    /// lost device, the next dispatch fails.
    pub fn upload(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let whole = bytes.len() - bytes.len() % WORD_BYTES as usize;
        let end = offset.saturating_add(bytes.len() as u64);
        if !offset.is_multiple_of(WORD_BYTES) || end > buffer.bytes() {
            let reason = format!("upload of {} bytes at {offset}", bytes.len());
            return Err(GpuError::Invalid { reason });
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        self.scoped(|| {
            if whole > 0 {
                self.queue.write_buffer(&buffer.0, offset, &bytes[..whole]);
            }
            if whole < bytes.len() {
                let mut word = [0; WORD_BYTES as usize];
                word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
                self.queue.write_buffer(&buffer.0, offset + whole as u64, &word);
            }
        })
    }
}
