//! Graph passes that join calls, so that fewer shaders run.
//!
//! | calls                                             | become                                |
//! |---------------------------------------------------|---------------------------------------|
//! | int8 call → dequantize → clamp → quantize         | the int8 call with limits in quanta   |
//! | dequantize → unary functions → quantize           | one requantization                    |
//! | sigmoid → product with its input                  | the function SiLU                     |
//! | call → unary functions, also after a view        | the call with an epilogue             |

use crate::{
    graph::{Call, DeviceType, Epilogue, Graph, Value},
    op::{DEQUANTIZE, QUANTIZE, REQUANTIZE, SILU},
};

/// Operators that keep the elements of their first argument.
const VIEWS: &[&str] = &[
    "aten.view_copy.default",
    "aten.squeeze_copy.dims",
    "aten.unsqueeze_copy.default",
    "aten.clone.default",
];

/// Runs all passes.
pub(crate) fn run(graph: &mut Graph<'_>) {
    fuse_silu(graph);
    fuse_requantization(graph);
    fuse_limits(graph);
    fuse_epilogues(graph);
}

/// Readers of each value, as positions of calls; a value that the delegate returns has one more.
fn readers(graph: &Graph<'_>) -> Vec<Vec<usize>> {
    let mut readers = vec![vec![]; graph.values.len()];
    for (position, call) in graph.calls.iter().enumerate() {
        let (_, inputs) = call.args.split_last().unwrap_or((&0, &[]));
        for leaf in inputs.iter().flat_map(|input| graph.leaves(*input)) {
            readers[leaf].push(position);
        }
        // A call that changes a value in place must not lose it.
        for index in call.operator.writes {
            readers[call.args[*index]].push(usize::MAX);
        }
    }
    for output in &graph.outputs {
        readers[*output].push(usize::MAX);
    }
    readers
}

/// Position of the only reader of a value.
fn only_reader(readers: &[Vec<usize>], value: usize) -> Option<usize> {
    match readers[value][..] {
        [reader] if reader != usize::MAX => Some(reader),
        _ => None,
    }
}

/// Output of a call that has a single tensor as output.
fn single_output(graph: &Graph<'_>, call: &Call) -> Option<usize> {
    let output = *call.args.last()?;
    graph.tensor(output).map(|_| output)
}

fn device_type(graph: &Graph<'_>, value: usize) -> Option<DeviceType> {
    graph.tensor(value).map(|spec| spec.datatype.on_device())
}

fn number(graph: &Graph<'_>, value: usize) -> Option<f64> {
    match graph.values[value] {
        Value::Int(value) => Some(value as f64),
        Value::Double(value) => Some(value),
        _ => None,
    }
}

fn remove(graph: &mut Graph<'_>, is_removed: &[bool]) {
    let mut flags = is_removed.iter();
    graph.calls.retain(|_| !flags.next().copied().unwrap_or(false));
}

/// Replaces `sigmoid(x)` and `mul(x, sigmoid)` by SiLU.
fn fuse_silu(graph: &mut Graph<'_>) {
    let readers = readers(graph);
    let mut removed = vec![];
    for position in 0..graph.calls.len() {
        let call = &graph.calls[position];
        if call.operator.name != "aten.sigmoid.default" {
            continue;
        }
        let &[x, sigmoid] = &call.args[..] else { continue };
        let Some(reader) = only_reader(&readers, sigmoid) else { continue };
        let product = &graph.calls[reader];
        let is_product = product.operator.name == "aten.mul.Tensor"
            && (product.args[..2] == [x, sigmoid] || product.args[..2] == [sigmoid, x]);
        let output = product.args.last().copied().unwrap_or_default();
        let sizes = |value| graph.tensor(value).map(|spec| (spec.dims.clone(), spec.datatype));
        if is_product && x != sigmoid && sizes(x) == sizes(output) {
            removed.push(position);
            let call = &mut graph.calls[reader];
            (call.operator, call.args) = (&SILU, vec![x, output]);
        }
    }
    let mut is_removed = vec![false; graph.calls.len()];
    for position in removed {
        is_removed[position] = true;
    }
    remove(graph, &is_removed);
}

/// Replaces a dequantization, unary functions and a quantization by one call.
fn fuse_requantization(graph: &mut Graph<'_>) {
    let readers = readers(graph);
    let mut is_removed = vec![false; graph.calls.len()];
    for position in 0..graph.calls.len() {
        let call = &graph.calls[position];
        if call.operator.name != DEQUANTIZE {
            continue;
        }
        let (input, [scale, zero]) = (call.args[0], [call.args[1], call.args[2]]);
        let mut chain = vec![position];
        let mut epilogue = vec![];
        let mut value = call.args.last().copied().unwrap_or_default();
        let quantize = loop {
            let Some(reader) = only_reader(&readers, value) else { break None };
            let next = &graph.calls[reader];
            if next.operator.name == QUANTIZE && next.args[0] == value {
                break Some(reader);
            }
            if next.operator.unary.is_none() || next.args[0] != value {
                break None;
            }
            chain.push(reader);
            epilogue.push(Epilogue { operator: next.operator, args: next.args.clone() });
            value = next.args.last().copied().unwrap_or_default();
        };
        let Some(quantize) = quantize else { continue };
        for position in chain {
            is_removed[position] = true;
        }
        let call = &mut graph.calls[quantize];
        let args = [&[input, scale, zero], &call.args[1..5], &call.args[6..]].concat();
        (call.operator, call.args, call.epilogue) = (&REQUANTIZE, args, epilogue);
    }
    remove(graph, &is_removed);
}

/// Moves a clamp that keeps scale and zero point into the int8 call before it.
fn fuse_limits(graph: &mut Graph<'_>) {
    let readers = readers(graph);
    let mut is_removed = vec![false; graph.calls.len()];
    for position in 0..graph.calls.len() {
        let call = &graph.calls[position];
        let Some(output) = single_output(graph, call).filter(|_| call.operator.clamps) else {
            continue;
        };
        let Some(reader) = only_reader(&readers, output) else { continue };
        let Some(limits) = limits(graph, &graph.calls[reader]) else { continue };
        let result = graph.calls[reader].args.last().copied().unwrap_or_default();
        is_removed[reader] = true;
        let call = &mut graph.calls[position];
        call.clamp = Some(limits);
        if let Some(output) = call.args.last_mut() {
            *output = result;
        }
    }
    remove(graph, &is_removed);
}

/// Limits in quanta of a requantization that only clamps.
///
/// With equal scale and zero point, a value inside of the limits keeps its quantum, and one outside
/// gets the quantum of the limit.
fn limits(graph: &Graph<'_>, call: &Call) -> Option<(i32, i32)> {
    if !std::ptr::eq(call.operator, &raw const REQUANTIZE) {
        return None;
    }
    let numbers = call.args[1..7].iter().map(|arg| number(graph, *arg));
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let &[scale, zero, out_scale, out_zero, min, max] = &numbers[..] else { return None };
    let [epilogue] = &call.epilogue[..] else { return None };
    let (low, high) = match epilogue.operator.name {
        "aten.relu.default" => (0.0, f64::INFINITY),
        "aten.hardtanh.default" | "aten.clamp.default" => {
            let bound = |arg: usize, absent: f64| match graph.values[epilogue.args[arg]] {
                Value::Null => Some(absent),
                _ => number(graph, epilogue.args[arg]),
            };
            (bound(1, f64::NEG_INFINITY)?, bound(2, f64::INFINITY)?)
        }
        _ => return None,
    };
    let is_equal = scale == out_scale && zero == out_zero && scale > 0.0;
    if !is_equal || (min, max) != (-128.0, 127.0) || low > high {
        return None;
    }
    // In the precision of the separate calls.
    let quantum = |limit: f64| {
        let quantum = (limit as f32 / scale as f32).round_ties_even() + zero as f32;
        quantum.clamp(-128.0, 127.0) as i32
    };
    Some((quantum(low), quantum(high)))
}

/// Moves unary functions into the call that computes their argument.
fn fuse_epilogues(graph: &mut Graph<'_>) {
    let mut is_removed = vec![false; graph.calls.len()];
    let mut readers = readers(graph);
    for position in 0..graph.calls.len() {
        if !graph.calls[position].operator.fuses || is_removed[position] {
            continue;
        }
        while let Some((last, reader)) = unary_after(graph, &readers, position) {
            let unary = &graph.calls[reader];
            let epilogue = Epilogue { operator: unary.operator, args: unary.args.clone() };
            let mut more = unary.epilogue.clone();
            let result = unary.args.last().copied().unwrap_or_default();
            is_removed[reader] = true;
            readers[unary.args[0]].clear();
            if let Some(output) = graph.calls[last].args.last_mut() {
                *output = result;
            }
            let call = &mut graph.calls[position];
            call.epilogue.push(epilogue);
            call.epilogue.append(&mut more);
        }
    }
    remove(graph, &is_removed);
}

/// A unary function that alone reads the result of the call at `position`, directly or through
/// views: positions of the last call before it and of the function.
fn unary_after(
    graph: &Graph<'_>,
    readers: &[Vec<usize>],
    position: usize,
) -> Option<(usize, usize)> {
    let mut last = position;
    loop {
        let value = single_output(graph, &graph.calls[last])?;
        let reader = only_reader(readers, value)?;
        let next = &graph.calls[reader];
        let output = single_output(graph, next)?;
        let is_float = |value| device_type(graph, value) == Some(DeviceType::F32);
        if next.args[0] != value || !is_float(value) || !is_float(output) {
            return None;
        }
        if next.operator.unary.is_some() {
            return Some((last, reader));
        }
        if !VIEWS.contains(&next.operator.name) {
            return None;
        }
        last = reader;
    }
}
