//! The steps of a plan, run.

use std::ops::Range;

use afferent_core::{
    Args, Delegate, Error, KernelContext, MAX_DIMS, ScalarType, TensorMut, TensorView, Workers,
    bf16, f16,
};
use afferent_simd::Isa;

use crate::{
    graph::{Dtype, Role},
    op::{Cx, Input, Scratch, quantised::MOST_INPUTS},
    plan::{Home, Plan, Planned, Step, Store},
    shape::{MISFIT, MOST_BYTES, Room, Shape, TOO_LARGE},
};

/// Alignment of values.
const ALIGNMENT: usize = 64;

/// A plan, and what it needs to run on inputs of some sizes.
pub(crate) struct Runner<'a> {
    plan: Plan<'a>,
    /// Values that are inputs, and their arguments.
    inputs: Vec<(usize, usize)>,
    /// Values that are outputs, and their arguments.
    outputs: Vec<(usize, usize)>,
    /// Of all values, for the inputs of the last run.
    shapes: Vec<Shape>,
    /// Bytes of all values that lie somewhere, of these shapes.
    lens: Vec<usize>,
    /// Whether all shapes fit each other.
    is_shaped: bool,
    /// Where each slot is in the memory of a run, and how long that is.
    slots: Vec<Range<usize>>,
    memory: usize,
    /// Of slots, what steps prepare for shapes, and scratch memory together.
    most_bytes: usize,
    scratch: Scratch,
    /// See [`Cx::from_end`].
    from_end: bool,
}

impl<'a> Runner<'a> {
    /// # Errors
    /// When the sizes that the blob states do not fit each other, or they need more than
    /// `most_bytes`.
    pub(crate) fn new(plan: Plan<'a>, most_bytes: usize) -> Result<Self, Error> {
        let arguments = |of: fn(Role) -> Option<usize>| {
            let values = plan.values.iter().enumerate();
            values.filter_map(|(value, planned)| Some((value, of(planned.role)?))).collect()
        };
        let mut runner = Self {
            inputs: arguments(Role::input),
            outputs: arguments(Role::output),
            shapes: plan.values.iter().map(|value| value.shape).collect(),
            lens: vec![],
            plan,
            is_shaped: false,
            slots: vec![],
            memory: 0,
            most_bytes,
            scratch: Scratch::default(),
            from_end: true,
        };
        runner.shape(Step::fault)?;
        Ok(runner)
    }

    /// Finds the shapes of all values from those of the inputs, and places for them; `fault` is the
    /// error of a step that fails.
    fn shape(&mut self, fault: impl Fn(&Step, Error) -> Error) -> Result<(), Error> {
        self.is_shaped = false;
        let mut room = Room::of(self.most_bytes.min(MOST_BYTES));
        room.take::<u8>(self.scratch.bytes())?;
        for step in &mut self.plan.steps {
            let mut inputs = [Shape::default(); MOST_INPUTS];
            for (shape, input) in inputs.iter_mut().zip(&step.inputs) {
                *shape = self.shapes[*input];
            }
            let found = step.op.shape(&inputs[..step.inputs.len()], &mut room);
            self.shapes[step.output] = found.map_err(|error| fault(step, error))?;
        }
        let mut needed = vec![0_usize; self.plan.slots];
        self.lens.clear();
        for (value, shape) in self.plan.values.iter().zip(&self.shapes) {
            let len = match value.home {
                Home::Nowhere => 0,
                _ => shape.numel()?.checked_mul(value.store.width()).ok_or(TOO_LARGE)?,
            };
            self.lens.push(len);
            if let Home::Slot(slot) = value.home {
                needed[slot] = needed[slot].max(len);
            }
        }
        self.slots.clear();
        self.memory = 0;
        for bytes in needed {
            let start = self.memory;
            let end = start.checked_add(bytes).ok_or(TOO_LARGE)?;
            self.slots.push(start..end);
            self.memory = end.checked_next_multiple_of(ALIGNMENT).ok_or(TOO_LARGE)?;
        }
        room.take::<u8>(self.memory)?;
        self.scratch.room = room;
        self.is_shaped = true;
        Ok(())
    }

    /// Takes the shapes of the inputs, and finds the others when one of them is new.
    fn reshape(&mut self, args: &Args<'_>) -> Result<(), Error> {
        let mut is_new = !self.is_shaped;
        for &(value, argument) in &self.inputs {
            let view = args.tensor(argument)?;
            let (order, shape) = (view.dim_order(), &mut self.shapes[value]);
            let size = |dim: &u8| view.sizes()[usize::from(*dim)];
            if order.len() == shape.len() && order.iter().map(size).eq(shape.iter().copied()) {
                continue;
            }
            let mut sizes = [1; MAX_DIMS];
            for (size_of, dim) in sizes.iter_mut().zip(order) {
                *size_of = size(dim);
            }
            let least = self.plan.values[value].shape.len().min(1);
            let found = Shape::new(&sizes[..view.rank().max(least)]).ok_or(MISFIT)?;
            found.numel()?;
            is_new |= found != *shape;
            *shape = found;
        }
        if is_new { self.shape(|_, error| error) } else { Ok(()) }
    }

    /// Runs the steps with this memory for their results.
    fn run(
        &mut self,
        workers: Option<&dyn Workers>,
        memory: &mut [u8],
        args: &mut Args<'_>,
    ) -> Result<(), Error> {
        let Self { plan, inputs, outputs, shapes, lens, slots, scratch, from_end, .. } = self;
        for &(value, argument) in &*inputs {
            let planned = &plan.values[value];
            if let Home::Slot(slot) = planned.home {
                let to = &mut memory[slots[slot].clone()][..lens[value]];
                widen(&args.tensor(argument)?, planned.dtype, to)?;
            }
        }
        *from_end = !*from_end;
        let mut cx = Cx { isa: Isa::best(), workers, scratch, from_end: *from_end };
        for step in plan.steps.iter().filter(|step| !step.renames) {
            let len = lens[step.output];
            match plan.values[step.output].home {
                Home::Slot(slot) => {
                    // The result is no slot that the step reads.
                    let (before, rest) = memory.split_at_mut(slots[slot].start);
                    let (out, after) = rest.split_at_mut(slots[slot].len());
                    let memory = [(0, &*before), (slots[slot].end, &*after)];
                    let values = Values { plan, shapes, lens, slots, memory };
                    values.run(&mut cx, step, args, out.get_mut(..len).ok_or(MISFIT)?)?;
                }
                Home::Result(argument) => {
                    let memory = [(0, &*memory), (0, &[][..])];
                    let values = Values { plan, shapes, lens, slots, memory };
                    values.run_to(&mut cx, step, args, argument, len)?;
                }
                _ => return Err(Error::Internal { reason: "a step has a place for its result" }),
            }
        }
        for &(value, argument) in &*outputs {
            let planned = &plan.values[value];
            if let Home::Slot(slot) = planned.home {
                let from = &memory[slots[slot].clone()][..lens[value]];
                narrow(from, planned.store, &mut args.out(argument)?)?;
            }
        }
        Ok(())
    }
}

impl Delegate for Runner<'_> {
    fn inputs(&self) -> usize {
        self.plan.inputs
    }

    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        self.reshape(args)?;
        let workers = cx.workers();
        // Other delegates and kernels of the method use the same memory in their turn.
        let memory = cx.scratch::<u8>(self.memory + ALIGNMENT)?;
        let skip = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        let memory = &mut memory[skip..][..self.memory];
        for &(value, argument) in &self.outputs {
            resize(&mut args.out(argument)?, &self.shapes[value])?;
        }
        self.run(workers, memory, args)
    }
}

/// Gives an output its sizes, which the graph has in the order of memory.
fn resize(out: &mut TensorMut<'_, '_>, shape: &Shape) -> Result<(), Error> {
    let order = out.dim_order();
    let mut sizes = [1; MAX_DIMS];
    if order.is_empty() && shape.iter().all(|size| *size == 1) {
        return out.resize(&[]);
    }
    if order.len() != shape.len() {
        return Err(MISFIT);
    }
    for (dim, size) in order.iter().zip(shape.iter()) {
        sizes[usize::from(*dim)] = *size;
    }
    out.resize(&sizes[..order.len()])
}

/// All values while a step runs.
struct Values<'r, 'a> {
    plan: &'r Plan<'a>,
    shapes: &'r [Shape],
    lens: &'r [usize],
    slots: &'r [Range<usize>],
    /// The memory of a run before the result and behind it, and where each part begins.
    memory: [(usize, &'r [u8]); 2],
}

impl Values<'_, '_> {
    /// The first bytes of a slot that is not the result.
    fn slot(&self, slot: usize, len: usize) -> Option<&[u8]> {
        let Range { start, end } = self.slots[slot].clone();
        let [(_, before), (behind, after)] = self.memory;
        let (from, part) = if end <= before.len() { (0, before) } else { (behind, after) };
        part.get(start.checked_sub(from)?..end.checked_sub(from)?)?.get(..len)
    }

    fn run(
        &self,
        cx: &mut Cx<'_>,
        step: &Step,
        args: &Args<'_>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let inputs = self.inputs(step, args)?;
        step.op.run(cx, &inputs[..step.inputs.len()], out)
    }

    /// The same, with the result in an argument.
    fn run_to(
        &self,
        cx: &mut Cx<'_>,
        step: &Step,
        args: &mut Args<'_>,
        argument: usize,
        len: usize,
    ) -> Result<(), Error> {
        let inputs = self.inputs(step, args)?;
        let mut out = args.out(argument)?;
        let wanted = self.plan.values[step.output].store;
        if out.dtype() != scalar(wanted) {
            return Err(MISFIT);
        }
        let out = out.bytes_mut()?;
        if out.len() != len {
            return Err(MISFIT);
        }
        step.op.run(cx, &inputs[..step.inputs.len()], out)
    }

    /// The operands of a step, which are the first ones.
    fn inputs<'i, 'x: 'i>(
        &'i self,
        step: &Step,
        args: &Args<'x>,
    ) -> Result<[Input<'i>; MOST_INPUTS], Error> {
        let mut inputs = [Input::NONE; MOST_INPUTS];
        for (input, value) in inputs.iter_mut().zip(&step.inputs) {
            *input = self.input(*value, args)?;
        }
        Ok(inputs)
    }

    fn input<'i, 'x: 'i>(&'i self, value: usize, args: &Args<'x>) -> Result<Input<'i>, Error> {
        let found = &self.plan.values[value];
        let bytes = match &found.home {
            Home::Constant(bytes) => bytes,
            Home::Argument(argument) => argument_bytes(args, *argument, found)?,
            Home::Slot(slot) => self.slot(*slot, self.lens[value]).ok_or(MISFIT)?,
            Home::Result(_) | Home::Nowhere => {
                return Err(Error::Internal { reason: "a step reads what lies somewhere" });
            }
        };
        Ok(Input { shape: &self.shapes[value], bytes })
    }
}

fn scalar(store: Store) -> ScalarType {
    match store {
        Store::F32 => ScalarType::Float,
        Store::I8 => ScalarType::Char,
        Store::I32 => ScalarType::Int,
    }
}

/// The bytes of an argument that is read where it lies.
fn argument_bytes<'x>(
    args: &Args<'x>,
    argument: usize,
    value: &Planned<'_>,
) -> Result<&'x [u8], Error> {
    let view = args.tensor(argument)?;
    if view.dtype() != scalar(value.store) {
        let index = u8::try_from(argument).unwrap_or(u8::MAX);
        return Err(Error::InvalidType { index, found: view.dtype() });
    }
    Ok(view.bytes())
}

/// Elements of an argument as they are computed with.
fn widen(view: &TensorView<'_>, dtype: Dtype, to: &mut [u8]) -> Result<(), Error> {
    match (dtype, view.dtype()) {
        (Dtype::F16, ScalarType::Half) => {
            let to: &mut [f32] = bytemuck::cast_slice_mut(to);
            view.data::<f16>()?.iter().zip(to).for_each(|(from, to)| *to = from.to_f32());
        }
        (Dtype::Bf16, ScalarType::BFloat16) => {
            let to: &mut [f32] = bytemuck::cast_slice_mut(to);
            view.data::<bf16>()?.iter().zip(to).for_each(|(from, to)| *to = from.to_f32());
        }
        (Dtype::I32, ScalarType::Int) => to.copy_from_slice(view.bytes()),
        (_, found) => return Err(Error::DtypeMismatch { wanted: ScalarType::Float, found }),
    }
    Ok(())
}

/// Results as an argument has them.
fn narrow(from: &[u8], store: Store, out: &mut TensorMut<'_, '_>) -> Result<(), Error> {
    match (store, out.dtype()) {
        (Store::F32, ScalarType::Half) => {
            let from: &[f32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<f16>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = f16::from_f32(*from));
        }
        (Store::F32, ScalarType::BFloat16) => {
            let from: &[f32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<bf16>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = bf16::from_f32(*from));
        }
        (Store::I32, ScalarType::Long) => {
            let from: &[i32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<i64>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = i64::from(*from));
        }
        (store, found) if scalar(store) == found => {
            let to = out.bytes_mut()?;
            if to.len() != from.len() {
                return Err(MISFIT);
            }
            to.copy_from_slice(from);
        }
        (store, found) => return Err(Error::DtypeMismatch { wanted: scalar(store), found }),
    }
    Ok(())
}
