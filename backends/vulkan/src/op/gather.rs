//! Operators that read elements at indices of a tensor. A negative index counts from the end; one
//! out of range reads the nearest element.

use super::Operator;
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{broadcast, broadcast_strides, product, strides, wrap_dim},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.gather.default", 5, gather).fusing(),
    Operator::new("aten.index_select.default", 4, index_select).fusing(),
    Operator::new("aten.index.Tensor", 3, index).fusing(),
];

/// Function that wraps an index to `0..size`.
pub(super) const WRAP: &str = "fn wrap(v: i32, size: u32) -> u32 {
    let n = i32(size);
    return u32(clamp(select(v, v + n, v < 0), 0, n - 1));
}";

fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|value| *value as i64).collect()
}

fn expect_indices(recorder: &Recorder<'_, '_>, tensor: usize) -> OpResult {
    match recorder.ty(tensor)? {
        DeviceType::F32 | DeviceType::Bool => Err("has indices that are no integers"),
        _ => Ok(()),
    }
}

/// Args: tensor, dim, index, sparse, out.
fn gather(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, index, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 2)?, recorder.output(call)?);
    expect_indices(recorder, index)?;
    let (sizes, out) = (recorder.sizes(input)?, recorder.sizes(index)?);
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    if sizes.len() != out.len()
        || sizes.iter().zip(&out).enumerate().any(|(at, (s, o))| at != dim && o > s)
    {
        return Err("has indices that exceed its tensor");
    }
    recorder.set_sizes(output, &out)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut own = signed(&strides(&sizes));
    let (stride, size) = (own.get(dim).copied().unwrap_or(0), sizes.get(dim).copied().unwrap_or(1));
    if let Some(own) = own.get_mut(dim) {
        *own = 0;
    }
    if size == 0 && product(&out) > 0 {
        return Err("reads an empty tensor");
    }
    let mut shader = Shader::new(recorder);
    shader.declare(WRAP);
    let (x, which) = (shader.input(input)?, shader.input(index)?.i32("i"));
    let code = shader.index(&out, &[("base", own, 0)]);
    let (stride, size) = (shader.u32(stride as usize), shader.u32(size));
    let at = format!("base + wrap({which}, {size}) * {stride}");
    let element = if is_float { x.f32(&at) } else { x.i32(&at) };
    shader.elements(call, output, &format!("{code}return {element};"))
}

/// Args: tensor, dim, index, out.
fn index_select(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, index, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 2)?, recorder.output(call)?);
    expect_indices(recorder, index)?;
    let sizes = recorder.sizes(input)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    let size = *sizes.get(dim).ok_or("selects from a scalar")?;
    let mut out = sizes.clone();
    out[dim] = recorder.numel(index)?;
    if size == 0 && product(&out) > 0 {
        return Err("reads an empty tensor");
    }
    recorder.set_sizes(output, &out)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut shader = Shader::new(recorder);
    shader.declare(WRAP);
    let x = shader.input(input)?;
    let (inner, count) = (shader.u32(product(&sizes[dim + 1..])), shader.u32(out[dim]));
    let size = shader.u32(size);
    let which = shader.input(index)?.i32(&format!("i / {inner} % {count}"));
    let at =
        format!("(i / {inner} / {count} * {size} + wrap({which}, {size})) * {inner} + i % {inner}");
    let element = if is_float { x.f32(&at) } else { x.i32(&at) };
    shader.elements(call, output, &format!("return {element};"))
}

/// Args: tensor, indices or nulls for each dimension, out.
fn index(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let Value::List(items) = recorder.value(call, 1) else {
        return Err("has indices that are no list");
    };
    let items: Vec<Option<usize>> =
        items
            .iter()
            .map(|item| {
                if matches!(recorder.graph.values[*item], Value::Null) { None } else { Some(*item) }
            })
            .collect();
    let indexed: Vec<usize> = (0..items.len()).filter(|dim| items[*dim].is_some()).collect();
    let (&[first, ..], &[.., last]) = (&indexed[..], &indexed[..]) else {
        return Err("has no indices");
    };
    if items.len() > sizes.len() || last - first + 1 != indexed.len() {
        return Err("indexes dimensions that do not follow each other");
    }
    let mut common = vec![];
    for item in items.iter().flatten() {
        expect_indices(recorder, *item)?;
        common = broadcast(&common, &recorder.sizes(*item)?)
            .ok_or("has indices that do not broadcast")?;
    }
    let out = [&sizes[..first], &common, &sizes[last + 1..]].concat();
    if sizes[first..=last].contains(&0) && product(&out) > 0 {
        return Err("reads an empty tensor");
    }
    recorder.set_sizes(output, &out)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let own = signed(&strides(&sizes));
    let (before, after) = (vec![0; first], vec![0; sizes.len() - last - 1]);
    let base = [&own[..first], &vec![0; common.len()], &own[last + 1..]].concat();
    let mut shader = Shader::new(recorder);
    shader.declare(WRAP);
    let x = shader.input(input)?;
    let names: Vec<String> = indexed.iter().map(|dim| format!("at{dim}")).collect();
    let mut lets = vec![("base", base, 0)];
    let mut at = "base".to_owned();
    for (dim, name) in indexed.iter().zip(&names) {
        let item = items[*dim].ok_or("has no indices")?;
        let reading = signed(&broadcast_strides(&shader.recorder.sizes(item)?, &common));
        lets.push((name, [&before[..], &reading, &after].concat(), 0));
        let which = shader.input(item)?.i32(name);
        let (size, stride) = (shader.u32(sizes[*dim]), shader.u32(own[*dim] as usize));
        at.push_str(&format!(" + wrap({which}, {size}) * {stride}"));
    }
    let code = shader.index(&out, &lets);
    let element = if is_float { x.f32(&at) } else { x.i32(&at) };
    shader.elements(call, output, &format!("{code}return {element};"))
}
