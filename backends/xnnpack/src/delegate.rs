//! Hot path: reshapes the operators of a plan for the inputs and runs them.

mod convert;

use std::{mem, ops::Range};

use afferent_core::{
    Args, Delegate, Error, KernelContext, MAX_DIMS, ScalarType, TensorMut, Workers,
};
use afferent_simd::Isa;

use crate::{
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::{MAX_MEMORY_BYTES, MemoryBudget},
    operator::{Input, MAX_INPUTS, RunContext, Scratch},
    plan::{Location, Plan, PlannedValue, Step},
    shape::Shape,
    subgraph::Role,
};

/// Alignment of values in memory.
const ALIGNMENT: usize = 64;

/// A plan with its state for the input shapes of the last run.
pub(crate) struct XnnpackDelegate<'a> {
    plan: Plan<'a>,
    /// Inputs: value index and argument index.
    inputs: Vec<(usize, usize)>,
    /// Outputs: value index and argument index.
    outputs: Vec<(usize, usize)>,
    /// Shape of each value.
    shapes: Vec<Shape>,
    /// Byte range of each value. It is a range of the run memory for a value in a slot, and starts
    /// at 0 for any other value.
    ranges: Vec<Range<usize>>,
    /// True if all operators are reshaped for `shapes`.
    is_reshaped: bool,
    /// Bytes of all slots.
    memory_bytes: usize,
    /// Limit for slots, shape-dependent state of operators, and scratch memory together.
    memory_limit: usize,
    scratch: Scratch,
    /// See [`RunContext::reverse_panels`].
    reverse_panels: bool,
}

impl<'a> XnnpackDelegate<'a> {
    /// # Errors
    /// If the shapes in the blob do not match each other, or need more than `memory_limit` bytes.
    pub(crate) fn new(plan: Plan<'a>, memory_limit: usize) -> Result<Self, Error> {
        let arguments = |argument: fn(Role) -> Option<usize>| {
            let values = plan.values.iter().enumerate();
            values.filter_map(|(index, value)| Some((index, argument(value.role)?))).collect()
        };
        let mut delegate = Self {
            inputs: arguments(Role::input),
            outputs: arguments(Role::output),
            shapes: plan.values.iter().map(|value| value.shape).collect(),
            ranges: vec![],
            plan,
            is_reshaped: false,
            memory_bytes: 0,
            memory_limit,
            scratch: Scratch::default(),
            reverse_panels: true,
        };
        delegate.reshape()?;
        Ok(delegate)
    }

    /// Reshapes all operators for the input shapes, and assigns byte ranges to all values.
    fn reshape(&mut self) -> Result<(), Error> {
        self.is_reshaped = false;
        let mut budget = MemoryBudget::new(self.memory_limit.min(MAX_MEMORY_BYTES));
        budget.reserve::<u8>(self.scratch.bytes())?;
        for step in &mut self.plan.steps {
            let mut inputs = [Shape::default(); MAX_INPUTS];
            for (shape, input) in inputs.iter_mut().zip(&step.inputs) {
                *shape = self.shapes[*input];
            }
            let output = step.op.reshape(&inputs[..step.inputs.len()], &mut budget);
            self.shapes[step.output] = output.map_err(|error| step.locate(error))?;
        }
        self.assign_ranges()?;
        budget.reserve::<u8>(self.memory_bytes)?;
        self.scratch.budget = budget;
        self.is_reshaped = true;
        Ok(())
    }

    /// Assigns byte ranges to all values. A slot is as large as the largest of its values.
    fn assign_ranges(&mut self) -> Result<(), Error> {
        let mut slots = vec![0_usize; self.plan.slots];
        self.ranges.clear();
        for (value, shape) in self.plan.values.iter().zip(&self.shapes) {
            let size = value.compute_type.size();
            let len = match value.location {
                Location::Unused => 0,
                _ => shape.numel()?.checked_mul(size).ok_or(TENSOR_TOO_LARGE)?,
            };
            self.ranges.push(0..len);
            if let Location::Slot(slot) = value.location {
                slots[slot] = slots[slot].max(len);
            }
        }
        self.memory_bytes = 0;
        for slot in &mut slots {
            let bytes = mem::replace(slot, self.memory_bytes);
            let end = self.memory_bytes.checked_add(bytes).ok_or(TENSOR_TOO_LARGE)?;
            self.memory_bytes = end.checked_next_multiple_of(ALIGNMENT).ok_or(TENSOR_TOO_LARGE)?;
        }
        for (value, range) in self.plan.values.iter().zip(&mut self.ranges) {
            if let Location::Slot(slot) = value.location {
                *range = slots[slot]..slots[slot] + range.len();
            }
        }
        Ok(())
    }

    /// Reads the shapes of the input arguments, and reshapes the operators if one has changed.
    fn reshape_for(&mut self, args: &Args<'_>) -> Result<(), Error> {
        for &(value, argument) in &self.inputs {
            let view = args.tensor(argument)?;
            let (order, shape) = (view.dim_order(), &mut self.shapes[value]);
            let size = |dim: &u8| view.sizes()[usize::from(*dim)];
            if order.len() == shape.len() && order.iter().map(size).eq(shape.iter().copied()) {
                continue;
            }
            let mut sizes = [1; MAX_DIMS];
            for (to, dim) in sizes.iter_mut().zip(order) {
                *to = size(dim);
            }
            // A rank-0 argument is a value of rank 1, if the blob states a rank.
            let min_rank = self.plan.values[value].shape.len().min(1);
            let found = Shape::new(&sizes[..view.rank().max(min_rank)]).ok_or(SHAPE_MISMATCH)?;
            found.numel()?;
            // If a later step fails, the next run reshapes again.
            self.is_reshaped &= found == *shape;
            *shape = found;
        }
        if self.is_reshaped { Ok(()) } else { self.reshape() }
    }

    /// Runs all steps. `memory` contains the slots.
    fn run(
        &mut self,
        workers: Option<&dyn Workers>,
        memory: &mut [u8],
        args: &mut Args<'_>,
    ) -> Result<(), Error> {
        let Self { plan, inputs, outputs, shapes, ranges, scratch, reverse_panels, .. } = self;
        for &(index, argument) in &*inputs {
            let value = &plan.values[index];
            if let Location::Slot(_) = value.location {
                let to = &mut memory[ranges[index].clone()];
                convert::load_input(&args.tensor(argument)?, value.datatype, to)?;
            }
        }
        *reverse_panels = !*reverse_panels;
        let isa = Isa::best();
        let mut cx = RunContext { isa, workers, scratch, reverse_panels: *reverse_panels };
        for step in plan.steps.iter().filter(|step| !step.is_alias) {
            let (output, before, after_start, after) = match plan.values[step.output].location {
                Location::Slot(_) => {
                    // No input of the step is in the slot of its output.
                    let Range { start, end } = ranges[step.output].clone();
                    let (before, rest) = memory.split_at_mut(start);
                    let (out, after) = rest.split_at_mut(end - start);
                    (Output::Memory(out), &*before, end, &*after)
                }
                Location::OutputArgument(argument) => {
                    (Output::Argument(argument), &*memory, 0, &[][..])
                }
                _ => return Err(Error::Internal { reason: "each step output has a location" }),
            };
            let values = Values { plan, shapes, ranges, before, after_start, after };
            values.run_step(&mut cx, step, args, output)?;
        }
        for &(index, argument) in &*outputs {
            let value = &plan.values[index];
            if let Location::Slot(_) = value.location {
                let from = &memory[ranges[index].clone()];
                convert::store_output(from, value.compute_type, &mut args.out(argument)?)?;
            }
        }
        Ok(())
    }
}

impl Delegate for XnnpackDelegate<'_> {
    fn num_inputs(&self) -> usize {
        self.plan.inputs
    }

    fn is_independent_along(&self, rank: usize, dim: usize) -> bool {
        self.plan.row_independence.is_some_and(|rows| rows.holds(rank, dim))
    }

    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        self.reshape_for(args)?;
        let workers = cx.workers();
        // The kernels and delegates of a method share this memory.
        let memory = cx.scratch::<u8>(self.memory_bytes + ALIGNMENT)?;
        let padding = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        let memory = &mut memory[padding..][..self.memory_bytes];
        for &(value, argument) in &self.outputs {
            resize_output(&mut args.out(argument)?, &self.shapes[value])?;
        }
        self.run(workers, memory, args)
    }
}

/// Resizes an output argument. `shape` is in memory order, the sizes of the argument are in
/// dimension order.
fn resize_output(out: &mut TensorMut<'_, '_>, shape: &Shape) -> Result<(), Error> {
    let order = out.dim_order();
    let mut sizes = [1; MAX_DIMS];
    if order.is_empty() && shape.iter().all(|size| *size == 1) {
        return out.resize(&[]);
    }
    if order.len() != shape.len() {
        return Err(SHAPE_MISMATCH);
    }
    for (dim, size) in order.iter().zip(shape.iter()) {
        sizes[usize::from(*dim)] = *size;
    }
    out.resize(&sizes[..order.len()])
}

/// Destination of a step.
enum Output<'m> {
    Memory(&'m mut [u8]),
    /// Output argument, by index.
    Argument(usize),
}

/// All values while a step runs.
struct Values<'r, 'a> {
    plan: &'r Plan<'a>,
    shapes: &'r [Shape],
    ranges: &'r [Range<usize>],
    /// Memory before the output.
    before: &'r [u8],
    /// Offset of `after` in the memory.
    after_start: usize,
    /// Memory after the output.
    after: &'r [u8],
}

impl Values<'_, '_> {
    fn run_step(
        &self,
        cx: &mut RunContext<'_>,
        step: &Step,
        args: &mut Args<'_>,
        output: Output<'_>,
    ) -> Result<(), Error> {
        let mut inputs = [Input::EMPTY; MAX_INPUTS];
        for (input, value) in inputs.iter_mut().zip(&step.inputs) {
            *input = self.input(*value, args)?;
        }
        let inputs = &inputs[..step.inputs.len()];
        match output {
            Output::Memory(out) => step.op.run(cx, inputs, out),
            Output::Argument(argument) => {
                let mut out = args.out(argument)?;
                let compute_type = self.plan.values[step.output].compute_type;
                expect_type(argument, out.dtype(), convert::scalar_type(compute_type))?;
                let out = out.bytes_mut()?;
                if out.len() != self.ranges[step.output].len() {
                    return Err(SHAPE_MISMATCH);
                }
                step.op.run(cx, inputs, out)
            }
        }
    }

    fn input<'i, 'x: 'i>(&'i self, index: usize, args: &Args<'x>) -> Result<Input<'i>, Error> {
        let value = &self.plan.values[index];
        let bytes = match &value.location {
            Location::ConstantI8(bytes) => bytes,
            Location::ConstantF32(floats) => bytemuck::cast_slice(floats),
            Location::InputArgument(argument) => argument_bytes(args, *argument, value)?,
            Location::Slot(_) => self.slot(&self.ranges[index]).ok_or(SHAPE_MISMATCH)?,
            Location::OutputArgument(_) | Location::Unused => {
                return Err(Error::Internal { reason: "each step input has a location" });
            }
        };
        Ok(Input { shape: &self.shapes[index], bytes })
    }

    /// Bytes of a range that does not overlap the output.
    fn slot(&self, range: &Range<usize>) -> Option<&[u8]> {
        if range.end <= self.before.len() {
            return self.before.get(range.clone());
        }
        let start = range.start.checked_sub(self.after_start)?;
        self.after.get(start..range.end.checked_sub(self.after_start)?)
    }
}

/// Bytes of an input argument that needs no conversion.
fn argument_bytes<'x>(
    args: &Args<'x>,
    argument: usize,
    value: &PlannedValue<'_>,
) -> Result<&'x [u8], Error> {
    let view = args.tensor(argument)?;
    expect_type(argument, view.dtype(), convert::scalar_type(value.compute_type))?;
    Ok(view.bytes())
}

fn expect_type(argument: usize, found: ScalarType, wanted: ScalarType) -> Result<(), Error> {
    let index = u8::try_from(argument).unwrap_or(u8::MAX);
    if found == wanted { Ok(()) } else { Err(Error::InvalidType { index, found }) }
}

#[cfg(test)]
mod tests;
