//! Checks the instructions of a method and resolves them to instructions.

#![expect(unsafe_code, reason = "reads the tensors of a method that does not run yet")]

use core::cell::{Cell, UnsafeCell};

use afferent_core::{Arg, EValue, Kernel, Signature, TensorSlot};
use afferent_program::{Instruction, MethodPlan, Vector};

use crate::{
    LoadError, Problem,
    load::Diagnostics,
    method::{Delegates, LoadedInstruction},
    tables::TableBuilder,
};

/// Resolves the instructions of a method, in order.
pub(crate) struct Resolver<'r, 'a> {
    plan: MethodPlan<'a>,
    values: &'a [Cell<EValue<'a>>],
    slots: &'a [UnsafeCell<TensorSlot<'a>>],
    operators: &'r [Option<Kernel>],
    delegates: &'r Delegates<'a>,
    pub(crate) diagnostics: Diagnostics<'r>,
}

impl<'r, 'a> Resolver<'r, 'a> {
    pub(crate) fn new(
        plan: MethodPlan<'a>,
        values: &'a [Cell<EValue<'a>>],
        slots: &'a [UnsafeCell<TensorSlot<'a>>],
        operators: &'r [Option<Kernel>],
        delegates: &'r Delegates<'a>,
        diagnostics: Diagnostics<'r>,
    ) -> Self {
        Self { plan, values, slots, operators, delegates, diagnostics }
    }

    /// Resolves instruction `at`. An invalid one is reported and becomes a no-op.
    pub(crate) fn resolve(
        &mut self,
        at: usize,
        ids: &mut TableBuilder<'a, u32>,
    ) -> Result<LoadedInstruction<'a>, LoadError> {
        match self.plan.instruction(at) {
            Some(Instruction::Kernel { operator, args }) => {
                self.kernel_call(at, operator as usize, args, ids)
            }
            Some(Instruction::Delegate { delegate, args }) => {
                self.delegate_call(at, delegate as usize, args, ids)
            }
            Some(Instruction::Move { from, to }) => Ok(self.move_call(at, from, to)),
            Some(Instruction::JumpFalse { condition, destination }) => {
                Ok(LoadedInstruction::JumpFalse { condition, destination: destination as usize })
            }
            Some(Instruction::Free { .. }) | None => Ok(LoadedInstruction::Free),
        }
    }

    fn kernel_call(
        &mut self,
        at: usize,
        operator: usize,
        args: Vector<'a, u32>,
        ids: &mut TableBuilder<'a, u32>,
    ) -> Result<LoadedInstruction<'a>, LoadError> {
        let ids: &[u32] = ids.append(args.len(), args.iter())?;
        // A missing kernel was reported when the operator table was built.
        let Some(kernel) = self.operators.get(operator).copied().flatten() else {
            return Ok(LoadedInstruction::Free);
        };
        let name = kernel.name;
        let Some(own) = ids.get(..kernel.args.len()) else {
            let (found, needed) = (ids.len(), kernel.args.len());
            self.diagnostics.problem(Problem::ArgumentCount {
                instruction: at,
                name,
                found,
                needed,
            });
            return Ok(LoadedInstruction::Free);
        };
        for (index, (&id, &arg)) in own.iter().zip(kernel.args).enumerate() {
            let value = self.value(id);
            if !accepts(arg, value) {
                let found = value.kind();
                let problem = Problem::ArgumentKind { instruction: at, name, index, found };
                self.diagnostics.problem(problem);
            }
        }
        self.check_memory(at, name, Signature::Kernel(kernel.args), own);
        Ok(LoadedInstruction::KernelCall { run: kernel.run, args: kernel.args, ids: own })
    }

    fn delegate_call(
        &mut self,
        at: usize,
        index: usize,
        args: Vector<'a, u32>,
        ids: &mut TableBuilder<'a, u32>,
    ) -> Result<LoadedInstruction<'a>, LoadError> {
        let ids: &[u32] = ids.append(args.len(), args.iter())?;
        // A missing delegate was reported when the delegate table was built.
        let Some(delegate) = self.delegates.0.get(index).and_then(Option::as_ref) else {
            return Ok(LoadedInstruction::Free);
        };
        let inputs = delegate.num_inputs();
        let name = self.plan.delegate(index).map_or("", |delegate| delegate.id);
        if inputs > ids.len() {
            let (found, needed) = (ids.len(), inputs);
            self.diagnostics.problem(Problem::ArgumentCount {
                instruction: at,
                name,
                found,
                needed,
            });
            return Ok(LoadedInstruction::Free);
        }
        for (index, &id) in ids.iter().enumerate() {
            let value = self.value(id);
            if index >= inputs && !matches!(value, EValue::Tensor(_)) {
                let found = value.kind();
                let problem = Problem::ArgumentKind { instruction: at, name, index, found };
                self.diagnostics.problem(problem);
            }
        }
        self.check_memory(at, name, Signature::Delegate { inputs }, ids);
        Ok(LoadedInstruction::DelegateCall { index, inputs, ids })
    }

    fn move_call(&mut self, at: usize, from: u32, to: u32) -> LoadedInstruction<'a> {
        match (self.value(from), self.value(to)) {
            (EValue::Tensor(a), EValue::Tensor(b)) if a == b => LoadedInstruction::Free,
            (EValue::Tensor(source), EValue::Tensor(target)) => {
                let name = "move";
                if self.overlap(source, target) || self.dtype(source) != self.dtype(target) {
                    self.diagnostics.problem(Problem::Overlap { instruction: at, name, index: 1 });
                }
                if self.is_constant(target) {
                    let problem = Problem::WritesConstant { instruction: at, name, index: 1 };
                    self.diagnostics.problem(problem);
                }
                LoadedInstruction::MoveTensor { from: source, to: target }
            }
            // Calls were checked with the present lists, so no list of tensors may change.
            (EValue::Tensor(_) | EValue::TensorList(_) | EValue::OptionalTensorList(_), _)
            | (_, EValue::Tensor(_)) => {
                self.diagnostics.problem(Problem::UnsupportedMove { value: to as usize });
                LoadedInstruction::Free
            }
            _ => LoadedInstruction::MoveScalar { from, to },
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
            let (start, end) = slot.address_range();
            start < end && !slot.is_writable()
        })
    }

    /// Returns true if two tensors are the same or share memory.
    fn overlap(&self, a: u32, b: u32) -> bool {
        let (Some(first), Some(second)) = (self.slot(a), self.slot(b)) else { return true };
        let ((start_a, end_a), (start_b, end_b)) = (first.address_range(), second.address_range());
        a == b || (start_a < end_b && start_b < end_a)
    }

    /// Checks that no output of a call is a constant or shares memory with its other tensors.
    fn check_memory(&mut self, at: usize, name: &'a str, signature: Signature, ids: &[u32]) {
        let values = self.values;
        for (index, &id) in ids.iter().enumerate() {
            let Some(arg) = kind(signature, index).filter(|arg| arg.is_written()) else { continue };
            if self.diagnostics.is_spent() {
                return;
            }
            for_each_tensor(self.value(id), values, &mut |slot, item| {
                if self.is_constant(slot) && arg != Arg::View {
                    let instruction = at;
                    self.diagnostics.problem(Problem::WritesConstant { instruction, name, index });
                }
                let mut shared = false;
                for (other, &id) in ids.iter().enumerate() {
                    if self.diagnostics.is_spent() {
                        return;
                    }
                    for_each_tensor(self.value(id), values, &mut |other_slot, other_item| {
                        let is_itself = (other, other_item) == (index, item);
                        let is_view_source = arg == Arg::View && other == 0;
                        if !self.diagnostics.spend(1) {
                            return;
                        }
                        shared |= match (is_itself, is_view_source) {
                            (true, _) => false,
                            (_, true) => !self.may_view(slot, other_slot),
                            _ => self.overlap(slot, other_slot),
                        };
                    });
                }
                if shared {
                    self.diagnostics.problem(Problem::Overlap { instruction: at, name, index });
                }
            });
        }
    }

    /// Returns true if `view` may become a view of `source`: the memory planned for both is the
    /// same, so the checks of other instructions hold for the view too, or `source` is never
    /// written.
    fn may_view(&self, view: u32, source: u32) -> bool {
        match (self.slot(view), self.slot(source)) {
            (Some(a), Some(b)) => {
                view != source && (a.address_range() == b.address_range() || !b.is_writable())
            }
            _ => false,
        }
    }
}

/// Returns true if an argument takes a value of this kind. Scalars may change their kind while the
/// method runs, so any scalar passes for another.
fn accepts(arg: Arg, value: EValue<'_>) -> bool {
    let scalar = matches!(value, EValue::Int(_) | EValue::Double(_) | EValue::Bool(_));
    let none = matches!(value, EValue::None);
    match arg {
        Arg::Tensor | Arg::Out | Arg::InOut | Arg::View => matches!(value, EValue::Tensor(_)),
        Arg::OptTensor => none || matches!(value, EValue::Tensor(_)),
        Arg::TensorList | Arg::OptTensorList => {
            matches!(value, EValue::TensorList(_) | EValue::OptionalTensorList(_))
        }
        Arg::OutList => matches!(value, EValue::TensorList(_)),
        // `None` is the placeholder of a number that an input provides.
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

fn kind(signature: Signature, index: usize) -> Option<Arg> {
    match signature {
        Signature::Kernel(args) => args.get(index).copied(),
        Signature::Delegate { inputs } if index < inputs => Some(Arg::Tensor),
        Signature::Delegate { .. } => Some(Arg::Out),
    }
}

/// Calls `visit` with the slot of each tensor of `value` and its index in the list.
fn for_each_tensor(
    value: EValue<'_>,
    values: &[Cell<EValue<'_>>],
    visit: &mut dyn FnMut(u32, usize),
) {
    match value {
        EValue::Tensor(slot) => visit(slot, 0),
        EValue::TensorList(ids) | EValue::OptionalTensorList(ids) => {
            for (item, &id) in ids.iter().enumerate() {
                if let Some(EValue::Tensor(slot)) = values.get(id as usize).map(Cell::get) {
                    visit(slot, item);
                }
            }
        }
        _ => {}
    }
}

/// Calls `visit` with the slot of each tensor that a call writes, and the kind of its argument.
pub(crate) fn for_each_output(
    signature: Signature,
    ids: &[u32],
    values: &[Cell<EValue<'_>>],
    mut visit: impl FnMut(u32, Arg),
) {
    for (index, &id) in ids.iter().enumerate() {
        if let Some(arg) = kind(signature, index).filter(|arg| arg.is_written()) {
            let value = values.get(id as usize).map_or(EValue::None, Cell::get);
            for_each_tensor(value, values, &mut |slot, _| visit(slot, arg));
        }
    }
}

/// Calls `visit` with the slot of each tensor argument of the instructions.
pub(crate) fn for_each_argument(
    instructions: &[LoadedInstruction<'_>],
    values: &[Cell<EValue<'_>>],
    mut visit: impl FnMut(u32),
) {
    for instruction in instructions {
        match *instruction {
            LoadedInstruction::KernelCall { ids, .. }
            | LoadedInstruction::DelegateCall { ids, .. } => {
                for &id in ids {
                    let value = values.get(id as usize).map_or(EValue::None, Cell::get);
                    for_each_tensor(value, values, &mut |slot, _| visit(slot));
                }
            }
            LoadedInstruction::MoveTensor { from, to } => {
                visit(from);
                visit(to);
            }
            LoadedInstruction::JumpFalse { condition, .. } => {
                let value = values.get(condition as usize).map_or(EValue::None, Cell::get);
                for_each_tensor(value, values, &mut |slot, _| visit(slot));
            }
            LoadedInstruction::MoveScalar { .. } | LoadedInstruction::Free => {}
        }
    }
}

/// Number of arguments of an instruction, including the elements of list arguments.
pub(crate) fn num_arguments(
    instruction: &LoadedInstruction<'_>,
    values: &[Cell<EValue<'_>>],
) -> usize {
    let (LoadedInstruction::KernelCall { ids, .. } | LoadedInstruction::DelegateCall { ids, .. }) =
        instruction
    else {
        return 2;
    };
    let arguments = ids.iter().map(|&id| match values.get(id as usize).map(Cell::get) {
        Some(EValue::TensorList(items) | EValue::OptionalTensorList(items)) => 1 + items.len(),
        _ => 1,
    });
    arguments.sum()
}

/// Calls `visit` with the slot of each tensor that the instructions write, and the kind of its
/// argument.
pub(crate) fn for_each_written(
    instructions: &[LoadedInstruction<'_>],
    values: &[Cell<EValue<'_>>],
    mut visit: impl FnMut(u32, Arg),
) {
    for instruction in instructions {
        match *instruction {
            LoadedInstruction::KernelCall { args, ids, .. } => {
                for_each_output(Signature::Kernel(args), ids, values, &mut visit);
            }
            LoadedInstruction::DelegateCall { inputs, ids, .. } => {
                for_each_output(Signature::Delegate { inputs }, ids, values, &mut visit);
            }
            LoadedInstruction::MoveTensor { to, .. } => visit(to, Arg::Out),
            LoadedInstruction::MoveScalar { .. }
            | LoadedInstruction::JumpFalse { .. }
            | LoadedInstruction::Free => {}
        }
    }
}
