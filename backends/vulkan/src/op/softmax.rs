//! Softmax and its logarithm.

use super::{Operator, rows};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{product, wrap_dim},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten._softmax.default", 4, |r, c| softmax(r, c, "exp(v - largest) / total")),
    Operator::new("aten._log_softmax.default", 4, |r, c| softmax(r, c, "v - largest - log(total)")),
];

/// Args: tensor, dim, half_to_float, out.
fn softmax(recorder: &mut Recorder<'_, '_>, call: &Call, result: &str) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    if recorder.ty(input)? != DeviceType::F32 || recorder.ty(output)? != DeviceType::F32 {
        return Err("is no tensor of floating-point numbers");
    }
    let sizes = recorder.sizes(input)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    recorder.set_sizes(output, &sizes)?;
    let n = sizes.get(dim).copied().unwrap_or(1);
    let inner = product(sizes.get(dim + 1..).unwrap_or_default());
    let rows = product(&sizes).checked_div(n).unwrap_or(0);
    let target = recorder.target(output);
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("base + k * inner");
    let (n, inner) = (shader.u32(n), shader.u32(inner));
    shader.output_at(target, DeviceType::F32);
    let body = format!(
        "let n = {n};
    let inner = {inner};
    let base = row / inner * n * inner + row % inner;
    var largest = -3.4028234e38;
    for (var k = lane; k < n; k += LANES) {{ largest = max(largest, {x}); }}
    largest = max_lanes(largest, lane);
    var total = 0.0;
    for (var k = lane; k < n; k += LANES) {{ total += exp({x} - largest); }}
    total = sum_lanes(total, lane);
    for (var k = lane; k < n; k += LANES) {{ let v = {x}; y[base + k * inner] = {result}; }}"
    );
    rows::finish(shader, rows, &body)
}
