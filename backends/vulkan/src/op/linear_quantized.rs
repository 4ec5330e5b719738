//! Matrix products with quantized weights or activations.
//!
//! `q4gsw`: a byte holds two weights, `(odd + 8) << 4 | (even + 8)`; the scales are `[k / group, n]`
//! with rows padded. `qcs4w`: the even weight has the high bits, and a column one scale. `q8csw`: int8
//! weights `[n, k]` with rows padded to four, one scale a column.

use super::{
    Operator,
    linear::{bias_of, rows_by_weight},
    matmul::{self, Sizes},
};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("et_vk.linear_qcs4w.default", 4, qcs4w).fusing(),
    Operator::new("et_vk.linear_q4gsw.default", 6, q4gsw).fusing(),
    Operator::new("et_vk.linear_dq8ca_q4gsw.default", 9, dq8ca_q4gsw).fusing(),
    Operator::new("et_vk.linear_q8ta_q8csw.default", 8, q8ta_q8csw).fusing(),
    Operator::new("et_vk.q8ta_linear.default", 11, q8ta).clamping(),
    Operator::new("et_vk.q8ta_linear_gemv.default", 11, q8ta).clamping(),
];

/// Columns and inner size of 4-bit weights.
pub(super) fn weight_sizes(recorder: &Recorder<'_, '_>, weight: usize) -> OpResult<(usize, usize)> {
    match &recorder.sizes(weight)?[..] {
        &[n, bytes] if recorder.ty(weight)? == DeviceType::U8 => Ok((n, 2 * bytes)),
        _ => Err("has a weight that is no matrix of bytes"),
    }
}

/// Order of the two weights of a byte.
#[derive(Clone, Copy)]
pub(super) enum Nibbles {
    EvenLow,
    EvenHigh,
}

/// Declares `w_at` for 4-bit weights with one scale for each `group` of inner indices.
pub(super) fn declare_q4(
    shader: &mut Shader<'_, '_, '_>,
    weight: usize,
    scales: usize,
    sizes: Sizes,
    (group, order): (i64, Nibbles),
) -> OpResult {
    let group = usize::try_from(group).unwrap_or(0);
    if group == 0 || !sizes.k.is_multiple_of(group) {
        return Err("has groups that do not divide its rows");
    }
    let columns = match shader.recorder.sizes(scales)?[..] {
        [groups, columns] if groups >= sizes.k / group && columns >= sizes.n => columns,
        [columns] if group == sizes.k && columns >= sizes.n => columns,
        _ => return Err("has fewer scales than groups"),
    };
    let (bytes, columns, group) = (shader.u32(sizes.k / 2), shader.u32(columns), shader.u32(group));
    let weight = shader.input(weight)?.i32(&format!("n * {bytes} + k / 2u"));
    let scale = shader.input(scales)?.f32(&format!("k / {group} * {columns} + n"));
    shader.declare(&format!(
        "fn w_at(b: u32, k: u32, n: u32) -> f32 {{
    let q = (({weight} >> (({}) * 4u)) & 15) - 8;
    return f32(q) * {scale};
}}",
        match order {
            Nibbles::EvenLow => "k % 2u",
            Nibbles::EvenHigh => "1u - k % 2u",
        }
    ));
    Ok(())
}

fn declare_finish(shader: &mut Shader<'_, '_, '_>, bias: Option<usize>, n: usize) -> OpResult {
    let bias = bias_of(shader, bias, n)?;
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s{bias}; }}"
    ));
    Ok(())
}

/// Args: tensor, weights, scales, group, bias, out.
fn q4gsw(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let group = recorder.int(call, 3)?;
    let bias = recorder.opt_tensor(call, 4)?;
    float_by_q4(recorder, call, (group, Nibbles::EvenLow), bias)
}

/// Args: tensor, weights, scales of columns, out.
fn qcs4w(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (_, k) = weight_sizes(recorder, recorder.tensor(call, 1)?)?;
    float_by_q4(recorder, call, (k as i64, Nibbles::EvenHigh), None)
}

fn float_by_q4(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    group: (i64, Nibbles),
    bias: Option<usize>,
) -> OpResult {
    let (a, weight, scales) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.tensor(call, 2)?);
    let output = recorder.output(call)?;
    let (n, k) = weight_sizes(recorder, weight)?;
    let (sizes, out) = rows_by_weight(recorder, a, n, k)?;
    recorder.set_sizes(output, &out)?;
    let mut shader = Shader::new(recorder);
    let k_name = shader.u32(k);
    let x = shader.input(a)?.f32(&format!("m * {k_name} + k"));
    shader.declare(&format!("fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {x}; }}"));
    declare_q4(&mut shader, weight, scales, sizes, group)?;
    declare_finish(&mut shader, bias, n)?;
    matmul::record(shader, call, output, sizes, "f32")
}

/// Args: tensor, scales of rows, zero points of rows, weights, sums, scales, group, bias, out.
fn dq8ca_q4gsw(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (a, row_scales, zeros) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.tensor(call, 2)?);
    let (weight, scales) = (recorder.tensor(call, 3)?, recorder.tensor(call, 5)?);
    let (group, bias) = (recorder.int(call, 6)?, recorder.opt_tensor(call, 7)?);
    let output = recorder.output(call)?;
    let (n, k) = weight_sizes(recorder, weight)?;
    let (sizes, out) = rows_by_weight(recorder, a, n, k)?;
    if recorder.numel(row_scales)? < sizes.m || recorder.numel(zeros)? < sizes.m {
        return Err("has fewer scales than rows");
    }
    recorder.set_sizes(output, &out)?;
    let mut shader = Shader::new(recorder);
    let k_name = shader.u32(k);
    let x = shader.input(a)?.f32(&format!("m * {k_name} + k"));
    let (scale, zero) = (shader.input(row_scales)?.f32("m"), shader.input(zeros)?.f32("m"));
    shader.declare(&format!(
        "fn a_at(b: u32, m: u32, k: u32) -> f32 {{
    return clamp(round({x} * (1.0 / {scale})) + {zero}, -128.0, 127.0) - {zero};
}}"
    ));
    declare_q4(&mut shader, weight, scales, sizes, (group, Nibbles::EvenLow))?;
    let bias = bias_of(&mut shader, bias, n)?;
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s * {scale}{bias}; }}"
    ));
    matmul::record(shader, call, output, sizes, "f32")
}

/// Declares operands with int8 weights; the products of int8 values are exact. Returns the sizes of
/// the product and of its result.
fn int8_operands(
    shader: &mut Shader<'_, '_, '_>,
    call: &Call,
    is_quantized: bool,
) -> OpResult<(Sizes, Vec<usize>)> {
    let recorder = &*shader.recorder;
    let (a, weight, scales) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 3)?, recorder.tensor(call, 5)?);
    let (scale, zero) = (recorder.double(call, 1)?, recorder.int(call, 2)?);
    let &[n, row] = &recorder.sizes(weight)?[..] else {
        return Err("has a weight that is no matrix");
    };
    let k = recorder.sizes(a)?.last().copied().ok_or("multiplies a scalar")?;
    if k > row || recorder.ty(weight)? != DeviceType::I8 || recorder.numel(scales)? < n {
        return Err("has weights or scales of another type or size");
    }
    let found = rows_by_weight(recorder, a, n, k)?;
    let (k_name, row) = (shader.u32(k), shader.u32(row));
    let x = shader.input(a)?;
    let at = format!("m * {k_name} + k");
    let zero = shader.i32(zero);
    let a = if is_quantized {
        format!("{} - {zero}", x.i32(&at))
    } else {
        let (x, inverse) = (x.f32(&at), shader.f32(scale.recip()));
        format!("i32(clamp(round({x} * {inverse}) + f32({zero}), -128.0, 127.0)) - {zero}")
    };
    let w = shader.input(weight)?.i32(&format!("n * {row} + k"));
    shader.declare(&format!("fn a_at(b: u32, m: u32, k: u32) -> i32 {{ return {a}; }}"));
    shader.declare(&format!("fn w_at(b: u32, k: u32, n: u32) -> i32 {{ return {w}; }}"));
    Ok(found)
}

/// Args: tensor, scale, zero point, weights, sums, scales, bias, out.
fn q8ta_q8csw(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (scales, bias) = (recorder.tensor(call, 5)?, recorder.opt_tensor(call, 6)?);
    let (scale, output) = (recorder.double(call, 1)?, recorder.output(call)?);
    let is_quantized = recorder.ty(recorder.tensor(call, 0)?)? == DeviceType::I8;
    let mut shader = Shader::new(recorder);
    let (sizes, out) = int8_operands(&mut shader, call, is_quantized)?;
    shader.recorder.set_sizes(output, &out)?;
    let factor = shader.input(scales)?.f32("n");
    let scale = shader.f32(scale);
    let bias = bias_of(&mut shader, bias, sizes.n)?;
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: i32) -> f32 \
         {{ return f32(s) * {scale} * {factor}{bias}; }}"
    ));
    matmul::record(shader, call, output, sizes, "i32")
}

/// Args: tensor, scale, zero point, weights, sums, scales, output scale, output zero point, bias,
/// activation, out.
fn q8ta(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (scales, bias) = (recorder.tensor(call, 5)?, recorder.opt_tensor(call, 8)?);
    let output = recorder.output(call)?;
    if recorder.ty(output)? != DeviceType::I8
        || recorder.ty(recorder.tensor(call, 0)?)? != DeviceType::I8
    {
        return Err("has tensors that are no int8");
    }
    let requantize = Requantize::new(recorder, call, [1, 6, 7, 9])?;
    let mut shader = Shader::new(recorder);
    let (sizes, out) = int8_operands(&mut shader, call, true)?;
    shader.recorder.set_sizes(output, &out)?;
    let factor = shader.input(scales)?.f32("n");
    let bias = bias_of(&mut shader, bias, sizes.n)?;
    let expression = requantize.expression(&mut shader, "s", &factor, &bias);
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: i32) -> i32 {{ return {expression}; }}"
    ));
    matmul::record(shader, call, output, sizes, "i32")
}

/// Requantization of a sum of int8 products.
pub(super) struct Requantize {
    scale: f64,
    output_scale: f64,
    output_zero: f64,
    is_relu: bool,
    clamp: (i32, i32),
}

impl Requantize {
    /// Reads the arguments at `args`: scale, output scale, output zero point, activation.
    pub(super) fn new(
        recorder: &Recorder<'_, '_>,
        call: &Call,
        args: [usize; 4],
    ) -> OpResult<Self> {
        let [scale, output_scale, output_zero, activation] = args;
        let is_relu = match recorder.value(call, activation) {
            Value::Str("relu") => true,
            Value::Str("none") | Value::Null => false,
            _ => return Err("has an unknown activation"),
        };
        Ok(Self {
            scale: recorder.double(call, scale)?,
            output_scale: recorder.double(call, output_scale)?,
            output_zero: recorder.double(call, output_zero)?,
            is_relu,
            clamp: call.clamp.unwrap_or((-128, 127)),
        })
    }

    /// Expression of the int8 result for the `i32` expression `sum`.
    pub(super) fn expression(
        &self,
        shader: &mut Shader<'_, '_, '_>,
        sum: &str,
        factor: &str,
        bias: &str,
    ) -> String {
        let (scale, inverse) = (shader.f32(self.scale), shader.f32(self.output_scale.recip()));
        let zero = shader.f32(self.output_zero);
        let (min, max) = (shader.f32(self.clamp.0.into()), shader.f32(self.clamp.1.into()));
        let mut value = format!("f32({sum}) * {scale} * {factor}{bias}");
        if self.is_relu {
            value = format!("max({value}, 0.0)");
        }
        format!("i32(clamp(round(({value}) * {inverse}) + {zero}, {min}, {max}))")
    }
}
