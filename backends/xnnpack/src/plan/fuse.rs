//! Nodes that become a part of their neighbours.

use super::{Store, is_number, same, store};
use crate::graph::{Binary, Graph, Kind, Node, OPEN, Quant, Role, Unary, Value};

/// Who writes and reads values.
struct Uses {
    /// How many nodes read each value.
    readers: Vec<usize>,
    /// The node that writes each value.
    writer: Vec<Option<usize>>,
}

impl Uses {
    fn of(graph: &Graph<'_>) -> Self {
        let (mut readers, mut writer) =
            (vec![0; graph.values.len()], vec![None; graph.values.len()]);
        for (index, node) in graph.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|input| readers[*input] += 1);
            writer[node.output] = Some(index);
        }
        Self { readers, writer }
    }
}

/// Makes of nodes what is computed faster together.
pub(crate) fn nodes(graph: &mut Graph<'_>) {
    bounds(graph);
    tables(graph);
    gates(graph);
    activations(graph);
}

/// Takes the nodes away that are marked.
fn drop(graph: &mut Graph<'_>, dropped: Vec<bool>) {
    let mut dropped = dropped.into_iter();
    graph.nodes.retain(|_| !dropped.next().unwrap_or(false));
}

/// A function of one number between two conversions becomes a function of integers.
fn tables(graph: &mut Graph<'_>) {
    let Uses { readers, writer } = Uses::of(graph);
    let mut dropped = vec![false; graph.nodes.len()];
    let is_integer = |value: &Value<'_>| {
        store(value) == Store::I8 && matches!(value.quant, Quant::Tensor { .. })
    };
    for index in 0..graph.nodes.len() {
        let last = &graph.nodes[index];
        let converts = |node: &Node| node.kind == Kind::Convert && node.inputs.len() == 1;
        let passes = |value: usize| {
            let found = &graph.values[value];
            readers[value] == 1 && found.role == Role::Inner && store(found) == Store::F32
        };
        let before = |node: &Node| {
            let input = *node.inputs.first().filter(|input| passes(**input))?;
            let first = writer[input]?;
            Some((first, &graph.nodes[first]))
        };
        if !converts(last) || !is_integer(&graph.values[last.output]) {
            continue;
        }
        let Some((function, node)) = before(last) else { continue };
        let Some((first, convert)) = before(node) else { continue };
        let is_one = matches!(node.kind, Kind::Unary(_)) && converts(convert);
        let input = convert.inputs[0];
        if !is_one || dropped[function] || !is_integer(&graph.values[input]) {
            continue;
        }
        let output = last.output;
        let node = &mut graph.nodes[function];
        (node.inputs, node.output) = (vec![input], output);
        (dropped[first], dropped[index]) = (true, true);
    }
    drop(graph, dropped);
}

/// Takes away nodes that only keep a result within bounds which no other node reads: the node
/// before does that when it writes the result.
fn bounds(graph: &mut Graph<'_>) {
    let Uses { readers, mut writer } = Uses::of(graph);
    let mut dropped = vec![false; graph.nodes.len()];
    for (index, gone) in dropped.iter_mut().enumerate() {
        let node = &graph.nodes[index];
        let (Kind::Unary(Unary::Clamp), [input]) = (&node.kind, &*node.inputs) else { continue };
        let (before, after) = (&graph.values[*input], &graph.values[node.output]);
        let alone = readers[*input] == 1 && before.role == Role::Inner && same(before, after);
        let Some(first) = writer[*input].filter(|first| alone && is_bounded(&graph.nodes[*first]))
        else {
            continue;
        };
        let (output, (low, high)) = (node.output, node.clamp);
        let node = &mut graph.nodes[first];
        // As if one came after the other, whatever the bounds are.
        let bound = |x: f32| if x < low { low } else { x };
        let bound = |x: f32| if bound(x) > high { high } else { bound(x) };
        node.clamp = (bound(node.clamp.0), bound(node.clamp.1));
        node.output = output;
        writer[output] = Some(first);
        *gone = true;
    }
    drop(graph, dropped);
}

/// The product of a number and its sigmoid becomes one function, silu, and the product of that and
/// another number one function of two.
fn gates(graph: &mut Graph<'_>) {
    let Uses { readers, writer } = Uses::of(graph);
    let mut dropped = vec![false; graph.nodes.len()];
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let (Kind::Binary(Binary::Multiply), &[a, b]) = (&node.kind, &*node.inputs) else {
            continue;
        };
        // The node that computes this function for the product alone, and what it is computed of.
        let function = |value: usize, function: Unary| {
            let alone = readers[value] == 1 && graph.values[value].role == Role::Inner;
            let (at, first) = writer[value].filter(|_| alone).map(|at| (at, &graph.nodes[at]))?;
            let is_open = first.clamp == OPEN && first.kind == Kind::Unary(function);
            let of = *first.inputs.first().filter(|_| is_open)?;
            let numbers = [of, value, a, b, node.output];
            numbers.iter().all(|value| is_plain(&graph.values[*value])).then_some((at, of))
        };
        let pairs = [(a, b), (b, a)];
        let silu = pairs
            .into_iter()
            .find_map(|(x, value)| function(value, Unary::Sigmoid).filter(|(_, of)| *of == x));
        let gate = pairs
            .into_iter()
            .find_map(|(value, other)| function(value, Unary::Silu).map(|found| (found, other)));
        let (first, kind, inputs) = match (silu, gate) {
            (Some((first, x)), _) => (first, Kind::Unary(Unary::Silu), vec![x]),
            (None, Some(((first, x), other))) => {
                (first, Kind::Binary(Binary::Gate), vec![x, other])
            }
            (None, None) => continue,
        };
        dropped[first] = true;
        let node = &mut graph.nodes[index];
        (node.kind, node.inputs) = (kind, inputs);
    }
    drop(graph, dropped);
}

/// Takes away nodes of hardswish whose input no other node reads: the convolution or the layer of
/// numbers before does that when it writes the result.
fn activations(graph: &mut Graph<'_>) {
    let Uses { readers, writer } = Uses::of(graph);
    let mut dropped = vec![false; graph.nodes.len()];
    for (index, gone) in dropped.iter_mut().enumerate() {
        let node = &graph.nodes[index];
        let (Kind::Unary(Unary::Hardswish), [input]) = (&node.kind, &*node.inputs) else {
            continue;
        };
        let (before, after) = (&graph.values[*input], &graph.values[node.output]);
        let alone = readers[*input] == 1 && before.role == Role::Inner && same(before, after);
        let is_open = node.clamp == OPEN;
        let numbers = alone && is_open && is_plain(before) && is_plain(after);
        let Some(first) = writer[*input].filter(|_| numbers) else { continue };
        let (output, first) = (node.output, &mut graph.nodes[first]);
        let sums = matches!(first.kind, Kind::Conv { .. } | Kind::FullyConnected { .. });
        if sums
            && is_plain(&graph.values[first.inputs[0]])
            && graph.values[first.inputs[1]].data.is_some()
        {
            (first.hardswish, first.output, *gone) = (true, output, true);
        }
    }
    drop(graph, dropped);
}

/// Whether a value is numbers, for which no integers stand.
fn is_plain(value: &Value<'_>) -> bool {
    is_number(value) && !value.quantised
}

/// Whether the node keeps its only result within its bounds.
fn is_bounded(node: &Node) -> bool {
    node.positions.is_none()
        && match node.kind {
            Kind::Conv { .. } | Kind::FullyConnected { .. } | Kind::GlobalAveragePool { .. } => {
                true
            }
            Kind::Binary(function) => matches!(
                function,
                Binary::Add | Binary::Divide | Binary::Multiply | Binary::Subtract
            ),
            _ => false,
        }
}
