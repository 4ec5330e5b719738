//! Operators that move elements: each element of the result is one element of an input.

use super::Operator;
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder, Target},
    shader::Shader,
    shape::{broadcast_strides, product, strides, wrap_dim},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.permute_copy.default", 3, permute).fusing(),
    Operator::new("aten.permute.default", 3, permute).fusing(),
    Operator::new("aten.t_copy.default", 2, transpose).fusing(),
    Operator::new("aten.expand_copy.default", 4, expand).fusing(),
    Operator::new("aten.slice_copy.Tensor", 6, slice).fusing(),
    Operator::new("aten.select_copy.int", 4, select).fusing(),
    Operator::new("aten.split_with_sizes_copy.default", 4, split),
    Operator::new("aten.flip.default", 3, flip).fusing(),
    Operator::new("aten.unfold_copy.default", 5, unfold).fusing(),
    Operator::new("aten.repeat.default", 3, repeat).fusing(),
    Operator::new("aten.cat.default", 3, concatenate),
];

/// Number of inputs that one shader joins.
const INPUTS_OF_A_SHADER: usize = 5;

fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|value| *value as i64).collect()
}

fn strides_of(sizes: &[usize]) -> Vec<i64> {
    signed(&strides(sizes))
}

/// Records a copy: the element at some coordinates is the element of `input` at the sum of
/// `offset` and coordinates times strides.
fn strided(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    [input, output]: [usize; 2],
    sizes: &[usize],
    strides: Vec<i64>,
    offset: i64,
) -> OpResult {
    recorder.set_sizes(output, sizes)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let index = shader.index(sizes, &[("at", strides, offset)]);
    let element = if is_float { x.f32("at") } else { x.i32("at") };
    shader.elements(call, output, &format!("{index}return {element};"))
}

fn permute(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let dims = recorder.ints(call, 1)?;
    let dims: Vec<usize> =
        dims.into_iter().map(|dim| wrap_dim(dim, sizes.len())).collect::<OpResult<_>>()?;
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..sizes.len()) {
        return Err("has dims that are no permutation");
    }
    let own = strides_of(&sizes);
    let out: Vec<usize> = dims.iter().map(|dim| sizes[*dim]).collect();
    let moved = dims.iter().map(|dim| own[*dim]).collect();
    strided(recorder, call, [input, output], &out, moved, 0)
}

fn transpose(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let mut sizes = recorder.sizes(input)?;
    let mut own = strides_of(&sizes);
    if sizes.len() > 2 {
        return Err("transposes a tensor of more than two dimensions");
    }
    sizes.reverse();
    own.reverse();
    strided(recorder, call, [input, output], &sizes, own, 0)
}

fn expand(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let wanted = recorder.ints(call, 1)?;
    let skip = wanted.len().checked_sub(sizes.len()).ok_or("expands to fewer dimensions")?;
    let size = |(dim, size): (usize, &i64)| match usize::try_from(*size) {
        Ok(size) => Ok(size),
        // -1 keeps the size.
        Err(_) => dim.checked_sub(skip).map(|dim| sizes[dim]).ok_or("has a negative size"),
    };
    let out: Vec<usize> = wanted.iter().enumerate().map(size).collect::<OpResult<_>>()?;
    if sizes.iter().zip(&out[skip..]).any(|(size, out)| *size != 1 && size != out) {
        return Err("expands a size other than 1");
    }
    let strides = signed(&broadcast_strides(&sizes, &out));
    strided(recorder, call, [input, output], &out, strides, 0)
}

/// Args: tensor, dim, start, end, step, out.
fn slice(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let mut sizes = recorder.sizes(input)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    let mut strides = strides_of(&sizes);
    let size = *sizes.get(dim).ok_or("slices a scalar")? as i64;
    let wrap = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size);
    let start = wrap(recorder.opt_int(call, 2)?.unwrap_or(0));
    let end = wrap(recorder.opt_int(call, 3)?.unwrap_or(size));
    let step = recorder.int(call, 4)?;
    if step < 1 {
        return Err("has a step below 1");
    }
    let length = (end - start).max(0);
    sizes[dim] = (length / step + i64::from(length % step != 0)) as usize;
    let offset = start * strides[dim];
    strides[dim] = strides[dim].saturating_mul(step);
    strided(recorder, call, [input, output], &sizes, strides, offset)
}

fn select(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let mut sizes = recorder.sizes(input)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    let mut strides = strides_of(&sizes);
    let size = *sizes.get(dim).ok_or("selects from a scalar")?;
    let index = wrap_dim(recorder.int(call, 2)?, size)?;
    if size == 0 {
        return Err("selects from an empty dimension");
    }
    sizes.remove(dim);
    let offset = strides.remove(dim) * index as i64;
    strided(recorder, call, [input, output], &sizes, strides, offset)
}

/// Args: tensor, sizes, dim, outputs.
fn split(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let mut sizes = recorder.sizes(input)?;
    let parts = recorder.dims(call, 1)?;
    let dim = wrap_dim(recorder.int(call, 2)?, sizes.len())?;
    let outputs = recorder.list(call, 3)?;
    let own = strides_of(&sizes);
    let size = *sizes.get(dim).ok_or("splits a scalar")?;
    let total = parts.iter().try_fold(0_usize, |total, part| total.checked_add(*part));
    if total != Some(size) || parts.len() != outputs.len() {
        return Err("has parts that do not add up to the size");
    }
    let mut start = 0;
    for (output, part) in outputs.into_iter().zip(parts) {
        sizes[dim] = part;
        let offset = start * own[dim];
        strided(recorder, call, [input, output], &sizes, own.clone(), offset)?;
        start += part as i64;
    }
    Ok(())
}

fn flip(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let mut is_flipped = vec![false; sizes.len()];
    for dim in recorder.ints(call, 1)? {
        if let Some(is_flipped) = is_flipped.get_mut(wrap_dim(dim, sizes.len())?) {
            *is_flipped = true;
        }
    }
    let (mut strides, mut offset) = (strides_of(&sizes), 0);
    for (dim, _) in is_flipped.into_iter().enumerate().filter(|(_, flipped)| *flipped) {
        offset += strides[dim] * (sizes[dim] as i64 - 1);
        strides[dim] = -strides[dim];
    }
    strided(recorder, call, [input, output], &sizes, strides, offset)
}

/// Args: tensor, dim, size, step, out.
fn unfold(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let mut sizes = recorder.sizes(input)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    let mut strides = strides_of(&sizes);
    let (size, step) = (recorder.int(call, 2)?, recorder.int(call, 3)?);
    let length = *sizes.get(dim).ok_or("unfolds a scalar")? as i64;
    if size < 0 || size > length || step < 1 {
        return Err("has a window that exceeds the size");
    }
    sizes[dim] = ((length - size) / step + 1) as usize;
    sizes.push(size as usize);
    strides.push(strides[dim]);
    strides[dim] = strides[dim].saturating_mul(step);
    strided(recorder, call, [input, output], &sizes, strides, 0)
}

/// Repeats: each dimension of the result is a number of repetitions and a size of the input.
fn repeat(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let (sizes, repeats) = (recorder.sizes(input)?, recorder.dims(call, 1)?);
    let skip = repeats.len().checked_sub(sizes.len()).ok_or("repeats fewer dimensions")?;
    let own = strides_of(&sizes);
    let (mut split, mut strides, mut out) = (vec![], vec![], vec![]);
    for (dim, &count) in repeats.iter().enumerate() {
        let inner = dim.checked_sub(skip);
        let size = inner.map_or(1, |dim| sizes[dim]);
        split.extend([count, size]);
        strides.extend([0, inner.map_or(0, |dim| own[dim])]);
        out.push(size.checked_mul(count).ok_or("has a result of more than four gigabytes")?);
    }
    recorder.set_sizes(output, &out)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let index = shader.index(&split, &[("at", strides, 0)]);
    let element = if is_float { x.f32("at") } else { x.i32("at") };
    shader.elements(call, output, &format!("{index}return {element};"))
}

/// Args: tensors, dim, out.
fn concatenate(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let output = recorder.output(call)?;
    let mut inputs = recorder.list(call, 0)?;
    // A tensor of size [0] joins with any other.
    inputs.retain(|input| !recorder.sizes(*input).is_ok_and(|sizes| sizes == [0]));
    let mut sizes = recorder.sizes(*inputs.first().ok_or("joins no tensors")?)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    if sizes.is_empty() {
        return Err("joins scalars");
    }
    let mut ends = vec![];
    let mut total = 0_usize;
    for &input in &inputs {
        let own = recorder.sizes(input)?;
        let others = |sizes: &[usize]| [&sizes[..dim], &sizes[dim + 1..]].concat();
        if own.len() != sizes.len() || others(&own) != others(&sizes) {
            return Err("joins tensors of other sizes");
        }
        total = total.saturating_add(own[dim]);
        ends.push(total);
    }
    sizes[dim] = total;
    recorder.set_sizes(output, &sizes)?;
    let inner = product(&sizes[dim + 1..]);
    let parts: Vec<(usize, usize, usize)> = inputs
        .iter()
        .zip(&ends)
        .scan(0, |start, (input, end)| Some((*input, std::mem::replace(start, *end), *end)))
        .collect();
    for part in parts.chunks(INPUTS_OF_A_SHADER) {
        join(recorder, output, part, inner, total)?;
    }
    Ok(())
}

/// Writes the range of `parts` (input, start, end) of the result, whose joined dimension has
/// `total` indices of `inner` elements.
fn join(
    recorder: &mut Recorder<'_, '_>,
    output: usize,
    parts: &[(usize, usize, usize)],
    inner: usize,
    total: usize,
) -> OpResult {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
    let (start, end) = (first.1, last.2);
    let (ty, numel) = (recorder.ty(output)?, recorder.numel(output)?);
    let target: Target = recorder.target(output);
    let mut shader = Shader::new(recorder);
    let (inner_name, total_name) = (shader.u32(inner), shader.u32(total));
    let mut body = format!(
        "let inner = {inner_name};\nlet rest = i % inner;\nlet c = i / inner % {total_name};\n\
         let outer = i / inner / {total_name};\n"
    );
    for &(input, from, to) in parts {
        let x = shader.input(input)?;
        let (from_name, size) = (shader.u32(from), shader.u32(to - from));
        let to_name = shader.u32(to);
        let at = format!("(outer * {size} + c - {from_name}) * inner + rest");
        let element = if ty == DeviceType::F32 { x.f32(&at) } else { x.i32(&at) };
        body.push_str(&format!("if c < {to_name} {{ return {element}; }}\n"));
    }
    body.push_str("return 0;");
    if (start, end) == (0, total) {
        return shader.elements_at(target, ty, numel, &body);
    }
    // The others keep their elements.
    let (start, end) = (shader.u32(start), shader.u32(end));
    shader.declare(&format!(
        "fn is_part(i: u32) -> bool {{ let c = i / {inner_name} % {total_name}; \
         return c >= {start} && c < {end}; }}"
    ));
    shader.parts_at(target, ty, numel, &body)
}
