//! Device memory of tensors, which is read back when the host looks at it.

use std::{
    any::Any,
    sync::{Mutex, OnceLock, PoisonError},
};

use afferent_core::{AlignedBytes, Error, ForeignBytes, Memory};

use crate::{Buffer, Device, Gpu, GpuError, Readback};

/// Free buffers of a device, the oldest first.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Buffer>>);

/// Limit on the number of free buffers.
const MAX_FREE: usize = 32;

/// Limit on the bytes of free buffers.
const MAX_FREE_BYTES: u64 = 256 << 20;

/// Sizes of pooled buffers are multiples of this, in bytes.
const GRANULE_BYTES: u64 = 256;

impl Pool {
    fn take(&self, bytes: u64) -> Option<Buffer> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.iter().position(|buffer| buffer.bytes() == bytes)?;
        Some(free.remove(at))
    }

    fn put(&self, buffer: Buffer) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(buffer);
        let mut bytes: u64 = free.iter().map(Buffer::bytes).sum();
        while free.len() > MAX_FREE || bytes > MAX_FREE_BYTES {
            bytes -= free.remove(0).bytes();
        }
    }
}

/// Elements of a tensor on the device. The first call of [`Memory::bytes`] reads them back; dropping
/// the memory returns its buffer to the pool of the device.
///
/// A lost device gives an error to [`Memory::fetch`], and zeros to [`Memory::bytes`], which cannot fail.
pub struct DeviceMemory {
    gpu: Gpu,
    /// `None` after the drop.
    buffer: Option<Buffer>,
    bytes: usize,
    /// The bytes, and the fault if they are zeros instead.
    host: OnceLock<(AlignedBytes, Option<GpuError>)>,
}

impl Gpu {
    /// Memory of `bytes` bytes with arbitrary content.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn memory(&self, bytes: usize) -> Result<DeviceMemory, GpuError> {
        let device = self.device()?;
        device.check()?;
        let size = (bytes as u64).max(1).next_multiple_of(GRANULE_BYTES);
        let buffer = match device.pool.take(size) {
            Some(buffer) => buffer,
            None => device.buffer(size)?,
        };
        let (gpu, host) = (self.clone(), OnceLock::new());
        Ok(DeviceMemory { gpu, buffer: Some(buffer), bytes, host })
    }
}

impl DeviceMemory {
    /// The buffer. Shaders that fill it must be submitted before the memory becomes part of a
    /// tensor, and none may change it afterwards.
    ///
    /// # Panics
    /// Never: only dropping the memory takes the buffer away.
    pub fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("memory has a buffer until it is dropped")
    }

    /// Buffer of `bytes`, if they are on the device of `gpu`.
    pub fn buffer_of<'b>(bytes: &'b ForeignBytes, gpu: &Gpu) -> Option<&'b Buffer> {
        let memory = bytes.device_buffer()?.downcast_ref::<Self>()?;
        memory.gpu.is_same(gpu).then(|| memory.buffer())
    }

    fn on_host(&self) -> &(AlignedBytes, Option<GpuError>) {
        self.host.get_or_init(|| match self.read() {
            Ok(bytes) => (bytes, None),
            Err(fault) => (AlignedBytes::zeroed(self.bytes), Some(fault)),
        })
    }

    fn read(&self) -> Result<AlignedBytes, GpuError> {
        let bytes = self.bytes as u64;
        let missing = GpuError::OutOfMemory { bytes };
        let mut host = AlignedBytes::try_zeroed(self.bytes).ok_or(missing)?;
        let device = self.gpu.device()?;
        let staging = device.readback_buffer(bytes)?;
        let readback = Readback { from: self.buffer(), to: 0, bytes };
        let mut read = |staging: &[u8]| host.as_mut_slice().copy_from_slice(&staging[..self.bytes]);
        device.run_and_read(&[], Some(&staging), &[readback], &mut read)?;
        Ok(host)
    }
}

impl Memory for DeviceMemory {
    fn bytes(&self) -> &[u8] {
        self.on_host().0.as_slice()
    }

    fn fetch(&self) -> Result<(), Error> {
        self.on_host().1.clone().map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn byte_len(&self) -> usize {
        self.bytes
    }

    fn device_buffer(&self) -> Option<&(dyn Any + Send + Sync)> {
        Some(self)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let (Some(buffer), Ok(device)) = (self.buffer.take(), self.gpu.device()) {
            device.pool.put(buffer);
        }
    }
}

impl Device {
    /// Copies the first `bytes` bytes of `from` to the start of `to`, after all commands so far.
    ///
    /// # Errors
    /// If they exceed a buffer, or the device is lost.
    pub fn copy(&self, from: &Buffer, to: &Buffer, bytes: u64) -> Result<(), GpuError> {
        let bytes = bytes.next_multiple_of(4);
        if bytes > from.bytes().min(to.bytes()) {
            return Err(GpuError::Invalid { reason: format!("copy of {bytes} bytes") });
        }
        self.submit(|encoder| encoder.copy_buffer_to_buffer(&from.0, 0, &to.0, 0, bytes))
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{ScalarType, Tensor};

    use super::*;
    use crate::GpuOptions;

    #[test]
    fn memory_is_read_back_once_and_its_buffer_is_used_again() {
        let gpu = Gpu::new(GpuOptions::from_env());
        let device = match gpu.device() {
            Ok(device) => device,
            Err(error) => return println!("skipped: no Vulkan device: {error}"),
        };
        let memory = gpu.memory(12).unwrap();
        let buffer = memory.buffer().clone();
        device.upload(&buffer, 0, bytemuck::cast_slice(&[1.0_f32, 2.0, 3.0])).unwrap();
        let bytes = ForeignBytes::from(memory);
        assert_eq!(DeviceMemory::buffer_of(&bytes, &gpu), Some(&buffer));
        let other = Gpu::new(GpuOptions::from_env());
        assert_eq!(DeviceMemory::buffer_of(&bytes, &other), None);
        let tensor = Tensor::from_foreign(ScalarType::Float, &[3], &[0], bytes).unwrap();
        let clone = tensor.clone();
        assert_eq!((clone.numel(), device.counts().readbacks), (3, 0));
        for tensor in [&tensor, &clone] {
            assert_eq!(tensor.data::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        }
        assert_eq!(device.counts().readbacks, 1);
        let to = gpu.memory(12).unwrap();
        assert_ne!(to.buffer(), &buffer);
        device.copy(&buffer, to.buffer(), 12).unwrap();
        assert_eq!(to.bytes(), tensor.view().bytes());
        assert!(device.copy(&buffer, to.buffer(), 1024).is_err());
        drop((tensor, clone));
        assert_eq!(gpu.memory(9).unwrap().buffer(), &buffer);
    }

    #[test]
    fn memory_of_a_lost_device_cannot_be_fetched() {
        let gpu = Gpu::new(GpuOptions::from_env());
        let device = match gpu.device() {
            Ok(device) => device,
            Err(error) => return println!("skipped: no Vulkan device: {error}"),
        };
        let [read, lost] = [(); 2].map(|()| {
            let memory = gpu.memory(4).unwrap();
            device.upload(memory.buffer(), 0, &[1, 2, 3, 4]).unwrap();
            let memory = ForeignBytes::from(memory);
            Tensor::from_foreign(ScalarType::Byte, &[4], &[0], memory).unwrap()
        });
        assert_eq!((read.fetch(), read.view().bytes()), (Ok(()), &[1, 2, 3, 4][..]));
        device.destroy();
        let error = lost.fetch().unwrap_err();
        assert!(error.to_string().contains("the GPU was lost"), "{error}");
        // The copy on the host stays.
        assert_eq!((read.fetch(), read.view().bytes()), (Ok(()), &[1, 2, 3, 4][..]));
        assert!(matches!(gpu.memory(4).err(), Some(GpuError::Lost { .. })));
    }
}
