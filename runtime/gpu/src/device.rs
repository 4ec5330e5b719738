//! The device of a process, opened on first use, and its faults.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use afferent_core::Service;
use wgpu::{
    Adapter, Backends, DeviceDescriptor, ErrorFilter, Features, Instance, InstanceDescriptor,
    PollType,
};

use crate::{
    GpuError, GpuOptions, memory::Pool, options::kind_name, pipeline::PipelineCache,
    pipeline_file::PipelineFile,
};

/// GPU of the process. Clones share the device.
#[derive(Clone)]
pub struct Gpu(Arc<Lazy>);

struct Lazy {
    options: GpuOptions,
    device: OnceLock<Result<Device, GpuError>>,
}

impl Service for Gpu {
    const NAME: &'static str = "Gpu";
    const HINT: &'static str = "add one with `App::service(Gpu::new(GpuOptions::from_env()))`";
}

impl Gpu {
    /// GPU that is opened on first use.
    pub fn new(options: GpuOptions) -> Self {
        Self(Arc::new(Lazy { options, device: OnceLock::new() }))
    }

    /// The device. The first call opens it, which takes some tenths of a second.
    ///
    /// # Errors
    /// If there is no device, or the driver refuses to open it; later calls return the same error.
    pub fn device(&self) -> Result<&Device, GpuError> {
        let opened = self.0.device.get_or_init(|| Device::open(&self.0.options));
        opened.as_ref().map_err(GpuError::clone)
    }

    /// The device, if a call of [`Gpu::device`] has opened it.
    pub fn opened(&self) -> Option<&Device> {
        self.0.device.get()?.as_ref().ok()
    }

    /// True for clones of the same GPU.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Commands to a device since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs of shaders.
    pub dispatches: u64,
    /// Writes of host memory to a buffer.
    pub uploads: u64,
    /// Waits for the content of buffers. Several buffers that are read at once count once.
    pub readbacks: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            dispatches: self.dispatches - earlier.dispatches,
            uploads: self.uploads - earlier.uploads,
            readbacks: self.readbacks - earlier.readbacks,
        }
    }
}

/// Counters of [`Counts`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) dispatches: AtomicU64,
    pub(crate) uploads: AtomicU64,
    pub(crate) readbacks: AtomicU64,
}

/// Kind of a device, which selects the form of a shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Shaders run on the CPU: a barrier is slow, and threads share nothing.
    Cpu,
    /// A GPU with workgroups that share memory.
    Gpu,
}

/// Description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name of the adapter.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `other` or `cpu`.
    pub kind: &'static str,
    /// Name and version of the driver.
    pub driver: String,
}

/// Open device with its queue.
pub struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) pipelines: PipelineCache,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    fault: Arc<Mutex<Option<GpuError>>>,
    info: DeviceInfo,
    device_kind: DeviceKind,
    max_binding_bytes: u64,
    max_bindings: usize,
    max_workgroups: u32,
    offset_alignment: u64,
}

impl Device {
    fn open(options: &GpuOptions) -> Result<Self, GpuError> {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        let instance = Instance::new(descriptor);
        let adapters = instance.enumerate_adapters(Backends::all());
        let mut adapters: Vec<Adapter> = pollster::block_on(adapters);
        let infos: Vec<_> = adapters.iter().map(Adapter::get_info).collect();
        let index = options.choose(&infos)?;
        let (adapter, info) = (adapters.swap_remove(index), &infos[index]);
        let limits = adapter.limits();
        let wanted = Features::TIMESTAMP_QUERY
            | Features::SHADER_F16
            | Features::SUBGROUP
            | Features::PIPELINE_CACHE;
        let request = DeviceDescriptor {
            required_features: adapter.features() & wanted,
            required_limits: limits.clone(),
            ..DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.request_device(&request));
        let (device, queue) = opened.map_err(|error| GpuError::Open {
            name: info.name.clone(),
            reason: error.to_string(),
        })?;
        let fault = Arc::new(Mutex::new(None));
        watch(&device, &fault);
        let folder = options.cache.as_deref();
        let file = folder.and_then(|folder| PipelineFile::open(&device, info, folder));
        let is_cpu = info.device_type == wgpu::DeviceType::Cpu;
        Ok(Self {
            device,
            queue,
            pipelines: PipelineCache::new(file),
            pool: Pool::default(),
            counters: Counters::default(),
            fault,
            info: DeviceInfo {
                name: info.name.clone(),
                kind: kind_name(info.device_type),
                driver: format!("{} {}", info.driver, info.driver_info),
            },
            device_kind: if is_cpu { DeviceKind::Cpu } else { DeviceKind::Gpu },
            max_binding_bytes: limits
                .max_storage_buffer_binding_size
                .min(limits.max_buffer_size)
                .min(u64::from(u32::MAX)),
            max_bindings: limits.max_storage_buffers_per_shader_stage as usize,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            offset_alignment: u64::from(
                limits
                    .min_storage_buffer_offset_alignment
                    .max(limits.min_uniform_buffer_offset_alignment),
            ),
        })
    }

    /// Description of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Commands so far.
    pub fn counts(&self) -> Counts {
        let Counters { dispatches, uploads, readbacks } = &self.counters;
        let [dispatches, uploads, readbacks] =
            [dispatches, uploads, readbacks].map(|counter| counter.load(Ordering::Relaxed));
        Counts { dispatches, uploads, readbacks }
    }

    /// Kind of the device.
    pub fn kind(&self) -> DeviceKind {
        self.device_kind
    }

    /// Limit for the size of a buffer that a shader uses, in bytes.
    pub fn max_binding_bytes(&self) -> u64 {
        self.max_binding_bytes
    }

    /// Number of buffers that a shader can use.
    pub fn max_bindings(&self) -> usize {
        self.max_bindings
    }

    /// Number of workgroups in each dimension of a dispatch.
    pub fn max_workgroups(&self) -> u32 {
        self.max_workgroups
    }

    /// Alignment of the offset of a binding in its buffer, in bytes.
    pub fn offset_alignment(&self) -> u64 {
        self.offset_alignment
    }

    /// True if shaders can use `subgroupAdd` and its like.
    pub fn has_subgroups(&self) -> bool {
        self.device.features().contains(Features::SUBGROUP)
    }

    /// Destroys the device after its last command. Later calls fail as on a device that the driver has
    /// lost.
    #[doc(hidden)]
    pub fn destroy(&self) {
        // A device with unfinished commands reports its loss after them.
        drop(self.wait());
        self.device.destroy();
    }

    /// Returns the loss of the device, or the first fault that the driver reported outside of a call.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone().map_or(Ok(()), Err)
    }

    /// Runs `make` and returns the error that the driver reports for it. So the call that causes an
    /// error fails, and no call of another thread.
    pub(crate) fn scoped<T>(&self, make: impl FnOnce() -> T) -> Result<T, GpuError> {
        let memory = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let internal = self.device.push_error_scope(ErrorFilter::Internal);
        let validation = self.device.push_error_scope(ErrorFilter::Validation);
        let made = make();
        let validation = pollster::block_on(validation.pop());
        let internal = pollster::block_on(internal.pop());
        let memory = pollster::block_on(memory.pop());
        match memory.or(internal).or(validation) {
            None => Ok(made),
            // A command to a lost device is invalid, which hides the cause.
            Some(error) => Err(self.poll(PollType::Poll).err().unwrap_or_else(|| describe(&error))),
        }
    }

    /// Lets the driver report finished commands and the loss of the device.
    ///
    /// # Errors
    /// If the device is lost.
    pub(crate) fn poll(&self, how: PollType) -> Result<(), GpuError> {
        // wgpu panics if the driver loses the device during a wait. It has called the callback of the
        // loss by then, and holds no lock that the panic could poison.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(how)));
        self.check()?;
        match polled {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(GpuError::Lost { reason: error.to_string() }),
            Err(_) => Err(GpuError::Lost { reason: "the driver failed during a wait".into() }),
        }
    }
}

/// Records the loss of the device, and faults that no error scope catches.
fn watch(device: &wgpu::Device, fault: &Arc<Mutex<Option<GpuError>>>) {
    let lost = fault.clone();
    device.set_device_lost_callback(move |why, reason| {
        let reason = if reason.is_empty() { format!("{why:?}").to_lowercase() } else { reason };
        *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(GpuError::Lost { reason });
    });
    let uncaptured = fault.clone();
    device.on_uncaptured_error(Arc::new(move |error| {
        let mut fault = uncaptured.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert_with(|| describe(&error));
    }));
}

fn describe(error: &wgpu::Error) -> GpuError {
    match error {
        wgpu::Error::OutOfMemory { .. } => GpuError::Exhausted,
        error => GpuError::Invalid { reason: error.to_string() },
    }
}
