//! Dispatches, readback and time stamps.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use wgpu::{
    CommandEncoder, CommandEncoderDescriptor, ComputePassDescriptor, ComputePassTimestampWrites,
    Features, MapMode, PollType, QUERY_SIZE, QuerySet, QuerySetDescriptor, QueryType,
};

use crate::{BindGroup, Buffer, Device, GpuError, Pipeline};

/// One run of a shader.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The shader.
    pub pipeline: Arc<Pipeline>,
    /// Its buffers.
    pub bindings: BindGroup,
    /// Number of workgroups in each dimension.
    pub workgroups: [u32; 3],
}

/// Copy of the first bytes of a buffer into a readback buffer.
#[derive(Debug, Clone, Copy)]
pub struct Readback<'b> {
    /// Source.
    pub from: &'b Buffer,
    /// Offset in the readback buffer, a multiple of four.
    pub to: u64,
    /// Number of bytes, rounded up to a multiple of four.
    pub bytes: u64,
}

impl Device {
    /// Runs `dispatches` in order, in one compute pass. A dispatch sees what earlier ones wrote.
    ///
    /// # Errors
    /// If the device is lost or refuses a command.
    pub fn run<'d>(
        &self,
        dispatches: impl IntoIterator<Item = &'d Dispatch>,
    ) -> Result<(), GpuError> {
        self.run_and_read(dispatches, None, &[], &mut |_| ())
    }

    /// As [`Device::run`]; then copies `readbacks` to `staging`, waits, and lends its bytes to
    /// `read`.
    ///
    /// # Errors
    /// As [`Device::run`].
    pub fn run_and_read<'d>(
        &self,
        dispatches: impl IntoIterator<Item = &'d Dispatch>,
        staging: Option<&Buffer>,
        readbacks: &[Readback<'_>],
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), GpuError> {
        let staging = staging.filter(|_| !readbacks.is_empty());
        let (mut count, mut end) = (0, 0);
        self.submit(|encoder| {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
            for dispatch in dispatches {
                pass.set_pipeline(&dispatch.pipeline.pipeline);
                pass.set_bind_group(0, &dispatch.bindings.0, &[]);
                let [x, y, z] = dispatch.workgroups;
                pass.dispatch_workgroups(x, y, z);
                count += 1;
            }
            drop(pass);
            let Some(staging) = staging else { return };
            for Readback { from, to, bytes } in readbacks {
                let bytes = bytes.next_multiple_of(4);
                encoder.copy_buffer_to_buffer(&from.0, 0, &staging.0, *to, bytes);
                end = end.max(to + bytes);
            }
        })?;
        self.counters.dispatches.fetch_add(count, Ordering::Relaxed);
        staging.map_or(Ok(()), |staging| self.map(staging, end, read))
    }

    /// Submits the commands that `record` adds.
    ///
    /// # Errors
    /// If the device is lost or refuses a command. A device that is lost later gives an error to the
    /// next wait.
    pub(crate) fn submit(&self, record: impl FnOnce(&mut CommandEncoder)) -> Result<(), GpuError> {
        self.check()?;
        self.scoped(|| {
            let descriptor = CommandEncoderDescriptor::default();
            let mut encoder = self.device.create_command_encoder(&descriptor);
            record(&mut encoder);
            self.queue.submit([encoder.finish()]);
        })?;
        // A lost device drops commands and reports it here.
        self.poll(PollType::Poll)
    }

    fn map(&self, staging: &Buffer, end: u64, read: &mut dyn FnMut(&[u8])) -> Result<(), GpuError> {
        if end == 0 {
            return self.wait();
        }
        self.counters.readbacks.fetch_add(1, Ordering::Relaxed);
        let slice = staging.0.slice(..end);
        self.scoped(|| slice.map_async(MapMode::Read, |_| ()))?;
        self.wait()?;
        // A buffer that was not mapped has no range.
        let mapped = slice.get_mapped_range();
        let result = mapped
            .map(|bytes| read(&bytes))
            .map_err(|error| GpuError::Invalid { reason: format!("a readback failed: {error}") });
        staging.0.unmap();
        result
    }

    /// Waits until the device has finished all commands.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.poll(PollType::wait_indefinitely())
    }

    /// True if the device has time stamps.
    pub fn has_timestamps(&self) -> bool {
        self.device.features().contains(Features::TIMESTAMP_QUERY)
    }

    /// Runs each dispatch in a pass of its own and returns the time that it took on the device.
    ///
    /// # Errors
    /// If the device has no time stamps, is lost, or refuses a command.
    pub fn profile(&self, dispatches: &[&Dispatch]) -> Result<Vec<Duration>, GpuError> {
        if !self.has_timestamps() {
            return Err(GpuError::Invalid { reason: "the device has no time stamps".into() });
        }
        let mut times = Vec::with_capacity(dispatches.len());
        for chunk in dispatches.chunks(1024) {
            times.extend(self.profile_chunk(chunk)?);
        }
        Ok(times)
    }

    fn profile_chunk(&self, dispatches: &[&Dispatch]) -> Result<Vec<Duration>, GpuError> {
        let count = u32::try_from(dispatches.len() * 2).unwrap_or(u32::MAX);
        let bytes = u64::from(count) * u64::from(QUERY_SIZE);
        let staging = self.readback_buffer(bytes)?;
        self.submit(|encoder| {
            let queries = self.device.create_query_set(&QuerySetDescriptor {
                label: None,
                ty: QueryType::Timestamp,
                count,
            });
            for (first, dispatch) in (0..).step_by(2).zip(dispatches) {
                timed_pass(encoder, &queries, first, dispatch);
            }
            let resolved = self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
            encoder.copy_buffer_to_buffer(&resolved, 0, &staging.0, 0, bytes);
        })?;
        let nanoseconds = f64::from(self.queue.get_timestamp_period());
        let mut times = Vec::new();
        self.map(&staging, bytes, &mut |bytes| {
            let stamp = |at: &[u8]| at.first_chunk().map_or(0, |at| u64::from_le_bytes(*at));
            times.extend(bytes.chunks_exact(16).map(|pair| {
                let ticks = stamp(&pair[8..]).saturating_sub(stamp(pair));
                Duration::from_nanos((ticks as f64 * nanoseconds) as u64)
            }));
        })?;
        Ok(times)
    }
}

/// Runs one dispatch between two time stamps.
fn timed_pass(encoder: &mut CommandEncoder, queries: &QuerySet, first: u32, dispatch: &Dispatch) {
    let timestamp_writes = Some(ComputePassTimestampWrites {
        query_set: queries,
        beginning_of_pass_write_index: Some(first),
        end_of_pass_write_index: Some(first + 1),
    });
    let mut pass =
        encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
    pass.set_pipeline(&dispatch.pipeline.pipeline);
    pass.set_bind_group(0, &dispatch.bindings.0, &[]);
    let [x, y, z] = dispatch.workgroups;
    pass.dispatch_workgroups(x, y, z);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Binding, Gpu, GpuOptions};

    const DOUBLE: &str = "@group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = 2.0 * x[id.x]; }
        }";

    /// Device of the tests, if there is one.
    fn device(gpu: &Gpu) -> Option<&Device> {
        let device = gpu.device();
        if let Err(error) = &device {
            println!("skipped: no Vulkan device: {error}");
        }
        device.ok()
    }

    fn dispatch(device: &Device, buffers: [&Buffer; 2]) -> Dispatch {
        let pipeline = device.pipeline(DOUBLE, &[Access::Read, Access::Write]).unwrap();
        let bindings = buffers.map(|buffer| Binding { buffer, offset: 0, bytes: 0 });
        let bindings = device.bind(&pipeline, &bindings).unwrap();
        Dispatch { pipeline, bindings, workgroups: [1, 1, 1] }
    }

    #[test]
    fn dispatches_run_in_order_and_are_read_back() {
        let gpu = Gpu::new(GpuOptions::from_env());
        let Some(device) = device(&gpu) else { return };
        let values: Vec<f32> = (0_u8..5).map(f32::from).collect();
        let [a, b] = [(); 2].map(|()| device.buffer(20).unwrap());
        device.upload(&a, 0, bytemuck::cast_slice(&values)).unwrap();
        let run = [dispatch(device, [&a, &b]), dispatch(device, [&b, &a])];
        let staging = device.readback_buffer(20).unwrap();
        let readbacks = [Readback { from: &a, to: 0, bytes: 20 }];
        let mut found = vec![];
        let mut read = |bytes: &[u8]| found = bytes.to_vec();
        device.run_and_read(&run, Some(&staging), &readbacks, &mut read).unwrap();
        let found: Vec<f32> = bytemuck::pod_collect_to_vec(&found);
        assert_eq!(found, [0.0, 4.0, 8.0, 12.0, 16.0]);
        if device.has_timestamps() {
            assert_eq!(device.profile(&[&run[0], &run[1]]).unwrap().len(), 2);
        }
    }

    #[test]
    fn faults_are_errors() {
        let gpu = Gpu::new(GpuOptions::from_env());
        let Some(device) = device(&gpu) else { return };
        let limit = device.max_binding_bytes();
        let error = device.buffer(limit + 1).unwrap_err();
        assert_eq!(error, GpuError::BufferTooLarge { bytes: limit + 1, limit });
        let error = device.pipeline("fn main() {", &[]).unwrap_err();
        assert!(matches!(error, GpuError::Invalid { .. }), "{error}");
        let pipeline = device.pipeline(DOUBLE, &[Access::Read, Access::Write]).unwrap();
        assert!(device.bind(&pipeline, &[]).is_err());
        let buffer = device.buffer(8).unwrap();
        assert!(device.upload(&buffer, 4, &[0; 8]).is_err());
        assert!(device.upload(&buffer, 2, &[0; 4]).is_err());
        // The device still works.
        let other = device.buffer(8).unwrap();
        device.run(&[dispatch(device, [&buffer, &other])]).unwrap();
        device.wait().unwrap();
    }

    #[test]
    fn a_lost_device_fails_the_call_that_it_hits() {
        type Hit = fn(&Device, [&Buffer; 2], &Dispatch) -> Result<(), GpuError>;
        let hits: [(&str, Hit); 6] = [
            ("run", |device, _, run| device.run(std::slice::from_ref(run))),
            ("copy", |device, [a, b], _| device.copy(a, b, 20)),
            ("wait", |device, _, _| device.wait()),
            ("buffer", |device, _, _| {
                device.buffer(20).and_then(|a| device.copy(&a, &a.clone(), 4))
            }),
            ("read", |device, [a, staging], run| {
                let readbacks = [Readback { from: a, to: 0, bytes: 20 }];
                let mut read = |bytes: &[u8]| panic!("the run gives {bytes:?}");
                device.run_and_read(std::slice::from_ref(run), Some(staging), &readbacks, &mut read)
            }),
            ("profile", |device, _, run| device.profile(&[run]).map(|_| ())),
        ];
        for (name, hit) in hits {
            let gpu = Gpu::new(GpuOptions::from_env());
            let Some(device) = device(&gpu) else { return };
            let [a, b] = [(); 2].map(|()| device.buffer(20).unwrap());
            let staging = device.readback_buffer(20).unwrap();
            let run = dispatch(device, [&a, &b]);
            device.run(std::slice::from_ref(&run)).unwrap();
            device.destroy();
            let to = if name == "read" { &staging } else { &b };
            for _ in 0..2 {
                let error = hit(device, [&a, to], &run).unwrap_err();
                assert!(matches!(error, GpuError::Lost { .. }), "{name}: {error}");
            }
        }
    }

    #[test]
    fn a_gpu_that_is_off_gives_an_error() {
        let gpu = Gpu::new(GpuOptions { adapter: Some("off".into()), cache: None });
        assert_eq!(gpu.device().err(), Some(GpuError::Off));
    }
}
