//! Resampling of images, and grids.

use super::Operator;
use crate::{
    graph::Call,
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.upsample_nearest2d.vec", 4, nearest).fusing(),
    Operator::new("aten.upsample_bilinear2d.vec", 5, bilinear).fusing(),
    Operator::new("aten.grid_sampler_2d.default", 6, grid_sampler).fusing(),
    Operator::new("et_vk.grid_priors.default", 4, grid_priors),
];

/// Sizes of the input and the result, and the scale of each dimension as ATen computes it.
struct Resampling {
    input: [usize; 2],
    output: [usize; 2],
    scales: [f64; 2],
}

/// Reads the arguments output size and scale factors, and sets the sizes of the result.
fn resampling(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    factors: usize,
    align_corners: bool,
) -> OpResult<Resampling> {
    let output = recorder.output(call)?;
    let mut sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let &mut [_, _, h, w] = &mut sizes[..] else { return Err("has a tensor that is no image") };
    let input = [h, w];
    let given =
        if recorder.is_null(call, factors) { vec![] } else { recorder.doubles(call, factors)? };
    let size = if recorder.is_null(call, 1) { vec![] } else { recorder.dims(call, 1)? };
    let out = match (&size[..], &given[..]) {
        (&[h, w], _) => [h, w],
        ([], &[y, x]) => [(h as f64 * y) as usize, (w as f64 * x) as usize],
        _ => return Err("has neither a size nor factors"),
    };
    if input.contains(&0) {
        return Err("resamples an empty image");
    }
    let scale = |dim: usize| {
        if align_corners {
            return if out[dim] > 1 {
                (input[dim] - 1) as f64 / (out[dim] - 1) as f64
            } else {
                0.0
            };
        }
        match given.get(dim) {
            Some(factor) if size.is_empty() && *factor > 0.0 => 1.0 / factor,
            _ => input[dim] as f64 / out[dim].max(1) as f64,
        }
    };
    let scales = [scale(0), scale(1)];
    sizes[2..].copy_from_slice(&out);
    recorder.set_sizes(output, &sizes)?;
    Ok(Resampling { input, output: out, scales })
}

/// Source that declares the coordinates of element `i`, sizes and scales.
fn coordinates(shader: &mut Shader<'_, '_, '_>, resampling: &Resampling) -> String {
    let [h, w] = resampling.input.map(|size| shader.u32(size));
    let [oh, ow] = resampling.output.map(|size| shader.u32(size));
    let [sy, sx] = resampling.scales.map(|scale| shader.f32(scale));
    format!(
        "let H = {h}; let W = {w};
let ox = i % {ow};
let oy = i / {ow} % {oh};
let plane = i / {ow} / {oh} * H * W;
let sy = {sy}; let sx = {sx};\n"
    )
}

/// Args: image, size, factors, out.
fn nearest(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let resampling = resampling(recorder, call, 2, false)?;
    let mut shader = Shader::new(recorder);
    let code = coordinates(&mut shader, &resampling);
    let x = shader.input(input)?.f32("plane + y * W + x");
    let body = format!(
        "{code}let y = min(u32(f32(oy) * sy), H - 1u);
let x = min(u32(f32(ox) * sx), W - 1u);
return {x};"
    );
    shader.elements(call, output, &body)
}

/// Args: image, size, align corners, factors, out.
fn bilinear(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let align_corners = recorder.bool(call, 2)?;
    let resampling = resampling(recorder, call, 3, align_corners)?;
    let mut shader = Shader::new(recorder);
    let code = coordinates(&mut shader, &resampling);
    let x = shader.input(input)?.f32("at");
    shader.declare(&format!("fn load(at: u32) -> f32 {{ return {x}; }}"));
    let source = |o: &str, scale: &str| {
        if align_corners {
            format!("f32({o}) * {scale}")
        } else {
            format!("max((f32({o}) + 0.5) * {scale} - 0.5, 0.0)")
        }
    };
    let (fy, fx) = (source("oy", "sy"), source("ox", "sx"));
    let body = format!(
        "{code}let fy = {fy};
let fx = {fx};
let y0 = min(u32(fy), H - 1u); let x0 = min(u32(fx), W - 1u);
let y1 = min(y0 + 1u, H - 1u); let x1 = min(x0 + 1u, W - 1u);
let wy = fy - f32(y0); let wx = fx - f32(x0);
let top = load(plane + y0 * W + x0) * (1.0 - wx) + load(plane + y0 * W + x1) * wx;
let bottom = load(plane + y1 * W + x0) * (1.0 - wx) + load(plane + y1 * W + x1) * wx;
return top * (1.0 - wy) + bottom * wy;"
    );
    shader.elements(call, output, &body)
}

/// Args: image, grid, interpolation (0 bilinear, 1 nearest), padding (0 zeros, 1 border,
/// 2 reflection), align corners, out.
fn grid_sampler(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, grid, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let (sizes, grid_sizes) = (recorder.sizes(input)?, recorder.sizes(grid)?);
    let (&[n, c, h, w], &[grid_n, oh, ow, 2]) = (&sizes[..], &grid_sizes[..]) else {
        return Err("has an image or a grid of another rank");
    };
    if n != grid_n || h == 0 || w == 0 {
        return Err("has a grid that does not fit its image");
    }
    let (mode, padding) = (recorder.int(call, 2)?, recorder.int(call, 3)?);
    let align_corners = recorder.bool(call, 4)?;
    recorder.set_sizes(output, &[n, c, oh, ow])?;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("plane + u32(y) * W + u32(x)");
    let pixel = if align_corners {
        "(v + 1.0) * 0.5 * (size - 1.0)"
    } else {
        "((v + 1.0) * size - 1.0) * 0.5"
    };
    let bounded = match padding {
        0 => "p",
        1 => "clamp(p, 0.0, size - 1.0)",
        2 if align_corners => "reflect(p, 0.0, max(size - 1.0, 0.0))",
        2 => "clamp(reflect(p, -0.5, size), 0.0, size - 1.0)",
        _ => return Err("has an unknown padding"),
    };
    shader.declare(&format!(
        "fn reflect(p: f32, low: f32, span: f32) -> f32 {{
    if span <= 0.0 {{ return 0.0; }}
    let d = abs(p - low);
    let flips = floor(d / span);
    let rest = d - flips * span;
    return select(span - rest + low, rest + low, flips % 2.0 == 0.0);
}}
fn position(v: f32, size: f32) -> f32 {{ let p = {pixel}; return {bounded}; }}
fn load(plane: u32, y: i32, x: i32, H: u32, W: u32) -> f32 {{
    if y < 0 || x < 0 || y >= i32(H) || x >= i32(W) {{ return 0.0; }}
    return {x};
}}"
    ));
    let [h, w, ohw, c] = [h, w, oh * ow, c].map(|size| shader.u32(size));
    let g = shader.input(grid)?;
    let (gx, gy) = (g.f32("at"), g.f32("at + 1u"));
    let sample = match mode {
        0 => {
            "let y0 = floor(py); let x0 = floor(px);
let wy = py - y0; let wx = px - x0;
let y = i32(y0); let x = i32(x0);
return (load(plane, y, x, H, W) * (1.0 - wx) + load(plane, y, x + 1, H, W) * wx) * (1.0 - wy)
    + (load(plane, y + 1, x, H, W) * (1.0 - wx) + load(plane, y + 1, x + 1, H, W) * wx) * wy;"
        }
        1 => "return load(plane, i32(round(py)), i32(round(px)), H, W);",
        _ => return Err("has an unknown interpolation"),
    };
    let body = format!(
        "let H = {h}; let W = {w};
let pixel = i % {ohw};
let image = i / {ohw};
let plane = image * H * W;
let at = (image / {c} * {ohw} + pixel) * 2u;
let px = position({gx}, f32(W));
let py = position({gy}, f32(H));
{sample}"
    );
    shader.elements(call, output, &body)
}

/// Args: tensor `[.., h, w]`, stride, offset, out `[h w, 2]`.
fn grid_priors(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let [.., h, w] = sizes[..] else { return Err("has a tensor that is no image") };
    let (stride, offset) = (recorder.double(call, 1)?, recorder.double(call, 2)?);
    recorder.set_sizes(output, &[h * w, 2])?;
    let mut shader = Shader::new(recorder);
    let (w, stride, offset) = (shader.u32(w), shader.f32(stride), shader.f32(offset));
    let body = format!(
        "let at = i / 2u;
let v = select(at / {w}, at % {w}, i % 2u == 0u);
return (f32(v) + {offset}) * {stride};"
    );
    shader.elements(call, output, &body)
}
