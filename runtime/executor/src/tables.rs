//! How much of each kind of table a method needs, and tables that are cut into parts.

use core::cell::{Cell, UnsafeCell};

use afferent_core::{DelegateHandle, EValue, Kernel, TensorSlot};
use afferent_program::{Instruction, MethodPlan, Value};

use crate::{
    LoadError,
    bump::Tally,
    initial::{Initial, has_initial},
    input::{Alias, Binding},
    load::Role,
    method::Step,
    planned::PlannedBuffer,
};

/// How much of each kind of table a method needs.
pub(crate) struct Sizes {
    pub(crate) values: usize,
    pub(crate) tensors: usize,
    pub(crate) dims: usize,
    pub(crate) ids: usize,
    pub(crate) doubles: usize,
    pub(crate) steps: usize,
    pub(crate) operators: usize,
    pub(crate) delegates: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) planned: usize,
    pub(crate) initial: usize,
}

impl Sizes {
    pub(crate) fn of(plan: &MethodPlan<'_>) -> Self {
        let mut sizes = Self {
            values: plan.num_values(),
            tensors: 0,
            dims: 0,
            ids: plan.outputs().len(),
            doubles: 0,
            steps: plan.num_instructions(),
            operators: plan.num_operators(),
            delegates: plan.num_delegates(),
            inputs: plan.inputs().len(),
            outputs: plan.outputs().len(),
            planned: plan.planned_buffer_sizes().len(),
            initial: 0,
        };
        for value in plan.values() {
            match value {
                Value::Tensor(meta) => {
                    sizes.tensors += 1;
                    sizes.dims += meta.layout.sizes.len();
                    sizes.initial += usize::from(has_initial(&meta.data));
                }
                Value::IntList(ids) | Value::TensorList(ids) | Value::OptionalTensorList(ids) => {
                    sizes.ids += ids.len();
                }
                Value::DoubleList(items) => sizes.doubles += items.len(),
                _ => {}
            }
        }
        for instruction in plan.instructions() {
            if let Instruction::Kernel { args, .. } | Instruction::Delegate { args, .. } =
                instruction
            {
                sizes.ids += args.len();
            }
        }
        sizes
    }

    pub(crate) fn bytes(&self) -> usize {
        let mut tally = Tally::default();
        tally.add::<Cell<EValue<'_>>>(self.values);
        tally.add::<UnsafeCell<TensorSlot<'_>>>(self.tensors);
        tally.add::<usize>(self.dims);
        tally.add::<u32>(self.ids);
        tally.add::<f64>(self.doubles);
        tally.add::<Step<'_>>(self.steps);
        tally.add::<Option<Kernel>>(self.operators);
        tally.add::<Option<DelegateHandle<'_>>>(self.delegates);
        tally.add::<Binding>(self.inputs);
        tally.add::<Role>(self.tensors);
        tally.add::<Alias>(self.tensors);
        tally.add::<PlannedBuffer<'_>>(self.planned);
        tally.add::<Option<Initial<'_>>>(self.initial);
        tally.bytes()
    }
}

/// A table that is filled once, part by part.
pub(crate) struct Cutter<'a, T>(pub(crate) &'a mut [T]);

impl<'a, T> Cutter<'a, T> {
    /// The next part, filled from `items`, of which there must be room for `len`.
    pub(crate) fn cut(
        &mut self,
        len: usize,
        items: impl Iterator<Item = T>,
    ) -> Result<&'a mut [T], LoadError> {
        let rest = core::mem::take(&mut self.0);
        let (part, rest) = rest.split_at_mut_checked(len).ok_or(LoadError::TableMemory)?;
        self.0 = rest;
        for (cell, item) in part.iter_mut().zip(items) {
            *cell = item;
        }
        Ok(part)
    }
}
