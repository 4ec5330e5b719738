//! Convolutions of one and two dimensions, also transposed, and the template of all convolutions.
//!
//! A call declares `x_at(i)`, the element of the input at an index, `w_at(o, c, t)`, the weight of
//! output channel `o`, channel `c` of its group and tap `t`, and `finish(o, s)`, the element of the
//! result. On a CPU device a thread computes four pixels of four channels in registers. On a GPU the
//! convolution is a matrix product whose second operand is read through the window.

use afferent_gpu::DeviceKind;

use super::{
    Operator,
    linear::bias_of,
    matmul::{self, Destination, Sizes},
};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.convolution.default", 10, convolution).fusing(),
    Operator::new("et_vk.conv_with_clamp.default", 12, convolution).fusing(),
];

/// Sizes of a convolution; one of one dimension has a height of 1.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    /// Channels of a group of the input.
    pub(super) in_channels: usize,
    /// Channels of a group of the result.
    pub(super) out_channels: usize,
    pub(super) groups: usize,
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) is_transposed: bool,
}

/// Parameters of a window.
pub(super) struct Window {
    pub(super) kernel: Vec<usize>,
    pub(super) stride: Vec<usize>,
    pub(super) padding: Vec<usize>,
    pub(super) dilation: Vec<usize>,
    /// For a transposed convolution, the additional size of the result.
    pub(super) output_padding: Option<Vec<usize>>,
}

/// The two last of one or two numbers; a single one counts for both dimensions of a plane.
fn pair(list: &[usize], is_plane: bool, default: usize) -> OpResult<[usize; 2]> {
    match (list, is_plane) {
        (&[y, x], true) => Ok([y, x]),
        (&[x], true) => Ok([x, x]),
        (&[x], false) => Ok([default, x]),
        ([], _) => Ok([default; 2]),
        _ => Err("has a window of another rank than its tensor"),
    }
}

impl Geometry {
    /// Geometry of an input of `sizes` `[n, c, (h,) w]` with `channels` output channels.
    pub(super) fn new(
        sizes: &[usize],
        channels: usize,
        groups: i64,
        window: &Window,
    ) -> OpResult<Self> {
        let (batch, c, input, is_plane) = match *sizes {
            [n, c, h, w] => (n, c, [h, w], true),
            [n, c, w] => (n, c, [1, w], false),
            _ => return Err("has a tensor that is no batch of images or rows"),
        };
        let groups = usize::try_from(groups).unwrap_or(0);
        if groups == 0 || !c.is_multiple_of(groups) || !channels.is_multiple_of(groups) {
            return Err("has channels that its groups do not divide");
        }
        let kernel = pair(&window.kernel, is_plane, 1)?;
        let (stride, dilation) =
            (pair(&window.stride, is_plane, 1)?, pair(&window.dilation, is_plane, 1)?);
        let padding = pair(&window.padding, is_plane, 0)?;
        let more = window.output_padding.as_deref().unwrap_or_default();
        let more = pair(more, is_plane, 0)?;
        let limit = 1 << 20;
        let all = [kernel, stride, dilation, padding, more].concat();
        if all.iter().any(|n| *n > limit) || [kernel, stride, dilation].concat().contains(&0) {
            return Err("has a window with a size, stride or dilation out of range");
        }
        let is_transposed = window.output_padding.is_some();
        let size = |dim: usize| {
            let span = dilation[dim] * (kernel[dim] - 1) + 1;
            if is_transposed {
                let full = (input[dim].max(1) - 1) * stride[dim] + span + more[dim];
                return full.checked_sub(2 * padding[dim]);
            }
            let free = (input[dim] + 2 * padding[dim]).checked_sub(span)?;
            Some(free / stride[dim] + 1)
        };
        let output = size(0).zip(size(1)).ok_or("has a window larger than its tensor")?;
        Ok(Self {
            batch,
            in_channels: c / groups,
            out_channels: channels / groups,
            groups,
            input,
            output: output.into(),
            kernel,
            stride,
            padding,
            dilation,
            is_transposed,
        })
    }

    /// Sizes of the result.
    pub(super) fn out_sizes(&self, rank: usize) -> Vec<usize> {
        let [h, w] = self.output;
        let channels = self.groups * self.out_channels;
        if rank == 3 { vec![self.batch, channels, w] } else { vec![self.batch, channels, h, w] }
    }

    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn pixels(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// True if each pixel of the result depends on one pixel of the input.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.stride == [1, 1]
            && self.padding == [0, 0]
            && !self.is_transposed
    }
}

/// Args: tensor, weight, bias, stride, padding, dilation, transposed, output padding, groups, limits
/// of some, out.
fn convolution(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, weight, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let bias = recorder.opt_tensor(call, 2)?;
    let is_transposed = recorder.bool(call, 6)?;
    let groups = recorder.int(call, 8)?;
    let w_sizes = recorder.sizes(weight)?;
    let (&[outer, inner], kernel) =
        w_sizes.split_first_chunk::<2>().ok_or("has a weight without channels")?;
    let channels = if is_transposed {
        inner.saturating_mul(usize::try_from(groups).unwrap_or(0))
    } else {
        outer
    };
    let window = Window {
        kernel: kernel.to_vec(),
        stride: recorder.dims(call, 3)?,
        padding: recorder.dims(call, 4)?,
        dilation: recorder.dims(call, 5)?,
        output_padding: is_transposed.then(|| recorder.dims(call, 7)).transpose()?,
    };
    let sizes = recorder.sizes(input)?;
    let geometry = Geometry::new(&sizes, channels, groups, &window)?;
    let in_channels = geometry.in_channels * if is_transposed { geometry.groups } else { 1 };
    if in_channels != if is_transposed { outer } else { inner } {
        return Err("has a weight that does not fit its input");
    }
    recorder.set_sizes(output, &geometry.out_sizes(sizes.len()))?;
    let limits = if call.operator.args == 12 {
        [recorder.opt_double(call, 9)?, recorder.opt_double(call, 10)?]
    } else {
        [None; 2]
    };
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    shader.declare(&format!("fn x_at(i: u32) -> f32 {{ return {x}; }}"));
    let (ic, taps) = (shader.u32(geometry.in_channels), shader.u32(geometry.taps()));
    let at = if is_transposed {
        let oc = shader.u32(geometry.out_channels);
        format!("((o / {oc} * {ic} + c) * {oc} + o % {oc}) * {taps} + t")
    } else {
        format!("(o * {ic} + c) * {taps} + t")
    };
    let w = shader.input(weight)?.f32(&at);
    shader.declare(&format!("fn w_at(o: u32, c: u32, t: u32) -> f32 {{ return {w}; }}"));
    let mut result = format!("s{}", bias_of(&mut shader, bias, channels)?.replace("(n)", "(o)"));
    if let [Some(min), _] = limits {
        result = format!("max({result}, {})", shader.f32(min));
    }
    if let [_, Some(max)] = limits {
        result = format!("min({result}, {})", shader.f32(max));
    }
    shader.declare(&format!("fn finish_channel(o: u32, s: f32) -> f32 {{ return {result}; }}"));
    record(shader, call, output, &geometry, "f32")
}

/// Finishes a shader that has `x_at`, `w_at` and `finish_channel`.
pub(super) fn record(
    shader: Shader<'_, '_, '_>,
    call: &Call,
    output: usize,
    geometry: &Geometry,
    accumulator: &str,
) -> OpResult {
    let is_depthwise = geometry.out_channels == 1;
    let is_gpu = shader.recorder.limits.kind == DeviceKind::Gpu;
    if !is_depthwise && (geometry.is_pointwise() || is_gpu) {
        return as_product(shader, call, output, geometry, accumulator);
    }
    direct(shader, call, output, geometry, accumulator)
}

/// Declares `tap(plane, base, t)`: the element of the plane at index `plane` for the pixel with the
/// coordinates `base` and tap `t`. Returns an expression of the coordinates of pixel `pixel`.
fn declare_tap(shader: &mut Shader<'_, '_, '_>, geometry: &Geometry, accumulator: &str) {
    let Geometry { input, output, kernel, stride, padding, dilation, .. } = geometry;
    let both = |shader: &mut Shader<'_, '_, '_>, values: &[usize; 2]| {
        let [y, x] = values.map(|value| shader.i32(value as i64));
        format!("vec2<i32>({y}, {x})")
    };
    let [input, stride, padding, dilation] =
        [input, stride, padding, dilation].map(|values| both(shader, values));
    let (width, columns) = (shader.u32(output[1]), shader.u32(kernel[1]));
    let location = if geometry.is_transposed {
        format!(
            "let n = base + {padding} - vec2<i32>(step) * {dilation};
    if any(n < vec2<i32>()) || any(n % {stride} != vec2<i32>()) {{ return 0; }}
    let at = n / {stride};"
        )
    } else {
        format!(
            "let at = base * {stride} - {padding} + vec2<i32>(step) * {dilation};
    if any(at < vec2<i32>()) {{ return 0; }}"
        )
    };
    shader.declare(&format!(
        "fn tap(plane: u32, base: vec2<i32>, step: vec2<u32>) -> {accumulator} {{
    {location}
    if any(at >= {input}) {{ return 0; }}
    return x_at(plane + u32(at.x) * u32({input}.y) + u32(at.y));
}}
fn base_of(pixel: u32) -> vec2<i32> {{ return vec2<i32>(vec2<u32>(pixel / {width}, pixel % {width})); }}
fn step_of(t: u32) -> vec2<u32> {{ return vec2<u32>(t / {columns}, t % {columns}); }}"
    ));
}

/// The convolution as a product of the weights of a group and the columns of its input.
fn as_product(
    mut shader: Shader<'_, '_, '_>,
    call: &Call,
    output: usize,
    geometry: &Geometry,
    accumulator: &str,
) -> OpResult {
    let sizes = Sizes {
        batch: geometry.batch * geometry.groups,
        m: geometry.out_channels,
        n: geometry.pixels(),
        k: geometry.in_channels * geometry.taps(),
    };
    let (groups, oc) = (shader.u32(geometry.groups), shader.u32(geometry.out_channels));
    let (ic, taps) = (shader.u32(geometry.in_channels), shader.u32(geometry.taps()));
    let plane = shader.u32(geometry.input[0] * geometry.input[1]);
    let result = if shader.recorder.ty(output)? == DeviceType::F32 { "f32" } else { "i32" };
    let column = if geometry.is_pointwise() {
        format!("return x_at((b * {ic} + k) * {plane} + n);")
    } else {
        declare_tap(&mut shader, geometry, accumulator);
        format!("return tap((b * {ic} + k / {taps}) * {plane}, base_of(n), step_of(k % {taps}));")
    };
    shader.declare(&format!(
        "fn a_at(b: u32, m: u32, k: u32) -> {accumulator} {{
    return w_at(b % {groups} * {oc} + m, k / {taps}, k % {taps});
}}
fn column_at(b: u32, k: u32, n: u32) -> {accumulator} {{ {column} }}
fn finish(b: u32, m: u32, n: u32, s: {accumulator}) -> {result} {{
    return finish_channel(b % {groups} * {oc} + m, s);
}}"
    ));
    let destination = Destination::output(&shader, call, output)?;
    matmul::record_to(shader, &destination, sizes, accumulator, "column_at")
}

/// Source that runs `sum` for each channel and tap.
fn loops(sum: &str) -> String {
    format!(
        "for (var c = 0u; c < IC; c++) {{
    let plane = ((b * GROUPS + o / OC) * IC + c) * PLANE;
    var t = 0u;
    for (var ky = 0u; ky < KH; ky++) {{ for (var kx = 0u; kx < KW; kx++) {{
        let step = vec2<u32>(ky, kx);
        {sum}
        t++;
    }} }}
}}"
    )
}

/// Each thread computes four pixels of one or four channels.
fn direct(
    mut shader: Shader<'_, '_, '_>,
    call: &Call,
    output: usize,
    geometry: &Geometry,
    accumulator: &str,
) -> OpResult {
    let Geometry { batch, in_channels, out_channels, groups, kernel, .. } = geometry;
    let (channels, pixels) = (groups * out_channels, geometry.pixels());
    shader.recorder.count_work(&[*batch, channels, pixels, *in_channels, geometry.taps()])?;
    declare_tap(&mut shader, geometry, accumulator);
    let ty = shader.recorder.ty(output)?;
    let names = [
        ("CHANNELS", channels),
        ("PIXELS", pixels),
        ("BATCH", *batch),
        ("IC", *in_channels),
        ("OC", *out_channels),
        ("GROUPS", *groups),
        ("PLANE", geometry.input[0] * geometry.input[1]),
        ("KH", kernel[0]),
        ("KW", kernel[1]),
    ];
    let lets: String = names
        .into_iter()
        .map(|(name, size)| format!("let {name} = {};\n", shader.u32(size)))
        .collect();
    if ty.is_packed() && pixels % 4 != 0 {
        let sum = loops("s += tap(plane, base, step) * w_at(o, c, t);");
        let body = format!(
            "{lets}let base = base_of(i % PIXELS);
let o = i / PIXELS % CHANNELS;
let b = i / PIXELS / CHANNELS;
var s = {accumulator}();
{sum}
return finish_channel(o, s);"
        );
        return shader.elements(call, output, &body);
    }
    let target = shader.recorder.target(output);
    shader.output_at(target, ty);
    if ty == DeviceType::F32 {
        shader.epilogue(call)?;
    }
    let width = if *groups == 1 || out_channels % 4 == 0 { 4 } else { 1 };
    let width = if *out_channels == 1 { 1 } else { width };
    let each = |text: &dyn Fn(usize) -> String| (0..4).map(text).collect::<String>();
    let vector = format!("vec4<{accumulator}>");
    let (weights, sum) = if width == 4 {
        let weights = (0..4).map(|j| format!("w_at(min(o + {j}u, CHANNELS - 1u), c, t)"));
        let weights = weights.collect::<Vec<_>>().join(", ");
        let sum = each(&|j| format!("s{j} += tap(plane, base{j}, step) * w;\n"));
        (format!("let w = {vector}({weights});\n"), sum)
    } else {
        let taps = (0..4).map(|j| format!("tap(plane, base{j}, step)")).collect::<Vec<_>>();
        (
            "let w = w_at(o, c, t);\n".to_owned(),
            format!("s0 += {vector}({}) * w;\n", taps.join(", ")),
        )
    };
    let sum = loops(&(weights + &sum));
    let body = format!(
        "{lets}let columns = (PIXELS + 3u) / 4u;
let rows = (CHANNELS + {width}u - 1u) / {width}u;
let p0 = id % columns * 4u;
let o = id / columns % rows * {width}u;
let b = id / columns / rows;
if b >= BATCH {{ return; }}
{}{}{sum}
{}",
        each(&|j| format!("let base{j} = base_of(min(p0 + {j}u, PIXELS - 1u));\n")),
        each(&|j| format!("var s{j} = {vector}();\n")),
        store(ty, width),
    );
    shader.threads(batch * channels.div_ceil(width) * pixels.div_ceil(4), &body)
}

/// Statements that store four pixels of `width` channels.
fn store(ty: DeviceType, width: usize) -> String {
    let lanes = ["x", "y", "z", "w"];
    let mut code = String::new();
    for channel in 0..width {
        let sum = |pixel: usize| {
            if width == 4 {
                format!("s{pixel}.{}", lanes[channel])
            } else {
                format!("s0.{}", lanes[pixel])
            }
        };
        let finish = |pixel: usize| format!("finish_channel(o + {channel}u, {})", sum(pixel));
        let row = format!("(b * CHANNELS + o + {channel}u) * PIXELS + p0");
        let stores: String = if ty.is_packed() {
            let part =
                |pixel| format!("(bitcast<u32>({}) & 255u) << {}u", finish(pixel), 8 * pixel);
            let word = (0..4).map(part).collect::<Vec<_>>().join(" | ");
            format!("y[({row}) / 4u] = {word};")
        } else {
            let store = |pixel| {
                let value = finish(pixel);
                let value =
                    if ty == DeviceType::F32 { format!("epilogue({value})") } else { value };
                format!("if p0 + {pixel}u < PIXELS {{ y[{row} + {pixel}u] = {value}; }}\n")
            };
            (0..4).map(store).collect()
        };
        code.push_str(&format!("if o + {channel}u < CHANNELS {{\n{stores}\n}}\n"));
    }
    code
}
