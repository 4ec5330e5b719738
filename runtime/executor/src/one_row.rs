//! Instructions of whose results only the first or the last row is used: they compute no other.
//!
//! A language model tells the token that follows a prompt from the last of its tokens, and a network
//! that tells pictures apart has a first token for that. Behind the last attention the others are
//! computed in vain: products, of which a program with twelve layers has one part in sixteen there. So
//! what these instructions read is cut to that row before the first of them runs, by a step of the
//! pointer, and is whole again behind the instruction that takes the row. Results whose sizes cannot
//! change are cut like that, too.
//!
//! They end with one that takes a position of a dimension, and go back as long as rows along it come
//! from the same rows ([`Rows`], [`Delegate::keeps_rows`]) and nothing else reads the results.
//!
//! [`Delegate::keeps_rows`]: afferent_core::Delegate::keeps_rows

#![expect(unsafe_code, reason = "changes the tensors of a method between its instructions")]

use core::{
    cell::{Cell, UnsafeCell},
    ops::Range,
    slice,
};

use afferent_core::{Arg, Dynamism, EValue, Kernel, Row, Rows, TensorSlot};
use afferent_program::{Instruction, MethodPlan};

use crate::{
    alias::Tables,
    input::Binding,
    load::Role,
    method::{Delegates, Step},
    resolve::{for_each_argument, for_each_written, num_arguments},
};

/// The most tensors that these instructions write, and the most that they read.
const MOST: usize = 64;

/// Comparisons after which the search is given up: it must not be long for any file.
const WORK: usize = 10_000_000;

/// Instructions that compute one row of their results alone.
#[derive(Debug, Default)]
pub(crate) struct OneRow {
    /// Which they are; the next one takes the row.
    steps: Range<usize>,
    dim: usize,
    row: Row,
    /// What is cut while they run.
    cut: Slots,
}

/// Different tensors.
#[derive(Debug, Clone, Copy)]
struct Slots {
    slots: [u32; MOST],
    len: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { slots: [0; MOST], len: 0 }
    }
}

impl Slots {
    fn all(&self) -> &[u32] {
        &self.slots[..self.len]
    }

    fn has(&self, slot: u32) -> bool {
        self.all().contains(&slot)
    }

    /// Adds a tensor; `None` where there is no room.
    fn add(&mut self, slot: u32) -> Option<()> {
        if !self.has(slot) {
            *self.slots.get_mut(self.len)? = slot;
            self.len += 1;
        }
        Some(())
    }

    fn remove(&mut self, slot: u32) {
        if let Some(at) = self.all().iter().position(|&other| other == slot) {
            self.len -= 1;
            self.slots[at] = self.slots[self.len];
        }
    }
}

impl OneRow {
    /// To be called before instruction `at` runs.
    pub(crate) fn before(&self, at: usize, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        if at == self.steps.start && !self.steps.is_empty() && self.agree(slots) {
            self.each(slots, |tensor| tensor.keep_row(self.dim, self.row));
        }
    }

    /// To be called behind instruction `at`.
    pub(crate) fn behind(&self, at: usize, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        if at == self.steps.end {
            self.show(slots);
        }
    }

    /// Shows all rows, wherever a run has ended.
    pub(crate) fn show(&self, slots: &[UnsafeCell<TensorSlot<'_>>]) {
        self.each(slots, TensorSlot::show_rows);
    }

    /// Whether all that is cut has as many rows, or one: sizes that do not fit stay an error.
    fn agree(&self, slots: &[UnsafeCell<TensorSlot<'_>>]) -> bool {
        let (mut most, mut agree) = (1, true);
        self.each(slots, |tensor| match tensor.rows(self.dim) {
            Some(1) => {}
            Some(rows) => {
                agree &= most == 1 || rows == most;
                most = rows;
            }
            None => agree = false,
        });
        agree
    }

    fn each<'a>(
        &self,
        slots: &[UnsafeCell<TensorSlot<'a>>],
        mut change: impl FnMut(&mut TensorSlot<'a>),
    ) {
        for slot in self.cut.all() {
            if let Some(cell) = slots.get(*slot as usize) {
                // SAFETY: no call is under way, so nothing else reaches the slots.
                change(unsafe { &mut *cell.get() });
            }
        }
    }
}

/// What is searched: a method that does not run yet.
pub(crate) struct Search<'t, 'a> {
    plan: MethodPlan<'a>,
    tables: Tables<'t, 'a>,
    operators: &'t [Option<Kernel>],
    delegates: &'t Delegates<'a>,
    /// Values that are results of the method.
    outputs: &'t [u32],
    work_left: Cell<usize>,
}

/// A dimension of tensors that have `rank` of them.
#[derive(Clone, Copy)]
struct Axis {
    rank: usize,
    dim: usize,
}

/// The tensors of some instructions, the last of which takes a row of something.
#[derive(Default, Clone, Copy)]
struct Used {
    /// Whose rows they read, before any of them writes.
    read: Slots,
    written: Slots,
}

impl<'t, 'a> Search<'t, 'a> {
    pub(crate) fn new(
        plan: MethodPlan<'a>,
        tables: Tables<'t, 'a>,
        operators: &'t [Option<Kernel>],
        delegates: &'t Delegates<'a>,
        outputs: &'t [u32],
    ) -> Self {
        Self { plan, tables, operators, delegates, outputs, work_left: Cell::new(WORK) }
    }

    /// The instructions before the last one that takes a first or last row.
    pub(crate) fn run(&self) -> OneRow {
        self.find().unwrap_or_default()
    }

    fn find(&self) -> Option<OneRow> {
        let steps = self.tables.steps;
        if steps.iter().any(|step| matches!(step, Step::JumpFalse { .. })) {
            return None;
        }
        let end = (0..steps.len()).rev().find(|at| self.picked(*at).is_some())?;
        let (axis, row, source) = self.taken(end)?;
        let mut used = Used::default();
        used.read.add(source)?;
        let mut start = end;
        while let Some(before) = start.checked_sub(1)
            && let Some(more) = self.with_step(before, axis, used)
        {
            (start, used) = (before, more);
        }
        let found = start < end && self.is_apart(start..end, &used)?;
        let mut cut = used.read;
        for &slot in used.written.all() {
            if self.tensor(slot)?.dynamism() == Dynamism::Static {
                cut.add(slot)?;
            }
        }
        found.then_some(OneRow { steps: start..end, dim: axis.dim, row, cut })
    }

    /// The row that step `at` takes as the file has it, with its arguments and which of them are the
    /// dimension and the position.
    fn picked(&self, at: usize) -> Option<(Row, &'a [u32], [usize; 2])> {
        let (Step::Kernel { ids, .. }, Rows::Selected { dim, index }) =
            (self.tables.steps[at], self.rows(at))
        else {
            return None;
        };
        let row = match self.number(*ids.get(index)?)? {
            0 => Row::First,
            -1 => Row::Last,
            _ => return None,
        };
        Some((row, ids, [dim, index]))
    }

    /// The dimension, the row and the tensor that step `at` takes in every run.
    fn taken(&self, at: usize) -> Option<(Axis, Row, u32)> {
        let (row, ids, [dim, index]) = self.picked(at)?;
        self.constant(*ids.get(index)?)?;
        let source = self.slot_of(*ids.first()?)?;
        let rank = self.tensor(source)?.sizes().len();
        Some((Axis { rank, dim: self.dim(*ids.get(dim)?, rank)? }, row, source))
    }

    /// What is used with step `at` before the others. `None` where it must compute all rows.
    fn with_step(&self, at: usize, axis: Axis, behind: Used) -> Option<Used> {
        let mut used = behind;
        let step = self.tables.steps[at];
        let (ids, first_alone) = match step {
            Step::Kernel { args, ids, .. } => {
                self.kernel_keeps_rows(at, args, ids, axis)?;
                (ids, matches!(self.rows(at), Rows::Lines | Rows::Normalized { .. }))
            }
            Step::Delegate { index, ids, .. } => {
                let delegate = self.delegates.0.get(index)?.as_ref()?;
                delegate.keeps_rows(axis.rank, axis.dim).then_some(())?;
                (ids, false)
            }
            _ => return None,
        };
        let (mut useful, mut fits) = (false, true);
        for_each_written(slice::from_ref(&step), self.tables.values, |slot, _| {
            useful |= used.read.has(slot);
            used.read.remove(slot);
            fits &= !behind.written.has(slot) && self.may_shrink(slot, axis);
            fits &= used.written.add(slot).is_some();
        });
        (useful && fits).then_some(())?;
        for (place, &id) in ids.iter().enumerate() {
            let slot = match self.tables.values.get(id as usize)?.get() {
                EValue::Tensor(slot) => slot,
                EValue::TensorList(_) | EValue::OptionalTensorList(_) => return None,
                _ => continue,
            };
            let rank = self.tensor(slot)?.sizes().len();
            if used.written.has(slot) {
                // What it writes itself; nothing reads what is only written later.
                (!behind.written.has(slot)).then_some(())?;
            } else if first_alone && place > 0 {
                // Each row depends on all of it, so nothing may write it.
                (self.tables.roles.get(slot as usize)? == &Role::Untouched).then_some(())?;
            } else if rank == axis.rank {
                used.read.add(slot)?;
            } else if rank >= axis.rank - axis.dim {
                return None;
            }
        }
        Some(used)
    }

    /// Something if each row of what a kernel gives comes from the same row of its operands.
    fn kernel_keeps_rows(&self, at: usize, args: &[Arg], ids: &[u32], axis: Axis) -> Option<()> {
        let keeps = match self.rows(at) {
            Rows::Elements => true,
            Rows::Lines => self.has_rank(ids, axis)? && axis.dim + 1 < axis.rank,
            Rows::Normalized { dims } => {
                let value = self.tables.values.get(*ids.get(dims)? as usize)?.get();
                let EValue::IntList(sizes) = value else { return None };
                self.has_rank(ids, axis)? && axis.dim + sizes.len() < axis.rank
            }
            Rows::Reduced { dims, keepdim } => {
                let value = self.tables.values.get(*ids.get(dims)? as usize)?.get();
                let EValue::IntList(dims) = value else { return None };
                let stays = |id: &u32| self.dim(*id, axis.rank).is_some_and(|dim| dim != axis.dim);
                let some = (1..=axis.rank).contains(&dims.len()) && dims.iter().all(stays);
                some && self.constant(*ids.get(keepdim)?)? != 0
            }
            Rows::Mixed | Rows::Selected { .. } => false,
        };
        let plain = |arg: &Arg| !arg.is_written() || *arg == Arg::Out;
        (keeps && args.iter().all(plain)).then_some(())
    }

    /// Whether the first argument has these dimensions.
    fn has_rank(&self, ids: &[u32], axis: Axis) -> Option<bool> {
        Some(self.tensor(self.slot_of(*ids.first()?)?)?.sizes().len() == axis.rank)
    }

    /// Whether a result may have one row instead of many.
    fn may_shrink(&self, slot: u32, axis: Axis) -> bool {
        self.tensor(slot).is_some_and(|tensor| {
            tensor.sizes().len() == axis.rank && tensor.dim_order().is_sorted()
        })
    }

    /// Whether nothing else has to do with what these steps write: no other step, no caller, no tensor
    /// that lies over it.
    fn is_apart(&self, inside: Range<usize>, used: &Used) -> Option<bool> {
        let Tables { values, steps, inputs, roles, .. } = self.tables;
        let Used { read, written } = used;
        let mut apart = !read.all().iter().any(|slot| written.has(*slot));
        for (at, step) in steps.iter().enumerate() {
            // The step behind them takes the row.
            if !(inside.start..=inside.end).contains(&at) {
                self.spend(num_arguments(step, values))?;
                for_each_argument(slice::from_ref(step), values, |slot| {
                    apart &= !written.has(slot)
                });
            }
        }
        let is_written = |id: &u32| self.slot_of(*id).is_some_and(|slot| written.has(slot));
        apart &= !self.outputs.iter().any(is_written);
        apart &= !inputs.iter().any(|input| match *input {
            Binding::Borrow { slot } | Binding::Copy { slot } => written.has(slot),
            Binding::Scalar { .. } => false,
        });
        self.spend(roles.len().checked_mul(written.len)?)?;
        for (slot, _) in (0..).zip(roles).filter(|(_, role)| **role == Role::Untouched) {
            let (start, end) = self.tensor(slot)?.extent();
            apart &= !written.all().iter().any(|slot| {
                let (first, last) = self.tensor(*slot).map_or((0, 0), TensorSlot::extent);
                first < end && start < last
            });
        }
        Some(apart)
    }

    /// What the results of step `at` depend on.
    fn rows(&self, at: usize) -> Rows {
        let kernel = match self.plan.instruction(at) {
            Some(Instruction::Kernel { operator, .. }) => self.operators.get(operator as usize),
            _ => None,
        };
        kernel.and_then(Option::as_ref).map_or(Rows::Mixed, |kernel| kernel.rows)
    }

    /// The dimension that a value names in every run.
    fn dim(&self, id: u32, rank: usize) -> Option<usize> {
        let (dim, rank) = (self.constant(id)?, i64::try_from(rank).ok()?);
        let dim = if dim < 0 { dim.checked_add(rank)? } else { dim };
        usize::try_from(dim).ok().filter(|_| dim < rank)
    }

    /// The integer or truth value that a value is in every run.
    fn constant(&self, id: u32) -> Option<i64> {
        let mut changes = false;
        for step in self.tables.steps {
            changes |= match *step {
                Step::Kernel { args, ids, .. } => {
                    self.spend(args.len())?;
                    let mut pairs = args.iter().zip(ids);
                    pairs.any(|(arg, other)| *arg == Arg::OutScalar && *other == id)
                }
                Step::MoveScalar { to, .. } => to == id,
                _ => false,
            };
        }
        let input = |input: &Binding| matches!(*input, Binding::Scalar { value } if value == id);
        changes |= self.tables.inputs.iter().any(input);
        if changes { None } else { self.number(id) }
    }

    /// The integer or truth value that a value is in the file.
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
