//! What state holds at first: values in the program, and in its data files.

use afferent_program::{Allocation, MethodPlan, TensorData, Value};

/// What a part of planned memory holds at first.
#[derive(Clone, Copy)]
pub(crate) struct Initial<'a> {
    pub(crate) allocation: Allocation,
    pub(crate) bytes: &'a [u8],
}

/// What the state of `plan` holds at first, where that is not zero.
///
/// Data that `find` lacks, or that has another size, is left out: loading the method reports it.
pub(crate) fn initial<'a>(
    plan: MethodPlan<'a>,
    find: impl Fn(&str) -> Option<&'a [u8]>,
) -> impl Iterator<Item = Initial<'a>> {
    plan.values().filter_map(move |value| {
        let Value::Tensor(meta) = value else { return None };
        let (allocation, bytes) = match meta.data {
            TensorData::Planned { allocation, initial } => (allocation, initial?),
            TensorData::External { name, allocation } => (allocation?, find(name)?),
            TensorData::Constant(_) | TensorData::Unplanned => return None,
        };
        (bytes.len() == meta.layout.nbytes).then_some(Initial { allocation, bytes })
    })
}

/// Whether a tensor may be one of those that [`initial`] gives.
pub(crate) fn has_initial(data: &TensorData<'_>) -> bool {
    matches!(
        data,
        TensorData::Planned { initial: Some(_), .. }
            | TensorData::External { allocation: Some(_), .. }
    )
}
