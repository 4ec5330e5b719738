//! Hot path: records the graph for new sizes, uploads inputs, runs, and reads outputs back.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use afferent_core::{Args, Delegate, DelegateObserver, Error, KernelContext};
use afferent_gpu::{Access, BindGroup, Binding, Buffer, Device, Dispatch, Gpu, Readback};

use crate::{
    convert,
    exchange::{Exchange, Output, fixed_roots},
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
    /// Buffer of each slot; `None` for slots that are used at load only.
    buffers: Vec<Option<Buffer>>,
    /// Sizes of constant values.
    constant_sizes: Vec<(usize, Vec<usize>)>,
    roots: Vec<usize>,
    /// Values whose memory cannot be replaced by that of a result.
    fixed_roots: HashSet<usize>,
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
    /// Bindings of a step to buffers of arguments.
    rebound: HashMap<(usize, Vec<Buffer>), BindGroup>,
    output_sizes: Vec<Vec<usize>>,
    output_ints: Vec<i64>,
}

/// Bytes of the numbers of a step, at least.
const MIN_PARAM_BYTES: u64 = 256;

/// Limit on the bindings to buffers of arguments that a recording keeps.
const MAX_REBOUND: usize = 4096;

impl<'a> VulkanDelegate<'a> {
    /// # Errors
    /// If sizes do not match, the memory exceeds `memory_limit`, or the device refuses.
    pub(crate) fn new(gpu: Gpu, graph: Graph<'a>, memory_limit: usize) -> Result<Self, Error> {
        let device = gpu.device()?;
        Self::with_limits(gpu.clone(), graph, DeviceLimits::of(device), memory_limit)
    }

    pub(crate) fn with_limits(
        gpu: Gpu,
        graph: Graph<'a>,
        limits: DeviceLimits,
        memory_limit: usize,
    ) -> Result<Self, Error> {
        let device = gpu.device()?;
        let mut recorder = Recorder::new(&graph, limits);
        recorder.record(&|_| true)?;
        let plan = MemoryPlan::new(&recorder, memory_limit)?;
        let buffers = allocate(device, &plan)?;
        upload_constants(device, &recorder, &plan, &buffers)?;
        let steps = std::mem::take(&mut recorder.steps);
        let constant_steps =
            steps.into_iter().filter(|step| step.is_once || plan.is_constant[step.call]).collect();
        let constant = Recording::new(device, &plan, &buffers, constant_steps, None)?;
        device.run(&constant.dispatches)?;
        let written = graph.calls.iter().zip(&plan.is_constant).filter(|(_, constant)| **constant);
        let written =
            written.flat_map(|(call, _)| call.args.last().map_or(vec![], |out| graph.leaves(*out)));
        let constant_sizes: Vec<_> =
            written.filter_map(|value| Some((value, recorder.sizes[value].clone()?))).collect();
        let roots = recorder.roots;
        let fixed_roots = fixed_roots(&graph, &roots, &recorder.is_state, &constant_sizes);
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
            fixed_roots,
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
            let slot = args.slot(index)?;
            let fits = slot.sizes().len() == spec.dims.len()
                && slot.sizes().iter().zip(&spec.dims).all(|(size, bound)| size <= bound);
            if !fits {
                return Err(fault);
            }
            let integers = if self.host_inputs.contains(input) {
                convert::integers(index, &args.tensor(index)?)?
            } else {
                vec![]
            };
            key.push((slot.sizes().to_vec(), integers));
        }
        Ok(key)
    }

    /// Records the graph for the inputs `key`.
    fn record(&mut self, key: &[InputKey]) -> Result<Recording, Error> {
        let device = self.gpu.device()?;
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
        let mut steps = std::mem::take(&mut recorder.steps);
        steps.retain(|step| !step.is_once);
        let buffers: Vec<_> = self.buffers.iter().map(Option::as_ref).collect();
        let mut recording =
            Recording::with(device, &self.plan, &buffers, steps, self.recording.take())?;
        for &output in &self.graph.outputs {
            recording.output_sizes.push(recorder.sizes[output].clone().unwrap_or_default());
            recording.output_ints.push(recorder.ints[output]);
        }
        Ok(recording)
    }

    /// Uploads the inputs that are not on the device.
    fn upload(
        &self,
        device: &Device,
        recording: &Recording,
        args: &Args<'_>,
    ) -> Result<Exchange, Error> {
        let mut exchange = Exchange::default();
        for (index, &input) in self.graph.inputs.iter().enumerate() {
            let Value::Tensor(spec) = &self.graph.values[input] else { continue };
            let (ty, root) = (spec.datatype.on_device(), self.roots[input]);
            let is_shared =
                !recording.writes(root) && exchange.input(&self.gpu, args.slot(index)?, root, ty);
            if is_shared {
                continue;
            }
            let elements = convert::argument(index, &args.tensor(index)?, ty)?;
            device.upload(self.buffer(input)?, 0, &elements)?;
        }
        Ok(exchange)
    }

    fn buffer(&self, value: usize) -> Result<&Buffer, Error> {
        let buffer = self.slot_buffer(&Target::Value(self.roots[value]));
        buffer.ok_or(Error::Internal { reason: "inputs and outputs have memory" })
    }

    /// Buffer of the memory plan.
    fn slot_buffer(&self, target: &Target) -> Option<&Buffer> {
        plan_buffer(&self.plan, &self.buffers, target)
    }

    /// Runs the recording. Copies the results to the output arguments, or leaves them on the device.
    fn run(
        &mut self,
        recording: &mut Recording,
        args: &mut Args<'_>,
        observer: Option<&dyn DelegateObserver>,
    ) -> Result<(), Error> {
        let gpu = self.gpu.clone();
        let device = gpu.device()?;
        let mut exchange = self.upload(device, recording, args)?;
        let first = self.graph.inputs.len();
        let (mut ranges, mut total) = (vec![], 0);
        for (index, &output) in self.graph.outputs.iter().enumerate() {
            let Value::Tensor(spec) = &self.graph.values[output] else { continue };
            let sizes = recording.output_sizes[index].as_slice();
            let (ty, root) = (spec.datatype.on_device(), self.roots[output]);
            let words = |value: usize| self.graph.tensor(value).map_or(0, |spec| spec.words());
            let bound = 4 * words(root).max(words(output));
            let is_fixed = self.fixed_roots.contains(&root);
            let argument = first + index;
            let planned = Output { argument, root, sizes, ty, is_fixed, bound };
            if exchange.output(&gpu, args, &planned)? {
                continue;
            }
            args.out(argument)?.resize(sizes)?;
            let numel: usize = sizes.iter().product();
            let bytes = if ty.is_packed() { numel } else { 4 * numel };
            ranges.push((argument, output, ty, total, bytes));
            total += bytes.next_multiple_of(4);
        }
        let rebound = {
            let (plan, buffers) = (&self.plan, &self.buffers);
            let planned = |target: &Target| plan_buffer(plan, buffers, target);
            recording.rebind(device, &exchange, &planned)?
        };
        if total > 0 && self.staging.as_ref().is_none_or(|staging| staging.bytes() < total as u64) {
            self.staging = Some(device.readback_buffer(total as u64)?);
        }
        let buffer = |value: usize| {
            let replaced = exchange.buffers.iter().find(|(root, _)| *root == self.roots[value]);
            replaced.map_or_else(|| self.buffer(value), |(_, buffer)| Ok(buffer))
        };
        let mut readbacks = vec![];
        for &(_, output, _, to, bytes) in ranges.iter().filter(|range| range.4 > 0) {
            let (to, bytes) = (to as u64, bytes as u64);
            readbacks.push(Readback { from: buffer(output)?, to, bytes });
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
        let mut dispatches = rebound.as_deref().unwrap_or(&recording.dispatches);
        if let Some(observer) = observer.filter(|_| device.has_timestamps()) {
            self.profile(device, &recording.steps, dispatches, observer)?;
            dispatches = &[];
        }
        let ran = device.run_and_read(dispatches, staging, &readbacks, &mut read);
        ran?;
        stored?;
        exchange.finish(device, &|root| self.buffer(root).cloned(), args)
    }

    /// Runs the shaders of `steps` one by one, and tells their times: the name of the operator and the
    /// number of its call in the blob.
    fn profile(
        &self,
        device: &Device,
        steps: &[Step],
        dispatches: &[Dispatch],
        observer: &dyn DelegateObserver,
    ) -> Result<(), Error> {
        let times = device.profile(&dispatches.iter().collect::<Vec<_>>())?;
        for (step, time) in steps.iter().zip(times) {
            let Some(call) = self.graph.calls.get(step.call) else { continue };
            let name = format!("{} #{}", call.operator.name, call.index);
            observer.part(&name, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// The integer of a tensor of one element.
fn single(args: &Args<'_>, index: usize) -> Result<i64, Error> {
    let integers = convert::integers(index, &args.tensor(index)?)?;
    let expected = "a tensor of one integer";
    let fault = Error::InvalidArgument { index: saturate(index), expected };
    integers.first().copied().ok_or(fault)
}

/// Buffer of the memory plan.
fn plan_buffer<'b>(
    plan: &MemoryPlan,
    buffers: &'b [Option<Buffer>],
    target: &Target,
) -> Option<&'b Buffer> {
    plan.locations.get(target).and_then(|slot| buffers[*slot].as_ref())
}

fn saturate(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

/// Buffer of each slot.
fn allocate(device: &Device, plan: &MemoryPlan) -> Result<Vec<Buffer>, Error> {
    let bytes = plan.slots.iter().map(|words| *words as u64 * 4);
    Ok(bytes.map(|bytes| device.buffer(bytes)).collect::<Result<_, _>>()?)
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
        let is_half = recorder.is_half(index);
        let elements = if is_half { Cow::Borrowed(bytes) } else { convert::constant(spec, bytes) };
        device.upload(&buffers[*slot], 0, &elements)?;
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
            let end =
                offsets.last().copied().unwrap_or(0) + step.param_bytes().max(MIN_PARAM_BYTES);
            params.resize(end.next_multiple_of(alignment) as usize / 4, 0);
        }
        let bytes: &[u8] = bytemuck::cast_slice(&params);
        let reused = previous.params.take().filter(|buffer| buffer.bytes() >= bytes.len() as u64);
        let is_reused = reused.is_some();
        let buffer = match reused {
            Some(buffer) => buffer,
            None => device.uniform_buffer(bytes.len() as u64)?,
        };
        device.upload(&buffer, 0, bytes)?;
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
            let range = Binding { buffer: &buffer, offset, bytes: step.param_bytes() };
            let buffer =
                |target: &Target| plan.locations.get(target).and_then(|slot| buffers[*slot]);
            dispatches.push(dispatch(device, &buffer, step, range)?);
        }
        Ok(Self { steps, offsets, dispatches, params: Some(buffer), ..Self::default() })
    }
}

impl Recording {
    /// True if a shader writes the memory of the value `root`.
    fn writes(&self, root: usize) -> bool {
        let target = (Target::Value(root), Access::Write);
        self.steps.iter().any(|step| step.bindings.contains(&target))
    }

    /// Dispatches with the buffers of `exchange`; `None` if there are none.
    fn rebind<'b>(
        &mut self,
        device: &Device,
        exchange: &'b Exchange,
        planned: &dyn Fn(&Target) -> Option<&'b Buffer>,
    ) -> Result<Option<Vec<Dispatch>>, Error> {
        if exchange.buffers.is_empty() {
            return Ok(None);
        }
        let replaced = |target: &Target| {
            let mut buffers = exchange.buffers.iter();
            buffers.find(|(root, _)| Target::Value(*root) == *target).map(|(_, buffer)| buffer)
        };
        if self.rebound.len() > MAX_REBOUND {
            self.rebound.clear();
        }
        let mut dispatches = self.dispatches.clone();
        let steps = self.steps.iter().zip(&self.offsets);
        for (index, ((step, &offset), run)) in steps.zip(&mut dispatches).enumerate() {
            let targets = step.bindings.iter().filter_map(|(target, _)| replaced(target));
            let key = (index, targets.cloned().collect::<Vec<_>>());
            if key.1.is_empty() {
                continue;
            }
            if let Some(bindings) = self.rebound.get(&key) {
                run.bindings = bindings.clone();
                continue;
            }
            let params = self.params.as_ref();
            let buffer = params.ok_or(Error::Internal { reason: "a recording has numbers" })?;
            let range = Binding { buffer, offset, bytes: step.param_bytes() };
            let buffer = |target: &Target| match replaced(target) {
                Some(buffer) => Some(buffer),
                None => planned(target),
            };
            run.bindings = dispatch(device, &buffer, step, range)?.bindings;
            self.rebound.insert(key, run.bindings.clone());
        }
        Ok(Some(dispatches))
    }
}

fn dispatch<'b>(
    device: &Device,
    buffer: &dyn Fn(&Target) -> Option<&'b Buffer>,
    step: &Step,
    params: Binding<'_>,
) -> Result<Dispatch, Error> {
    let mut accesses: Vec<Access> = step.bindings.iter().map(|(_, access)| *access).collect();
    accesses.push(Access::Uniform);
    let pipeline = device.pipeline(&step.source, &accesses)?;
    let mut bindings = vec![];
    for (target, _) in &step.bindings {
        let buffer = buffer(target);
        let buffer = buffer.ok_or(Error::Internal { reason: "each value has memory" })?;
        bindings.push(Binding { buffer, offset: 0, bytes: 0 });
    }
    bindings.push(params);
    let bindings = device.bind(&pipeline, &bindings)?;
    Ok(Dispatch { pipeline, bindings, workgroups: step.workgroups })
}

impl Delegate for VulkanDelegate<'_> {
    fn num_inputs(&self) -> usize {
        self.graph.inputs.len()
    }

    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        let key = self.input_key(args)?;
        if self.recording.is_none() || self.key != key {
            self.recording = Some(self.record(&key)?);
            self.key = key;
        }
        // A failed run records again.
        let Some(mut recording) = self.recording.take() else {
            return Err(Error::Internal { reason: "a run has a recording" });
        };
        self.run(&mut recording, args, cx.observer())?;
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

    /// Words of all memory.
    pub(crate) fn words(&self) -> usize {
        self.plan.slots.iter().sum()
    }

    /// Number of calls that run at load.
    pub(crate) fn constant_calls(&self) -> usize {
        self.plan.is_constant.iter().filter(|is_constant| **is_constant).count()
    }
}

#[cfg(test)]
mod tests;
