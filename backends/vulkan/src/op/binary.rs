//! Functions of two or three tensors, which broadcast.

use super::{Operator, unary::POWER};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{broadcast, broadcast_strides},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.add.Tensor", 4, |r, c| sum(r, c, "+")).fusing(),
    Operator::new("aten.sub.Tensor", 4, |r, c| sum(r, c, "-")).fusing(),
    Operator::new("aten.mul.Tensor", 3, |r, c| record(r, c, "a * b")).fusing(),
    Operator::new("aten.minimum.default", 3, |r, c| record(r, c, "min(a, b)")).fusing(),
    Operator::new("aten.maximum.default", 3, |r, c| record(r, c, "max(a, b)")).fusing(),
    Operator::new("aten.div.Tensor", 3, |r, c| float(r, c, "a / b")).fusing(),
    Operator::new("aten.div.Tensor_mode", 4, div_mode).fusing(),
    Operator::new("aten.pow.Tensor_Tensor", 3, |r, c| float(r, c, "power(a, b)")).fusing(),
    Operator::new("aten.eq.Tensor", 3, |r, c| compare(r, c, "==")),
    Operator::new("aten.ne.Tensor", 3, |r, c| compare(r, c, "!=")),
    Operator::new("aten.lt.Tensor", 3, |r, c| compare(r, c, "<")),
    Operator::new("aten.le.Tensor", 3, |r, c| compare(r, c, "<=")),
    Operator::new("aten.gt.Tensor", 3, |r, c| compare(r, c, ">")),
    Operator::new("aten.ge.Tensor", 3, |r, c| compare(r, c, ">=")),
    Operator::new("aten.eq.Scalar", 3, |r, c| compare(r, c, "==")),
    Operator::new("aten.ne.Scalar", 3, |r, c| compare(r, c, "!=")),
    Operator::new("aten.lt.Scalar", 3, |r, c| compare(r, c, "<")),
    Operator::new("aten.le.Scalar", 3, |r, c| compare(r, c, "<=")),
    Operator::new("aten.gt.Scalar", 3, |r, c| compare(r, c, ">")),
    Operator::new("aten.ge.Scalar", 3, |r, c| compare(r, c, ">=")),
    Operator::new("aten.bitwise_and.Tensor", 3, |r, c| integer(r, c, "a & b")),
    Operator::new("aten.bitwise_or.Tensor", 3, |r, c| integer(r, c, "a | b")),
    Operator::new("aten.logical_and.default", 3, |r, c| float(r, c, "f32(a != 0.0 && b != 0.0)")),
    Operator::new("aten.logical_or.default", 3, |r, c| float(r, c, "f32(a != 0.0 || b != 0.0)")),
    Operator::new("aten.where.self", 4, choose).fusing(),
];

/// Arithmetic in the type of the operands: integers if both and the result are.
fn record(recorder: &mut Recorder<'_, '_>, call: &Call, expression: &str) -> OpResult {
    let ty = if is_integer(recorder, call)? { "i32" } else { "f32" };
    binary(recorder, call, ty, expression)
}

fn float(recorder: &mut Recorder<'_, '_>, call: &Call, expression: &str) -> OpResult {
    binary(recorder, call, "f32", expression)
}

fn integer(recorder: &mut Recorder<'_, '_>, call: &Call, expression: &str) -> OpResult {
    binary(recorder, call, "i32", expression)
}

fn compare(recorder: &mut Recorder<'_, '_>, call: &Call, symbol: &str) -> OpResult {
    let is_float = |arg: usize| match recorder.value(call, arg) {
        Value::Tensor(spec) => spec.datatype.on_device() == DeviceType::F32,
        Value::Double(value) => value.fract() != 0.0 || value.is_infinite(),
        _ => false,
    };
    let ty = if is_float(0) || is_float(1) { "f32" } else { "i32" };
    binary(recorder, call, ty, &format!("{ty}(a {symbol} b)"))
}

fn sum(recorder: &mut Recorder<'_, '_>, call: &Call, symbol: &str) -> OpResult {
    let alpha = recorder.double(call, 2)?;
    let is_integer = is_integer(recorder, call)? && alpha.fract() == 0.0;
    let ty = if is_integer { "i32" } else { "f32" };
    if alpha == 1.0 {
        return binary(recorder, call, ty, &format!("a {symbol} b"));
    }
    binary_with(recorder, call, ty, |shader| {
        let alpha = if is_integer { shader.i32(alpha as i64) } else { shader.f32(alpha) };
        Ok(format!("a {symbol} {alpha} * b"))
    })
}

fn div_mode(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let expression = match recorder.value(call, 2) {
        Value::Null => "a / b",
        Value::Str("floor") => "floor(a / b)",
        Value::Str("trunc") => "trunc(a / b)",
        _ => return Err("has an unknown rounding mode"),
    };
    float(recorder, call, expression)
}

/// True if operands and result are integers.
fn is_integer(recorder: &Recorder<'_, '_>, call: &Call) -> OpResult<bool> {
    let is_integer = |arg: usize| match recorder.value(call, arg) {
        Value::Tensor(spec) => spec.datatype.on_device() != DeviceType::F32,
        Value::Double(value) => value.fract() == 0.0,
        _ => true,
    };
    Ok(is_integer(0) && is_integer(1) && recorder.ty(recorder.output(call)?)? != DeviceType::F32)
}

fn binary(recorder: &mut Recorder<'_, '_>, call: &Call, ty: &str, expression: &str) -> OpResult {
    binary_with(recorder, call, ty, |shader| {
        if expression.contains("power(") {
            shader.declare_once(POWER);
        }
        Ok(expression.to_owned())
    })
}

/// Records a function of `a` and `b` of type `ty`. The second operand may be a number.
fn binary_with(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    ty: &str,
    expression: impl FnOnce(&mut Shader<'_, '_, '_>) -> OpResult<String>,
) -> OpResult {
    let output = recorder.output(call)?;
    let a = recorder.tensor(call, 0)?;
    let a_sizes = recorder.sizes(a)?;
    let b = match recorder.value(call, 1) {
        Value::Tensor(_) => Some(call.args[1]),
        _ => None,
    };
    let number = if b.is_none() { recorder.double(call, 1)? } else { 0.0 };
    let b_sizes = b.map_or(Ok(vec![]), |b| recorder.sizes(b))?;
    let sizes = broadcast(&a_sizes, &b_sizes).ok_or("has tensors that do not broadcast")?;
    recorder.set_sizes(output, &sizes)?;
    let result = if recorder.ty(output)? == DeviceType::F32 { "f32" } else { "i32" };
    let mut shader = Shader::new(recorder);
    let x = shader.input(a)?;
    let (index, second) = if let Some(b) = b {
        let second = shader.input(b)?;
        let lets = [("ia", reading(&a_sizes, &sizes), 0), ("ib", reading(&b_sizes, &sizes), 0)];
        (shader.index(&sizes, &lets), second.load(ty, "ib"))
    } else {
        let number = if ty == "f32" { shader.f32(number) } else { shader.i32(number as i64) };
        ("let ia = i;\n".to_owned(), number)
    };
    let expression = expression(&mut shader)?;
    let first = x.load(ty, "ia");
    let body =
        format!("{index}let a = {first};\nlet b = {second};\nreturn {result}({expression});");
    shader.elements(call, output, &body)
}

/// Strides that read a tensor of sizes `sizes` as one of sizes `out`.
fn reading(sizes: &[usize], out: &[usize]) -> Vec<i64> {
    broadcast_strides(sizes, out).into_iter().map(|stride| stride as i64).collect()
}

/// `where`: args condition, tensor, tensor, out.
fn choose(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let output = recorder.output(call)?;
    let inputs = [0, 1, 2].map(|arg| recorder.tensor(call, arg));
    let mut sizes = vec![];
    for input in inputs {
        let joined = broadcast(&sizes, &recorder.sizes(input?)?);
        sizes = joined.ok_or("has tensors that do not broadcast")?;
    }
    recorder.set_sizes(output, &sizes)?;
    let ty = if recorder.ty(output)? == DeviceType::F32 { "f32" } else { "i32" };
    let mut shader = Shader::new(recorder);
    let (mut lets, mut read) = (vec![], vec![]);
    for (input, name) in inputs.into_iter().zip(["ic", "ia", "ib"]) {
        let input = input?;
        lets.push((name, reading(&shader.recorder.sizes(input)?, &sizes), 0));
        read.push(shader.input(input)?);
    }
    let index = shader.index(&sizes, &lets);
    let (condition, a, b) = (read[0].i32("ic"), read[1].load(ty, "ia"), read[2].load(ty, "ib"));
    let body = format!("{index}if {condition} != 0 {{ return {a}; }}\nreturn {b};");
    shader.elements(call, output, &body)
}
