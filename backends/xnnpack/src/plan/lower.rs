//! Lowers nodes to operators.
//!
//! | file          | node types                                          |
//! |---------------|-----------------------------------------------------|
//! | `elementwise` | unary, binary, pooling, softmax, resize, conversion |
//! | `gemm`        | convolutions and fully connected layers, f32        |
//! | `gemm_q8`     | the same with quantized weights                     |
//! | `movement`    | copy, reshape, transpose, slice, pad, concatenate   |
//! | `node`        | the node that is lowered, with its values           |

mod elementwise;
mod gemm;
mod gemm_q8;
mod movement;
mod node;

use std::cell::RefCell;

use afferent_core::{Error, WeightCache};

use super::{step::Step, value::ComputeType};
use crate::{
    memory::MemoryBudget,
    op::{
        argmax_pooling2d::ArgMaxPooling2d, inverted_bottleneck::InvertedBottleneck,
        max_pooling2d::MaxPooling2d,
    },
    operator::{MAX_INPUTS, Operator},
    subgraph::{Node, NodeKind, Subgraph, UnaryOperator},
};
use node::NodeContext;

/// Lowers the nodes of a subgraph.
#[derive(Clone, Copy)]
pub(super) struct Lowering<'g, 'a> {
    pub(super) subgraph: &'g Subgraph<'a>,
    pub(super) weight_cache: Option<&'g dyn WeightCache>,
    /// Limit for packed weights that are not shared.
    pub(super) budget: &'g RefCell<MemoryBudget>,
}

impl<'g, 'a> Lowering<'g, 'a> {
    fn node(&self, index: usize) -> NodeContext<'g, 'a> {
        let Self { subgraph, weight_cache, budget } = *self;
        NodeContext { subgraph, node: &subgraph.nodes[index], weight_cache, budget }
    }

    /// Appends the steps of a node.
    pub(super) fn lower_node(
        &self,
        index: usize,
        is_alias: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        let (node, cx) = (&self.subgraph.nodes[index], self.node(index));
        if node.inputs.len() > MAX_INPUTS {
            return Err(cx.unsupported("with more than 5 inputs"));
        }
        let (op, inputs) = lower(&cx, is_alias)?;
        let inputs = node.inputs[..inputs].to_vec();
        if let (Some(output), NodeKind::ArgMaxPooling2d(window)) = (node.index_output, &node.kind) {
            let index_type = ComputeType::of(&self.subgraph.values[output]);
            if cx.input_type(0) != ComputeType::F32 || index_type != ComputeType::I32 {
                return Err(cx.unsupported("except from f32 to int32 indices"));
            }
            let op = Box::new(ArgMaxPooling2d { window: *window });
            steps.push(step(node, op, inputs.clone(), output, false));
        }
        steps.push(step(node, op, inputs, node.output, is_alias));
        Ok(())
    }

    /// Lowers an inverted bottleneck to one step.
    pub(super) fn lower_inverted_bottleneck(
        &self,
        expand: Option<usize>,
        depthwise: usize,
        project: usize,
    ) -> Result<Step, Error> {
        let input = self.subgraph.nodes[expand.unwrap_or(depthwise)].inputs[0];
        let lower_pointwise = |index| gemm::lower_conv2d_f32(&self.node(index));
        let expand = expand.map(lower_pointwise).transpose()?;
        let depthwise = gemm::lower_depthwise_f32(&self.node(depthwise))?;
        let last = &self.subgraph.nodes[project];
        let project = lower_pointwise(project)?;
        let op = Box::new(InvertedBottleneck::new(expand, depthwise, project));
        Ok(step(last, op, vec![input], last.output, false))
    }
}

fn step(
    node: &Node,
    op: Box<dyn Operator>,
    inputs: Vec<usize>,
    output: usize,
    is_alias: bool,
) -> Step {
    Step { node: node.index, node_type: node.type_name, op, inputs, output, is_alias }
}

/// Returns the operator of a node, and the number of inputs that it reads at run time.
fn lower(cx: &NodeContext<'_, '_>, is_alias: bool) -> Result<(Box<dyn Operator>, usize), Error> {
    let op: Box<dyn Operator> = match &cx.node.kind {
        NodeKind::FullyConnected { transposed } => {
            return gemm::lower_fully_connected(cx, *transposed);
        }
        NodeKind::Conv2d(_) => return Ok((gemm::lower_conv2d(cx)?, 1)),
        NodeKind::StaticReshape(_)
        | NodeKind::StaticTranspose(_)
        | NodeKind::StaticConstantPad { .. }
        | NodeKind::StaticSlice { .. } => return Ok((movement::lower(cx)?, 1)),
        NodeKind::Unary(UnaryOperator::Copy) | NodeKind::Convert
            if is_alias || cx.is_same_encoding() =>
        {
            movement::lower_copy(cx)
        }
        NodeKind::Concatenate { axis } if cx.is_same_encoding() => {
            movement::lower_concatenate(*axis, cx.output_type())
        }
        NodeKind::MaxPooling2d(window)
            if cx.is_same_encoding() && cx.input_type(0) == ComputeType::I8 =>
        {
            let range = cx.quantization_params(cx.output())?.range(cx.node.clamp);
            Box::new(MaxPooling2d::<i8>::new(*window, range))
        }
        kind => match elementwise::lower_q8(cx, kind)? {
            Some(op) => op,
            None => elementwise::lower_f32(cx, kind)?,
        },
    };
    Ok((op, cx.node.inputs.len()))
}
