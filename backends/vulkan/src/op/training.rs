//! Steps of a training on the device: gradients of linears, cross-entropy with its gradient, the
//! optimizer AdamW, and quantization of updated weights.
//!
//! | operator                | arguments                                                  | result                       |
//! |-------------------------|------------------------------------------------------------|------------------------------|
//! | `linear_q4gsw_backward` | gradient `[.., n]`, weights `[n, k / 2]`, scales, group    | gradient `[.., k]`           |
//! | `linear_dW`             | gradient `[.., n]`, input `[.., k]`                        | gradient `[n, k]`            |
//! | `q4gsw_requant`         | weights `[n, k]`, scales `[groups, n]`, group              | bytes `[n, ceil(k / 2)]`     |
//! | `fused_ce`              | logits `[n, classes]`, labels `[n]`, number of valid rows  | loss, gradient of the logits |
//! | `adamw_step`            | parameter, moments, gradient, seven numbers                | the first three, in place    |

use super::{
    Operator,
    linear_quantized::{Nibbles, declare_q4, weight_sizes},
    matmul::{self, Destination, Sizes},
    rows,
};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::product,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("et_vk.linear_q4gsw_backward.default", 5, input_gradient).fusing(),
    Operator::new("et_vk.linear_dW.default", 3, weight_gradient).fusing(),
    Operator::new("et_vk.q4gsw_requant.default", 4, requantize),
    Operator::new("et_vk.fused_ce.default", 4, cross_entropy),
    Operator::new("et_vk.adamw_step.default", 12, adamw).writing(&[0, 1, 2]),
    Operator::new("adamw_step.default", 12, adamw).writing(&[0, 1, 2]),
];

fn expect_floats(recorder: &Recorder<'_, '_>, tensors: &[usize]) -> OpResult {
    for tensor in tensors {
        if recorder.ty(*tensor)? != DeviceType::F32 {
            return Err("has a tensor that does not hold floating-point numbers");
        }
    }
    Ok(())
}

/// Rows and columns of a tensor `[.., columns]`.
fn matrix(recorder: &Recorder<'_, '_>, tensor: usize) -> OpResult<(usize, usize)> {
    let sizes = recorder.sizes(tensor)?;
    let (columns, outer) = sizes.split_last().ok_or("multiplies a scalar")?;
    Ok((product(outer), *columns))
}

/// Product of the gradient of the result and the weights.
///
/// Args: gradient, weights, scales, group, out.
fn input_gradient(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (gradient, weight, scales) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.tensor(call, 2)?);
    let (group, output) = (recorder.int(call, 3)?, recorder.output(call)?);
    expect_floats(recorder, &[gradient, scales, output])?;
    let ((m, columns), (n, k)) = (matrix(recorder, gradient)?, weight_sizes(recorder, weight)?);
    if columns != n {
        return Err("has a gradient whose columns are not the rows of the weight");
    }
    let mut out = recorder.sizes(gradient)?;
    if let Some(last) = out.last_mut() {
        *last = k;
    }
    recorder.set_sizes(output, &out)?;
    let mut shader = Shader::new(recorder);
    let row = shader.u32(n);
    let x = shader.input(gradient)?.f32(&format!("m * {row} + k"));
    shader.declare(&format!("fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {x}; }}"));
    let weight_form = Sizes { batch: 1, m, n, k };
    declare_q4(&mut shader, weight, scales, weight_form, (group, Nibbles::EvenLow))?;
    shader.declare(
        "fn transposed_at(b: u32, k: u32, n: u32) -> f32 { return w_at(b, n, k); }
fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 { return s; }",
    );
    let destination = Destination::output(&shader, call, output)?;
    // The product sums over the rows of the weight.
    let sizes = Sizes { batch: 1, m, n: k, k: n };
    matmul::record_to(shader, &destination, sizes, "f32", "transposed_at")
}

/// Product of the transposed gradient of the result and the input.
///
/// Args: gradient, input, out.
fn weight_gradient(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (gradient, input, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    expect_floats(recorder, &[gradient, input, output])?;
    let ((rows, n), (input_rows, k)) = (matrix(recorder, gradient)?, matrix(recorder, input)?);
    if rows != input_rows {
        return Err("has a gradient and an input with different numbers of rows");
    }
    recorder.set_sizes(output, &[n, k])?;
    let mut shader = Shader::new(recorder);
    let (n_name, k_name) = (shader.u32(n), shader.u32(k));
    let gradient = shader.input(gradient)?.f32(&format!("k * {n_name} + m"));
    let input = shader.input(input)?.f32(&format!("k * {k_name} + n"));
    shader.declare(&format!(
        "fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {gradient}; }}
fn w_at(b: u32, k: u32, n: u32) -> f32 {{ return {input}; }}
fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s; }}"
    ));
    matmul::record(shader, call, output, Sizes { batch: 1, m: n, n: k, k: rows }, "f32")
}

/// Weights in the form of `linear_q4gsw`: `clamp(round(weight / scale), -8, 7) + 8`, the even one in
/// the low bits. A weight with the scale 0 is 0, and the byte of a last weight without partner has
/// no high bits.
///
/// Args: weights, scales, group, out.
fn requantize(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (weight, scales, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    expect_floats(recorder, &[weight, scales])?;
    if recorder.ty(output)? != DeviceType::U8 {
        return Err("has an output that does not hold bytes");
    }
    let &[n, k] = &recorder.sizes(weight)?[..] else {
        return Err("has a weight that is no matrix");
    };
    let group = usize::try_from(recorder.int(call, 2)?).unwrap_or(0);
    if group == 0 {
        return Err("has groups without elements");
    }
    let columns = match recorder.sizes(scales)?[..] {
        [groups, columns] if groups >= k.div_ceil(group) && columns >= n => columns,
        _ => return Err("has fewer scales than groups"),
    };
    recorder.set_sizes(output, &[n, k.div_ceil(2)])?;
    let mut shader = Shader::new(recorder);
    let (row, bytes) = (shader.u32(k), shader.u32(k.div_ceil(2)));
    let (columns, group) = (shader.u32(columns), shader.u32(group));
    let weight = shader.input(weight)?.f32(&format!("n * {row} + k"));
    let scale = shader.input(scales)?.f32(&format!("k / {group} * {columns} + n"));
    shader.declare(&format!(
        "fn code(n: u32, k: u32) -> i32 {{
    if k >= {row} {{ return 0; }}
    let scale = {scale};
    if scale == 0.0 {{ return 8; }}
    return i32(clamp(round({weight} / scale), -8.0, 7.0)) + 8;
}}"
    ));
    let body = format!(
        "let n = i / {bytes};\nlet k = i % {bytes} * 2u;\nreturn code(n, k) | (code(n, k + 1u) << 4u);"
    );
    shader.elements(call, output, &body)
}

/// Mean cross-entropy over `n_valid` rows, and its gradient. Rows with a negative label count as 0. A
/// label that is out of range is the last class.
///
/// Args: logits, labels, number of valid rows, out: loss and gradient.
fn cross_entropy(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (logits, labels) = (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?);
    let valid = recorder.double(call, 2)?;
    let &[loss, gradient] = &recorder.list(call, 3)?[..] else {
        return Err("has other outputs than loss and gradient");
    };
    expect_floats(recorder, &[logits, loss, gradient])?;
    if recorder.ty(labels)? != DeviceType::I32 {
        return Err("has labels that are no 32-bit integers");
    }
    let &[n, classes] = &recorder.sizes(logits)?[..] else {
        return Err("has logits that are no matrix");
    };
    if recorder.sizes(labels)? != [n] {
        return Err("has another number of labels than rows");
    }
    if classes == 0 {
        return Err("has logits without classes");
    }
    recorder.set_sizes(loss, &[])?;
    recorder.set_sizes(gradient, &[n, classes])?;
    let parts = recorder.temporary(n.max(1));
    let target = recorder.target(gradient);
    let mut shader = Shader::new(recorder);
    let (classes, valid) = (shader.u32(classes), shader.f32(valid));
    let x = shader.input(logits)?.f32("base + k");
    let picked = shader.input(labels)?.i32("row");
    shader.output_at(target, DeviceType::F32);
    let part = shader.changed_at(parts);
    let body = format!(
        "let classes = {classes};
    let valid = {valid};
    let base = row * classes;
    let label = min({picked}, i32(classes) - 1);
    var largest = -3.4028234e38;
    for (var k = lane; k < classes; k += LANES) {{ largest = max(largest, {x}); }}
    largest = max_lanes(largest, lane);
    var total = 0.0;
    for (var k = lane; k < classes; k += LANES) {{ total += exp({x} - largest); }}
    total = sum_lanes(total, lane);
    for (var k = lane; k < classes; k += LANES) {{
        let target_value = select(0.0, 1.0, i32(k) == label);
        y[base + k] = select((exp({x} - largest) / total - target_value) / valid, 0.0, label < 0);
    }}
    if lane == 0u {{
        let k = u32(max(label, 0));
        {part}[row] = select((largest - {x} + log(total)) / valid, 0.0, label < 0);
    }}"
    );
    rows::finish(shader, n, &body)?;
    let target = recorder.target(loss);
    let mut shader = Shader::new(recorder);
    let rows = shader.u32(n);
    let part = shader.input_at(parts, DeviceType::F32).f32("k");
    shader.output_at(target, DeviceType::F32);
    let body = format!(
        "var s = 0.0;
    for (var k = lane; k < {rows}; k += LANES) {{ s += {part}; }}
    s = sum_lanes(s, lane);
    if lane == 0u {{ y[0] = s; }}"
    );
    rows::finish(shader, 1, &body)
}

/// One step of AdamW. The parameter and its moments change in place; the outputs are other names of
/// them.
///
/// Args: parameter, first moment, second moment, gradient, learning rate, decay of the moments, eps,
/// weight decay, corrections of the moments, out.
fn adamw(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let mut tensors = [0; 4];
    for (arg, tensor) in tensors.iter_mut().enumerate() {
        *tensor = recorder.tensor(call, arg)?;
    }
    expect_floats(recorder, &tensors)?;
    let [parameter, first, second, gradient] = tensors;
    let sizes = recorder.sizes(parameter)?;
    for other in [first, second, gradient] {
        if recorder.sizes(other)? != sizes {
            return Err("has a moment or a gradient of other sizes than its parameter");
        }
    }
    let targets = tensors.map(|tensor| recorder.target(tensor));
    if (1..4).any(|at| targets[..at].contains(&targets[at])) {
        return Err("has one tensor as two of its arguments");
    }
    let mut numbers = [0.0; 7];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = recorder.double(call, 4 + at)?;
    }
    let [rate, beta1, beta2, eps, decay, correction1, correction2] = numbers;
    if correction1 == 0.0 || correction2 == 0.0 {
        return Err("has a bias correction of zero");
    }
    name_outputs(recorder, call, &[parameter, first, second], &sizes)?;
    let count = product(&sizes);
    let mut shader = Shader::new(recorder);
    let g = shader.input(gradient)?.f32("id");
    let [p, m, v] = [0, 1, 2].map(|at| shader.changed_at(targets[at]));
    let total = shader.u32(count);
    // As in PyTorch, the factors are rounded after their differences.
    let factors = [1.0 - rate * decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2];
    let [keep, beta1, rest1, beta2, rest2] = factors.map(|factor| shader.f32(factor));
    let [rate, eps, correction1, correction2] =
        [rate, eps, correction1, correction2].map(|number| shader.f32(number));
    let body = format!(
        "if id >= {total} {{ return; }}
    let g = {g};
    let m = {beta1} * {m}[id] + {rest1} * g;
    let v = {beta2} * {v}[id] + {rest2} * g * g;
    {m}[id] = m;
    {v}[id] = v;
    {p}[id] = {keep} * {p}[id] - {rate} * (m / {correction1}) / (sqrt(v / {correction2}) + {eps});"
    );
    shader.threads(count, &body)
}

/// Makes the outputs of a call other names of `changed`.
fn name_outputs(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    changed: &[usize],
    sizes: &[usize],
) -> OpResult {
    let arg = call.args.len() - 1;
    if let Value::Null = recorder.value(call, arg) {
        return Ok(());
    }
    let outputs = recorder.list(call, arg)?;
    if outputs.len() > changed.len() {
        return Err("has more outputs than tensors that it changes");
    }
    for (output, input) in outputs.into_iter().zip(changed) {
        expect_floats(recorder, &[output])?;
        recorder.alias(output, *input, sizes)?;
    }
    Ok(())
}
