//! Memory planning: assigns values to slots that they share over time.

use super::{
    step::Step,
    value::{Location, PlannedValue},
};
use crate::subgraph::Role;

/// Assigns a location to each value that a step reads or writes, and returns the number of slots.
///
/// `roots` holds the value whose location each value shares: itself unless it is an alias.
pub(super) fn assign_locations(
    steps: &[Step],
    roots: &[usize],
    values: &mut [PlannedValue<'_>],
) -> usize {
    let mut last_reads = vec![None; values.len()];
    for (at, step) in steps.iter().enumerate() {
        if !step.is_alias {
            step.inputs.iter().for_each(|input| last_reads[roots[*input]] = Some(at));
        }
    }
    let mut slots = Slots::default();
    for value in 0..values.len() {
        if let (Role::Input(argument), true) = (values[value].role, roots[value] == value) {
            values[value].location = if values[value].is_direct_argument() {
                Location::InputArgument(argument)
            } else {
                Location::Slot(slots.assign(0, None, values[value].bytes()))
            };
            if let Location::Slot(slot) = values[value].location {
                slots.0[slot].last_read = last_reads[value];
            }
        }
    }
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.is_alias) {
        let value = &mut values[step.output];
        let last_read = last_reads[step.output];
        value.location = match value.role {
            Role::Output(argument) if last_read.is_none() && value.is_direct_argument() => {
                Location::OutputArgument(argument)
            }
            // Outputs are copied to their arguments after the last step.
            Role::Output(_) => Location::Slot(slots.assign(at, Some(usize::MAX), value.bytes())),
            _ => Location::Slot(slots.assign(at, last_read.or(Some(at)), value.bytes())),
        };
    }
    for value in 0..values.len() {
        if roots[value] != value {
            values[value].location = values[roots[value]].location.clone();
        }
    }
    slots.0.len()
}

/// A slot of memory.
struct Slot {
    /// Last step that reads the current value; `None` if none does.
    last_read: Option<usize>,
    bytes: usize,
}

#[derive(Default)]
struct Slots(Vec<Slot>);

impl Slots {
    /// Returns the slot of closest size that is free at step `at`, or a new one.
    fn assign(&mut self, at: usize, last_read: Option<usize>, bytes: usize) -> usize {
        let is_free = |slot: &Slot| slot.last_read.is_some_and(|last| last < at);
        let free = self.0.iter().enumerate().filter(|(_, slot)| is_free(slot));
        let best = free.min_by_key(|(_, slot)| slot.bytes.abs_diff(bytes)).map(|(index, _)| index);
        let index = best.unwrap_or_else(|| {
            self.0.push(Slot { last_read: None, bytes });
            self.0.len() - 1
        });
        self.0[index] = Slot { last_read, bytes: bytes.max(self.0[index].bytes) };
        index
    }
}
