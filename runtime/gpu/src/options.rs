//! Choice of the adapter.

use std::{env, path::PathBuf};

use wgpu::{AdapterInfo, DeviceType};

use crate::GpuError;

/// Choice of the adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// `off`, a kind (`discrete`, `integrated`, `virtual`, `cpu`) or a part of the name of an
    /// adapter, in lower or upper case. `None` takes the first discrete, integrated, virtual, other
    /// or CPU device, in this order. So a CPU device such as lavapipe is used if it is asked for or
    /// if there is nothing else.
    pub adapter: Option<String>,
    /// Folder for compiled shaders, which the next process need not compile; `None` keeps none.
    pub cache: Option<PathBuf>,
}

impl GpuOptions {
    /// Options with the adapter that the environment variable `AFFERENT_GPU` names.
    pub fn from_env() -> Self {
        let adapter = env::var("AFFERENT_GPU").ok().filter(|name| !name.is_empty());
        Self { adapter, cache: None }
    }

    /// The same options with compiled shaders in the folder `gpu` of the cache of the user.
    #[must_use]
    pub fn with_user_cache(self, user_cache: Option<PathBuf>) -> Self {
        Self { cache: user_cache.map(|folder| folder.join("gpu")), ..self }
    }

    /// Index of the adapter to use.
    ///
    /// # Errors
    /// If none matches.
    pub(crate) fn choose(&self, adapters: &[AdapterInfo]) -> Result<usize, GpuError> {
        let wanted = self.adapter.as_deref().map(str::to_lowercase);
        if wanted.as_deref() == Some("off") {
            return Err(GpuError::Off);
        }
        if adapters.is_empty() {
            return Err(GpuError::NoAdapter);
        }
        let matches = |info: &AdapterInfo| match &wanted {
            None => true,
            Some(wanted) => {
                kind_name(info.device_type) == wanted || info.name.to_lowercase().contains(wanted)
            }
        };
        let candidates = adapters.iter().enumerate().filter(|(_, info)| matches(info));
        let best = candidates.min_by_key(|(_, info)| rank(info.device_type));
        best.map(|(index, _)| index).ok_or_else(|| GpuError::NoMatch {
            wanted: self.adapter.clone().unwrap_or_default(),
            found: adapters.iter().map(|info| info.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Name of a device type in the options.
pub(crate) fn kind_name(kind: DeviceType) -> &'static str {
    match kind {
        DeviceType::DiscreteGpu => "discrete",
        DeviceType::IntegratedGpu => "integrated",
        DeviceType::VirtualGpu => "virtual",
        DeviceType::Other => "other",
        DeviceType::Cpu => "cpu",
    }
}

fn rank(kind: DeviceType) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

#[cfg(test)]
mod tests {
    use wgpu::Backend;

    use super::*;

    #[test]
    fn the_best_matching_adapter_is_chosen() {
        let info = |kind, name: &str| {
            let mut info = AdapterInfo::new(kind, Backend::Vulkan);
            info.name = name.to_owned();
            info
        };
        let all = [
            info(DeviceType::Cpu, "llvmpipe (LLVM 15)"),
            info(DeviceType::IntegratedGpu, "Intel Iris"),
            info(DeviceType::DiscreteGpu, "NVIDIA RTX"),
        ];
        let check =
            |wanted: Option<&str>, adapters: &[AdapterInfo], expected: Result<usize, &str>| {
                let found =
                    GpuOptions { adapter: wanted.map(str::to_owned), cache: None }.choose(adapters);
                match (found, expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{wanted:?}"),
                    (Err(error), Err(part)) => {
                        assert!(error.to_string().contains(part), "{wanted:?}: {error}");
                    }
                    (found, _) => panic!("{wanted:?}: {found:?}"),
                }
            };
        check(None, &all, Ok(2));
        check(None, &all[..2], Ok(1));
        check(None, &all[..1], Ok(0));
        check(None, &[], Err("install the driver"));
        check(Some("cpu"), &all, Ok(0));
        check(Some("iris"), &all, Ok(1));
        check(Some("off"), &all, Err("unset it"));
        check(Some("Mali"), &all, Err("llvmpipe (LLVM 15), Intel Iris, NVIDIA RTX"));
    }
}
