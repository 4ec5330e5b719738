//! Quantization and dequantization with one scale for a tensor, a row or a channel, and elementwise
//! functions of int8 tensors.

use super::{Operator, rows};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{broadcast, broadcast_strides, product, wrap_dim},
};

/// Name of the quantization that the graph passes look for.
pub(crate) const QUANTIZE: &str = "quantized_decomposed.quantize_per_tensor.default";

/// Name of the dequantization that the graph passes look for.
pub(crate) const DEQUANTIZE: &str = "quantized_decomposed.dequantize_per_tensor.default";

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(QUANTIZE, 7, |r, c| quantize(r, c, Scope::Tensor)),
    Operator::new("quantized_decomposed.quantize_per_tensor.tensor", 7, |r, c| {
        quantize(r, c, Scope::Tensor)
    }),
    Operator::new("quantized_decomposed.quantize_per_channel.default", 8, |r, c| {
        quantize(r, c, Scope::Channel)
    }),
    Operator::new("quantized_decomposed.quantize_per_token.default", 7, |r, c| {
        quantize(r, c, Scope::Row)
    }),
    Operator::new(DEQUANTIZE, 8, |r, c| dequantize(r, c, Scope::Tensor)).fusing(),
    Operator::new("quantized_decomposed.dequantize_per_tensor.tensor", 8, |r, c| {
        dequantize(r, c, Scope::Tensor)
    })
    .fusing(),
    Operator::new("quantized_decomposed.dequantize_per_channel.default", 9, |r, c| {
        dequantize(r, c, Scope::Channel)
    })
    .fusing(),
    Operator::new("quantized_decomposed.dequantize_per_token.default", 8, |r, c| {
        dequantize(r, c, Scope::Row)
    })
    .fusing(),
    Operator::new("quantized_decomposed.choose_qparams.tensor", 6, choose_tensor),
    Operator::new(
        "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
        3,
        choose_row,
    ),
    Operator::new("et_vk.q8ta_add.default", 10, add).clamping(),
    Operator::new("et_vk.q8ta_relu.default", 6, relu).clamping(),
];

/// Dequantization, the functions of the epilogue, and quantization, which a graph pass joins. Args:
/// tensor, scale, zero point, scale, zero point, minimum and maximum of the result, out.
pub(crate) static REQUANTIZE: Operator = Operator::new("requantize", 8, requantize);

/// Elements that share a scale.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Tensor,
    Row,
    /// Elements with one index in the dimension of argument 3.
    Channel,
}

/// Expressions of scale, or its inverse, and zero point of element `i`.
fn parameters(
    shader: &mut Shader<'_, '_, '_>,
    call: &Call,
    (scope, is_inverse): (Scope, bool),
    sizes: &[usize],
) -> OpResult<(String, String)> {
    let (at, count) = match scope {
        Scope::Tensor => ("0u".to_owned(), 1),
        Scope::Row => {
            let row = sizes.last().copied().unwrap_or(1);
            (format!("i / {}", shader.u32(row)), product(sizes).checked_div(row).unwrap_or(0))
        }
        Scope::Channel => {
            let dim = wrap_dim(shader.recorder.int(call, 3)?, sizes.len())?;
            let size = sizes.get(dim).copied().unwrap_or(1);
            let inner = shader.u32(product(sizes.get(dim + 1..).unwrap_or_default()));
            (format!("i / {inner} % {}", shader.u32(size)), size)
        }
    };
    let mut read = |arg: usize, absent: f64, is_inverse| match shader.recorder.value(call, arg) {
        Value::Tensor(_) => {
            let tensor = call.args[arg];
            if shader.recorder.numel(tensor)? < count {
                return Err("has fewer scales or zero points than it needs");
            }
            let value = shader.input(tensor)?.f32(&at);
            Ok(if is_inverse { format!("(1.0 / {value})") } else { value })
        }
        Value::Null => Ok(shader.f32(absent)),
        _ => {
            let number = shader.recorder.double(call, arg)?;
            Ok(shader.f32(if is_inverse { number.recip() } else { number }))
        }
    };
    Ok((read(1, 1.0, is_inverse)?, read(2, 0.0, false)?))
}

/// Args: tensor, scale, zero point, axis for channels, minimum, maximum, dtype, out.
fn quantize(recorder: &mut Recorder<'_, '_>, call: &Call, scope: Scope) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    recorder.set_sizes(output, &sizes)?;
    if recorder.ty(output)? == DeviceType::F32 {
        return Err("quantizes to floating-point numbers");
    }
    let first = if scope == Scope::Channel { 4 } else { 3 };
    let (min, max) = (recorder.double(call, first)?, recorder.double(call, first + 1)?);
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    // Like PyTorch, which multiplies by the inverse of the scale and rounds rows with the zero point.
    let (inverse, zero) = parameters(&mut shader, call, (scope, true), &sizes)?;
    let (min, max) = (shader.f32(min), shader.f32(max));
    let value = match scope {
        Scope::Row => format!("round({x} * {inverse} + {zero})"),
        _ => format!("round({x} * {inverse}) + {zero}"),
    };
    shader.elements(call, output, &format!("return i32(clamp({value}, {min}, {max}));"))
}

/// Args: tensor, scale, zero point, axis for channels, minimum, maximum, dtypes, out.
fn dequantize(recorder: &mut Recorder<'_, '_>, call: &Call, scope: Scope) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    recorder.set_sizes(output, &sizes)?;
    if recorder.ty(output)? != DeviceType::F32 {
        return Err("dequantizes to integers");
    }
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let (scale, zero) = parameters(&mut shader, call, (scope, false), &sizes)?;
    shader.elements(call, output, &format!("return ({x} - {zero}) * {scale};"))
}

/// Source that computes `scale` and `zero` of int8 or uint8 values between `QMIN` and `QMAX` from
/// `low` and `high`.
pub(super) const ASYMMETRIC: &str = "fn choose(low: f32, high: f32, qmin: f32, qmax: f32, \
     epsilon: f32) -> vec2<f32> {
    let a = min(low, 0.0);
    let b = max(high, 0.0);
    let scale = max((b - a) / (qmax - qmin), epsilon);
    let zero = clamp(qmin - round(a / scale), qmin, qmax);
    return vec2<f32>(scale, zero);
}
// The zero point has the smaller error of both ends.
fn choose_of_row(low: f32, high: f32, qmin: f32, qmax: f32, epsilon: f32) -> vec2<f32> {
    let scale = choose(low, high, qmin, qmax, epsilon).x;
    let a = min(low, 0.0) / scale;
    let b = max(high, 0.0) / scale;
    let zero = select(qmax - b, qmin - a, qmin + a + (qmax + b) > 0.0);
    return vec2<f32>(scale, round(clamp(zero, qmin, qmax)));
}";

/// Numbers of a choice of scales.
pub(super) struct Choice {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) epsilon: f64,
    /// Expression of `vec2(scale, zero)` for `low`, `high`, `qmin`, `qmax` and `epsilon`.
    pub(super) expression: &'static str,
}

/// Records scales and zero points of rows of `row` elements; outputs have one element a row.
pub(super) fn choose(
    recorder: &mut Recorder<'_, '_>,
    input: usize,
    outputs: &[usize],
    row: usize,
    choice: &Choice,
) -> OpResult {
    let count = recorder.numel(input)?.checked_div(row).unwrap_or(0);
    for (&output, part) in outputs.iter().zip(["x", "y"]) {
        if recorder.numel(output)? != count {
            return Err("has scales of another number than its blocks");
        }
        let ty = recorder.ty(output)?;
        let name = if ty == DeviceType::F32 { "f32" } else { "i32" };
        // Packed zero points pass through a temporary of words.
        let word = if ty.is_packed() { DeviceType::I32 } else { ty };
        let target = recorder.target(output);
        let written = if ty.is_packed() { recorder.temporary(count) } else { target };
        let mut shader = Shader::new(recorder);
        let x = shader.input(input)?.f32("base + k");
        shader.output_at(written, word);
        shader.declare(ASYMMETRIC);
        let (n, epsilon) = (shader.u32(row), shader.f32(choice.epsilon));
        let (min, max) = (shader.f32(choice.min), shader.f32(choice.max));
        let body = format!(
            "let n = {n};
    let base = row * n;
    var low = 3.4028234e38;
    var high = -3.4028234e38;
    for (var k = lane; k < n; k += LANES) {{ let v = {x}; low = min(low, v); high = max(high, v); }}
    low = -max_lanes(-low, lane);
    high = max_lanes(high, lane);
    let qmin = {min};
    let qmax = {max};
    let epsilon = {epsilon};
    let chosen = {};
    if lane == 0u {{ y[row] = {name}(chosen.{part}); }}",
            choice.expression
        );
        rows::finish(shader, count, &body)?;
        if ty.is_packed() {
            let mut shader = Shader::new(recorder);
            let x = shader.input_at(written, DeviceType::I32).i32("i");
            shader.elements_at(target, ty, count, &format!("return {x};"))?;
        }
    }
    Ok(())
}

/// Args: tensor, minimum, maximum, epsilon, dtype, outputs.
fn choose_tensor(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let choice = Choice {
        min: recorder.double(call, 1)?,
        max: recorder.double(call, 2)?,
        epsilon: recorder.double(call, 3)?,
        expression: "choose(low, high, qmin, qmax, epsilon)",
    };
    let outputs = recorder.list(call, 5)?;
    for &output in &outputs {
        let dims = recorder.spec(output)?.dims.clone();
        recorder.set_sizes(output, &dims)?;
    }
    let row = recorder.numel(input)?;
    choose(recorder, input, &outputs, row, &choice)
}

/// Args: tensor, dtype, outputs.
fn choose_row(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let mut sizes = recorder.sizes(input)?;
    let last = sizes.last_mut().ok_or("has rows of a scalar")?;
    let row = std::mem::replace(last, 1);
    let outputs = recorder.list(call, 2)?;
    for &output in &outputs {
        recorder.set_sizes(output, &sizes)?;
    }
    let choice = Choice {
        min: -128.0,
        max: 127.0,
        epsilon: f64::from(f32::EPSILON),
        expression: "choose_of_row(low, high, qmin, qmax, epsilon)",
    };
    choose(recorder, input, &outputs, row, &choice)
}

/// Expressions of the numbers at `args`.
fn numbers<const N: usize>(
    shader: &mut Shader<'_, '_, '_>,
    call: &Call,
    args: [usize; N],
) -> OpResult<[String; N]> {
    let mut names = [const { String::new() }; N];
    for (name, arg) in names.iter_mut().zip(args) {
        let number = shader.recorder.double(call, arg)?;
        *name = shader.f32(number);
    }
    Ok(names)
}

/// Expression of the inverse of the number at `arg`.
fn inverse(shader: &mut Shader<'_, '_, '_>, call: &Call, arg: usize) -> OpResult<String> {
    let number = shader.recorder.double(call, arg)?;
    Ok(shader.f32(number.recip()))
}

fn limits(shader: &mut Shader<'_, '_, '_>, call: &Call) -> (String, String) {
    let (min, max) = call.clamp.unwrap_or((-128, 127));
    (shader.f32(min.into()), shader.f32(max.into()))
}

/// Args: two tensors, scale and zero point of both and of the result, alpha, out.
fn add(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (a, b, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let (a_sizes, b_sizes) = (recorder.sizes(a)?, recorder.sizes(b)?);
    let sizes = broadcast(&a_sizes, &b_sizes).ok_or("has tensors that do not broadcast")?;
    recorder.set_sizes(output, &sizes)?;
    if recorder.ty(output)? != DeviceType::I8 {
        return Err("has tensors that are no int8");
    }
    let mut shader = Shader::new(recorder);
    let reading = |own: &[usize]| {
        broadcast_strides(own, &sizes).into_iter().map(|stride| stride as i64).collect::<Vec<_>>()
    };
    let (x, y) = (shader.input(a)?.f32("ia"), shader.input(b)?.f32("ib"));
    let lets = [("ia", reading(&a_sizes), 0), ("ib", reading(&b_sizes), 0)];
    let index = shader.index(&sizes, &lets);
    let [xs, xz, ys, yz, oz, alpha] = numbers(&mut shader, call, [2, 3, 4, 5, 7, 8])?;
    let inverse = inverse(&mut shader, call, 6)?;
    let (min, max) = limits(&mut shader, call);
    let body = format!(
        "{index}let a = ({x} - {xz}) * {xs};
let b = ({y} - {yz}) * {ys};
return i32(clamp(round((a + {alpha} * b) * {inverse}) + {oz}, {min}, {max}));"
    );
    shader.elements(call, output, &body)
}

/// Args: tensor, scale, zero point, scale and zero point of the result, out.
fn relu(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    recorder.set_sizes(output, &recorder.sizes(input)?)?;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let [scale, zero, oz] = numbers(&mut shader, call, [1, 2, 4])?;
    let inverse = inverse(&mut shader, call, 3)?;
    let (min, max) = limits(&mut shader, call);
    let body = format!(
        "let v = max(({x} - {zero}) * {scale}, 0.0);\n\
         return i32(clamp(round(v * {inverse}) + {oz}, {min}, {max}));"
    );
    shader.elements(call, output, &body)
}

fn requantize(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    recorder.set_sizes(output, &recorder.sizes(input)?)?;
    let (target, ty) = (recorder.target(output), recorder.ty(output)?);
    let numel = recorder.numel(output)?;
    if ty == DeviceType::F32 {
        return Err("quantizes to floating-point numbers");
    }
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let [scale, zero, oz, min, max] = numbers(&mut shader, call, [1, 2, 4, 5, 6])?;
    let inverse = inverse(&mut shader, call, 3)?;
    shader.epilogue(call)?;
    let body = format!(
        "let v = epilogue(({x} - {zero}) * {scale});\n\
         return i32(clamp(round(v * {inverse}) + {oz}, {min}, {max}));"
    );
    shader.elements_at(target, ty, numel, &body)
}
