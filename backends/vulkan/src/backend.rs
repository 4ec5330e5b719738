//! The backend: availability and initialization.

use afferent_core::{Backend, DelegateHandle, DelegateSource, Error};
use afferent_gpu::Gpu;

use crate::{blob, delegate::VulkanDelegate, fusion};

/// Backend of programs for Vulkan and WebGPU. All its delegates share one device.
pub struct Vulkan {
    gpu: Gpu,
}

impl Vulkan {
    /// Backend on the device of `gpu`, which is opened for the first program.
    pub fn new(gpu: Gpu) -> Self {
        Self { gpu }
    }
}

impl Backend for Vulkan {
    fn name(&self) -> &'static str {
        "VulkanBackend"
    }

    fn is_available(&self) -> bool {
        self.gpu.device().is_ok()
    }

    fn unavailable(&self) -> Option<String> {
        self.gpu.device().err().map(|error| error.to_string())
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let mut graph = blob::parse(source)?;
        fusion::run(&mut graph);
        self.gpu.device()?;
        let delegate = VulkanDelegate::new(self.gpu.clone(), graph, source.memory_limit)?;
        Ok(DelegateHandle::Owned(Box::new(delegate)))
    }
}

#[cfg(test)]
mod tests {
    use afferent_gpu::GpuOptions;

    use super::*;

    #[test]
    fn an_unknown_adapter_is_named_with_those_that_there_are() {
        let gpu = Gpu::new(GpuOptions { adapter: Some("no such adapter".into()), cache: None });
        let reason = Vulkan::new(gpu).unavailable().unwrap();
        let has_adapters = reason.contains("`no such adapter`; this machine has: ");
        assert!(has_adapters || reason.contains("no Vulkan"), "{reason}");
    }
}
