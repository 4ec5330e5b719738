//! Inputs, outputs and constants of the methods of a program.

use afferent_core::{Dynamism, ScalarType};
use afferent_program::{MethodPlan, Value, Vector};

use super::{ModelError, ModelFile};

/// Tensor that a method takes or returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Sizes; the largest ones if they are dynamic.
    pub sizes: Vec<usize>,
    /// Type of the elements.
    pub dtype: ScalarType,
    /// True if the tensor always has these sizes.
    pub is_static: bool,
}

/// Inputs and outputs of a method; `None` for those that are not tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Inputs, in order.
    pub inputs: Vec<Option<TensorSpec>>,
    /// Outputs, in order.
    pub outputs: Vec<Option<TensorSpec>>,
}

impl Signature {
    /// The inputs, if all are tensors.
    pub fn tensor_inputs(&self) -> Option<Vec<&TensorSpec>> {
        self.inputs.iter().map(Option::as_ref).collect()
    }

    /// The outputs, if all are tensors.
    pub fn tensor_outputs(&self) -> Option<Vec<&TensorSpec>> {
        self.outputs.iter().map(Option::as_ref).collect()
    }
}

impl ModelFile {
    /// Inputs and outputs of method `name`.
    ///
    /// # Errors
    /// [`ModelError::MethodMissing`].
    pub fn signature(&self, name: &str) -> Result<Signature, ModelError> {
        let plan = self.method(name)?;
        let specs = |ids: Vector<'_, u32>| ids.iter().map(|id| spec(&plan, id)).collect::<Vec<_>>();
        Ok(Signature { inputs: specs(plan.inputs()), outputs: specs(plan.outputs()) })
    }

    /// Floating-point number or integer that the constant method `name` returns, if there is such a
    /// method.
    pub fn metadata_float(&self, name: &str) -> Option<f64> {
        let plan = self.constant(name)?;
        match plan.value(plan.outputs().get(0)? as usize) {
            Value::Double(value) => Some(value),
            // Exact below 2^53.
            Value::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    /// Integers that the constant method `name` returns, one by one or as a list, if there is such a
    /// method. Booleans count as 0 and 1.
    pub fn metadata_ints(&self, name: &str) -> Option<Vec<i64>> {
        let plan = self.constant(name)?;
        let scalar = |id: u32| match plan.value(id as usize) {
            Value::Int(value) => Some(value),
            Value::Bool(value) => Some(i64::from(value)),
            _ => None,
        };
        let mut list = Vec::new();
        for id in plan.outputs().iter() {
            match plan.value(id as usize) {
                Value::IntList(ids) => list.extend(ids.iter().filter_map(scalar)),
                _ => list.push(scalar(id)?),
            }
        }
        Some(list)
    }

    /// Plan of method `name`, if it only returns constants.
    fn constant(&self, name: &str) -> Option<MethodPlan<'_>> {
        self.program().method(name).filter(|plan| plan.num_instructions() == 0)
    }
}

fn spec(plan: &MethodPlan<'_>, id: u32) -> Option<TensorSpec> {
    let Value::Tensor(tensor) = plan.value(id as usize) else { return None };
    Some(TensorSpec {
        sizes: tensor.layout.sizes.iter().collect(),
        dtype: tensor.layout.dtype,
        is_static: tensor.dynamism == Dynamism::Static,
    })
}
