//! The steps of a plan, run.

use std::{mem, ops::Range};

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
    /// Of all values, of these shapes: the bytes of those that have a slot in the memory of a run,
    /// and as many from 0 on of those that lie elsewhere.
    places: Vec<Range<usize>>,
    /// Whether all shapes fit each other.
    is_shaped: bool,
    /// Bytes of all slots.
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
            places: vec![],
            plan,
            is_shaped: false,
            memory: 0,
            most_bytes,
            scratch: Scratch::default(),
            from_end: true,
        };
        runner.shape()?;
        Ok(runner)
    }

    /// Finds the shapes of all values from those of the inputs, and places for them.
    fn shape(&mut self) -> Result<(), Error> {
        self.is_shaped = false;
        let mut room = Room::of(self.most_bytes.min(MOST_BYTES));
        room.take::<u8>(self.scratch.bytes())?;
        for step in &mut self.plan.steps {
            let mut inputs = [Shape::default(); MOST_INPUTS];
            for (shape, input) in inputs.iter_mut().zip(&step.inputs) {
                *shape = self.shapes[*input];
            }
            let found = step.op.shape(&inputs[..step.inputs.len()], &mut room);
            self.shapes[step.output] = found.map_err(|error| step.fault(error))?;
        }
        let mut slots = vec![0_usize; self.plan.slots];
        self.places.clear();
        for (value, shape) in self.plan.values.iter().zip(&self.shapes) {
            let len = match value.home {
                Home::Nowhere => 0,
                _ => shape.numel()?.checked_mul(value.store.width()).ok_or(TOO_LARGE)?,
            };
            self.places.push(0..len);
            if let Home::Slot(slot) = value.home {
                slots[slot] = slots[slot].max(len);
            }
        }
        self.memory = 0;
        for slot in &mut slots {
            let bytes = mem::replace(slot, self.memory);
            let end = self.memory.checked_add(bytes).ok_or(TOO_LARGE)?;
            self.memory = end.checked_next_multiple_of(ALIGNMENT).ok_or(TOO_LARGE)?;
        }
        for (value, place) in self.plan.values.iter().zip(&mut self.places) {
            if let Home::Slot(slot) = value.home {
                *place = slots[slot]..slots[slot] + place.len();
            }
        }
        room.take::<u8>(self.memory)?;
        self.scratch.room = room;
        self.is_shaped = true;
        Ok(())
    }

    /// Takes the shapes of the inputs, and finds the others when one of them is new.
    fn reshape(&mut self, args: &Args<'_>) -> Result<(), Error> {
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
            // What fails before all is found has to be found next time.
            self.is_shaped &= found == *shape;
            *shape = found;
        }
        if self.is_shaped { Ok(()) } else { self.shape() }
    }

    /// Runs the steps with this memory for their results.
    fn run(
        &mut self,
        workers: Option<&dyn Workers>,
        memory: &mut [u8],
        args: &mut Args<'_>,
    ) -> Result<(), Error> {
        let Self { plan, inputs, outputs, shapes, places, scratch, from_end, .. } = self;
        for &(value, argument) in &*inputs {
            let planned = &plan.values[value];
            if let Home::Slot(_) = planned.home {
                let to = &mut memory[places[value].clone()];
                widen(&args.tensor(argument)?, planned.dtype, to)?;
            }
        }
        *from_end = !*from_end;
        let mut cx = Cx { isa: Isa::best(), workers, scratch, from_end: *from_end };
        for step in plan.steps.iter().filter(|step| !step.renames) {
            let (to, before, behind, after) = match plan.values[step.output].home {
                Home::Slot(_) => {
                    // The result is no slot that the step reads.
                    let Range { start, end } = places[step.output].clone();
                    let (before, rest) = memory.split_at_mut(start);
                    let (out, after) = rest.split_at_mut(end - start);
                    (To::Memory(out), &*before, end, &*after)
                }
                Home::Result(argument) => (To::Argument(argument), &*memory, 0, &[][..]),
                _ => return Err(Error::Internal { reason: "a step has a place for its result" }),
            };
            let values = Values { plan, shapes, places, before, behind, after };
            values.run(&mut cx, step, args, to)?;
        }
        for &(value, argument) in &*outputs {
            let planned = &plan.values[value];
            if let Home::Slot(_) = planned.home {
                let from = &memory[places[value].clone()];
                narrow(from, planned.store, &mut args.out(argument)?)?;
            }
        }
        Ok(())
    }
}

impl Delegate for Runner<'_> {
    fn num_inputs(&self) -> usize {
        self.plan.inputs
    }

    fn is_independent_along(&self, rank: usize, dim: usize) -> bool {
        self.plan.rows.is_some_and(|rows| rows.are_apart(rank, dim))
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

/// Where a step writes its result.
enum To<'m> {
    Memory(&'m mut [u8]),
    Argument(usize),
}

/// All values while a step runs.
struct Values<'r, 'a> {
    plan: &'r Plan<'a>,
    shapes: &'r [Shape],
    places: &'r [Range<usize>],
    /// The memory of a run before the result.
    before: &'r [u8],
    /// That behind it, from this place on.
    behind: usize,
    after: &'r [u8],
}

impl Values<'_, '_> {
    fn run(
        &self,
        cx: &mut Cx<'_>,
        step: &Step,
        args: &mut Args<'_>,
        to: To<'_>,
    ) -> Result<(), Error> {
        let mut inputs = [Input::NONE; MOST_INPUTS];
        for (input, value) in inputs.iter_mut().zip(&step.inputs) {
            *input = self.input(*value, args)?;
        }
        let inputs = &inputs[..step.inputs.len()];
        match to {
            To::Memory(out) => step.op.run(cx, inputs, out),
            To::Argument(argument) => {
                let mut out = args.out(argument)?;
                expect(argument, out.dtype(), scalar(self.plan.values[step.output].store))?;
                let out = out.bytes_mut()?;
                if out.len() != self.places[step.output].len() {
                    return Err(MISFIT);
                }
                step.op.run(cx, inputs, out)
            }
        }
    }

    fn input<'i, 'x: 'i>(&'i self, value: usize, args: &Args<'x>) -> Result<Input<'i>, Error> {
        let found = &self.plan.values[value];
        let bytes = match &found.home {
            Home::Bytes(bytes) => bytes,
            Home::Numbers(numbers) => bytemuck::cast_slice(numbers),
            Home::Argument(argument) => argument_bytes(args, *argument, found)?,
            Home::Slot(_) => self.bytes(&self.places[value]).ok_or(MISFIT)?,
            Home::Result(_) | Home::Nowhere => {
                return Err(Error::Internal { reason: "a step reads what lies somewhere" });
            }
        };
        Ok(Input { shape: &self.shapes[value], bytes })
    }

    /// The bytes of a place that is not the result's.
    fn bytes(&self, place: &Range<usize>) -> Option<&[u8]> {
        if place.end <= self.before.len() {
            return self.before.get(place.clone());
        }
        self.after.get(place.start.checked_sub(self.behind)?..place.end.checked_sub(self.behind)?)
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
    expect(argument, view.dtype(), scalar(value.store))?;
    Ok(view.bytes())
}

/// Fails unless an argument has the wanted type.
fn expect(argument: usize, found: ScalarType, wanted: ScalarType) -> Result<(), Error> {
    let index = u8::try_from(argument).unwrap_or(u8::MAX);
    if found == wanted { Ok(()) } else { Err(Error::InvalidType { index, found }) }
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
        (dtype, found) => {
            let wanted = match dtype {
                Dtype::F16 => ScalarType::Half,
                Dtype::Bf16 => ScalarType::BFloat16,
                _ => ScalarType::Int,
            };
            return Err(Error::DtypeMismatch { expected: wanted, found });
        }
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
        (store, found) => return Err(Error::DtypeMismatch { expected: scalar(store), found }),
    }
    Ok(())
}
