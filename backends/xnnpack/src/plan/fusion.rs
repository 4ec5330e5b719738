//! Operator fusion: rewrites the subgraph so that fewer nodes pass over memory.

use super::value::{ComputeType, is_same_encoding};
use crate::subgraph::{
    BinaryOperator, Node, NodeKind, Quantization, Role, Subgraph, UNCLAMPED, UnaryOperator, Value,
};

/// Runs all fusion passes.
pub(crate) fn run(subgraph: &mut Subgraph<'_>) {
    fuse_clamp(subgraph);
    fuse_lookup_table(subgraph);
    fuse_silu(subgraph);
    fuse_hardswish(subgraph);
}

/// Producer and consumers of each value.
struct Uses {
    /// Number of inputs that read each value.
    consumers: Vec<usize>,
    /// Node that writes each value.
    producer: Vec<Option<usize>>,
}

impl Uses {
    fn of(subgraph: &Subgraph<'_>) -> Self {
        let (mut consumers, mut producer) =
            (vec![0; subgraph.values.len()], vec![None; subgraph.values.len()]);
        for (index, node) in subgraph.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|input| consumers[*input] += 1);
            producer[node.output] = Some(index);
        }
        Self { consumers, producer }
    }

    /// True if `value` is internal and has one consumer.
    fn is_fusable(&self, subgraph: &Subgraph<'_>, value: usize) -> bool {
        self.consumers[value] == 1 && subgraph.values[value].role == Role::Internal
    }
}

fn remove_nodes(subgraph: &mut Subgraph<'_>, removed: Vec<bool>) {
    let mut removed = removed.into_iter();
    subgraph.nodes.retain(|_| !removed.next().unwrap_or(false));
}

/// Replaces int8 → f32, unary operator, f32 → int8 by one q8 unary operator.
fn fuse_lookup_table(subgraph: &mut Subgraph<'_>) {
    let uses = Uses::of(subgraph);
    let mut removed = vec![false; subgraph.nodes.len()];
    let is_q8 = |value: &Value<'_>| {
        ComputeType::of(value) == ComputeType::I8
            && matches!(value.quantization, Quantization::PerTensor { .. })
    };
    for index in 0..subgraph.nodes.len() {
        let last = &subgraph.nodes[index];
        let is_convert = |node: &Node| node.kind == NodeKind::Convert && node.inputs.len() == 1;
        // Producer of the first input, if that is an f32 value that can be fused.
        let f32_producer = |node: &Node| {
            let input = *node.inputs.first()?;
            let is_f32 = ComputeType::of(&subgraph.values[input]) == ComputeType::F32;
            let producer = uses.producer[input].filter(|_| is_f32);
            let producer = producer.filter(|_| uses.is_fusable(subgraph, input))?;
            Some((producer, &subgraph.nodes[producer]))
        };
        if !is_convert(last) || !is_q8(&subgraph.values[last.output]) {
            continue;
        }
        let Some((unary, node)) = f32_producer(last) else { continue };
        let Some((first, convert)) = f32_producer(node) else { continue };
        let is_match = matches!(node.kind, NodeKind::Unary(_)) && is_convert(convert);
        let input = convert.inputs[0];
        if !is_match || removed[unary] || !is_q8(&subgraph.values[input]) {
            continue;
        }
        let output = last.output;
        let node = &mut subgraph.nodes[unary];
        (node.inputs, node.output) = (vec![input], output);
        (removed[first], removed[index]) = (true, true);
    }
    remove_nodes(subgraph, removed);
}

/// Fuses `XNNClamp` into the node that produces its input, if that node can clamp.
fn fuse_clamp(subgraph: &mut Subgraph<'_>) {
    let mut uses = Uses::of(subgraph);
    let mut removed = vec![false; subgraph.nodes.len()];
    for (index, removed) in removed.iter_mut().enumerate() {
        let node = &subgraph.nodes[index];
        let (NodeKind::Unary(UnaryOperator::Clamp), [input]) = (&node.kind, &*node.inputs) else {
            continue;
        };
        let (from, to) = (&subgraph.values[*input], &subgraph.values[node.output]);
        let is_fusable = uses.is_fusable(subgraph, *input) && is_same_encoding(from, to);
        let producer = uses.producer[*input]
            .filter(|producer| is_fusable && can_clamp(&subgraph.nodes[*producer]));
        let Some(producer) = producer else { continue };
        let (output, (low, high)) = (node.output, node.clamp);
        let node = &mut subgraph.nodes[producer];
        // Composition of both clamps, even if their ranges are disjoint.
        let at_least_low = |x: f32| if x < low { low } else { x };
        let clamp = |x: f32| if at_least_low(x) > high { high } else { at_least_low(x) };
        node.clamp = (clamp(node.clamp.0), clamp(node.clamp.1));
        node.output = output;
        uses.producer[output] = Some(producer);
        *removed = true;
    }
    remove_nodes(subgraph, removed);
}

/// Replaces `x * sigmoid(x)` by SiLU, and `silu(x) * y` by [`BinaryOperator::SiluMultiply`].
fn fuse_silu(subgraph: &mut Subgraph<'_>) {
    let uses = Uses::of(subgraph);
    let mut removed = vec![false; subgraph.nodes.len()];
    for index in 0..subgraph.nodes.len() {
        let node = &subgraph.nodes[index];
        let (NodeKind::Binary(BinaryOperator::Multiply), &[a, b]) = (&node.kind, &*node.inputs)
        else {
            continue;
        };
        // Node that computes `value` with this operator for the product alone, and its input.
        let unary = |value: usize, operator: UnaryOperator| {
            let producer = uses.producer[value].filter(|_| uses.is_fusable(subgraph, value))?;
            let first = &subgraph.nodes[producer];
            let is_match = first.clamp == UNCLAMPED && first.kind == NodeKind::Unary(operator);
            let input = *first.inputs.first().filter(|_| is_match)?;
            let values = [input, value, a, b, node.output];
            let are_floats = values.iter().all(|value| is_plain_float(&subgraph.values[*value]));
            are_floats.then_some((producer, input))
        };
        let operands = [(a, b), (b, a)];
        let sigmoid = operands.into_iter().find_map(|(x, value)| {
            unary(value, UnaryOperator::Sigmoid).filter(|(_, input)| *input == x)
        });
        let silu = operands.into_iter().find_map(|(value, other)| {
            unary(value, UnaryOperator::Silu).map(|found| (found, other))
        });
        let (producer, kind, inputs) = match (sigmoid, silu) {
            (Some((producer, x)), _) => (producer, NodeKind::Unary(UnaryOperator::Silu), vec![x]),
            (None, Some(((producer, x), other))) => {
                (producer, NodeKind::Binary(BinaryOperator::SiluMultiply), vec![x, other])
            }
            (None, None) => continue,
        };
        removed[producer] = true;
        let node = &mut subgraph.nodes[index];
        (node.kind, node.inputs) = (kind, inputs);
    }
    remove_nodes(subgraph, removed);
}

/// Fuses `XNNHardswish` into the f32 convolution or fully connected layer that produces its input.
fn fuse_hardswish(subgraph: &mut Subgraph<'_>) {
    let uses = Uses::of(subgraph);
    let mut removed = vec![false; subgraph.nodes.len()];
    for (index, removed) in removed.iter_mut().enumerate() {
        let node = &subgraph.nodes[index];
        let (NodeKind::Unary(UnaryOperator::Hardswish), [input]) = (&node.kind, &*node.inputs)
        else {
            continue;
        };
        let (from, to) = (&subgraph.values[*input], &subgraph.values[node.output]);
        let is_fusable = uses.is_fusable(subgraph, *input)
            && is_same_encoding(from, to)
            && node.clamp == UNCLAMPED
            && is_plain_float(from)
            && is_plain_float(to);
        let Some(producer) = uses.producer[*input].filter(|_| is_fusable) else { continue };
        let (output, producer) = (node.output, &mut subgraph.nodes[producer]);
        let is_gemm =
            matches!(producer.kind, NodeKind::Conv2d(_) | NodeKind::FullyConnected { .. });
        if is_gemm
            && is_plain_float(&subgraph.values[producer.inputs[0]])
            && producer.inputs[1..].iter().all(|input| subgraph.values[*input].data.is_some())
        {
            (producer.hardswish, producer.output, *removed) = (true, output, true);
        }
    }
    remove_nodes(subgraph, removed);
}

/// True for a floating-point value that no consumer quantizes.
fn is_plain_float(value: &Value<'_>) -> bool {
    value.is_float() && !value.is_dynamically_quantized
}

/// True if the node clamps its only output.
fn can_clamp(node: &Node) -> bool {
    use BinaryOperator::{Add, Divide, Multiply, Subtract};
    node.index_output.is_none()
        && match node.kind {
            NodeKind::Conv2d(_)
            | NodeKind::FullyConnected { .. }
            | NodeKind::GlobalAvgPooling2d { .. } => true,
            NodeKind::Binary(operator) => matches!(operator, Add | Divide | Multiply | Subtract),
            _ => false,
        }
}
