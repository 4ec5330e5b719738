//! Pooling of images.

use super::{
    Operator,
    convolution::{Geometry, Window},
};
use crate::{
    graph::Call,
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.avg_pool2d.default", 8, average),
    Operator::new("aten.max_pool2d.default", 7, maximum),
    Operator::new("aten.max_pool2d_with_indices.default", 7, maximum),
];

/// Geometry of a pool with args tensor, kernel, stride, padding; with the size rounded up if
/// `ceil`.
fn geometry(
    recorder: &Recorder<'_, '_>,
    call: &Call,
    dilation: Vec<usize>,
    ceil: bool,
) -> OpResult<(Geometry, Vec<usize>)> {
    let sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let batch = match *sizes {
        [c, h, w] => [1, c, h, w],
        [n, c, h, w] => [n, c, h, w],
        _ => return Err("has a tensor that is no image"),
    };
    let kernel = recorder.dims(call, 1)?;
    let stride = recorder.dims(call, 2)?;
    let stride = if stride.is_empty() { kernel.clone() } else { stride };
    let padding = recorder.dims(call, 3)?;
    let window = Window { kernel, stride, padding, dilation, output_padding: None };
    let mut geometry = Geometry::new(&batch, batch[1], batch[1] as i64, &window)?;
    if ceil {
        for dim in 0..2 {
            let (stride, padding) = (geometry.stride[dim], geometry.padding[dim]);
            let span = geometry.dilation[dim] * (geometry.kernel[dim] - 1) + 1;
            let size = geometry.input[dim] + 2 * padding - span;
            let count = size.div_ceil(stride) + 1;
            // A window that starts in the padding after the image is left out.
            let is_outside = (count - 1) * stride >= geometry.input[dim] + padding;
            geometry.output[dim] = count - usize::from(is_outside);
        }
    }
    let mut out = geometry.out_sizes(4);
    if sizes.len() == 3 {
        out.remove(0);
    }
    Ok((geometry, out))
}

/// Source of the loop over the window of element `i`; `at` is the index of an element in its plane.
fn window(shader: &mut Shader<'_, '_, '_>, geometry: &Geometry, element: &str) -> String {
    let mut name = |value: usize| shader.i32(value as i64);
    let Geometry { input, output, kernel, stride, padding, dilation, .. } = geometry;
    let [oh, ow] = output.map(&mut name);
    let [h, w] = input.map(&mut name);
    let [kh, kw] = kernel.map(&mut name);
    let [sh, sw] = stride.map(&mut name);
    let [ph, pw] = padding.map(&mut name);
    let [dh, dw] = dilation.map(&mut name);
    format!(
        "let H = {h}; let W = {w};
let ox = i32(i) % {ow};
let oy = i32(i) / {ow} % {oh};
let plane = u32(i32(i) / {ow} / {oh} * H * W);
let y0 = oy * {sh} - {ph};
let x0 = ox * {sw} - {pw};
for (var ky = 0; ky < {kh}; ky++) {{
    let yy = y0 + ky * {dh};
    if yy < 0 || yy >= H {{ continue; }}
    for (var kx = 0; kx < {kw}; kx++) {{
        let xx = x0 + kx * {dw};
        if xx < 0 || xx >= W {{ continue; }}
        let at = u32(yy * W + xx);
        {element}
    }}
}}"
    )
}

/// Args: tensor, kernel, stride, padding, dilation, ceil, output or outputs.
fn maximum(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let (dilation, ceil) = (recorder.dims(call, 4)?, recorder.bool(call, 5)?);
    let (geometry, out) = geometry(recorder, call, dilation, ceil)?;
    for (position, output) in recorder.list(call, 6)?.into_iter().enumerate() {
        recorder.set_sizes(output, &out)?;
        if position > 0 && !recorder.is_read(output) {
            continue;
        }
        recorder.count_work(&[geometry.taps(), recorder.numel(output)?])?;
        let mut shader = Shader::new(recorder);
        let x = shader.input(input)?.f32("plane + at");
        let element =
            format!("let v = {x}; if v > best || found < 0 {{ best = v; found = i32(at); }}");
        let window = window(&mut shader, &geometry, &element);
        let result = if position == 0 { "best" } else { "found" };
        let body =
            format!("var best = -3.4028234e38;\nvar found = -1;\n{window}\nreturn {result};");
        shader.elements(call, output, &body)?;
    }
    Ok(())
}

/// Args: tensor, kernel, stride, padding, ceil, include padding, divisor, out.
fn average(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let (geometry, out) = geometry(recorder, call, vec![], recorder.bool(call, 4)?)?;
    let includes_padding = recorder.bool(call, 5)?;
    let divisor = recorder.opt_double(call, 6)?;
    recorder.set_sizes(output, &out)?;
    recorder.count_work(&[geometry.taps(), recorder.numel(output)?])?;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("plane + at");
    let window = window(&mut shader, &geometry, &format!("total += {x}; count += 1.0;"));
    let divisor = if let Some(divisor) = divisor {
        shader.f32(divisor)
    } else if includes_padding {
        // The part of the window that lies in the image or its padding.
        let mut side = |dim: usize, start: &str| {
            let end = shader.i32((geometry.input[dim] + geometry.padding[dim]) as i64);
            let size = shader.i32(geometry.kernel[dim] as i64);
            format!("f32(min({start} + {size}, {end}) - {start})")
        };
        format!("({} * {})", side(0, "y0"), side(1, "x0"))
    } else {
        "count".to_owned()
    };
    let body = format!("var total = 0.0;\nvar count = 0.0;\n{window}\nreturn total / {divisor};");
    shader.elements(call, output, &body)
}
