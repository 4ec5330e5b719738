//! Embeddings: rows of a table, also of 4-bit numbers.

use super::{Operator, gather::WRAP};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.embedding.default", 6, embedding).fusing(),
    Operator::new("quantized_decomposed.embedding_4bit.dtype", 8, embedding_4bit).fusing(),
    Operator::new("et_vk.embedding_q4gsw.default", 6, embedding_q4).fusing(),
];

/// Args: table, indices, options, out.
fn embedding(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let table = recorder.tensor(call, 0)?;
    let &[rows, width] = &recorder.sizes(table)?[..] else {
        return Err("has a table that is no matrix");
    };
    record(recorder, call, [table, call.args[1]], [rows, width], |shader, x| {
        let width = shader.u32(width);
        Ok(x.f32(&format!("row * {width} + k")))
    })
}

/// Records `element`, the expression of element `k` of row `row`, for each index.
fn record(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    [table, indices]: [usize; 2],
    [rows, width]: [usize; 2],
    element: impl FnOnce(&mut Shader<'_, '_, '_>, crate::shader::Input) -> OpResult<String>,
) -> OpResult {
    let output = recorder.output(call)?;
    let mut out = recorder.sizes(indices)?;
    out.push(width);
    recorder.set_sizes(output, &out)?;
    if recorder.ty(output)? != DeviceType::F32 || recorder.ty(indices)? == DeviceType::F32 {
        return Err("has indices or a result of another type");
    }
    if rows == 0 || width == 0 {
        return Err("has an empty table");
    }
    let mut shader = Shader::new(recorder);
    shader.declare(WRAP);
    let x = shader.input(table)?;
    let (columns, rows) = (shader.u32(width), shader.u32(rows));
    let which = shader.input(indices)?.i32(&format!("i / {columns}"));
    let element = element(&mut shader, x)?;
    let body =
        format!("let row = wrap({which}, {rows});\nlet k = i % {columns};\nreturn {element};");
    shader.elements(call, output, &body)
}

/// Expression of a 4-bit number without its offset of 8; the first of a byte is in its low bits if
/// `low_first`.
fn nibble(byte: &str, low_first: bool) -> String {
    let shift = if low_first { "(k % 2u)" } else { "(1u - k % 2u)" };
    format!("(f32(({byte} >> ({shift} * 4u)) & 15) - 8.0)")
}

/// Rows, columns and groups of a row of a table of 4-bit numbers and its scales.
fn table_sizes(
    recorder: &Recorder<'_, '_>,
    table: usize,
    scales: usize,
) -> OpResult<(usize, usize, Vec<usize>)> {
    match &recorder.sizes(table)?[..] {
        &[rows, bytes] if recorder.ty(table)? == DeviceType::U8 => {
            Ok((rows, 2 * bytes, recorder.sizes(scales)?))
        }
        _ => Err("has a table that is no matrix of bytes"),
    }
}

/// Args: table, scales `[rows, groups]`, zero points, minimum, maximum, indices, dtype, out.
fn embedding_4bit(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (table, scales) = (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?);
    let zeros = recorder.opt_tensor(call, 2)?;
    let (rows, width, scale_sizes) = table_sizes(recorder, table, scales)?;
    let groups = scale_sizes.get(1).copied().unwrap_or(1);
    if scale_sizes.first() != Some(&rows) || groups == 0 || width % groups != 0 {
        return Err("has scales that do not fit its table");
    }
    if zeros.is_some_and(|zeros| recorder.sizes(zeros).as_ref() != Ok(&scale_sizes)) {
        return Err("has zero points that do not fit its table");
    }
    record(recorder, call, [table, call.args[5]], [rows, width], |shader, x| {
        let (bytes, group) = (shader.u32(width / 2), shader.u32(width / groups));
        let groups = shader.u32(groups);
        let at = format!("row * {groups} + k / {group}");
        let scale = shader.input(scales)?.f32(&at);
        let zero = zeros.map(|zeros| shader.input(zeros)).transpose()?;
        let zero = zero.map_or("0.0".to_owned(), |zero| zero.f32(&at));
        let value = nibble(&x.i32(&format!("row * {bytes} + k / 2u")), false);
        Ok(format!("({value} - {zero}) * {scale}"))
    })
}

/// Args: table, scales, group, indices, whether the table is packed as that of a linear layer, out.
fn embedding_q4(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (table, scales) = (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?);
    let group = usize::try_from(recorder.int(call, 2)?).unwrap_or(0);
    let is_linear = recorder.bool(call, 4)?;
    let (rows, width, scale_sizes) = table_sizes(recorder, table, scales)?;
    if group == 0 || width % group != 0 {
        return Err("has groups that do not divide its rows");
    }
    let groups = width / group;
    // A table that a linear layer shares has that layer's scales, which are transposed.
    let is_transposed = match scale_sizes[..] {
        [r, g] if r >= rows && g >= groups => false,
        [g, columns] if is_linear && g >= groups && columns >= rows => true,
        _ => return Err("has scales that do not fit its table"),
    };
    record(recorder, call, [table, call.args[3]], [rows, width], |shader, x| {
        let (bytes, group) = (shader.u32(width / 2), shader.u32(group));
        let columns = shader.u32(scale_sizes[1]);
        let at = if is_transposed {
            format!("k / {group} * {columns} + row")
        } else {
            format!("row * {columns} + k / {group}")
        };
        let scale = shader.input(scales)?.f32(&at);
        let value = nibble(&x.i32(&format!("row * {bytes} + k / 2u")), is_linear);
        Ok(format!("{value} * {scale}"))
    })
}
