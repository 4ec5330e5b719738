//! Hot path: records the graph for new sizes, uploads inputs, runs, and reads outputs back.

use std::collections::HashSet;

use afferent_core::{Args, Delegate, Error, KernelContext};
use afferent_gpu::{Access, Binding, Buffer, Device, Dispatch, Gpu, Readback};

use crate::{
    convert,
    error::from_gpu,
    graph::{Graph, Value},
    memory_plan::MemoryPlan,
    recorder::{DeviceLimits, Recorder, Step, Target},
};

/// A graph with its memory on the device.
pub(crate) struct VulkanDelegate<'a> {
    gpu: Gpu,
    graph: Graph<'a>,
    limits: DeviceLimits,
    plan: MemoryPlan,
    /// Buffer of each slot; `None` for slots that only constant calls use.
    buffers: Vec<Option<Buffer>>,
    /// Sizes of constant values.
    constant_sizes: Vec<(usize, Vec<usize>)>,
    roots: Vec<usize>,
    /// Inputs whose elements a SymInt reads.
    host_inputs: HashSet<usize>,
    /// Sizes and integers of the inputs of the last recording.
    key: Vec<InputKey>,
    /// Recording for `key`; `None` before the first run and after a failure.
    recording: Option<Recording>,
    staging: Option<Buffer>,
}

/// Sizes of an input and its integers, if the graph reads them.
type InputKey = (Vec<usize>, Vec<i64>);

/// Shader runs for the sizes of the inputs.
#[derive(Default)]
struct Recording {
    steps: Vec<Step>,
    /// Offset of the numbers of each step.
    offsets: Vec<u64>,
    dispatches: Vec<Dispatch>,
    params: Option<Buffer>,
    output_sizes: Vec<Vec<usize>>,
    output_ints: Vec<i64>,
}

/// Bytes of the numbers of a step, at least.
const MIN_PARAM_BYTES: u64 = 256;

impl<'a> VulkanDelegate<'a> {
    /// # Errors
    /// If sizes do not match, the memory exceeds `memory_limit`, or the device refuses.
    pub(crate) fn new(gpu: Gpu, graph: Graph<'a>, memory_limit: usize) -> Result<Self, Error> {
        let device = gpu.device().map_err(from_gpu)?;
        let limits = DeviceLimits {
            kind: device.kind(),
            max_workgroups: device.max_workgroups(),
            max_bindings: device.max_bindings(),
        };
        Self::with_limits(gpu.clone(), graph, limits, memory_limit)
    }

    pub(crate) fn with_limits(
        gpu: Gpu,
        graph: Graph<'a>,
        limits: DeviceLimits,
        memory_limit: usize,
    ) -> Result<Self, Error> {
        let device = gpu.device().map_err(from_gpu)?;
        let mut recorder = Recorder::new(&graph, limits);
        recorder.record(&|_| true)?;
        let plan = MemoryPlan::new(&recorder, memory_limit)?;
        let buffers = allocate(device, &plan)?;
        upload_constants(device, &recorder, &plan, &buffers)?;
        let steps = std::mem::take(&mut recorder.steps);
        let constant_steps = steps.into_iter().filter(|step| plan.is_constant[step.call]).collect();
        let constant = Recording::new(device, &plan, &buffers, constant_steps, None)?;
        device.run(&constant.dispatches).map_err(from_gpu)?;
        let written = graph.calls.iter().zip(&plan.is_constant).filter(|(_, constant)| **constant);
        let written =
            written.flat_map(|(call, _)| call.args.last().map_or(vec![], |out| graph.leaves(*out)));
        let constant_sizes =
            written.filter_map(|value| Some((value, recorder.sizes[value].clone()?))).collect();
        let roots = recorder.roots;
        let selects =
            graph.calls.iter().filter(|call| call.operator.name.contains("select_as_symint"));
        let host_inputs = selects.map(|call| call.args[0]).collect();
        let is_temporary = plan.is_temporary.iter();
        let buffers = buffers.into_iter().zip(is_temporary);
        let buffers = buffers.map(|(buffer, temporary)| (!temporary).then_some(buffer)).collect();
        Ok(Self {
            limits,
            plan,
            buffers,
            constant_sizes,
            roots,
            host_inputs,
            key: vec![],
            recording: None,
            staging: None,
            graph,
            gpu,
        })
    }

    /// Sizes and integers of the inputs.
    fn input_key(&self, args: &Args<'_>) -> Result<Vec<InputKey>, Error> {
        let mut key = Vec::with_capacity(self.graph.inputs.len());
        for (index, input) in self.graph.inputs.iter().enumerate() {
            let expected = "a tensor of at most the sizes of the export";
            let fault = Error::InvalidArgument { index: saturate(index), expected };
            let Value::Tensor(spec) = &self.graph.values[*input] else {
                key.push((vec![], vec![args.int(index).or_else(|_| single(args, index))?]));
                continue;
            };
            let view = args.tensor(index)?;
            let fits = view.rank() == spec.dims.len()
                && view.sizes().iter().zip(&spec.dims).all(|(size, bound)| size <= bound);
            if !fits {
                return Err(fault);
            }
            let integers = if self.host_inputs.contains(input) {
                convert::integers(index, &view)?
            } else {
                vec![]
            };
            key.push((view.sizes().to_vec(), integers));
        }
        Ok(key)
    }

    /// Records the graph for the inputs `key`.
    fn record(&mut self, key: &[InputKey]) -> Result<Recording, Error> {
        let device = self.gpu.device().map_err(from_gpu)?;
        let mut recorder = Recorder::new(&self.graph, self.limits);
        recorder.roots.clone_from(&self.roots);
        for (value, sizes) in &self.constant_sizes {
            recorder.sizes[*value] = Some(sizes.clone());
        }
        for (&input, (sizes, integers)) in self.graph.inputs.iter().zip(key) {
            match &self.graph.values[input] {
                Value::Tensor(_) => {
                    recorder.sizes[input] = Some(sizes.clone());
                    recorder.host.insert(input, integers.clone());
                }
                _ => recorder.ints[input] = integers.first().copied().unwrap_or_default(),
            }
        }
        recorder.record(&|position| !self.plan.is_constant[position])?;
        let steps = std::mem::take(&mut recorder.steps);
        let buffers: Vec<_> = self.buffers.iter().map(Option::as_ref).collect();
        let mut recording =
            Recording::with(device, &self.plan, &buffers, steps, self.recording.take())?;
        for &output in &self.graph.outputs {
            recording.output_sizes.push(recorder.sizes[output].clone().unwrap_or_default());
            recording.output_ints.push(recorder.ints[output]);
        }
        Ok(recording)
    }

    fn upload(&self, device: &Device, args: &Args<'_>) -> Result<(), Error> {
        for (index, &input) in self.graph.inputs.iter().enumerate() {
            let Value::Tensor(spec) = &self.graph.values[input] else { continue };
            let buffer = self.buffer(input)?;
            let elements =
                convert::argument(index, &args.tensor(index)?, spec.datatype.on_device())?;
            device.upload(buffer, 0, &elements).map_err(from_gpu)?;
        }
        Ok(())
    }

    fn buffer(&self, value: usize) -> Result<&Buffer, Error> {
        let slot = self.plan.locations.get(&Target::Value(self.roots[value]));
        let buffer = slot.and_then(|slot| self.buffers[*slot].as_ref());
        buffer.ok_or(Error::Internal { reason: "inputs and outputs have memory" })
    }

    /// Runs the recording and copies the results to the output arguments.
    fn run(&mut self, recording: &Recording, args: &mut Args<'_>) -> Result<(), Error> {
        let gpu = self.gpu.clone();
        let device = gpu.device().map_err(from_gpu)?;
        let first = self.graph.inputs.len();
        let (mut ranges, mut total) = (vec![], 0);
        for (index, &output) in self.graph.outputs.iter().enumerate() {
            let Value::Tensor(spec) = &self.graph.values[output] else { continue };
            let sizes = &recording.output_sizes[index];
            args.out(first + index)?.resize(sizes)?;
            let numel: usize = sizes.iter().product();
            let ty = spec.datatype.on_device();
            let bytes = if ty.is_packed() { numel } else { 4 * numel };
            ranges.push((first + index, output, ty, total, bytes));
            total += bytes.next_multiple_of(4);
        }
        if self.staging.as_ref().is_none_or(|staging| staging.bytes() < total as u64) {
            self.staging = Some(device.readback_buffer(total as u64).map_err(from_gpu)?);
        }
        let mut readbacks = vec![];
        for &(_, output, _, to, bytes) in ranges.iter().filter(|range| range.4 > 0) {
            readbacks.push(Readback {
                from: self.buffer(output)?,
                to: to as u64,
                bytes: bytes as u64,
            });
        }
        let mut stored = Ok(());
        let mut read = |staging: &[u8]| {
            for &(argument, _, ty, at, bytes) in ranges.iter().filter(|range| range.4 > 0) {
                if stored.is_ok() {
                    let elements = &staging[at..at + bytes];
                    let out = args.out(argument);
                    stored =
                        out.and_then(|mut out| convert::output(argument, elements, ty, &mut out));
                }
            }
        };
        let staging = self.staging.as_ref();
        let ran = device.run_and_read(&recording.dispatches, staging, &readbacks, &mut read);
        ran.map_err(from_gpu)?;
        stored
    }
}

/// The integer of a tensor of one element.
fn single(args: &Args<'_>, index: usize) -> Result<i64, Error> {
    let integers = convert::integers(index, &args.tensor(index)?)?;
    let expected = "a tensor of one integer";
    let fault = Error::InvalidArgument { index: saturate(index), expected };
    integers.first().copied().ok_or(fault)
}

fn saturate(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

/// Buffer of each slot.
fn allocate(device: &Device, plan: &MemoryPlan) -> Result<Vec<Buffer>, Error> {
    let bytes = plan.slots.iter().map(|words| *words as u64 * 4);
    bytes.map(|bytes| device.buffer(bytes).map_err(from_gpu)).collect()
}

/// Uploads the constants of the blob.
fn upload_constants(
    device: &Device,
    recorder: &Recorder<'_, '_>,
    plan: &MemoryPlan,
    buffers: &[Buffer],
) -> Result<(), Error> {
    for (index, value) in recorder.graph.values.iter().enumerate() {
        let Value::Tensor(spec) = value else { continue };
        let Some(bytes) = spec.constant else { continue };
        let Some(slot) = plan.locations.get(&Target::Value(index)) else { continue };
        let elements = convert::constant(spec, bytes);
        device.upload(&buffers[*slot], 0, &elements).map_err(from_gpu)?;
    }
    Ok(())
}

impl Recording {
    fn new(
        device: &Device,
        plan: &MemoryPlan,
        buffers: &[Buffer],
        steps: Vec<Step>,
        previous: Option<Self>,
    ) -> Result<Self, Error> {
        let buffers: Vec<_> = buffers.iter().map(Some).collect();
        Self::with(device, plan, &buffers, steps, previous)
    }

    /// Makes the dispatches of `steps`. Those of `previous` with the same shader and buffers are
    /// kept.
    fn with(
        device: &Device,
        plan: &MemoryPlan,
        buffers: &[Option<&Buffer>],
        steps: Vec<Step>,
        previous: Option<Self>,
    ) -> Result<Self, Error> {
        let mut previous = previous.unwrap_or_default();
        let alignment = device.offset_alignment().max(4);
        let (mut offsets, mut params) = (vec![], vec![]);
        for step in &steps {
            offsets.push(4 * params.len() as u64);
            params.extend_from_slice(&step.params);
            let bytes = (4 * step.params.len() as u64).max(MIN_PARAM_BYTES);
            let end = offsets.last().copied().unwrap_or(0) + bytes;
            params.resize(end.next_multiple_of(alignment) as usize / 4, 0);
        }
        let bytes: &[u8] = bytemuck::cast_slice(&params);
        let reused = previous.params.take().filter(|buffer| buffer.bytes() >= bytes.len() as u64);
        let is_reused = reused.is_some();
        let buffer = match reused {
            Some(buffer) => buffer,
            None => device.buffer(bytes.len() as u64).map_err(from_gpu)?,
        };
        device.upload(&buffer, 0, bytes).map_err(from_gpu)?;
        let mut dispatches: Vec<Dispatch> = Vec::with_capacity(steps.len());
        for (index, (step, &offset)) in steps.iter().zip(&offsets).enumerate() {
            let old = previous.steps.get(index).zip(previous.dispatches.get(index));
            let same = |old: &Step| old.source == step.source && old.bindings == step.bindings;
            let is_placed = is_reused && previous.offsets.get(index) == Some(&offset);
            let old = old
                .filter(|(old, _)| is_placed && same(old) && old.params.len() == step.params.len());
            if let Some((_, old)) = old {
                dispatches.push(Dispatch { workgroups: step.workgroups, ..old.clone() });
                continue;
            }
            let range =
                Binding { buffer: &buffer, offset, bytes: 4 * step.params.len().max(1) as u64 };
            dispatches.push(dispatch(device, plan, buffers, step, range)?);
        }
        Ok(Self { steps, offsets, dispatches, params: Some(buffer), ..Self::default() })
    }
}

fn dispatch(
    device: &Device,
    plan: &MemoryPlan,
    buffers: &[Option<&Buffer>],
    step: &Step,
    params: Binding<'_>,
) -> Result<Dispatch, Error> {
    let mut accesses: Vec<Access> = step.bindings.iter().map(|(_, access)| *access).collect();
    accesses.push(Access::Read);
    let pipeline = device.pipeline(&step.source, &accesses).map_err(from_gpu)?;
    let mut bindings = vec![];
    for (target, _) in &step.bindings {
        let slot = plan.locations.get(target);
        let buffer = slot.and_then(|slot| buffers[*slot]);
        let buffer = buffer.ok_or(Error::Internal { reason: "each value has memory" })?;
        bindings.push(Binding { buffer, offset: 0, bytes: 0 });
    }
    bindings.push(params);
    let bindings = device.bind(&pipeline, &bindings).map_err(from_gpu)?;
    Ok(Dispatch { pipeline, bindings, workgroups: step.workgroups })
}

impl Delegate for VulkanDelegate<'_> {
    fn num_inputs(&self) -> usize {
        self.graph.inputs.len()
    }

    fn execute(&mut self, _: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        let key = self.input_key(args)?;
        if self.recording.is_none() || self.key != key {
            self.recording = Some(self.record(&key)?);
            self.key = key;
        }
        let gpu = self.gpu.clone();
        let device = gpu.device().map_err(from_gpu)?;
        self.upload(device, args)?;
        // A failed run records again.
        let Some(recording) = self.recording.take() else {
            return Err(Error::Internal { reason: "a run has a recording" });
        };
        self.run(&recording, args)?;
        self.recording = Some(recording);
        Ok(())
    }
}

#[cfg(test)]
impl VulkanDelegate<'_> {
    /// Number of dispatches of a run with the last sizes.
    pub(crate) fn dispatches(&self) -> usize {
        self.recording.as_ref().map_or(0, |recording| recording.dispatches.len())
    }

    /// Number of calls that run at load.
    pub(crate) fn constant_calls(&self) -> usize {
        self.plan.is_constant.iter().filter(|is_constant| **is_constant).count()
    }
}

#[cfg(test)]
mod tests;
