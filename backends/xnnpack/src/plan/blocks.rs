//! Finds nodes that one operation does together.

use crate::{
    graph::{ConvKind, Dtype, Graph, Kind, Role},
    op::conv::Sizes,
};

/// What a node is for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A step by itself.
    Alone,
    /// Done with a later one.
    Inside,
    /// The last of a block, whose other nodes are these.
    Block { expand: Option<usize>, middle: usize },
}

/// What each node is.
pub(super) fn parts(graph: &Graph<'_>) -> Vec<Part> {
    let mut parts = vec![Part::Alone; graph.nodes.len()];
    let mut makers = vec![None; graph.values.len()];
    let mut readers = vec![Vec::new(); graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        makers[node.output] = Some(index);
        node.inputs.iter().for_each(|input| readers[*input].push(index));
    }
    let only_reader = |value: usize| match readers[value][..] {
        [reader] if graph.values[value].role == Role::Inner => Some(reader),
        _ => None,
    };
    for (middle, node) in graph.nodes.iter().enumerate() {
        let Some(sizes) = sizes(graph, middle) else { continue };
        if sizes.kind != ConvKind::Depthwise || sizes.outputs != 1 {
            continue;
        }
        let last = only_reader(node.output).filter(|last| is_direct(graph, *last));
        let Some(last) = last.filter(|last| graph.nodes[*last].inputs[0] == node.output) else {
            continue;
        };
        let expand = makers[node.inputs[0]].filter(|maker| {
            parts[*maker] == Part::Alone
                && is_direct(graph, *maker)
                && only_reader(node.inputs[0]) == Some(middle)
        });
        expand.into_iter().chain([middle]).for_each(|index| parts[index] = Part::Inside);
        parts[last] = Part::Block { expand, middle };
    }
    parts
}

/// The sizes of a node that is a convolution of numbers with constant weights.
pub(super) fn sizes(graph: &Graph<'_>, index: usize) -> Option<Sizes> {
    let node = &graph.nodes[index];
    let &Kind::Conv { kind, window, groups, inputs, outputs } = &node.kind else { return None };
    let is_plain = |value: usize| {
        let value = &graph.values[value];
        value.dtype == Dtype::F32 && !value.quantised
    };
    let constant = graph.values[node.inputs[1]].data.is_some();
    let plain = is_plain(node.inputs[0]) && is_plain(node.output) && constant;
    plain.then_some(Sizes { kind, window, groups, inputs, outputs })
}

/// Whether a node is a convolution of each pixel by itself.
fn is_direct(graph: &Graph<'_>, index: usize) -> bool {
    sizes(graph, index).is_some_and(|sizes| {
        sizes.kind == ConvKind::Plain && sizes.groups == 1 && sizes.is_direct()
    })
}
