//! Compiles a subgraph to a plan: operators with packed weights, and a location for each value.
//!
//! Weights are packed once. Sizes are only known when the delegate runs and may change from run to
//! run. An internal value occupies a slot of memory that later values reuse after its last read;
//! an input or an output is accessed in its argument if it needs no conversion. Reshapes and copies
//! become aliases.

pub(crate) mod fusion;
mod inverted_bottleneck;
mod lower;
mod memory_plan;
mod row_independence;
mod step;
mod value;

use std::{borrow::Cow, cell::RefCell};

use afferent_core::{BlobEntry, Error, WeightCache};

use crate::{
    memory::MemoryBudget,
    pack::constant::{borrow_f32, dequantize},
    subgraph::{Datatype, Node, NodeKind, Role, Subgraph, UnaryOperator, Value},
};
use inverted_bottleneck::Fused;
use lower::Lowering;
use row_independence::RowIndependence;
pub(crate) use step::Step;
use value::is_same_encoding;
pub(crate) use value::{ComputeType, Location, PlannedValue};

/// A compiled subgraph.
pub(crate) struct Plan<'a> {
    /// Steps in execution order.
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<PlannedValue<'a>>,
    /// Number of memory slots.
    pub(crate) slots: usize,
    /// Number of input arguments.
    pub(crate) inputs: usize,
    pub(crate) row_independence: Option<RowIndependence>,
}

impl<'a> Plan<'a> {
    /// Compiles a subgraph. Memory for constants that are not shared counts against `budget`.
    ///
    /// # Errors
    /// If a node is invalid or not supported, or the budget is exceeded.
    pub(crate) fn compile(
        subgraph: &Subgraph<'a>,
        weight_cache: Option<&dyn WeightCache>,
        budget: MemoryBudget,
    ) -> Result<Self, Error> {
        let budget = RefCell::new(budget);
        let mut steps = Vec::new();
        // Value whose location each value shares.
        let mut roots: Vec<usize> = (0..subgraph.values.len()).collect();
        let fused = inverted_bottleneck::find(subgraph);
        let lowering = Lowering { subgraph, weight_cache, budget: &budget };
        for (index, node) in subgraph.nodes.iter().enumerate() {
            match fused[index] {
                Fused::None => {}
                Fused::Inner => continue,
                Fused::Project { expand, depthwise } => {
                    steps.push(lowering.lower_inverted_bottleneck(expand, depthwise, index)?);
                    continue;
                }
            }
            let is_alias = is_alias(subgraph, node, &roots)?;
            if is_alias {
                roots[node.output] = roots[node.inputs[0]];
            }
            lowering.lower_node(index, is_alias, &mut steps)?;
        }
        let mut values: Vec<_> = subgraph.values.iter().map(PlannedValue::new).collect();
        for step in &steps {
            for input in &step.inputs {
                let value = &subgraph.values[*input];
                if value.data.is_some() && matches!(values[*input].location, Location::Unused) {
                    values[*input].location = constant_location(value, &budget)?;
                }
            }
        }
        let slots = memory_plan::assign_locations(&steps, &roots, &mut values);
        let row_independence = RowIndependence::of(subgraph);
        Ok(Self { steps, values, slots, inputs: subgraph.inputs, row_independence })
    }
}

/// True if the output of a node is an alias of its input.
///
/// # Errors
/// If a node other than a conversion of floats writes a dynamically quantized value.
fn is_alias(subgraph: &Subgraph<'_>, node: &Node, roots: &[usize]) -> Result<bool, Error> {
    let (input, value) = (node.inputs[0], &subgraph.values[node.output]);
    if value.datatype == Datatype::Qdint8 {
        if !(node.kind == NodeKind::Convert && subgraph.values[input].is_float()) {
            let what =
                "with a qdint8 output; only XNNConvert of a floating-point value may have one";
            let (entry, field) = (BlobEntry::Node, node.type_name);
            return Err(Error::UnsupportedBlob { entry, index: node.index, field, what });
        }
        // The consumers of the value quantize it.
        return Ok(true);
    }
    let moves_nothing =
        matches!(node.kind, NodeKind::StaticReshape(_) | NodeKind::Unary(UnaryOperator::Copy));
    Ok(moves_nothing
        && value.role == Role::Internal
        && !is_converted_constant(&subgraph.values[roots[input]])
        && is_same_encoding(value, &subgraph.values[input]))
}

/// Location of a constant that a step reads at run time.
fn constant_location<'a>(
    value: &Value<'a>,
    budget: &RefCell<MemoryBudget>,
) -> Result<Location<'a>, Error> {
    if let (ComputeType::I8, Some(data)) = (ComputeType::of(value), value.data) {
        return Ok(Location::ConstantI8(data));
    }
    let floats = dequantize(value)?;
    if let Cow::Owned(floats) = &floats {
        budget.borrow_mut().reserve::<f32>(floats.len())?;
    }
    Ok(Location::ConstantF32(floats))
}

/// True for a constant that must be converted to f32 and therefore takes memory.
fn is_converted_constant(value: &Value<'_>) -> bool {
    value.data.is_some() && ComputeType::of(value) != ComputeType::I8 && borrow_f32(value).is_none()
}
