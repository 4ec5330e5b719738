//! Unary functions of each element.

use super::Operator;
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::unary("aten.abs.default", 2, |_, _, _| text("abs(v)")),
    Operator::unary("aten.cos.default", 2, |_, _, _| text("cos(v)")),
    Operator::unary("aten.exp.default", 2, |_, _, _| text("exp(v)")),
    Operator::unary("aten.gelu.default", 3, gelu),
    Operator::unary("aten.hardshrink.default", 3, hardshrink),
    Operator::unary("aten.hardswish.default", 2, |_, _, _| {
        text("v * clamp(v + 3.0, 0.0, 6.0) / 6.0")
    }),
    Operator::unary("aten.hardsigmoid.default", 2, |_, _, _| {
        text("clamp(v + 3.0, 0.0, 6.0) / 6.0")
    }),
    Operator::unary("aten.hardtanh.default", 4, clamp),
    Operator::unary("aten.neg.default", 2, |_, _, _| text("-v")),
    Operator::unary("aten.relu.default", 2, |_, _, ty| Ok(format!("max(v, {ty}(0))"))),
    Operator::unary("aten.sigmoid.default", 2, |_, _, _| text("1.0 / (1.0 + exp(-v))")),
    Operator::unary("aten.sin.default", 2, |_, _, _| text("sin(v)")),
    Operator::unary("aten.sqrt.default", 2, |_, _, _| text("sqrt(v)")),
    Operator::unary("aten.rsqrt.default", 2, |_, _, _| text("1.0 / sqrt(v)")),
    Operator::unary("aten.tanh.default", 2, |_, _, _| text("tanh(clamp(v, -15.0, 15.0))")),
    Operator::unary("aten.round.default", 2, |_, _, _| text("round(v)")),
    Operator::unary("aten.leaky_relu.default", 3, leaky_relu),
    Operator::unary("aten.log10.default", 2, |_, _, _| text("log(v) * 0.4342944819")),
    Operator::unary("aten.clamp.default", 4, clamp),
    Operator::unary("aten.pow.Tensor_Scalar", 3, power),
    Operator::new("aten.bitwise_not.default", 2, bitwise_not),
    Operator::new("aten.logical_not.default", 2, logical_not),
];

/// Product of an element and its sigmoid, which a graph pass makes of two calls.
pub(crate) static SILU: Operator =
    Operator::unary("silu", 2, |_, _, _| text("v / (1.0 + exp(-v))"));

fn text(expression: &str) -> OpResult<String> {
    Ok(expression.to_owned())
}

/// Functions that are defined for integers; the others compute in `f32`.
const OF_INTEGERS: &[&str] = &[
    "aten.abs.default",
    "aten.neg.default",
    "aten.relu.default",
    "aten.hardtanh.default",
    "aten.clamp.default",
];

/// Records a call that no earlier call has fused.
pub(super) fn record(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    recorder.set_sizes(output, &recorder.sizes(input)?)?;
    let is_integer = recorder.ty(output)? != DeviceType::F32
        && recorder.ty(input)? != DeviceType::F32
        && OF_INTEGERS.contains(&call.operator.name);
    let ty = if is_integer { "i32" } else { "f32" };
    let result = if recorder.ty(output)? == DeviceType::F32 { "f32" } else { "i32" };
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let unary = call.operator.unary.ok_or("is no unary function")?;
    let expression = unary(&mut shader, &call.args, ty)?;
    let body = format!("let v = {};\nreturn {result}({expression});", x.load(ty, "i"));
    shader.elements(call, output, &body)
}

/// Number at argument `arg` of the arguments of a call.
fn number(shader: &Shader<'_, '_, '_>, args: &[usize], arg: usize) -> OpResult<Option<f64>> {
    match &shader.recorder.graph.values[args[arg]] {
        Value::Null => Ok(None),
        Value::Int(value) => Ok(Some(*value as f64)),
        Value::Double(value) => Ok(Some(*value)),
        Value::Bool(value) => Ok(Some(f64::from(u8::from(*value)))),
        Value::SymInt(_) => Ok(Some(shader.recorder.ints[args[arg]] as f64)),
        _ => Err("has an argument that is no number"),
    }
}

fn constant(shader: &mut Shader<'_, '_, '_>, value: f64, ty: &str) -> String {
    if ty == "f32" { shader.f32(value) } else { shader.i32(value as i64) }
}

fn clamp(shader: &mut Shader<'_, '_, '_>, args: &[usize], ty: &str) -> OpResult<String> {
    let (min, max) = (number(shader, args, 1)?, number(shader, args, 2)?);
    let mut expression = "v".to_owned();
    if let Some(min) = min {
        let min = constant(shader, min.max(-2e9_f64.powi(if ty == "f32" { 9 } else { 1 })), ty);
        expression = format!("max({expression}, {min})");
    }
    if let Some(max) = max {
        let max = constant(shader, max.min(2e9_f64.powi(if ty == "f32" { 9 } else { 1 })), ty);
        expression = format!("min({expression}, {max})");
    }
    Ok(expression)
}

fn hardshrink(shader: &mut Shader<'_, '_, '_>, args: &[usize], _: &str) -> OpResult<String> {
    let lambda = number(shader, args, 1)?.unwrap_or(0.5);
    let lambda = shader.f32(lambda);
    Ok(format!("select(v, 0.0, abs(v) <= {lambda})"))
}

fn leaky_relu(shader: &mut Shader<'_, '_, '_>, args: &[usize], _: &str) -> OpResult<String> {
    let slope = number(shader, args, 1)?.unwrap_or(0.01);
    let slope = shader.f32(slope);
    Ok(format!("select({slope} * v, v, v > 0.0)"))
}

/// `erfc` after Abramowitz and Stegun 7.1.26, with an absolute error of 1.5e-7.
const GELU: &str = "fn gelu_erf(v: f32) -> f32 {
    let x = abs(v) * 0.70710678;
    let t = 1.0 / (1.0 + 0.3275911 * x);
    let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 \
    + t * 1.061405429))));
    let tail = 0.5 * poly * exp(-x * x);
    return v * select(tail, 1.0 - tail, v > 0.0);
}";

fn gelu(shader: &mut Shader<'_, '_, '_>, args: &[usize], _: &str) -> OpResult<String> {
    match &shader.recorder.graph.values[args[1]] {
        Value::Str("tanh") => text(
            "0.5 * v * (1.0 + tanh(clamp(0.79788456 * (v + 0.044715 * v * v * v), -15.0, 15.0)))",
        ),
        Value::Null | Value::Str("none") => {
            shader.declare_once(GELU);
            text("gelu_erf(v)")
        }
        _ => Err("has an unknown approximation"),
    }
}

/// Power with the sign of integer exponents of negative bases.
pub(super) const POWER: &str = "fn power(a: f32, b: f32) -> f32 {
    if b == 0.0 { return 1.0; }
    let r = exp2(b * log2(abs(a)));
    let is_odd = abs(b - 2.0 * floor(b * 0.5)) == 1.0;
    return select(r, -r, a < 0.0 && is_odd);
}";

fn power(shader: &mut Shader<'_, '_, '_>, args: &[usize], _: &str) -> OpResult<String> {
    let exponent = number(shader, args, 1)?.ok_or("has no exponent")?;
    let exact = [
        (0.0, "1.0"),
        (0.5, "sqrt(v)"),
        (1.0, "v"),
        (2.0, "v * v"),
        (3.0, "v * v * v"),
        (4.0, "(v * v) * (v * v)"),
        (-0.5, "1.0 / sqrt(v)"),
        (-1.0, "1.0 / v"),
        (-2.0, "1.0 / (v * v)"),
    ];
    if let Some((_, expression)) = exact.iter().find(|(known, _)| *known == exponent) {
        return text(expression);
    }
    shader.declare_once(POWER);
    let exponent = shader.f32(exponent);
    Ok(format!("power(v, {exponent})"))
}

fn bitwise_not(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let is_bool = recorder.ty(recorder.tensor(call, 0)?)? == DeviceType::Bool;
    integer_function(recorder, call, if is_bool { "i32(v == 0)" } else { "~v" })
}

fn logical_not(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let is_float = recorder.ty(recorder.tensor(call, 0)?)? == DeviceType::F32;
    integer_function(recorder, call, if is_float { "i32(v == 0.0)" } else { "i32(v == 0)" })
}

fn integer_function(recorder: &mut Recorder<'_, '_>, call: &Call, expression: &str) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    recorder.set_sizes(output, &recorder.sizes(input)?)?;
    let (from, to) = (recorder.ty(input)?, recorder.ty(output)?);
    let ty = if from == DeviceType::F32 { "f32" } else { "i32" };
    let result = if to == DeviceType::F32 { "f32" } else { "i32" };
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let body = format!("let v = {};\nreturn {result}({expression});", x.load(ty, "i"));
    shader.elements(call, output, &body)
}
