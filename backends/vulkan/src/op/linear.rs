//! Matrix products of floating-point tensors, also with int8 weights.

use super::{
    Operator,
    matmul::{self, Sizes},
};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{broadcast, broadcast_strides, product},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.mm.default", 3, bmm).fusing(),
    Operator::new("aten.bmm.default", 3, bmm).fusing(),
    Operator::new("aten.addmm.default", 6, addmm).fusing(),
    Operator::new("aten.linear.default", 4, linear).fusing(),
    Operator::new("aten._weight_int8pack_mm.default", 4, int8_weights).fusing(),
];

/// Rows, columns and inner size of the product of `a` `[.., m, k]` and a weight `[n, k]`.
pub(super) fn rows_by_weight(
    recorder: &Recorder<'_, '_>,
    a: usize,
    n: usize,
    k: usize,
) -> OpResult<(Sizes, Vec<usize>)> {
    let mut sizes = recorder.sizes(a)?;
    let last = sizes.last_mut().ok_or("multiplies a scalar")?;
    if *last != k {
        return Err("has matrices that do not fit each other");
    }
    *last = n;
    let m = product(&sizes[..sizes.len() - 1]);
    Ok((Sizes { batch: 1, m, n, k }, sizes))
}

/// Args: tensor, tensor, out.
fn bmm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (a, w, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let (a_sizes, w_sizes) = (recorder.sizes(a)?, recorder.sizes(w)?);
    let ([batch @ .., m, k], [w_batch @ .., w_k, n]) = (&a_sizes[..], &w_sizes[..]) else {
        return Err("multiplies a tensor of fewer than two dimensions");
    };
    if k != w_k || batch != w_batch {
        return Err("has matrices that do not fit each other");
    }
    let sizes = Sizes { batch: product(batch), m: *m, n: *n, k: *k };
    recorder.set_sizes(output, &[batch, &[*m, *n]].concat())?;
    let mut shader = Shader::new(recorder);
    operands(&mut shader, a, w, sizes, false)?;
    shader.declare("fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 { return s; }");
    matmul::record(shader, call, output, sizes, "f32")
}

/// Declares `a_at` and `w_at` for matrices in row-major order.
fn operands(
    shader: &mut Shader<'_, '_, '_>,
    a: usize,
    w: usize,
    sizes: Sizes,
    is_transposed: bool,
) -> OpResult {
    let (m, n, k) = (shader.u32(sizes.m), shader.u32(sizes.n), shader.u32(sizes.k));
    let a = shader.input(a)?.f32(&format!("(b * {m} + m) * {k} + k"));
    let at =
        if is_transposed { format!("n * {k} + k") } else { format!("(b * {k} + k) * {n} + n") };
    let w = shader.input(w)?.f32(&at);
    shader.declare(&format!("fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {a}; }}"));
    shader.declare(&format!("fn w_at(b: u32, k: u32, n: u32) -> f32 {{ return {w}; }}"));
    Ok(())
}

/// Args: tensor, weight `[n, k]`, bias, out.
fn linear(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (a, w, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let bias = recorder.opt_tensor(call, 2)?;
    let &[n, k] = &recorder.sizes(w)?[..] else { return Err("has a weight that is no matrix") };
    let (sizes, out) = rows_by_weight(recorder, a, n, k)?;
    recorder.set_sizes(output, &out)?;
    let mut shader = Shader::new(recorder);
    operands(&mut shader, a, w, sizes, true)?;
    let bias = bias_of(&mut shader, bias, n)?;
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s{bias}; }}"
    ));
    matmul::record(shader, call, output, sizes, "f32")
}

/// Expression that adds a bias of at least `n` elements; exporters pad it.
pub(super) fn bias_of(
    shader: &mut Shader<'_, '_, '_>,
    bias: Option<usize>,
    n: usize,
) -> OpResult<String> {
    let Some(bias) = bias else { return Ok(String::new()) };
    if shader.recorder.numel(bias)? < n {
        return Err("has a bias with fewer elements than columns");
    }
    Ok(format!(" + {}", shader.input(bias)?.f32("n")))
}

/// Args: summand, tensor, tensor, beta, alpha, out.
fn addmm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let summand = recorder.tensor(call, 0)?;
    let (a, w, output) =
        (recorder.tensor(call, 1)?, recorder.tensor(call, 2)?, recorder.output(call)?);
    let (a_sizes, w_sizes) = (recorder.sizes(a)?, recorder.sizes(w)?);
    let (&[m, k], &[w_k, n]) = (&a_sizes[..], &w_sizes[..]) else {
        return Err("multiplies a tensor that is no matrix");
    };
    let summand_sizes = recorder.sizes(summand)?;
    if k != w_k || broadcast(&summand_sizes, &[m, n]).as_deref() != Some(&[m, n]) {
        return Err("has matrices that do not fit each other");
    }
    let (beta, alpha) = (recorder.double(call, 3)?, recorder.double(call, 4)?);
    recorder.set_sizes(output, &[m, n])?;
    let sizes = Sizes { batch: 1, m, n, k };
    let mut shader = Shader::new(recorder);
    operands(&mut shader, a, w, sizes, false)?;
    let strides = broadcast_strides(&summand_sizes, &[m, n]);
    let (row, column) = (shader.u32(strides[0]), shader.u32(strides[1]));
    let summand = shader.input(summand)?.f32(&format!("m * {row} + n * {column}"));
    let (beta, alpha) = (shader.f32(beta), shader.f32(alpha));
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 \
         {{ return {beta} * {summand} + {alpha} * s; }}"
    ));
    matmul::record(shader, call, output, sizes, "f32")
}

/// Args: tensor, int8 weight `[n, k]`, scales `[n]`, out.
fn int8_weights(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (a, w, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let scales = recorder.tensor(call, 2)?;
    let &[n, k] = &recorder.sizes(w)?[..] else { return Err("has a weight that is no matrix") };
    if recorder.ty(w)? != DeviceType::I8 || recorder.numel(scales)? < n {
        return Err("has weights or scales of another type or size");
    }
    let (sizes, out) = rows_by_weight(recorder, a, n, k)?;
    recorder.set_sizes(output, &out)?;
    let mut shader = Shader::new(recorder);
    operands(&mut shader, a, w, sizes, true)?;
    let scale = shader.input(scales)?.f32("n");
    shader.declare(&format!(
        "fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s * {scale}; }}"
    ));
    matmul::record(shader, call, output, sizes, "f32")
}
