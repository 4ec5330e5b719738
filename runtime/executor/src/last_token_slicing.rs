//! Last-token slicing: a graph rewrite that computes one row where the rest is unused.
//!
//! A language model predicts the next token from the last token of the prompt, and an image
//! classifier reads its class token, which is the first. After the last attention the other rows
//! are computed for nothing. So the pass looks for an instruction that selects position -1 or 0 of
//! a dimension, and slices the inputs of the instructions before it to that position. A slice moves
//! a pointer; it is set before the first of these instructions runs and undone after the select.
//! Outputs with static sizes are sliced the same way.
//!
//! The pass walks back from the select as long as each row of the outputs depends only on the same
//! row of the inputs ([`OpPattern`], [`Delegate::is_independent_along`]) and nothing else reads the
//! outputs.
//!
//! [`Delegate::is_independent_along`]: afferent_core::Delegate::is_independent_along

#![expect(unsafe_code, reason = "changes the tensors of a method between its instructions")]

use core::{
    cell::{Cell, UnsafeCell},
    ops::Range,
    slice,
};

use afferent_core::{Arg, Dynamism, EValue, Kernel, OpPattern, SlicePosition, TensorSlot};
use afferent_program::{Instruction, MethodPlan};

use crate::{
    input::Binding,
    input_alias::MethodTables,
    load::TensorRole,
    method::{Delegates, LoadedInstruction},
    resolve::{for_each_argument, for_each_written, num_arguments},
};

/// Maximum number of tensors that the sliced instructions read, and that they write.
const MAX_TENSORS: usize = 64;

/// Limit on the work of the pass, in comparisons, so that a hostile file cannot stall it.
const MAX_WORK: usize = 10_000_000;

/// Result of the pass: instructions that compute one row of their outputs.
#[derive(Debug, Default)]
pub(crate) struct LastTokenSlicing {
    /// Range of the instructions. The select follows it.
    instructions: Range<usize>,
    dim: usize,
    position: SlicePosition,
    /// Tensors that are sliced while the instructions run.
    sliced: SlotSet,
}

/// Set of tensor slots.
#[derive(Debug, Clone, Copy)]
struct SlotSet {
    slots: [u32; MAX_TENSORS],
    len: usize,
}

impl Default for SlotSet {
    fn default() -> Self {
        Self { slots: [0; MAX_TENSORS], len: 0 }
    }
}

impl SlotSet {
    fn as_slice(&self) -> &[u32] {
        &self.slots[..self.len]
    }

    fn contains(&self, slot: u32) -> bool {
        self.as_slice().contains(&slot)
    }

    /// Inserts a slot; `None` if the set is full.
    fn insert(&mut self, slot: u32) -> Option<()> {
        if !self.contains(slot) {
            *self.slots.get_mut(self.len)? = slot;
            self.len += 1;
        }
        Some(())
    }

    fn remove(&mut self, slot: u32) {
        if let Some(at) = self.as_slice().iter().position(|&other| other == slot) {
            self.len -= 1;
            self.slots[at] = self.slots[self.len];
        }
    }
}

impl LastTokenSlicing {
    /// True if no instruction is sliced.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Called before instruction `at` runs. Slices the tensors before the first instruction.
    pub(crate) fn before(&self, at: usize, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        if at == self.instructions.start && !self.instructions.is_empty() && self.sizes_agree(slots)
        {
            self.for_each(slots, |tensor| tensor.slice(self.dim, self.position));
        }
    }

    /// Called after instruction `at` has run. Undoes the slicing after the select.
    pub(crate) fn after(&self, at: usize, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        if at == self.instructions.end {
            self.unslice(slots);
        }
    }

    /// Undoes the slicing, at whatever instruction a run has ended.
    pub(crate) fn unslice(&self, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        self.for_each(slots, TensorSlot::unslice);
    }

    /// Returns true if all tensors have the same size along the dimension, or size one. Otherwise
    /// nothing is sliced, and the instructions report the mismatch.
    fn sizes_agree(&self, slots: &[UnsafeCell<TensorSlot<'_>>]) -> bool {
        let (mut common, mut agree) = (1, true);
        self.for_each(slots, |tensor| match tensor.sliceable_size(self.dim) {
            Some(1) => {}
            Some(size) => {
                agree &= common == 1 || size == common;
                common = size;
            }
            None => agree = false,
        });
        agree
    }

    fn for_each<'a>(
        &self,
        slots: &[UnsafeCell<TensorSlot<'a>>],
        mut change: impl FnMut(&mut TensorSlot<'a>),
    ) {
        for slot in self.sliced.as_slice() {
            if let Some(cell) = slots.get(*slot as usize) {
                // SAFETY: no call is active, so nothing else accesses the slots.
                change(unsafe { &mut *cell.get() });
            }
        }
    }
}

/// The pass, over a method that does not run yet.
pub(crate) struct SlicingPass<'t, 'a> {
    plan: MethodPlan<'a>,
    tables: MethodTables<'t, 'a>,
    operators: &'t [Option<Kernel>],
    delegates: &'t Delegates<'a>,
    /// Value indices of the outputs of the method.
    outputs: &'t [u32],
    work_left: Cell<usize>,
}

/// Dimension of tensors of one rank.
#[derive(Clone, Copy)]
struct Axis {
    rank: usize,
    dim: usize,
}

/// Tensors of the instructions that the pass has accepted so far.
#[derive(Default, Clone, Copy)]
struct Accesses {
    /// Tensors that are read row by row before any of the instructions writes them.
    read: SlotSet,
    written: SlotSet,
}

impl<'t, 'a> SlicingPass<'t, 'a> {
    pub(crate) fn new(
        plan: MethodPlan<'a>,
        tables: MethodTables<'t, 'a>,
        operators: &'t [Option<Kernel>],
        delegates: &'t Delegates<'a>,
        outputs: &'t [u32],
    ) -> Self {
        Self { plan, tables, operators, delegates, outputs, work_left: Cell::new(MAX_WORK) }
    }

    /// Finds the instructions before the last select of a first or last row. The result is empty if
    /// there are none.
    pub(crate) fn run(&self) -> LastTokenSlicing {
        self.find().unwrap_or_default()
    }

    fn find(&self) -> Option<LastTokenSlicing> {
        let instructions = self.tables.instructions;
        let is_jump = |instruction: &_| matches!(instruction, LoadedInstruction::JumpFalse { .. });
        if instructions.iter().any(is_jump) {
            return None;
        }
        let end = (0..instructions.len()).rev().find(|at| self.select_in_file(*at).is_some())?;
        let (axis, position, source) = self.select(end)?;
        let mut accesses = Accesses::default();
        accesses.read.insert(source)?;
        let mut start = end;
        while let Some(previous) = start.checked_sub(1)
            && let Some(extended) = self.extend(previous, axis, accesses)
        {
            (start, accesses) = (previous, extended);
        }
        let found = start < end && self.is_isolated(start..end, &accesses)?;
        let mut sliced = accesses.read;
        for &slot in accesses.written.as_slice() {
            if self.tensor(slot)?.dynamism() == Dynamism::Static {
                sliced.insert(slot)?;
            }
        }
        found.then_some(LastTokenSlicing {
            instructions: start..end,
            dim: axis.dim,
            position,
            sliced,
        })
    }

    /// Position that the select at `at` has in the file, its arguments, and the indices of its
    /// dimension and position arguments. `None` if it is no select of position 0 or -1.
    fn select_in_file(&self, at: usize) -> Option<(SlicePosition, &'a [u32], [usize; 2])> {
        let (LoadedInstruction::KernelCall { ids, .. }, OpPattern::Select { dim, index }) =
            (self.tables.instructions[at], self.pattern(at))
        else {
            return None;
        };
        let position = match self.number(*ids.get(index)?)? {
            0 => SlicePosition::First,
            -1 => SlicePosition::Last,
            _ => return None,
        };
        Some((position, ids, [dim, index]))
    }

    /// Dimension, position and source tensor of the select at `at`, if they are the same in every
    /// run.
    fn select(&self, at: usize) -> Option<(Axis, SlicePosition, u32)> {
        let (position, ids, [dim, index]) = self.select_in_file(at)?;
        self.constant(*ids.get(index)?)?;
        let source = self.slot_of(*ids.first()?)?;
        let rank = self.tensor(source)?.sizes().len();
        Some((Axis { rank, dim: self.dim(*ids.get(dim)?, rank)? }, position, source))
    }

    /// Accesses of instruction `at` and the accepted ones, `later`. `None` if the instruction must
    /// compute all rows.
    fn extend(&self, at: usize, axis: Axis, later: Accesses) -> Option<Accesses> {
        let mut accesses = later;
        let instruction = self.tables.instructions[at];
        let (ids, only_first_has_rows) = match instruction {
            LoadedInstruction::KernelCall { args, ids, .. } => {
                self.is_kernel_independent_along(at, args, ids, axis)?;
                let pattern = self.pattern(at);
                let only_first =
                    matches!(pattern, OpPattern::RowWise | OpPattern::Normalization { .. });
                (ids, only_first)
            }
            LoadedInstruction::DelegateCall { index, ids, .. } => {
                let delegate = self.delegates.0.get(index)?.as_ref()?;
                delegate.is_independent_along(axis.rank, axis.dim).then_some(())?;
                (ids, false)
            }
            _ => return None,
        };
        let (mut is_used, mut can_shrink) = (false, true);
        for_each_written(slice::from_ref(&instruction), self.tables.values, |slot, _| {
            is_used |= accesses.read.contains(slot);
            accesses.read.remove(slot);
            can_shrink &= !later.written.contains(slot) && self.can_shrink(slot, axis);
            can_shrink &= accesses.written.insert(slot).is_some();
        });
        (is_used && can_shrink).then_some(())?;
        for (index, &id) in ids.iter().enumerate() {
            let slot = match self.tables.values.get(id as usize)?.get() {
                EValue::Tensor(slot) => slot,
                EValue::TensorList(_) | EValue::OptionalTensorList(_) => return None,
                _ => continue,
            };
            let rank = self.tensor(slot)?.sizes().len();
            if accesses.written.contains(slot) {
                // Its own output. A tensor that only a later instruction writes is not read.
                (!later.written.contains(slot)).then_some(())?;
            } else if only_first_has_rows && index > 0 {
                // Each row depends on all of this tensor, so nothing may write it.
                (self.tables.roles.get(slot as usize)? == &TensorRole::Untouched).then_some(())?;
            } else if rank == axis.rank {
                accesses.read.insert(slot)?;
            } else if rank >= axis.rank - axis.dim {
                return None;
            }
        }
        Some(accesses)
    }

    /// Returns `Some` if each row of the outputs of a kernel depends on the same row of its inputs.
    fn is_kernel_independent_along(
        &self,
        at: usize,
        args: &[Arg],
        ids: &[u32],
        axis: Axis,
    ) -> Option<()> {
        let independent = match self.pattern(at) {
            OpPattern::Elementwise => true,
            OpPattern::RowWise => self.has_rank(ids, axis)? && axis.dim + 1 < axis.rank,
            OpPattern::Normalization { dims } => {
                let value = self.tables.values.get(*ids.get(dims)? as usize)?.get();
                let EValue::IntList(sizes) = value else { return None };
                self.has_rank(ids, axis)? && axis.dim + sizes.len() < axis.rank
            }
            OpPattern::Reduction { dims, keepdim } => {
                let value = self.tables.values.get(*ids.get(dims)? as usize)?.get();
                let EValue::IntList(dims) = value else { return None };
                let is_other =
                    |id: &u32| self.dim(*id, axis.rank).is_some_and(|dim| dim != axis.dim);
                let some = (1..=axis.rank).contains(&dims.len()) && dims.iter().all(is_other);
                some && self.constant(*ids.get(keepdim)?)? != 0
            }
            OpPattern::Opaque | OpPattern::Select { .. } => false,
        };
        let is_input_or_out = |arg: &Arg| !arg.is_written() || *arg == Arg::Out;
        (independent && args.iter().all(is_input_or_out)).then_some(())
    }

    /// Returns true if the first argument has the rank of `axis`.
    fn has_rank(&self, ids: &[u32], axis: Axis) -> Option<bool> {
        Some(self.tensor(self.slot_of(*ids.first()?)?)?.sizes().len() == axis.rank)
    }

    /// Returns true if an output can have one row.
    fn can_shrink(&self, slot: u32, axis: Axis) -> bool {
        self.tensor(slot).is_some_and(|tensor| {
            tensor.sizes().len() == axis.rank && tensor.dim_order().is_sorted()
        })
    }

    /// Returns true if nothing else uses what the instructions `inside` write: no other
    /// instruction, no caller, and no tensor that overlaps it in memory.
    fn is_isolated(&self, inside: Range<usize>, accesses: &Accesses) -> Option<bool> {
        let MethodTables { values, instructions, inputs, roles, .. } = self.tables;
        let Accesses { read, written } = accesses;
        let mut isolated = !read.as_slice().iter().any(|slot| written.contains(*slot));
        for (at, instruction) in instructions.iter().enumerate() {
            // The instruction at `inside.end` is the select.
            if !(inside.start..=inside.end).contains(&at) {
                self.spend(num_arguments(instruction, values))?;
                for_each_argument(slice::from_ref(instruction), values, |slot| {
                    isolated &= !written.contains(slot);
                });
            }
        }
        let is_written = |id: &u32| self.slot_of(*id).is_some_and(|slot| written.contains(slot));
        isolated &= !self.outputs.iter().any(is_written);
        isolated &= !inputs.iter().any(|input| match *input {
            Binding::Borrow { slot } | Binding::Copy { slot } => written.contains(slot),
            Binding::Scalar { .. } => false,
        });
        self.spend(roles.len().checked_mul(written.len)?)?;
        for (slot, _) in (0..).zip(roles).filter(|(_, role)| **role == TensorRole::Untouched) {
            let (start, end) = self.tensor(slot)?.address_range();
            isolated &= !written.as_slice().iter().any(|slot| {
                let (first, last) = self.tensor(*slot).map_or((0, 0), TensorSlot::address_range);
                first < end && start < last
            });
        }
        Some(isolated)
    }

    /// Data dependence of instruction `at`.
    fn pattern(&self, at: usize) -> OpPattern {
        let kernel = match self.plan.instruction(at) {
            Some(Instruction::Kernel { operator, .. }) => self.operators.get(operator as usize),
            _ => None,
        };
        kernel.and_then(Option::as_ref).map_or(OpPattern::Opaque, |kernel| kernel.pattern)
    }

    /// Dimension that a value selects, if it is the same in every run.
    fn dim(&self, id: u32, rank: usize) -> Option<usize> {
        let (dim, rank) = (self.constant(id)?, i64::try_from(rank).ok()?);
        let dim = if dim < 0 { dim.checked_add(rank)? } else { dim };
        usize::try_from(dim).ok().filter(|_| dim < rank)
    }

    /// Integer or boolean value, if it is the same in every run.
    fn constant(&self, id: u32) -> Option<i64> {
        let mut changes = false;
        for instruction in self.tables.instructions {
            changes |= match *instruction {
                LoadedInstruction::KernelCall { args, ids, .. } => {
                    self.spend(args.len())?;
                    let mut pairs = args.iter().zip(ids);
                    pairs.any(|(arg, other)| *arg == Arg::OutScalar && *other == id)
                }
                LoadedInstruction::MoveScalar { to, .. } => to == id,
                _ => false,
            };
        }
        let input = |input: &Binding| matches!(*input, Binding::Scalar { value } if value == id);
        changes |= self.tables.inputs.iter().any(input);
        if changes { None } else { self.number(id) }
    }

    /// Integer or boolean value in the file.
    fn number(&self, id: u32) -> Option<i64> {
        match self.tables.values.get(id as usize)?.get() {
            EValue::Int(number) => Some(number),
            EValue::Bool(truth) => Some(i64::from(truth)),
            _ => None,
        }
    }

    fn slot_of(&self, id: u32) -> Option<u32> {
        match self.tables.values.get(id as usize)?.get() {
            EValue::Tensor(slot) => Some(slot),
            _ => None,
        }
    }

    fn tensor(&self, slot: u32) -> Option<&TensorSlot<'a>> {
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        self.tables.slots.get(slot as usize).map(|cell| unsafe { &*cell.get() })
    }

    fn spend(&self, work: usize) -> Option<()> {
        self.work_left.set(self.work_left.get().checked_sub(work)?);
        Some(())
    }
}
