//! Views of inputs that the exporter resolved: tensors that no instruction writes and that lie over
//! an input. They must read the caller's memory, as the input does.

#![expect(unsafe_code, reason = "reads the tensors of a method that does not run yet")]

use core::cell::{Cell, RefCell, UnsafeCell};

use afferent_core::{EValue, TensorSlot};

use crate::{
    LoadError,
    bump::Bump,
    input::{Alias, Binding},
    load::{Count, Role},
    method::Step,
    resolve::{for_each_argument, for_each_written, num_arguments},
};

/// What looking at an argument costs, in comparisons: it is read, and its memory if it is written.
const LOOK: usize = 8;

/// What is known of a method while it is loaded.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'t, 'a> {
    pub(crate) values: &'t [Cell<EValue<'a>>],
    pub(crate) slots: &'t [UnsafeCell<TensorSlot<'a>>],
    pub(crate) steps: &'t [Step<'a>],
    pub(crate) inputs: &'t [Binding],
    pub(crate) roles: &'t [Role],
}

/// The views of inputs.
pub(crate) fn find<'a>(
    tables: &Tables<'_, '_>,
    bump: &mut Bump<'a>,
    count: &mut Count<'_>,
) -> Result<&'a [Alias], LoadError> {
    let count = RefCell::new(count);
    // An input may be named twice; there is room for one alias for each tensor.
    let len = tables.views(&count).count().min(tables.slots.len());
    count.borrow().finish()?;
    let mut views = tables.views(&count);
    let found = bump.slice(len, |_| views.next().ok_or(LoadError::TableMemory));
    // The second walk may use up what is left.
    count.borrow().finish().and(found.map(|found| &*found))
}

impl Tables<'_, '_> {
    fn views(&self, count: &RefCell<&mut Count<'_>>) -> impl Iterator<Item = Alias> {
        self.inputs.iter().enumerate().flat_map(|(at, input)| {
            let whole = match *input {
                Binding::Borrow { slot } => self.extent(slot),
                _ => (0, 0),
            };
            self.views_of(at, whole, count)
        })
    }

    /// The views of the input at `input`, which was planned at `whole`.
    fn views_of(
        &self,
        input: usize,
        whole: (usize, usize),
        count: &RefCell<&mut Count<'_>>,
    ) -> impl Iterator<Item = Alias> {
        let all = if whole.0 < whole.1 { self.roles.len() } else { 0 };
        let used = if count.borrow_mut().spend(all) { all } else { 0 };
        let untouched = self.roles.iter().take(used).enumerate();
        let untouched = untouched.filter(|(_, role)| **role == Role::Untouched);
        untouched.filter_map(move |(slot, _)| {
            let (slot, input) = (u32::try_from(slot).ok()?, u32::try_from(input).ok()?);
            let (start, end) = self.extent(slot);
            let inside = start < end && whole.0 <= start && end <= whole.1;
            (inside && self.reads_input(slot, count)).then(|| Alias {
                slot,
                input,
                offset: start - whole.0,
            })
        })
    }

    /// Whether `view` is read before anything is written where it lies. Otherwise it is a view of
    /// what was written there, after the input was no longer needed.
    fn reads_input(&self, view: u32, count: &RefCell<&mut Count<'_>>) -> bool {
        let (start, end) = self.extent(view);
        for step in self.steps {
            if !count.borrow_mut().spend(LOOK * num_arguments(step, self.values)) {
                return false;
            }
            let step = core::slice::from_ref(step);
            let (mut read, mut written) = (false, false);
            for_each_argument(step, self.values, |slot| read |= slot == view);
            for_each_written(step, self.values, |slot, _| {
                let (first, last) = self.extent(slot);
                written |= first < end && start < last;
            });
            if read || written {
                return read;
            }
        }
        true
    }

    fn extent(&self, slot: u32) -> (usize, usize) {
        let cell = self.slots.get(slot as usize);
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        cell.map_or((0, 0), |cell| unsafe { &*cell.get() }.extent())
    }
}
