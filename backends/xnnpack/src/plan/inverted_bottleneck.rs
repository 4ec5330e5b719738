//! Finds the inverted bottlenecks of a subgraph.

use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    subgraph::{Datatype, NodeKind, Role, Subgraph},
};

/// Part of a node in an inverted bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fused {
    /// The node is not part of one.
    None,
    /// Expand or depthwise; the project node computes it.
    Inner,
    /// Project, with the indices of the other nodes.
    Project { expand: Option<usize>, depthwise: usize },
}

/// Returns the part of each node.
pub(super) fn find(subgraph: &Subgraph<'_>) -> Vec<Fused> {
    let mut parts = vec![Fused::None; subgraph.nodes.len()];
    let mut producers = vec![None; subgraph.values.len()];
    let mut consumers = vec![Vec::new(); subgraph.values.len()];
    for (index, node) in subgraph.nodes.iter().enumerate() {
        producers[node.output] = Some(index);
        node.inputs.iter().for_each(|input| consumers[*input].push(index));
    }
    let only_consumer = |value: usize| match consumers[value][..] {
        [consumer] if subgraph.values[value].role == Role::Internal => Some(consumer),
        _ => None,
    };
    for (depthwise, node) in subgraph.nodes.iter().enumerate() {
        let Some(params) = f32_conv2d(subgraph, depthwise) else { continue };
        if params.kind != Conv2dKind::Depthwise || params.group_output_channels != 1 {
            continue;
        }
        let project = only_consumer(node.output)
            .filter(|project| is_pointwise(subgraph, *project))
            .filter(|project| subgraph.nodes[*project].inputs[0] == node.output);
        let Some(project) = project else { continue };
        let expand = producers[node.inputs[0]].filter(|producer| {
            parts[*producer] == Fused::None
                && is_pointwise(subgraph, *producer)
                && only_consumer(node.inputs[0]) == Some(depthwise)
        });
        expand.into_iter().chain([depthwise]).for_each(|index| parts[index] = Fused::Inner);
        parts[project] = Fused::Project { expand, depthwise };
    }
    parts
}

/// Parameters of a node that is an f32 convolution with constant weights.
fn f32_conv2d(subgraph: &Subgraph<'_>, index: usize) -> Option<Conv2dParams> {
    let node = &subgraph.nodes[index];
    let NodeKind::Conv2d(params) = node.kind else { return None };
    let is_f32 = |value: usize| {
        let value = &subgraph.values[value];
        value.datatype == Datatype::Fp32 && !value.is_dynamically_quantized
    };
    let is_constant = subgraph.values[node.inputs[1]].data.is_some();
    (is_f32(node.inputs[0]) && is_f32(node.output) && is_constant).then_some(params)
}

/// True if the node is an f32 pointwise convolution with one group.
fn is_pointwise(subgraph: &Subgraph<'_>, index: usize) -> bool {
    f32_conv2d(subgraph, index).is_some_and(|params| {
        params.kind == Conv2dKind::Standard && params.groups == 1 && params.is_pointwise()
    })
}
