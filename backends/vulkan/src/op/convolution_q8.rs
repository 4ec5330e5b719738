//! Convolutions of int8 tensors.
//!
//! The weights of an output channel are a row in the order of taps, then channels; rows are padded
//! to four. Depthwise weights are `[height, width, channels]`.

use super::{
    Operator,
    convolution::{self, Geometry, Window},
    linear::bias_of,
    linear_quantized::Requantize,
};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("et_vk.q8ta_conv2d.default", 16, |r, c| record(r, c, Kind::Dense)).clamping(),
    Operator::new("et_vk.q8ta_conv2d_pw.default", 16, |r, c| record(r, c, Kind::Dense)).clamping(),
    Operator::new("et_vk.q8ta_conv2d_dw.default", 16, |r, c| record(r, c, Kind::Depthwise))
        .clamping(),
    Operator::new("et_vk.q8ta_conv2d_transposed.default", 17, |r, c| {
        record(r, c, Kind::Transposed)
    })
    .clamping(),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Dense,
    Depthwise,
    Transposed,
}

/// Args: tensor, scale, zero point, weights, sums, scales, output scale, output zero point, bias,
/// kernel size, stride, padding, output padding if transposed, dilation, groups, activation, out.
fn record(recorder: &mut Recorder<'_, '_>, call: &Call, kind: Kind) -> OpResult {
    let (input, weight, scales) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 3)?, recorder.tensor(call, 5)?);
    let (bias, output) = (recorder.opt_tensor(call, 8)?, recorder.output(call)?);
    for tensor in [input, weight, output] {
        if recorder.ty(tensor)? != DeviceType::I8 {
            return Err("has tensors that are no int8");
        }
    }
    let more = usize::from(kind == Kind::Transposed);
    let window = Window {
        kernel: recorder.dims(call, 9)?,
        stride: recorder.dims(call, 10)?,
        padding: recorder.dims(call, 11)?,
        dilation: recorder.dims(call, 12 + more)?,
        output_padding: (more == 1).then(|| recorder.dims(call, 12)).transpose()?,
    };
    let groups = recorder.int(call, 13 + more)?;
    // The number of channels is that of the output: weights may be padded.
    let channels = *recorder.spec(output)?.dims.get(1).ok_or("has a result without channels")?;
    let sizes = recorder.sizes(input)?;
    let geometry = Geometry::new(&sizes, channels, groups, &window)?;
    recorder.set_sizes(output, &geometry.out_sizes(sizes.len()))?;
    let w_sizes = recorder.sizes(weight)?;
    let row = match (kind, &w_sizes[..]) {
        (Kind::Depthwise, &[h, w, oc])
            if [h, w] == geometry.kernel && oc >= channels && geometry.in_channels == 1 =>
        {
            oc
        }
        (Kind::Dense | Kind::Transposed, &[oc, row])
            if oc >= channels && row >= geometry.in_channels * geometry.taps() =>
        {
            row
        }
        _ => return Err("has weights that do not fit its window"),
    };
    if recorder.numel(scales)? < channels {
        return Err("has fewer scales than channels");
    }
    let zero = recorder.int(call, 2)?;
    let requantize = Requantize::new(recorder, call, [1, 6, 7, 14 + more])?;
    let mut shader = Shader::new(recorder);
    let (x, zero) = (shader.input(input)?.i32("i"), shader.i32(zero));
    shader.declare(&format!("fn x_at(i: u32) -> i32 {{ return {x} - {zero}; }}"));
    let row = shader.u32(row);
    let at = if kind == Kind::Depthwise {
        format!("t * {row} + o")
    } else {
        let ic = shader.u32(geometry.in_channels);
        format!("o * {row} + t * {ic} + c")
    };
    let w = shader.input(weight)?.i32(&at);
    let last = shader.u32(channels.saturating_sub(1));
    let each = |lane: usize| format!("w_at(min(o + {lane}u, {last}), c, t)");
    let all = (0..4).map(each).collect::<Vec<_>>().join(", ");
    shader.declare(&format!(
        "fn w_at(o: u32, c: u32, t: u32) -> i32 {{ return {w}; }}
fn w4_at(o: u32, c: u32, t: u32) -> vec4<i32> {{ return vec4<i32>({all}); }}"
    ));
    let factor = shader.input(scales)?.f32("o");
    let bias = bias_of(&mut shader, bias, channels)?.replace("(n)", "(o)");
    let result = requantize.expression(&mut shader, "s", &factor, &bias);
    shader.declare(&format!("fn finish_channel(o: u32, s: i32) -> i32 {{ return {result}; }}"));
    convolution::record(shader, call, output, &geometry, "i32")
}
