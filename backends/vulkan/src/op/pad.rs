//! Padding with a constant, and pixel shuffles.

use super::Operator;
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::strides,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.constant_pad_nd.default", 4, pad).fusing(),
    Operator::new("aten.pixel_shuffle.default", 3, pixel_shuffle).fusing(),
    Operator::new("et_vk.q8ta_pixel_shuffle.default", 7, q8_pixel_shuffle),
];

/// Args: tensor, pairs from the last dimension on, value, out.
fn pad(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let amounts = recorder.ints(call, 1)?;
    if amounts.len() % 2 != 0 || amounts.len() / 2 > sizes.len() {
        return Err("pads more dimensions than its tensor has");
    }
    let mut out = sizes.clone();
    let mut before = vec![0; sizes.len()];
    for (dim, pair) in (0..sizes.len()).rev().zip(amounts.chunks_exact(2)) {
        let size = (sizes[dim] as i64).saturating_add(pair[0]).saturating_add(pair[1]);
        out[dim] = usize::try_from(size).map_err(|_| "has a negative size")?;
        before[dim] = pair[0];
    }
    let value = recorder.double(call, 2)?;
    recorder.set_sizes(output, &out)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let value = if is_float { shader.f32(value) } else { shader.i32(value as i64) };
    let mut code = "var r = i;\nvar at = 0u;\n".to_owned();
    for (dim, stride) in strides(&sizes).into_iter().enumerate().rev() {
        let (size, inner) = (shader.u32(out[dim]), shader.u32(sizes[dim]));
        let (before, stride) = (shader.i32(before[dim]), shader.u32(stride));
        code.push_str(&format!(
            "let c{dim} = u32(i32(r % {size}) - {before});\nr = r / {size};\n\
             if c{dim} >= {inner} {{ return {value}; }}\nat += c{dim} * {stride};\n"
        ));
    }
    let element = if is_float { x.f32("at") } else { x.i32("at") };
    shader.elements(call, output, &format!("{code}return {element};"))
}

/// Source that declares `at`, the index of the element that moves to index `i`, and the sizes of
/// the result.
fn shuffle(
    shader: &mut Shader<'_, '_, '_>,
    input: usize,
    factor: i64,
) -> OpResult<(String, Vec<usize>)> {
    let mut sizes = shader.recorder.sizes(input)?;
    let f = usize::try_from(factor).unwrap_or(0);
    let [.., c, h, w] = &mut sizes[..] else { return Err("has a tensor that is no image") };
    if f == 0 || f > 1 << 15 || *c % (f * f) != 0 {
        return Err("has channels that the factor does not divide");
    }
    let (factor, height, width) = (shader.u32(f), shader.u32(*h), shader.u32(*w));
    let code = format!(
        "let f = {factor};
let x = i % ({width} * f);
let row = i / ({width} * f);
let y = row % ({height} * f);
let c = row / ({height} * f);
let at = (((c * f + y % f) * f + x % f) * {height} + y / f) * {width} + x / f;\n"
    );
    let too_large = "has a result of more than four gigabytes";
    (*c, *h, *w) =
        (*c / (f * f), h.checked_mul(f).ok_or(too_large)?, w.checked_mul(f).ok_or(too_large)?);
    Ok((code, sizes))
}

/// Args: tensor, factor, out.
fn pixel_shuffle(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let factor = recorder.int(call, 1)?;
    let is_float = recorder.ty(output)? == DeviceType::F32;
    let mut shader = Shader::new(recorder);
    let (code, sizes) = shuffle(&mut shader, input, factor)?;
    shader.recorder.set_sizes(output, &sizes)?;
    let x = shader.input(input)?;
    let element = if is_float { x.f32("at") } else { x.i32("at") };
    shader.elements(call, output, &format!("{code}return {element};"))
}

/// Args: tensor, scale, zero point, inverse scale and zero point of the result, factor, out.
fn q8_pixel_shuffle(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let numbers = [1, 2, 3, 4].map(|arg| recorder.double(call, arg));
    let factor = recorder.int(call, 5)?;
    let mut shader = Shader::new(recorder);
    let (code, sizes) = shuffle(&mut shader, input, factor)?;
    shader.recorder.set_sizes(output, &sizes)?;
    let x = shader.input(input)?.f32("at");
    let mut names = vec![];
    for number in numbers {
        names.push(shader.f32(number?));
    }
    let [scale, zero, inverse, out_zero] = &names[..] else { return Err("has no scales") };
    let body = format!(
        "{code}let v = ({x} - {zero}) * {scale};\n\
         return i32(clamp(round(v * {inverse}) + {out_zero}, -128.0, 127.0));"
    );
    shader.elements(call, output, &body)
}
