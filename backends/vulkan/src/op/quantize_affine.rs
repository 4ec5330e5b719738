//! Quantization with one scale for each block of elements.

use super::{
    Operator,
    quantize::{Choice, choose},
};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{product, strides},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("torchao.quantize_affine.default", 8, quantize),
    Operator::new("torchao.dequantize_affine.default", 9, dequantize).fusing(),
    Operator::new("torchao.choose_qparams_affine.default", 11, choose_parameters),
];

/// Number of blocks in each dimension.
fn blocks(sizes: &[usize], block: &[usize]) -> OpResult<Vec<usize>> {
    if sizes.len() != block.len() {
        return Err("has blocks of another rank than its tensor");
    }
    let count = |(size, block): (&usize, &usize)| match size.checked_div(*block) {
        Some(count) if size.is_multiple_of(*block) => Ok(count),
        _ => Err("has blocks that do not divide its tensor"),
    };
    sizes.iter().zip(block).map(count).collect()
}

/// Sizes of block arguments. At live sizes the batch dimensions of a block may exceed 1 only if they
/// cover the dimension, so a block is cut to the tensor.
fn block_sizes(recorder: &Recorder<'_, '_>, call: &Call, sizes: &[usize]) -> OpResult<Vec<usize>> {
    let block = recorder.dims(call, 1)?;
    if block.len() != sizes.len() {
        return Err("has blocks of another rank than its tensor");
    }
    Ok(block.iter().zip(sizes).map(|(block, size)| (*block).min(*size).max(1)).collect())
}

/// Expressions of scale and zero point of element `i`, after source that declares their index.
fn parameters(
    shader: &mut Shader<'_, '_, '_>,
    call: &Call,
    sizes: &[usize],
) -> OpResult<(String, String, String)> {
    let block = block_sizes(shader.recorder, call, sizes)?;
    let counts = blocks(sizes, &block)?;
    let own = strides(&counts);
    // Each dimension is a number of blocks and a block.
    let (mut split, mut steps) = (vec![], vec![]);
    for ((count, block), stride) in counts.iter().zip(&block).zip(own) {
        split.extend([*count, *block]);
        steps.extend([stride as i64, 0]);
    }
    let index = shader.index(&split, &[("at", steps, 0)]);
    let needed = product(&counts);
    let scale = shader.recorder.tensor(call, 2)?;
    let zero = shader.recorder.opt_tensor(call, 3)?;
    for tensor in [Some(scale), zero].into_iter().flatten() {
        if shader.recorder.numel(tensor)? < needed {
            return Err("has fewer scales or zero points than blocks");
        }
    }
    let scale = shader.input(scale)?.f32("at");
    let zero = zero.map(|zero| shader.input(zero)).transpose()?;
    Ok((index, scale, zero.map_or("0.0".to_owned(), |zero| zero.f32("at"))))
}

/// Args: tensor, block, scale, zero point, dtype, minimum, maximum, out.
fn quantize(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    recorder.set_sizes(output, &sizes)?;
    let (low, high) = match recorder.ty(output)? {
        DeviceType::U8 => (0.0, 255.0),
        DeviceType::I8 => (-128.0, 127.0),
        _ => (-2_147_483_648.0, 2_147_483_520.0),
    };
    let (min, max) = (recorder.opt_double(call, 5)?, recorder.opt_double(call, 6)?);
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let (index, scale, zero) = parameters(&mut shader, call, &sizes)?;
    let (min, max) = (shader.f32(min.unwrap_or(low)), shader.f32(max.unwrap_or(high)));
    let value = format!("round({x} * (1.0 / {scale})) + {zero}");
    shader.elements(call, output, &format!("{index}return i32(clamp({value}, {min}, {max}));"))
}

/// Args: tensor, block, scale, zero point, dtype, minimum, maximum, dtype, out.
fn dequantize(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    recorder.set_sizes(output, &sizes)?;
    if recorder.ty(output)? != DeviceType::F32 {
        return Err("dequantizes to integers");
    }
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let (index, scale, zero) = parameters(&mut shader, call, &sizes)?;
    shader.elements(call, output, &format!("{index}return ({x} - {zero}) * {scale};"))
}

/// Args: tensor, mapping, block, dtype, minimum, maximum, epsilon, dtypes of scale and zero point,
/// keepdim, outputs.
fn choose_parameters(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let sizes = recorder.sizes(input)?;
    let block: Vec<usize> = recorder.dims(call, 2)?;
    if block.len() != sizes.len() {
        return Err("has blocks of another rank than its tensor");
    }
    let block: Vec<usize> =
        block.iter().zip(&sizes).map(|(block, size)| (*block).min(*size).max(1)).collect();
    let counts = blocks(&sizes, &block)?;
    // The elements of a block must follow each other.
    let first = block.iter().position(|size| *size != 1).unwrap_or(block.len());
    if !sizes.iter().zip(&block).skip(first + 1).all(|(size, block)| size == block) {
        return Err("has blocks that are not contiguous");
    }
    let expression = match recorder.value(call, 1) {
        Value::Str("ASYMMETRIC") | Value::Null => "choose(low, high, qmin, qmax, epsilon)",
        Value::Str("SYMMETRIC") => {
            "vec2<f32>(max(max(-min(low, 0.0), max(high, 0.0)) / ((qmax - qmin) / 2.0), epsilon), \
             round((qmin + qmax + 1.0) / 2.0))"
        }
        Value::Str("SYMMETRIC_NO_CLIPPING_ERR") => {
            "vec2<f32>(max(max(min(low, 0.0) / qmin, max(high, 0.0) / qmax), epsilon), 0.0)"
        }
        _ => return Err("has an unknown mapping"),
    };
    let choice = Choice {
        min: recorder.opt_double(call, 4)?.unwrap_or(-128.0),
        max: recorder.opt_double(call, 5)?.unwrap_or(127.0),
        epsilon: recorder.opt_double(call, 6)?.unwrap_or(f64::from(f32::EPSILON)),
        expression,
    };
    let outputs = recorder.list(call, 10)?;
    let row = product(&block);
    let all = product(&counts);
    for &output in &outputs {
        let rank = recorder.spec(output)?.dims.len();
        // Without keepdim, the reduced dimensions, which are the last ones, are removed.
        let out: Vec<usize> = counts.iter().copied().take(rank).collect();
        if product(&out) != all {
            return Err("has scales of another number than its blocks");
        }
        recorder.set_sizes(output, &out)?;
    }
    choose(recorder, input, &outputs, row, &choice)
}
