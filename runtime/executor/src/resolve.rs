//! Checks the instructions of a method and resolves them to steps.

#![expect(unsafe_code, reason = "reads the tensors of a method that does not run yet")]

use core::cell::{Cell, UnsafeCell};

use afferent_core::{Arg, EValue, Kernel, Signature, TensorSlot};
use afferent_program::{Instruction, MethodPlan, Vector};

use crate::{
    LoadError, Problem,
    load::Count,
    method::{Delegates, Step},
    tables::Cutter,
};

/// Resolves one instruction after the other.
pub(crate) struct Resolver<'r, 'a> {
    plan: MethodPlan<'a>,
    values: &'a [Cell<EValue<'a>>],
    slots: &'a [UnsafeCell<TensorSlot<'a>>],
    operators: &'r [Option<Kernel>],
    delegates: &'r Delegates<'a>,
    pub(crate) count: Count<'r>,
}

impl<'r, 'a> Resolver<'r, 'a> {
    pub(crate) fn new(
        plan: MethodPlan<'a>,
        values: &'a [Cell<EValue<'a>>],
        slots: &'a [UnsafeCell<TensorSlot<'a>>],
        operators: &'r [Option<Kernel>],
        delegates: &'r Delegates<'a>,
        count: Count<'r>,
    ) -> Self {
        Self { plan, values, slots, operators, delegates, count }
    }

    /// Step number `at`. What does not fit is reported and becomes a step without effect.
    pub(crate) fn step(
        &mut self,
        at: usize,
        ids: &mut Cutter<'a, u32>,
    ) -> Result<Step<'a>, LoadError> {
        match self.plan.instruction(at) {
            Some(Instruction::Kernel { operator, args }) => {
                self.kernel(at, operator as usize, args, ids)
            }
            Some(Instruction::Delegate { delegate, args }) => {
                self.delegate(at, delegate as usize, args, ids)
            }
            Some(Instruction::Move { from, to }) => Ok(self.movement(at, from, to)),
            Some(Instruction::JumpFalse { condition, destination }) => {
                Ok(Step::JumpFalse { condition, destination: destination as usize })
            }
            Some(Instruction::Free { .. }) | None => Ok(Step::Free),
        }
    }

    fn kernel(
        &mut self,
        at: usize,
        operator: usize,
        args: Vector<'a, u32>,
        ids: &mut Cutter<'a, u32>,
    ) -> Result<Step<'a>, LoadError> {
        let ids: &[u32] = ids.cut(args.len(), args.iter())?;
        // An operator that is missing was reported with the table of operators.
        let Some(kernel) = self.operators.get(operator).copied().flatten() else {
            return Ok(Step::Free);
        };
        let name = kernel.name;
        let Some(own) = ids.get(..kernel.args.len()) else {
            let (found, needed) = (ids.len(), kernel.args.len());
            self.count.problem(Problem::ArgumentCount { instruction: at, name, found, needed });
            return Ok(Step::Free);
        };
        for (index, (&id, &arg)) in own.iter().zip(kernel.args).enumerate() {
            let value = self.value(id);
            if !self.fits(arg, value) {
                let found = value.kind();
                let problem = Problem::ArgumentKind { instruction: at, name, index, found };
                self.count.problem(problem);
            }
        }
        self.check_memory(at, name, Signature::Kernel(kernel.args), own);
        Ok(Step::Kernel { run: kernel.run, args: kernel.args, ids: own })
    }

    fn delegate(
        &mut self,
        at: usize,
        index: usize,
        args: Vector<'a, u32>,
        ids: &mut Cutter<'a, u32>,
    ) -> Result<Step<'a>, LoadError> {
        let ids: &[u32] = ids.cut(args.len(), args.iter())?;
        // A delegate that is missing was reported when it was prepared.
        let Some(delegate) = self.delegates.0.get(index).and_then(Option::as_ref) else {
            return Ok(Step::Free);
        };
        let inputs = delegate.inputs();
        let name = self.plan.delegate(index).map_or("", |delegate| delegate.id);
        if inputs > ids.len() {
            let (found, needed) = (ids.len(), inputs);
            self.count.problem(Problem::ArgumentCount { instruction: at, name, found, needed });
            return Ok(Step::Free);
        }
        for (place, &id) in ids.iter().enumerate() {
            let value = self.value(id);
            if place >= inputs && !matches!(value, EValue::Tensor(_)) {
                let (index, found) = (place, value.kind());
                let problem = Problem::ArgumentKind { instruction: at, name, index, found };
                self.count.problem(problem);
            }
        }
        self.check_memory(at, name, Signature::Delegate { inputs }, ids);
        Ok(Step::Delegate { index, inputs, ids })
    }

    fn movement(&mut self, at: usize, from: u32, to: u32) -> Step<'a> {
        match (self.value(from), self.value(to)) {
            (EValue::Tensor(a), EValue::Tensor(b)) if a == b => Step::Free,
            (EValue::Tensor(source), EValue::Tensor(target)) => {
                let name = "move";
                if self.overlap(source, target) || self.dtype(source) != self.dtype(target) {
                    self.count.problem(Problem::Overlap { instruction: at, name, index: 1 });
                }
                if self.is_constant(target) {
                    let problem = Problem::WritesConstant { instruction: at, name, index: 1 };
                    self.count.problem(problem);
                }
                Step::MoveTensor { from: source, to: target }
            }
            // Calls are checked with the lists as they stand now, so no list of tensors may change.
            (EValue::Tensor(_) | EValue::TensorList(_) | EValue::OptionalTensorList(_), _)
            | (_, EValue::Tensor(_)) => {
                self.count.problem(Problem::Control { value: to as usize });
                Step::Free
            }
            _ => Step::MoveScalar { from, to },
        }
    }

    fn value(&self, id: u32) -> EValue<'a> {
        self.values.get(id as usize).map_or(EValue::None, Cell::get)
    }

    fn slot(&self, slot: u32) -> Option<&TensorSlot<'a>> {
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        self.slots.get(slot as usize).map(|cell| unsafe { &*cell.get() })
    }

    fn dtype(&self, slot: u32) -> Option<afferent_core::ScalarType> {
        self.slot(slot).map(TensorSlot::dtype)
    }

    fn is_constant(&self, slot: u32) -> bool {
        self.slot(slot).is_some_and(|slot| {
            let (start, end) = slot.extent();
            start < end && !slot.is_writable()
        })
    }

    /// Whether two tensors are the same or share memory.
    fn overlap(&self, a: u32, b: u32) -> bool {
        let (Some(first), Some(second)) = (self.slot(a), self.slot(b)) else { return true };
        let ((start_a, end_a), (start_b, end_b)) = (first.extent(), second.extent());
        a == b || (start_a < end_b && start_b < end_a)
    }

    /// Whether a value is of the kind that an argument takes. Scalars may change their kind while
    /// the method runs, so any of them passes for another.
    fn fits(&self, arg: Arg, value: EValue<'_>) -> bool {
        let scalar = matches!(value, EValue::Int(_) | EValue::Double(_) | EValue::Bool(_));
        let none = matches!(value, EValue::None);
        match arg {
            Arg::Tensor | Arg::Out | Arg::InOut | Arg::View => matches!(value, EValue::Tensor(_)),
            Arg::OptTensor => none || matches!(value, EValue::Tensor(_)),
            Arg::TensorList | Arg::OptTensorList => {
                matches!(value, EValue::TensorList(_) | EValue::OptionalTensorList(_))
            }
            Arg::OutList => matches!(value, EValue::TensorList(_)),
            // None stands for a number that an input brings.
            Arg::Scalar | Arg::Int | Arg::Double | Arg::Bool | Arg::OutScalar => scalar || none,
            Arg::OptScalar | Arg::OptInt | Arg::OptDouble | Arg::OptBool | Arg::OptDtype => {
                scalar || none
            }
            Arg::Str => matches!(value, EValue::Str(_)),
            Arg::OptStr => none || matches!(value, EValue::Str(_)),
            Arg::IntList => matches!(value, EValue::IntList(_) | EValue::Int(_)),
            Arg::OptIntList => none || matches!(value, EValue::IntList(_) | EValue::Int(_)),
            Arg::OptDoubleList => none || matches!(value, EValue::DoubleList(_)),
            Arg::BoolList => matches!(value, EValue::BoolList(_)),
            Arg::Ignored => true,
        }
    }

    /// Checks that what a call writes is no constant and shares no memory with its other tensors.
    fn check_memory(&mut self, at: usize, name: &'a str, signature: Signature, ids: &[u32]) {
        let values = self.values;
        for (index, &id) in ids.iter().enumerate() {
            let Some(arg) = kind(signature, index).filter(|arg| arg.is_written()) else { continue };
            if self.count.is_spent() {
                return;
            }
            for_tensors(self.value(id), values, &mut |slot, item| {
                if self.is_constant(slot) && arg != Arg::View {
                    let instruction = at;
                    self.count.problem(Problem::WritesConstant { instruction, name, index });
                }
                let mut shared = false;
                for (other, &id) in ids.iter().enumerate() {
                    if self.count.is_spent() {
                        return;
                    }
                    for_tensors(self.value(id), values, &mut |other_slot, other_item| {
                        let itself = (other, other_item) == (index, item);
                        let viewed = arg == Arg::View && other == 0;
                        if !self.count.spend(1) {
                            return;
                        }
                        shared |= match (itself, viewed) {
                            (true, _) => false,
                            (_, true) => !self.may_view(slot, other_slot),
                            _ => self.overlap(slot, other_slot),
                        };
                    });
                }
                if shared {
                    self.count.problem(Problem::Overlap { instruction: at, name, index });
                }
            });
        }
    }

    /// Whether `view` may become a view of `source`: the memory planned for both is the same, so
    /// that checks of other instructions hold for the view as well; or `source` is never written.
    fn may_view(&self, view: u32, source: u32) -> bool {
        match (self.slot(view), self.slot(source)) {
            (Some(a), Some(b)) => view != source && (a.extent() == b.extent() || !b.is_writable()),
            _ => false,
        }
    }
}

fn kind(signature: Signature, index: usize) -> Option<Arg> {
    match signature {
        Signature::Kernel(args) => args.get(index).copied(),
        Signature::Delegate { inputs } if index < inputs => Some(Arg::Tensor),
        Signature::Delegate { .. } => Some(Arg::Out),
    }
}

/// Calls `found` with each tensor of `value` and its place in the list.
fn for_tensors(value: EValue<'_>, values: &[Cell<EValue<'_>>], found: &mut dyn FnMut(u32, usize)) {
    match value {
        EValue::Tensor(slot) => found(slot, 0),
        EValue::TensorList(ids) | EValue::OptionalTensorList(ids) => {
            for (item, &id) in ids.iter().enumerate() {
                if let Some(EValue::Tensor(slot)) = values.get(id as usize).map(Cell::get) {
                    found(slot, item);
                }
            }
        }
        _ => {}
    }
}

/// Calls `found` with each tensor that a call writes, and how.
pub(crate) fn for_written(
    signature: Signature,
    ids: &[u32],
    values: &[Cell<EValue<'_>>],
    mut found: impl FnMut(u32, Arg),
) {
    for (index, &id) in ids.iter().enumerate() {
        if let Some(arg) = kind(signature, index).filter(|arg| arg.is_written()) {
            let value = values.get(id as usize).map_or(EValue::None, Cell::get);
            for_tensors(value, values, &mut |slot, _| found(slot, arg));
        }
    }
}

/// Calls `found` with each tensor that a step names as an argument.
pub(crate) fn for_each_argument(
    steps: &[Step<'_>],
    values: &[Cell<EValue<'_>>],
    mut found: impl FnMut(u32),
) {
    for step in steps {
        match *step {
            Step::Kernel { ids, .. } | Step::Delegate { ids, .. } => {
                for &id in ids {
                    let value = values.get(id as usize).map_or(EValue::None, Cell::get);
                    for_tensors(value, values, &mut |slot, _| found(slot));
                }
            }
            Step::MoveTensor { from, to } => {
                found(from);
                found(to);
            }
            Step::JumpFalse { condition, .. } => {
                let value = values.get(condition as usize).map_or(EValue::None, Cell::get);
                for_tensors(value, values, &mut |slot, _| found(slot));
            }
            Step::MoveScalar { .. } | Step::Free => {}
        }
    }
}

/// Number of arguments of a step, and of the entries of those that are lists.
pub(crate) fn num_arguments(step: &Step<'_>, values: &[Cell<EValue<'_>>]) -> usize {
    let (Step::Kernel { ids, .. } | Step::Delegate { ids, .. }) = step else { return 2 };
    let arguments = ids.iter().map(|&id| match values.get(id as usize).map(Cell::get) {
        Some(EValue::TensorList(items) | EValue::OptionalTensorList(items)) => 1 + items.len(),
        _ => 1,
    });
    arguments.sum()
}

/// Calls `found` with each tensor that a step writes, and how.
pub(crate) fn for_each_written(
    steps: &[Step<'_>],
    values: &[Cell<EValue<'_>>],
    mut found: impl FnMut(u32, Arg),
) {
    for step in steps {
        match *step {
            Step::Kernel { args, ids, .. } => {
                for_written(Signature::Kernel(args), ids, values, &mut found);
            }
            Step::Delegate { inputs, ids, .. } => {
                for_written(Signature::Delegate { inputs }, ids, values, &mut found);
            }
            Step::MoveTensor { to, .. } => found(to, Arg::Out),
            Step::MoveScalar { .. } | Step::JumpFalse { .. } | Step::Free => {}
        }
    }
}
