//! Operators that keep the elements and change sizes or type. Most need no shader: the output is
//! another name of the memory of the input.

use super::Operator;
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{product, wrap_dim},
};

/// Operator that names a constant.
pub(crate) const PREPACK: &str = "et_vk.prepack.default";

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.view_copy.default", 3, view),
    Operator::new("aten.squeeze_copy.dims", 3, squeeze),
    Operator::new("aten.unsqueeze_copy.default", 3, unsqueeze),
    Operator::new("aten.clone.default", 3, same),
    Operator::new("aten.alias_copy.default", 2, same),
    Operator::new("aten._to_copy.default", 8, same),
    Operator::new("aten.copy.default", 4, copy),
    Operator::new("dim_order_ops._to_dim_order_copy.default", 8, same),
    Operator::new("dim_order_ops._clone_dim_order.default", 4, same),
    Operator::new(PREPACK, 2, prepack),
];

fn same(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    reshape(recorder, call, 0, &sizes)
}

/// Another name of a constant, also of one that a later call changes.
fn prepack(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    if recorder.ty(input)? != recorder.ty(output)? {
        return Err("changes the type of a constant");
    }
    if is_half_output(recorder, input, output) {
        return same(recorder, call);
    }
    recorder.alias(output, input, &recorder.sizes(input)?)
}

/// True if the delegate returns a constant in half precision, which needs a copy in single precision.
fn is_half_output(recorder: &Recorder<'_, '_>, input: usize, output: usize) -> bool {
    recorder.is_half(input) && recorder.graph.outputs.contains(&output)
}

/// `copy`: the elements of the second tensor. The exporter makes them of equal sizes.
fn copy(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let sizes = recorder.sizes(recorder.tensor(call, 1)?)?;
    if recorder.sizes(recorder.tensor(call, 0)?)? != sizes {
        return Err("copies a tensor of other sizes");
    }
    reshape(recorder, call, 1, &sizes)
}

fn view(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let numel = recorder.numel(recorder.tensor(call, 0)?)?;
    let mut dims = recorder.ints(call, 1)?;
    if let Some(free) = dims.iter().position(|dim| *dim == -1) {
        dims[free] = 1;
        let known = dims.iter().fold(1_i64, |product, dim| product.saturating_mul(*dim)).max(1);
        dims[free] = numel as i64 / known;
    }
    let sizes: Result<Vec<usize>, _> = dims.into_iter().map(usize::try_from).collect();
    reshape(recorder, call, 0, &sizes.map_err(|_| "has a negative size")?)
}

fn squeeze(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let mut kept: Vec<Option<usize>> = sizes.iter().copied().map(Some).collect();
    for dim in recorder.ints(call, 1)? {
        let dim = wrap_dim(dim, sizes.len())?;
        if sizes.get(dim) == Some(&1) {
            kept[dim] = None;
        }
    }
    let kept: Vec<usize> = kept.into_iter().flatten().collect();
    reshape(recorder, call, 0, &kept)
}

fn unsqueeze(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let mut sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len() + 1)?;
    sizes.insert(dim, 1);
    reshape(recorder, call, 0, &sizes)
}

/// Makes the output a view of argument `arg`, or a copy in another type.
fn reshape(recorder: &mut Recorder<'_, '_>, call: &Call, arg: usize, sizes: &[usize]) -> OpResult {
    let (input, output) = (recorder.tensor(call, arg)?, recorder.output(call)?);
    let (from, to) = (recorder.ty(input)?, recorder.ty(output)?);
    // A call that changes the memory of one must not change the other.
    let is_state = recorder.is_state[recorder.roots[input]] || recorder.is_state[output];
    let needs_copy = is_state || is_half_output(recorder, input, output);
    if from == to && !needs_copy && call.epilogue.is_empty() {
        return recorder.alias(output, input, sizes);
    }
    if recorder.numel(input)? != product(sizes) {
        return Err("changes the number of elements");
    }
    recorder.set_sizes(output, sizes)?;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let body = match (from, to) {
        (_, DeviceType::F32) => format!("return {};", x.f32("i")),
        (DeviceType::F32, DeviceType::Bool) => format!("return i32({} != 0.0);", x.f32("i")),
        (_, DeviceType::Bool) => format!("return i32({} != 0);", x.i32("i")),
        _ => format!("return {};", x.i32("i")),
    };
    shader.elements(call, output, &body)
}
