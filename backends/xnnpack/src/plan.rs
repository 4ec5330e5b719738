//! A graph → steps with prepared constants, and where their results lie.
//!
//! Constants are packed here, once; sizes come later and may change from run to run. A result
//! lies in a slot of memory that later results take over when nothing reads it any more, or
//! straight in an argument of the delegate. What only renames elements is no step at run time.

mod blocks;
pub(crate) mod fuse;
mod prepare;
mod rows;

use std::{borrow::Cow, cell::RefCell};

use afferent_core::{BlobEntry, Error, WeightCache};
use blocks::Part;
use prepare::Prepare;
use rows::Rows;

use crate::{
    graph::{Dtype, Graph, Kind, Role, Unary, Value},
    op::{Op, weights},
    shape::{MISFIT, Room, Shape},
};

/// Steps in the order in which they run.
pub(crate) struct Plan<'a> {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<Planned<'a>>,
    /// Slots of memory.
    pub(crate) slots: usize,
    /// Arguments of the delegate that are inputs.
    pub(crate) inputs: usize,
    /// What is known of the rows of its results.
    pub(crate) rows: Option<Rows>,
}

/// An operation, and the places of its values.
pub(crate) struct Step {
    /// The number of its node in the blob.
    pub(crate) node: u32,
    pub(crate) op: Box<dyn Op>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) output: usize,
    /// Whether it does nothing: the result lies where the input does.
    pub(crate) renames: bool,
}

impl Step {
    /// The error of an operation that saw the sizes of the blob.
    pub(crate) fn fault(&self, error: Error) -> Error {
        if error != MISFIT {
            return error;
        }
        let reason = "have sizes that do not fit each other";
        let entry = BlobEntry::Node;
        Error::InvalidBlob { entry, index: self.node, field: "its inputs", reason }
    }
}

/// What elements of a value are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    F32,
    I8,
    I32,
}

impl Store {
    pub(crate) fn width(self) -> usize {
        if self == Self::I8 { 1 } else { 4 }
    }
}

/// A value of the graph as the steps see it.
pub(crate) struct Planned<'a> {
    pub(crate) store: Store,
    /// What the elements are in an argument.
    pub(crate) dtype: Dtype,
    pub(crate) shape: Shape,
    pub(crate) home: Home<'a>,
    pub(crate) role: Role,
}

/// Where a value lies.
#[derive(Debug, Clone)]
pub(crate) enum Home<'a> {
    /// Nowhere: nothing reads it at run time.
    Nowhere,
    /// In a constant of integers.
    Bytes(&'a [u8]),
    /// In a constant.
    Numbers(Cow<'a, [f32]>),
    /// An argument of the delegate that is read.
    Argument(usize),
    /// An argument of the delegate that is written.
    Result(usize),
    Slot(usize),
}

impl<'a> Plan<'a> {
    /// What is made of constants and shared with nobody has this room.
    ///
    /// # Errors
    /// When a node asks for what no operation does, or there is no room.
    pub(crate) fn new(
        graph: &Graph<'a>,
        prepared: Option<&dyn WeightCache>,
        room: Room,
    ) -> Result<Self, Error> {
        let room = RefCell::new(room);
        let mut steps = Vec::new();
        // The value whose place each value has.
        let mut roots: Vec<usize> = (0..graph.values.len()).collect();
        let parts = blocks::parts(graph);
        let prepare = Prepare { graph, prepared, room: &room };
        for (index, node) in graph.nodes.iter().enumerate() {
            match parts[index] {
                Part::Alone => {}
                Part::Inside => continue,
                Part::Block { expand, middle } => {
                    steps.push(prepare.block(expand, middle, index)?);
                    continue;
                }
            }
            let value = &graph.values[node.output];
            let input = node.inputs[0];
            let quantises = value.dtype == Dtype::Dynamic;
            if quantises && !(node.kind == Kind::Convert && is_number(&graph.values[input])) {
                let (entry, index) = (BlobEntry::Node, node.index);
                let what = "dynamic quantisation of anything but numbers";
                return Err(Error::UnsupportedBlob { entry, index, what });
            }
            // Who reads a value that is quantised dynamically does that.
            let renames = quantises
                || matches!(node.kind, Kind::Reshape(_) | Kind::Unary(Unary::Copy))
                    && value.role == Role::Inner
                    && !is_converted(&graph.values[roots[input]])
                    && same(value, &graph.values[input]);
            if renames {
                roots[node.output] = roots[input];
            }
            prepare.steps(index, renames, &mut steps)?;
        }
        let mut values = Vec::new();
        for value in &graph.values {
            values.push(planned(value));
        }
        for step in &steps {
            for input in &step.inputs {
                let value = &graph.values[*input];
                if value.data.is_some() && matches!(values[*input].home, Home::Nowhere) {
                    values[*input].home = constant(value, &room)?;
                }
            }
        }
        let slots = place(&steps, &roots, &mut values);
        Ok(Self { steps, values, slots, inputs: graph.inputs, rows: Rows::of(graph) })
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16)
}

/// Whether elements of `a` and `b` are stored alike.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    store(a) == store(b) && (store(a) != Store::I8 || a.quant == b.quant)
}

fn store(value: &Value<'_>) -> Store {
    match value.dtype {
        Dtype::I8 => Store::I8,
        Dtype::I32 if value.data.is_none() => Store::I32,
        _ => Store::F32,
    }
}

fn planned<'a>(value: &Value<'a>) -> Planned<'a> {
    let (dtype, role) = (value.dtype, value.role);
    Planned { store: store(value), dtype, shape: value.shape, home: Home::Nowhere, role }
}

/// A constant that a step reads at run time.
fn constant<'a>(value: &Value<'a>, room: &RefCell<Room>) -> Result<Home<'a>, Error> {
    if let (Store::I8, Some(data)) = (store(value), value.data) {
        return Ok(Home::Bytes(data));
    }
    let numbers = weights::numbers(value)?;
    if let Cow::Owned(numbers) = &numbers {
        room.borrow_mut().take::<f32>(numbers.len())?;
    }
    Ok(Home::Numbers(numbers))
}

/// Whether what steps read of a constant is made of it, so that it takes memory.
fn is_converted(value: &Value<'_>) -> bool {
    value.data.is_some() && store(value) != Store::I8 && weights::in_place(value).is_none()
}

/// Gives every value that a step writes or reads its place; returns how many slots there are.
fn place(steps: &[Step], roots: &[usize], values: &mut [Planned<'_>]) -> usize {
    // The step that reads each root last.
    let mut last = vec![None; values.len()];
    for (at, step) in steps.iter().enumerate() {
        if !step.renames {
            step.inputs.iter().for_each(|input| last[roots[*input]] = Some(at));
        }
    }
    let mut slots: Vec<Slot> = Vec::new();
    for value in 0..values.len() {
        if let (Role::Input(argument), true) = (values[value].role, roots[value] == value) {
            let direct = matches!(values[value].dtype, Dtype::F32 | Dtype::I8);
            values[value].home = if direct {
                Home::Argument(argument)
            } else {
                Home::Slot(take(&mut slots, 0, None, bytes(&values[value])))
            };
            if let Home::Slot(slot) = values[value].home {
                slots[slot].until = last[value];
            }
        }
    }
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.renames) {
        let value = step.output;
        values[value].home = match values[value].role {
            Role::Output(argument)
                if last[value].is_none()
                    && matches!(values[value].dtype, Dtype::F32 | Dtype::I8) =>
            {
                Home::Result(argument)
            }
            Role::Output(_) => {
                Home::Slot(take(&mut slots, at, Some(usize::MAX), bytes(&values[value])))
            }
            _ => Home::Slot(take(&mut slots, at, last[value].or(Some(at)), bytes(&values[value]))),
        };
    }
    for value in 0..values.len() {
        if roots[value] != value {
            values[value].home = values[roots[value]].home.clone();
        }
    }
    slots.len()
}

/// A slot: the last step that reads it, and its bytes.
struct Slot {
    until: Option<usize>,
    bytes: usize,
}

/// A slot that is free at step `at`: the one whose size is the nearest.
fn take(slots: &mut Vec<Slot>, at: usize, until: Option<usize>, bytes: usize) -> usize {
    let free =
        slots.iter().enumerate().filter(|(_, slot)| slot.until.is_some_and(|until| until < at));
    let best = free.min_by_key(|(_, slot)| slot.bytes.abs_diff(bytes)).map(|(index, _)| index);
    let index = best.unwrap_or_else(|| {
        slots.push(Slot { until: None, bytes });
        slots.len() - 1
    });
    slots[index] = Slot { until, bytes: bytes.max(slots[index].bytes) };
    index
}

fn bytes(value: &Planned<'_>) -> usize {
    value.shape.iter().product::<usize>() * value.store.width()
}

#[cfg(test)]
mod tests;
