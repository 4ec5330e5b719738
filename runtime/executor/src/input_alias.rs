//! Input aliases: tensors that the memory plan puts inside an input and no instruction writes.
//!
//! The exporter resolves views of inputs this way. An alias reads the caller's memory, as the input
//! does.

#![expect(unsafe_code, reason = "reads the tensors of a method that does not run yet")]

use core::cell::{Cell, RefCell, UnsafeCell};

use afferent_core::{EValue, TensorSlot};

use crate::{
    LoadError,
    arena::Arena,
    input::{Binding, InputAlias},
    load::{Diagnostics, TensorRole},
    method::LoadedInstruction,
    resolve::{for_each_argument, for_each_written, num_arguments},
};

/// Work of inspecting one argument, in comparisons: its role, and its memory if it is written.
const ARGUMENT_WORK: usize = 8;

/// Tables of a method while it is loaded.
#[derive(Clone, Copy)]
pub(crate) struct MethodTables<'t, 'a> {
    pub(crate) values: &'t [Cell<EValue<'a>>],
    pub(crate) slots: &'t [UnsafeCell<TensorSlot<'a>>],
    pub(crate) instructions: &'t [LoadedInstruction<'a>],
    pub(crate) inputs: &'t [Binding],
    pub(crate) roles: &'t [TensorRole],
}

/// Finds the aliases of all inputs.
pub(crate) fn find<'a>(
    tables: &MethodTables<'_, '_>,
    arena: &mut Arena<'a>,
    diagnostics: &mut Diagnostics<'_>,
) -> Result<&'a [InputAlias], LoadError> {
    let diagnostics = RefCell::new(diagnostics);
    // An input may be listed twice, but the arena has memory for one alias per tensor.
    let len = tables.aliases(&diagnostics).count().min(tables.slots.len());
    diagnostics.borrow().finish()?;
    let mut aliases = tables.aliases(&diagnostics);
    let found = arena.alloc(len, |_| aliases.next().ok_or(LoadError::TableMemory));
    // The second pass may use up the rest of the work limit.
    diagnostics.borrow().finish().and(found.map(|found| &*found))
}

impl MethodTables<'_, '_> {
    fn aliases(
        &self,
        diagnostics: &RefCell<&mut Diagnostics<'_>>,
    ) -> impl Iterator<Item = InputAlias> {
        self.inputs.iter().enumerate().flat_map(|(at, input)| {
            let planned = match *input {
                Binding::Borrow { slot } => self.address_range(slot),
                _ => (0, 0),
            };
            self.aliases_of(at, planned, diagnostics)
        })
    }

    /// Aliases of input number `input`, whose planned memory is `planned`.
    fn aliases_of(
        &self,
        input: usize,
        planned: (usize, usize),
        diagnostics: &RefCell<&mut Diagnostics<'_>>,
    ) -> impl Iterator<Item = InputAlias> {
        let all = if planned.0 < planned.1 { self.roles.len() } else { 0 };
        let searched = if diagnostics.borrow_mut().spend(all) { all } else { 0 };
        let untouched = self.roles.iter().take(searched).enumerate();
        let untouched = untouched.filter(|(_, role)| **role == TensorRole::Untouched);
        untouched.filter_map(move |(slot, _)| {
            let (slot, input) = (u32::try_from(slot).ok()?, u32::try_from(input).ok()?);
            let (start, end) = self.address_range(slot);
            let is_inside = start < end && planned.0 <= start && end <= planned.1;
            (is_inside && self.reads_input(slot, diagnostics)).then(|| InputAlias {
                slot,
                input,
                offset: start - planned.0,
            })
        })
    }

    /// Returns true if `view` is read before any instruction writes to its memory. Otherwise it is
    /// a view of a later tensor that reuses the memory of the input.
    fn reads_input(&self, view: u32, diagnostics: &RefCell<&mut Diagnostics<'_>>) -> bool {
        let (start, end) = self.address_range(view);
        for instruction in self.instructions {
            let work = ARGUMENT_WORK * num_arguments(instruction, self.values);
            if !diagnostics.borrow_mut().spend(work) {
                return false;
            }
            let instruction = core::slice::from_ref(instruction);
            let (mut read, mut written) = (false, false);
            for_each_argument(instruction, self.values, |slot| read |= slot == view);
            for_each_written(instruction, self.values, |slot, _| {
                let (first, last) = self.address_range(slot);
                written |= first < end && start < last;
            });
            if read || written {
                return read;
            }
        }
        true
    }

    fn address_range(&self, slot: u32) -> (usize, usize) {
        let cell = self.slots.get(slot as usize);
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        cell.map_or((0, 0), |cell| unsafe { &*cell.get() }.address_range())
    }
}
