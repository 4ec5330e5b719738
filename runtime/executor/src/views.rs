//! Views that instructions make while a method runs: checks at load, and their lifetime.

#![expect(unsafe_code, reason = "reads and clears the tensors of a method between its runs")]

use core::cell::{Cell, UnsafeCell};

use afferent_core::{Arg, Dynamism, EValue, TensorSlot};

use crate::{
    Problem,
    load::{Diagnostics, TensorRole},
    method::LoadedInstruction,
};

/// Values and tensors of a method that is not running.
#[derive(Clone, Copy)]
pub(crate) struct MethodTensors<'t, 'a> {
    pub(crate) values: &'t [Cell<EValue<'a>>],
    pub(crate) slots: &'t [UnsafeCell<TensorSlot<'a>>],
}

/// Returns true if any instruction makes a view.
pub(crate) fn exist(instructions: &[LoadedInstruction<'_>]) -> bool {
    instructions.iter().any(|instruction| view(instruction).is_some())
}

/// View that an instruction makes: its argument index, and the value indices of the view and its
/// source.
fn view(instruction: &LoadedInstruction<'_>) -> Option<(usize, u32, u32)> {
    let LoadedInstruction::KernelCall { args, ids, .. } = instruction else { return None };
    let index = args.iter().position(|&arg| arg == Arg::View)?;
    Some((index, *ids.get(index)?, *ids.first()?))
}

impl<'t, 'a> MethodTensors<'t, 'a> {
    fn cell(&self, id: u32) -> Option<(usize, &'t UnsafeCell<TensorSlot<'a>>)> {
        match self.values.get(id as usize)?.get() {
            EValue::Tensor(slot) => Some((slot as usize, self.slots.get(slot as usize)?)),
            _ => None,
        }
    }

    /// Reports views of tensors that an instruction writes and whose memory is assigned, or may
    /// move, while the method runs. The overlap checks at load would not see that view and source
    /// share memory.
    pub(crate) fn check(
        &self,
        instructions: &[LoadedInstruction<'_>],
        roles: &[TensorRole],
        diagnostics: &mut Diagnostics<'_>,
    ) {
        for (at, instruction) in instructions.iter().enumerate() {
            let Some((index, _, source)) = view(instruction) else { continue };
            let Some((slot, cell)) = self.cell(source) else { continue };
            // SAFETY: the method does not run yet, and nothing else holds its slots.
            let source = unsafe { &*cell.get() };
            let moves = source.dynamism() == Dynamism::Unbounded || !source.has_memory();
            if moves && roles.get(slot) == Some(&TensorRole::Written) {
                diagnostics.problem(Problem::ViewOfUnplanned { instruction: at, index });
            }
        }
    }

    /// Detaches all views from their memory: it may belong to inputs that no longer exist.
    pub(crate) fn clear(&self, instructions: &[LoadedInstruction<'_>]) {
        for (_, view, _) in instructions.iter().filter_map(view) {
            if let Some((_, cell)) = self.cell(view) {
                // SAFETY: no call is active, so nothing else accesses the slots.
                unsafe { &mut *cell.get() }.clear();
            }
        }
    }
}
