//! Tensors whose elements a delegate may leave on its device.
//!
//! A tensor on a device has no memory on the host. So it must not be one whose planned memory another
//! tensor reads: a view, a mutable buffer, or the source of either.

#![expect(unsafe_code, reason = "changes the tensors of a method that does not run")]

use core::cell::{Cell, UnsafeCell};

use afferent_core::{Arg, EValue, Residence, TensorSlot};
use afferent_program::{MethodPlan, TensorData, Value};

use crate::{
    LoadError,
    arena::Arena,
    input::Binding,
    input_alias::MethodTables,
    last_token_slicing::LastTokenSlicing,
    load::TensorRole,
    method::LoadedInstruction,
    resolve::{for_each_argument, for_each_written},
};

/// Limit on the comparisons of memory ranges, so that a hostile file cannot stall them.
const MAX_WORK: usize = 10_000_000;

/// Uses of a tensor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    /// An instruction uses it.
    is_used: bool,
    /// A delegate writes it before any instruction reads it, or it is an input.
    is_candidate: bool,
    is_barred: bool,
    is_read_by_delegate: bool,
}

/// Sets the residence of all tensors. Does nothing if the method has no delegate, or slices tensors:
/// one on a device has no slices.
pub(crate) fn assign<'a>(
    plan: MethodPlan<'a>,
    tables: &MethodTables<'_, 'a>,
    slicing: &LastTokenSlicing,
    arena: &mut Arena<'a>,
) -> Result<(), LoadError> {
    let uses = arena.alloc(tables.slots.len(), |_| Ok::<_, LoadError>(Uses::default()))?;
    if plan.num_delegates() == 0 || !slicing.is_empty() {
        return Ok(());
    }
    for instruction in tables.instructions {
        visit(instruction, tables.values, uses);
    }
    for input in tables.inputs {
        let (slot, is_borrowed) = match *input {
            Binding::Borrow { slot } => (slot, true),
            Binding::Copy { slot } => (slot, false),
            Binding::Scalar { .. } => continue,
        };
        if let Some(uses) = uses.get_mut(slot as usize) {
            uses.is_candidate |= is_borrowed;
            uses.is_barred |= !is_borrowed;
        }
    }
    bar_state(plan, tables, uses);
    if !bar_shared(tables, uses) {
        return Ok(());
    }
    for (cell, uses) in tables.slots.iter().zip(&*uses) {
        let residence = match uses {
            Uses { is_candidate: false, .. } | Uses { is_barred: true, .. } => Residence::Host,
            Uses { is_read_by_delegate: true, .. } => Residence::Device,
            _ => Residence::Any,
        };
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        unsafe { &mut *cell.get() }.set_residence(residence);
    }
    Ok(())
}

/// Lets delegates leave the tensors in `values` on their device, if other tensors allow it.
pub(crate) fn keep(
    values: &[Cell<EValue<'_>>],
    slots: &[UnsafeCell<TensorSlot<'_>>],
    outputs: &[u32],
) {
    for output in outputs {
        let value = values.get(*output as usize).map(Cell::get);
        let Some(EValue::Tensor(slot)) = value else { continue };
        let Some(cell) = slots.get(slot as usize) else { continue };
        // SAFETY: no call is active, so nothing else accesses the slots.
        let tensor = unsafe { &mut *cell.get() };
        if tensor.residence() == Residence::Any {
            tensor.set_residence(Residence::Device);
        }
    }
}

fn visit(instruction: &LoadedInstruction<'_>, values: &[Cell<EValue<'_>>], uses: &mut [Uses]) {
    let this = core::slice::from_ref(instruction);
    let mut change = |slot: u32, change: &dyn Fn(&mut Uses)| {
        if let Some(uses) = uses.get_mut(slot as usize) {
            change(uses);
        }
    };
    match *instruction {
        LoadedInstruction::DelegateCall { inputs, ids, .. } => {
            for_each_written(this, values, |slot, _| {
                change(slot, &|uses| uses.is_candidate |= !uses.is_used);
            });
            for id in ids.iter().take(inputs) {
                if let Some(EValue::Tensor(slot)) = values.get(*id as usize).map(Cell::get) {
                    change(slot, &|uses| uses.is_read_by_delegate = true);
                }
            }
        }
        LoadedInstruction::KernelCall { args, .. } if args.contains(&Arg::View) => {
            for_each_argument(this, values, |slot| change(slot, &|uses| uses.is_barred = true));
        }
        _ => for_each_written(this, values, |slot, _| change(slot, &|uses| uses.is_barred = true)),
    }
    for_each_argument(this, values, |slot| change(slot, &|uses| uses.is_used = true));
}

/// Bars tensors that keep their elements between runs or share a buffer with other methods.
fn bar_state(plan: MethodPlan<'_>, tables: &MethodTables<'_, '_>, uses: &mut [Uses]) {
    let tensors = plan.values().filter_map(|value| match value {
        Value::Tensor(meta) => Some(meta),
        _ => None,
    });
    for ((meta, uses), role) in tensors.zip(uses).zip(tables.roles) {
        let is_plain = match meta.data {
            TensorData::Planned { allocation, initial } => {
                allocation.buffer_index == 0 && initial.is_none()
            }
            TensorData::Unplanned => true,
            _ => false,
        };
        uses.is_barred |= !is_plain && *role != TensorRole::Input;
    }
}

/// Bars tensors that share memory with one that no instruction writes. Returns false if there are
/// too many.
fn bar_shared(tables: &MethodTables<'_, '_>, uses: &mut [Uses]) -> bool {
    let range = |slot: usize| {
        let cell = tables.slots.get(slot);
        // SAFETY: the method does not run yet, and nothing else holds its slots.
        cell.map_or((0, 0), |cell| unsafe { &*cell.get() }.address_range())
    };
    let is_untouched = |slot: usize| tables.roles.get(slot) == Some(&TensorRole::Untouched);
    let candidates = uses.iter().filter(|uses| uses.is_candidate).count();
    let untouched = (0..uses.len()).filter(|slot| is_untouched(*slot)).count();
    if candidates.saturating_mul(untouched) > MAX_WORK {
        return false;
    }
    for slot in 0..uses.len() {
        if !uses[slot].is_candidate || tables.roles.get(slot) == Some(&TensorRole::Input) {
            continue;
        }
        let (start, end) = range(slot);
        let shares = |other: usize| {
            let (first, last) = range(other);
            first < end && start < last
        };
        uses[slot].is_barred |= (0..uses.len()).any(|other| is_untouched(other) && shares(other));
    }
    true
}
