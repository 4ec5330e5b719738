//! Memory of all values: lifetimes, reuse of slots, and what is computed once at load.

use std::collections::HashMap;

use afferent_core::Error;

use crate::{
    error::MEMORY_LIMIT,
    recorder::{Recorder, Target},
};

/// Lifetime of memory: positions of the first and the last call that use it.
#[derive(Debug, Clone, Copy)]
struct Lifetime {
    first: usize,
    last: usize,
    words: usize,
}

/// Memory of a delegate.
#[derive(Debug)]
pub(crate) struct MemoryPlan {
    /// Words of each slot.
    pub(crate) slots: Vec<usize>,
    /// Slot of each memory.
    pub(crate) locations: HashMap<Target, usize>,
    /// True for calls whose results do not depend on inputs or state: they run once at load.
    pub(crate) is_constant: Vec<bool>,
    /// Slots that are used at load only.
    pub(crate) is_temporary: Vec<bool>,
}

impl MemoryPlan {
    /// Plans the memory of a recording of all calls for the upper bounds of all sizes.
    ///
    /// # Errors
    /// If the slots exceed `memory_limit` bytes.
    pub(crate) fn new(recorder: &Recorder<'_, '_>, memory_limit: usize) -> Result<Self, Error> {
        let graph = recorder.graph;
        let is_constant = recorder.is_constant_call.clone();
        let is_constant_value = &recorder.is_constant;
        let mut lifetimes: HashMap<Target, Lifetime> = HashMap::new();
        let end = graph.calls.len();
        let mut touch = |target: Target, words: usize, first: usize, last: usize| {
            let entry = lifetimes.entry(target).or_insert(Lifetime { first, last, words });
            entry.first = entry.first.min(first);
            entry.last = entry.last.max(last);
            entry.words = entry.words.max(words);
        };
        for &input in &graph.inputs {
            if graph.tensor(input).is_some() {
                touch(recorder.target(input), recorder.words(input), 0, 0);
            }
        }
        let mut used_at_run = vec![false; graph.values.len()];
        let at_run = recorder.steps.iter().filter(|step| !step.is_once && !is_constant[step.call]);
        for (target, _) in at_run.flat_map(|step| &step.bindings) {
            if let Target::Value(root) = target {
                used_at_run[*root] = true;
            }
        }
        for (position, call) in graph.calls.iter().enumerate() {
            for leaf in call.args.iter().flat_map(|arg| graph.leaves(*arg)) {
                if graph.tensor(leaf).is_none() {
                    continue;
                }
                let root = recorder.roots[leaf];
                // Constants keep their memory.
                let last = if is_constant_value[root] { end } else { position };
                let first =
                    if is_constant_value[root] || recorder.is_state[root] { 0 } else { position };
                let last = if recorder.is_state[root] { end } else { last };
                touch(Target::Value(root), recorder.words(leaf), first, last);
            }
        }
        for &output in &graph.outputs {
            if graph.tensor(output).is_some() {
                let root = recorder.roots[output];
                let first = if is_constant_value[root] { 0 } else { end };
                touch(Target::Value(root), recorder.words(output), first, end);
                used_at_run[root] = true;
            }
        }
        for (&(position, index), &words) in &recorder.temporaries {
            touch(Target::Temporary(position, index), words, position, position);
        }
        for (&(position, index), &words) in &recorder.packed {
            touch(Target::Packed(position, index), words, 0, end);
        }
        let mut plan =
            Self { slots: vec![], locations: HashMap::new(), is_constant, is_temporary: vec![] };
        let is_shared = |target: &Target| match target {
            Target::Value(root) => !is_constant_value[*root] && !recorder.is_state[*root],
            Target::Temporary(..) => true,
            Target::Packed(..) => false,
        };
        let is_temporary = |target: &Target| match target {
            Target::Value(root) => is_constant_value[*root] && !used_at_run[*root],
            Target::Temporary(..) | Target::Packed(..) => false,
        };
        let mut order: Vec<(Target, Lifetime)> = lifetimes.into_iter().collect();
        order.sort_by_key(|(target, lifetime)| (lifetime.first, key(*target)));
        plan.assign(&order, &is_shared, &is_temporary);
        let bytes = |shared: bool| {
            let slots = plan.slots.iter().zip(plan.shared(&order, &is_shared));
            let words =
                slots.filter(|(_, is_shared)| *is_shared == shared).map(|(words, _)| *words);
            words.fold(0_usize, usize::saturating_add).saturating_mul(4)
        };
        if bytes(true).max(bytes(false)) > memory_limit {
            return Err(MEMORY_LIMIT);
        }
        Ok(plan)
    }

    /// Assigns slots in the order of the first use. A slot is free after the call of its last use.
    fn assign(
        &mut self,
        order: &[(Target, Lifetime)],
        is_shared: &dyn Fn(&Target) -> bool,
        is_temporary: &dyn Fn(&Target) -> bool,
    ) {
        // Last use of each slot; `None` if it is never free again.
        let mut busy_until: Vec<Option<usize>> = vec![];
        for (target, lifetime) in order {
            let free = |slot: &usize| busy_until[*slot].is_some_and(|last| last < lifetime.first);
            let candidates = || (0..busy_until.len()).filter(free);
            let found = if is_shared(target) {
                let fitting = candidates().filter(|slot| self.slots[*slot] >= lifetime.words);
                let fitting = fitting.min_by_key(|slot| self.slots[*slot]);
                fitting.or_else(|| candidates().max_by_key(|slot| self.slots[*slot]))
            } else {
                None
            };
            let slot = found.unwrap_or_else(|| {
                self.slots.push(0);
                self.is_temporary.push(is_temporary(target));
                busy_until.push(None);
                self.slots.len() - 1
            });
            self.slots[slot] = self.slots[slot].max(lifetime.words);
            busy_until[slot] = is_shared(target).then_some(lifetime.last);
            self.locations.insert(*target, slot);
        }
    }

    /// True for slots that values share.
    fn shared(
        &self,
        order: &[(Target, Lifetime)],
        is_shared: &dyn Fn(&Target) -> bool,
    ) -> Vec<bool> {
        let mut shared = vec![false; self.slots.len()];
        for (target, _) in order {
            if let Some(slot) = self.locations.get(target) {
                shared[*slot] |= is_shared(target);
            }
        }
        shared
    }
}

fn key(target: Target) -> (usize, usize, usize) {
    match target {
        Target::Value(value) => (0, value, 0),
        Target::Temporary(call, index) => (1, call, index),
        Target::Packed(call, index) => (2, call, index),
    }
}
