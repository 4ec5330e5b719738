//! Views that instructions make while a method runs: what they may lie over, and for how long.

#![expect(unsafe_code, reason = "reads and clears the tensors of a method between its runs")]

use core::cell::{Cell, UnsafeCell};

use afferent_core::{Arg, Dynamism, EValue, TensorSlot};

use crate::{
    Problem,
    load::{Count, Role},
    method::Step,
};

/// A method's values and tensors, while it does not run.
#[derive(Clone, Copy)]
pub(crate) struct Tensors<'t, 'a> {
    pub(crate) values: &'t [Cell<EValue<'a>>],
    pub(crate) slots: &'t [UnsafeCell<TensorSlot<'a>>],
}

/// Whether any instruction makes a view.
pub(crate) fn exist(steps: &[Step<'_>]) -> bool {
    steps.iter().any(|step| view(step).is_some())
}

/// The view that a step makes: its place among the arguments, and the numbers of the view and of
/// its source.
fn view(step: &Step<'_>) -> Option<(usize, u32, u32)> {
    let Step::Kernel { args, ids, .. } = step else { return None };
    let place = args.iter().position(|&arg| arg == Arg::View)?;
    Some((place, *ids.get(place)?, *ids.first()?))
}

impl<'t, 'a> Tensors<'t, 'a> {
    fn cell(&self, id: u32) -> Option<(usize, &'t UnsafeCell<TensorSlot<'a>>)> {
        match self.values.get(id as usize)?.get() {
            EValue::Tensor(slot) => Some((slot as usize, self.slots.get(slot as usize)?)),
            _ => None,
        }
    }

    /// Reports views of tensors that an instruction writes and whose memory comes, or may change,
    /// while the method runs: nothing would show that the two overlap.
    pub(crate) fn check(&self, steps: &[Step<'_>], roles: &[Role], count: &mut Count<'_>) {
        for (instruction, step) in steps.iter().enumerate() {
            let Some((index, _, source)) = view(step) else { continue };
            let Some((slot, cell)) = self.cell(source) else { continue };
            // SAFETY: the method does not run yet, and nothing else holds its slots.
            let source = unsafe { &*cell.get() };
            let moves = source.dynamism() == Dynamism::Unbounded || !source.has_memory();
            if moves && roles.get(slot) == Some(&Role::Written) {
                count.problem(Problem::ViewOfMoving { instruction, index });
            }
        }
    }

    /// Takes the memory from all views: it may have been that of inputs which are gone.
    pub(crate) fn clear(&self, steps: &[Step<'_>]) {
        for (_, view, _) in steps.iter().filter_map(view) {
            if let Some((_, cell)) = self.cell(view) {
                // SAFETY: no call is under way, so nothing else reaches the slots.
                unsafe { &mut *cell.get() }.clear();
            }
        }
    }
}
