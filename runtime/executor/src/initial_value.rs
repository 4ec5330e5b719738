//! Initial values of mutable buffers, from the program or its data files.

use afferent_program::{Allocation, MethodPlan, TensorData, Value};

/// Initial value of a mutable buffer in planned memory.
#[derive(Clone, Copy)]
pub(crate) struct InitialValue<'a> {
    pub(crate) allocation: Allocation,
    pub(crate) bytes: &'a [u8],
}

/// Nonzero initial values of the mutable buffers of `plan`.
///
/// Skips data that `find` does not have or that has the wrong size; loading the method reports it.
pub(crate) fn initial_values<'a>(
    plan: MethodPlan<'a>,
    find: impl Fn(&str) -> Option<&'a [u8]>,
) -> impl Iterator<Item = InitialValue<'a>> {
    plan.values().filter_map(move |value| {
        let Value::Tensor(meta) = value else { return None };
        let (allocation, bytes) = match meta.data {
            TensorData::Planned { allocation, initial } => (allocation, initial?),
            TensorData::External { name, allocation } => (allocation?, find(name)?),
            TensorData::Constant(_) | TensorData::Unplanned => return None,
        };
        (bytes.len() == meta.layout.nbytes).then_some(InitialValue { allocation, bytes })
    })
}

/// Returns true if [`initial_values`] may yield a value for the tensor.
pub(crate) fn has_initial_value(data: &TensorData<'_>) -> bool {
    matches!(
        data,
        TensorData::Planned { initial: Some(_), .. }
            | TensorData::External { allocation: Some(_), .. }
    )
}
