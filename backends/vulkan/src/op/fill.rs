//! Tensors of one number or of a range of numbers.

use super::Operator;
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.full.default", 7, |r, c| of_sizes(r, c, None)),
    Operator::new("aten.ones.default", 6, |r, c| of_sizes(r, c, Some(1.0))),
    Operator::new("aten.zeros.default", 6, |r, c| of_sizes(r, c, Some(0.0))),
    Operator::new("aten.full_like.default", 8, |r, c| like(r, c, None)),
    Operator::new("aten.ones_like.default", 7, |r, c| like(r, c, Some(1.0))),
    Operator::new("aten.zeros_like.default", 7, |r, c| like(r, c, Some(0.0))),
    Operator::new("aten.scalar_tensor.default", 6, scalar),
    Operator::new("aten.arange.start_step", 8, arange),
];

fn fill(recorder: &mut Recorder<'_, '_>, call: &Call, sizes: &[usize], value: f64) -> OpResult {
    let output = recorder.output(call)?;
    recorder.set_sizes(output, sizes)?;
    let ty = recorder.ty(output)?;
    let mut shader = Shader::new(recorder);
    let value = match ty {
        DeviceType::F32 => shader.f32(value),
        DeviceType::Bool => shader.i32(i64::from(value != 0.0)),
        _ => shader.i32(value as i64),
    };
    shader.elements(call, output, &format!("return {value};"))
}

/// Args: sizes, a value if `value` is `None`, options, out.
fn of_sizes(recorder: &mut Recorder<'_, '_>, call: &Call, value: Option<f64>) -> OpResult {
    let sizes = recorder.dims(call, 0)?;
    let value = value.map_or_else(|| recorder.double(call, 1), Ok)?;
    fill(recorder, call, &sizes, value)
}

/// Args: tensor, a value if `value` is `None`, options, out.
fn like(recorder: &mut Recorder<'_, '_>, call: &Call, value: Option<f64>) -> OpResult {
    let sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let value = value.map_or_else(|| recorder.double(call, 1), Ok)?;
    fill(recorder, call, &sizes, value)
}

fn scalar(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let value = recorder.double(call, 0)?;
    fill(recorder, call, &[], value)
}

/// Args: start, end, step, options, out.
fn arange(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let start = recorder.opt_double(call, 0)?.unwrap_or(0.0);
    let (end, step) = (recorder.double(call, 1)?, recorder.opt_double(call, 2)?.unwrap_or(1.0));
    let count = ((end - start) / step).ceil().max(0.0);
    if !count.is_finite() {
        return Err("has a step of 0");
    }
    let output = recorder.output(call)?;
    recorder.set_sizes(output, &[count as usize])?;
    let ty = recorder.ty(output)?;
    let mut shader = Shader::new(recorder);
    let body = if ty == DeviceType::F32 {
        format!("return {} + f32(i) * {};", shader.f32(start), shader.f32(step))
    } else {
        format!("return {} + i32(i) * {};", shader.i32(start as i64), shader.i32(step as i64))
    };
    shader.elements(call, output, &body)
}
