//! Sizes of the tables of a method, and tables that are filled in parts.

use core::cell::{Cell, UnsafeCell};

use afferent_core::{DelegateHandle, EValue, Kernel, TensorSlot};
use afferent_program::{Instruction, MethodPlan, Value};

use crate::{
    LoadError,
    arena::ArenaSize,
    initial_value::{InitialValue, has_initial_value},
    input::{Binding, InputAlias},
    load::TensorRole,
    method::LoadedInstruction,
    planned_buffer::PlannedBuffer,
};

/// Number of entries of each table of a method.
pub(crate) struct TableSizes {
    pub(crate) values: usize,
    pub(crate) tensors: usize,
    pub(crate) dims: usize,
    /// Value indices in lists, arguments and outputs.
    pub(crate) ids: usize,
    pub(crate) doubles: usize,
    pub(crate) instructions: usize,
    pub(crate) operators: usize,
    pub(crate) delegates: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) planned_buffers: usize,
    pub(crate) initial_values: usize,
}

impl TableSizes {
    pub(crate) fn of(plan: &MethodPlan<'_>) -> Self {
        let mut sizes = Self {
            values: plan.num_values(),
            tensors: 0,
            dims: 0,
            ids: plan.outputs().len(),
            doubles: 0,
            instructions: plan.num_instructions(),
            operators: plan.num_operators(),
            delegates: plan.num_delegates(),
            inputs: plan.inputs().len(),
            outputs: plan.outputs().len(),
            planned_buffers: plan.planned_buffer_sizes().len(),
            initial_values: 0,
        };
        for value in plan.values() {
            match value {
                Value::Tensor(meta) => {
                    sizes.tensors += 1;
                    sizes.dims += meta.layout.sizes.len();
                    sizes.initial_values += usize::from(has_initial_value(&meta.data));
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

    /// Bytes of all tables in an arena.
    pub(crate) fn bytes(&self) -> usize {
        let mut size = ArenaSize::default();
        size.add::<Cell<EValue<'_>>>(self.values);
        size.add::<UnsafeCell<TensorSlot<'_>>>(self.tensors);
        size.add::<usize>(self.dims);
        size.add::<u32>(self.ids);
        size.add::<f64>(self.doubles);
        size.add::<LoadedInstruction<'_>>(self.instructions);
        size.add::<Option<Kernel>>(self.operators);
        size.add::<Option<DelegateHandle<'_>>>(self.delegates);
        size.add::<Binding>(self.inputs);
        size.add::<TensorRole>(self.tensors);
        size.add::<InputAlias>(self.tensors);
        #[cfg(feature = "alloc")]
        size.add::<crate::residence::Uses>(self.tensors);
        size.add::<PlannedBuffer<'_>>(self.planned_buffers);
        size.add::<Option<InitialValue<'_>>>(self.initial_values);
        size.bytes()
    }
}

/// Table of fixed size that is filled from its start, one slice at a time.
pub(crate) struct TableBuilder<'a, T>(pub(crate) &'a mut [T]);

impl<'a, T> TableBuilder<'a, T> {
    /// Appends `len` entries and fills them from `items`.
    pub(crate) fn append(
        &mut self,
        len: usize,
        items: impl Iterator<Item = T>,
    ) -> Result<&'a mut [T], LoadError> {
        let rest = core::mem::take(&mut self.0);
        let (slice, rest) = rest.split_at_mut_checked(len).ok_or(LoadError::TableMemory)?;
        self.0 = rest;
        for (cell, item) in slice.iter_mut().zip(items) {
            *cell = item;
        }
        Ok(slice)
    }
}
