//! Arguments that are on the device already, and results that stay there.

use std::collections::HashSet;

use afferent_core::{Args, Error, ForeignBytes, ScalarType, TensorSlot, is_row_major};
use afferent_gpu::{Buffer, Device, DeviceMemory, Gpu};

use crate::graph::{DeviceType, Graph, Value};

/// Memory of one run that is not part of the memory plan.
#[derive(Default)]
pub(crate) struct Exchange {
    /// Buffers of values, instead of their slots.
    pub(crate) buffers: Vec<(usize, Buffer)>,
    /// Elements of inputs that are on the device, by value.
    inputs: Vec<(usize, ForeignBytes)>,
    /// Values whose buffer is copied after the run.
    copies: Vec<(usize, DeviceMemory)>,
    /// Results that stay on the device.
    results: Vec<(usize, DeviceMemory)>,
    /// Argument, value, sizes and bytes of each of these results.
    kept: Vec<Kept>,
}

struct Kept {
    argument: usize,
    root: usize,
    sizes: Vec<usize>,
    bytes: usize,
}

/// True if the elements of a tensor have the same bytes on the device.
fn is_direct(dtype: ScalarType, ty: DeviceType) -> bool {
    matches!(
        (dtype, ty),
        (ScalarType::Float, DeviceType::F32)
            | (ScalarType::Int, DeviceType::I32)
            | (ScalarType::Char, DeviceType::I8)
            | (ScalarType::Byte, DeviceType::U8)
            | (ScalarType::Bool, DeviceType::Bool)
    )
}

impl Exchange {
    /// Uses the buffer of an input that is on the device. Returns false if the input must be
    /// uploaded.
    pub(crate) fn input(
        &mut self,
        gpu: &Gpu,
        slot: &TensorSlot<'_>,
        root: usize,
        ty: DeviceType,
    ) -> bool {
        let elements = slot.device_elements();
        let elements = elements.filter(|_| is_direct(slot.dtype(), ty));
        let elements = elements.filter(|_| is_row_major(slot.sizes(), slot.dim_order()));
        let buffer = elements.and_then(|elements| DeviceMemory::buffer_of(elements, gpu));
        let Some((elements, buffer)) = elements.zip(buffer) else { return false };
        self.buffers.push((root, buffer.clone()));
        self.inputs.push((root, elements.clone()));
        true
    }

    /// Plans a result that stays on the device. Returns false if the argument must be on the host.
    ///
    /// # Errors
    /// If the device has no memory.
    pub(crate) fn output(
        &mut self,
        gpu: &Gpu,
        args: &mut Args<'_>,
        output: &Output<'_>,
    ) -> Result<bool, Error> {
        let &Output { argument, root, sizes, ty, is_fixed, bound } = output;
        let out = args.out(argument)?;
        let numel: usize = sizes.iter().product();
        let is_possible = out.wants_device()
            && numel > 0
            && is_direct(out.dtype(), ty)
            && is_row_major(out.sizes(), out.dim_order())
            && sizes.len() == out.rank();
        if !is_possible {
            return Ok(false);
        }
        let bytes = if ty.is_packed() { numel } else { 4 * numel };
        let is_planned =
            self.results.iter().chain(&self.copies).any(|(planned, _)| *planned == root)
                || self.inputs.iter().any(|(input, _)| *input == root);
        if !is_planned {
            let memory = gpu.memory(bound.max(bytes))?;
            if is_fixed {
                self.copies.push((root, memory));
            } else {
                self.buffers.push((root, memory.buffer().clone()));
                self.results.push((root, memory));
            }
        }
        self.kept.push(Kept { argument, root, sizes: sizes.to_vec(), bytes });
        Ok(true)
    }

    /// Copies results out of memory that the next run changes, and stores all kept results in their
    /// arguments.
    ///
    /// # Errors
    /// If the device fails, or an argument does not accept the sizes.
    pub(crate) fn finish(
        self,
        device: &Device,
        buffer: &dyn Fn(usize) -> Result<Buffer, Error>,
        args: &mut Args<'_>,
    ) -> Result<(), Error> {
        for (root, memory) in &self.copies {
            let from = buffer(*root)?;
            let bytes = from.bytes().min(memory.buffer().bytes());
            device.copy(&from, memory.buffer(), bytes)?;
        }
        let memories = self.results.into_iter().chain(self.copies);
        let memories = memories.map(|(root, memory)| (root, ForeignBytes::from(memory)));
        let memories: Vec<_> = self.inputs.into_iter().chain(memories).collect();
        for Kept { argument, root, sizes, bytes } in self.kept {
            let memory = memories.iter().find(|(of, _)| *of == root);
            let part = memory.and_then(|(_, memory)| memory.part(0, bytes));
            let part = part.ok_or(Error::Internal { reason: "a kept result has memory" })?;
            args.out(argument)?.put_on_device(&sizes, part)?;
        }
        Ok(())
    }
}

/// Result of a run.
#[derive(Clone, Copy)]
pub(crate) struct Output<'s> {
    pub(crate) argument: usize,
    pub(crate) root: usize,
    pub(crate) sizes: &'s [usize],
    pub(crate) ty: DeviceType,
    /// True if the memory of the value cannot be replaced: it is a constant, state, or an input.
    pub(crate) is_fixed: bool,
    /// Bytes for the upper bounds of the sizes.
    pub(crate) bound: usize,
}

/// Values whose memory cannot be replaced: constants, state, and inputs.
pub(crate) fn fixed_roots(
    graph: &Graph<'_>,
    roots: &[usize],
    is_state: &[bool],
    constants: &[(usize, Vec<usize>)],
) -> HashSet<usize> {
    let is_constant =
        |value: &Value<'_>| matches!(value, Value::Tensor(spec) if spec.constant.is_some());
    let state = (0..graph.values.len())
        .filter(|value| is_state[*value] || is_constant(&graph.values[*value]));
    let folded = constants.iter().map(|(value, _)| *value);
    let all = state.chain(folded).chain(graph.inputs.iter().copied());
    all.map(|value| roots[value]).collect()
}
