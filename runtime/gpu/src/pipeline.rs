//! Compute pipelines by shader source, and their bindings.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindGroupLayoutDescriptor, BindGroupLayoutEntry,
    BindingType, BufferBinding, BufferBindingType, ComputePipelineDescriptor,
    PipelineCompilationOptions, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource,
    ShaderStages,
};

use crate::{Buffer, Device, GpuError, pipeline_file::PipelineFile};

/// Access of a shader to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    Write,
    /// `var<uniform>`
    Uniform,
}

impl Access {
    fn binding_type(self) -> BufferBindingType {
        match self {
            Self::Read => BufferBindingType::Storage { read_only: true },
            Self::Write => BufferBindingType::Storage { read_only: false },
            Self::Uniform => BufferBindingType::Uniform,
        }
    }
}

/// Compiled shader.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// Pipelines of a device.
pub(crate) struct PipelineCache {
    by_source: Mutex<HashMap<Box<str>, Arc<Pipeline>>>,
    file: Option<PipelineFile>,
}

impl PipelineCache {
    /// An empty cache, with those of earlier processes in `file`.
    pub(crate) fn new(file: Option<PipelineFile>) -> Self {
        Self { by_source: Mutex::default(), file }
    }
}

/// Range of a buffer that a shader uses.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'b> {
    /// The buffer.
    pub buffer: &'b Buffer,
    /// First byte, a multiple of [`Device::offset_alignment`].
    pub offset: u64,
    /// Number of bytes; 0 means the rest of the buffer.
    pub bytes: u64,
}

impl Binding<'_> {
    fn entry(&self, binding: u32) -> BindGroupEntry<'_> {
        let buffer = &self.buffer.0;
        let buffer =
            BufferBinding { buffer, offset: self.offset, size: self.bytes.try_into().ok() };
        BindGroupEntry { binding, resource: wgpu::BindingResource::Buffer(buffer) }
    }
}

/// Buffers of a dispatch.
#[derive(Debug, Clone)]
pub struct BindGroup(pub(crate) wgpu::BindGroup);

impl Device {
    /// Pipeline of the entry point `main` of `source`, whose binding `n` in group 0 is a buffer with
    /// access `bindings[n]`. It is compiled once for each source.
    ///
    /// # Errors
    /// If the driver refuses the shader.
    pub fn pipeline(&self, source: &str, bindings: &[Access]) -> Result<Arc<Pipeline>, GpuError> {
        let mut cache = self.pipelines.by_source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = cache.get(source) {
            return Ok(pipeline.clone());
        }
        self.check()?;
        let pipeline = Arc::new(self.scoped(|| self.compile(source, bindings))?);
        cache.insert(source.into(), pipeline.clone());
        Ok(pipeline)
    }

    fn compile(&self, source: &str, bindings: &[Access]) -> Pipeline {
        let module = self.device.create_shader_module(ShaderModuleDescriptor {
            label: None,
            source: ShaderSource::Wgsl(source.into()),
        });
        let entry = |(binding, access): (u32, &Access)| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty: access.binding_type(),
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..).zip(bindings).map(entry).collect();
        let descriptor = BindGroupLayoutDescriptor { label: None, entries: &entries };
        let layout = self.device.create_bind_group_layout(&descriptor);
        let pipeline_layout = self.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..PipelineCompilationOptions::default()
            },
            cache: self.pipelines.file.as_ref().map(PipelineFile::cache),
        });
        Pipeline { pipeline, layout }
    }

    /// Binds buffers to the bindings of a pipeline.
    ///
    /// # Errors
    /// If number or ranges do not fit the pipeline.
    pub fn bind(
        &self,
        pipeline: &Pipeline,
        bindings: &[Binding<'_>],
    ) -> Result<BindGroup, GpuError> {
        let entries: Vec<_> =
            (0..).zip(bindings).map(|(binding, range)| range.entry(binding)).collect();
        let descriptor =
            BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
        self.scoped(|| self.device.create_bind_group(&descriptor)).map(BindGroup)
    }
}
