//! Convolutions of one and two dimensions, also transposed, and the template of all convolutions.
//!
//! A call declares `x_at(i)`, the element of the input at an index, `w_at(o, c, t)`, the weight of
//! output channel `o`, channel `c` of its group and tap `t`, or `w4_at(o, c, t)`, the weights of the
//! channels `o` to `o + 3`, and `finish_channel(o, s)`, the element of the result. On a CPU device a
//! thread computes up to eight pixels of eight channels in registers. On a GPU the convolution is a
//! matrix product whose second operand is read through the window.

use std::fmt::Write;

use afferent_gpu::DeviceKind;

use super::{
    Operator,
    linear::bias_of,
    matmul::{self, Destination, Sizes},
};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder, Target},
    shader::Shader,
    shape::product,
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
    let packed = match is_direct(recorder, &geometry) && Tile::of(&geometry).vectors > 0 {
        true => Some(pack_weights(recorder, weight, &geometry)?),
        false => None,
    };
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    shader.declare(&format!("fn x_at(i: u32) -> f32 {{ return {x}; }}"));
    match packed {
        Some(packed) => {
            let vectors = shader.vectors_at(packed);
            let (ic, taps) = (shader.u32(geometry.in_channels), shader.u32(geometry.taps()));
            shader.declare(&format!(
                "fn w4_at(o: u32, c: u32, t: u32) -> vec4<f32> {{
    return {vectors}((o / 4u * {ic} + c) * {taps} + t);
}}"
            ));
        }
        None => declare_weights(&mut shader, weight, &geometry)?,
    }
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

/// Declares `w_at` for weights `[channels, channels of a group, height, width]`. The first two are
/// swapped if the convolution is transposed.
fn declare_weights(
    shader: &mut Shader<'_, '_, '_>,
    weight: usize,
    geometry: &Geometry,
) -> OpResult {
    let (ic, taps) = (shader.u32(geometry.in_channels), shader.u32(geometry.taps()));
    let at = if geometry.is_transposed {
        let oc = shader.u32(geometry.out_channels);
        format!("((o / {oc} * {ic} + c) * {oc} + o % {oc}) * {taps} + t")
    } else {
        format!("(o * {ic} + c) * {taps} + t")
    };
    let w = shader.input(weight)?.f32(&at);
    shader.declare(&format!("fn w_at(o: u32, c: u32, t: u32) -> f32 {{ return {w}; }}"));
    Ok(())
}

/// Weights as vectors of four output channels, in the order of fours of output channels, input channels
/// and taps. Missing channels are 0.
fn pack_weights(
    recorder: &mut Recorder<'_, '_>,
    weight: usize,
    geometry: &Geometry,
) -> OpResult<Target> {
    let channels = geometry.groups * geometry.out_channels;
    let rows = channels.next_multiple_of(4 * MAX_VECTORS);
    let words = product(&[rows, geometry.in_channels, geometry.taps()]);
    let (target, is_once) = recorder.packed(weight, words);
    let mut shader = Shader::new(recorder);
    shader.is_once = is_once;
    declare_weights(&mut shader, weight, geometry)?;
    let channels = shader.u32(channels);
    let (ic, taps) = (shader.u32(geometry.in_channels), shader.u32(geometry.taps()));
    let body = format!(
        "let column = i / 4u;
let o = column / {taps} / {ic} * 4u + i % 4u;
if o >= {channels} {{ return 0.0; }}
return w_at(o, column / {taps} % {ic}, column % {taps});"
    );
    shader.elements_at(target, DeviceType::F32, words, &body)?;
    Ok(target)
}

/// True if the threads compute tiles of a convolution, not of a matrix product.
fn is_direct(recorder: &Recorder<'_, '_>, geometry: &Geometry) -> bool {
    let is_gpu = recorder.limits.kind == DeviceKind::Gpu;
    geometry.out_channels == 1 || !(geometry.is_pointwise() || is_gpu)
}

/// Finishes a shader that has `x_at`, `w_at` and `finish_channel`.
pub(super) fn record(
    shader: Shader<'_, '_, '_>,
    call: &Call,
    output: usize,
    geometry: &Geometry,
    accumulator: &str,
) -> OpResult {
    if !is_direct(shader.recorder, geometry) {
        return as_product(shader, call, output, geometry, accumulator);
    }
    direct(shader, call, output, geometry, accumulator)
}

/// Declares `tap(plane, base, step)`: the element of the plane at index `plane` for the pixel with the
/// base `base_of(pixel)` and the tap in row and column `step`.
fn declare_tap(shader: &mut Shader<'_, '_, '_>, geometry: &Geometry, accumulator: &str) {
    let Geometry { input, output, kernel, stride, padding, dilation, .. } = geometry;
    let both = |shader: &mut Shader<'_, '_, '_>, values: &[usize; 2]| {
        let [y, x] = values.map(|value| shader.i32(value as i64));
        format!("vec2<i32>({y}, {x})")
    };
    let [input, stride, padding, dilation] =
        [input, stride, padding, dilation].map(|values| both(shader, values));
    let (width, columns) = (shader.u32(output[1]), shader.u32(kernel[1]));
    let (base, location) = if geometry.is_transposed {
        let location = format!(
            "let n = base - vec2<i32>(step) * {dilation};
    let at = n / {stride};
    let inside = all(n >= vec2<i32>()) & all(at * {stride} == n) & all(at < {input});"
        );
        (format!("at + {padding}"), location)
    } else {
        let location = format!(
            "let at = base + vec2<i32>(step) * {dilation};
    let inside = all(at >= vec2<i32>()) & all(at < {input});"
        );
        (format!("at * {stride} - {padding}"), location)
    };
    // Without branches, which would keep a device from loading several elements at a time.
    shader.declare(&format!(
        "fn tap(plane: u32, base: vec2<i32>, step: vec2<u32>) -> {accumulator} {{
    {location}
    let i = plane + u32(at.x) * u32({input}.y) + u32(at.y);
    return select({accumulator}(), x_at(select(0u, i, inside)), inside);
}}
fn base_of(pixel: u32) -> vec2<i32> {{
    let at = vec2<i32>(vec2<u32>(pixel / {width}, pixel % {width}));
    return {base};
}}
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

/// Part of the result that a thread computes: `vectors` times four channels, or one if that is 0, of
/// `pixels` pixels, a multiple of four.
#[derive(Clone, Copy)]
struct Tile {
    vectors: usize,
    pixels: usize,
}

impl Tile {
    fn of(geometry: &Geometry) -> Self {
        let Geometry { batch, out_channels, groups, .. } = *geometry;
        let is_dense = out_channels > 1 && (groups == 1 || out_channels % 4 == 0);
        let vectors = match is_dense {
            true if out_channels > 4 && (groups == 1 || out_channels % 8 == 0) => 2,
            true => 1,
            false => 0,
        };
        let large = Self { vectors, pixels: 8 };
        let is_large = vectors > 0
            && batch * (groups * out_channels).div_ceil(large.channels()) * geometry.pixels()
                >= 8 * MIN_THREADS;
        if is_large { large } else { Self { vectors, pixels: 4 } }
    }

    fn channels(self) -> usize {
        (4 * self.vectors).max(1)
    }
}

/// Threads that a device needs at least to be busy.
const MIN_THREADS: usize = 1024;

/// Most vectors of channels of a tile.
const MAX_VECTORS: usize = 2;

/// Each thread computes a tile.
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
    let tile = Tile::of(geometry);
    let each = |text: &dyn Fn(usize) -> String| (0..tile.pixels).map(text).collect::<String>();
    let (width, columns) = (tile.channels(), tile.pixels);
    let sums = sums(tile, accumulator);
    let body = format!(
        "{lets}let columns = (PIXELS + {columns}u - 1u) / {columns}u;
let rows = (CHANNELS + {width}u - 1u) / {width}u;
let p0 = id % columns * {columns}u;
let o = id / columns % rows * {width}u;
let b = id / columns / rows;
if b >= BATCH {{ return; }}
{}{sums}
{}",
        each(&|j| format!("let base{j} = base_of(min(p0 + {j}u, PIXELS - 1u));\n")),
        store(ty, tile),
    );
    shader.threads(batch * channels.div_ceil(width) * pixels.div_ceil(columns), &body)
}

/// Source that sums the products of a tile: of vectors of channels in the variables `s0_0` to `s1_7`,
/// or of vectors of pixels in `s0_0` and `s0_4`.
fn sums(tile: Tile, accumulator: &str) -> String {
    let vector = format!("vec4<{accumulator}>");
    let (mut variables, mut products) = (String::new(), String::new());
    if tile.vectors == 0 {
        for quad in (0..tile.pixels).step_by(4) {
            let taps: Vec<_> =
                (quad..quad + 4).map(|j| format!("tap(plane, base{j}, step)")).collect();
            let _ = writeln!(variables, "var s0_{quad} = {vector}();");
            let _ = writeln!(products, "s0_{quad} += {vector}({}) * w;", taps.join(", "));
        }
        return variables + &loops(&format!("let w = w_at(o, c, t);\n{products}"));
    }
    let mut weights = String::new();
    for v in 0..tile.vectors {
        let _ = writeln!(weights, "let w{v} = w4_at(o + {}u, c, t);", 4 * v);
    }
    for j in 0..tile.pixels {
        let _ = writeln!(products, "let x{j} = tap(plane, base{j}, step);");
        for v in 0..tile.vectors {
            let _ = writeln!(variables, "var s{v}_{j} = {vector}();");
            let _ = writeln!(products, "s{v}_{j} += x{j} * w{v};");
        }
    }
    variables + &loops(&(weights + &products))
}

/// Statements that store a tile.
fn store(ty: DeviceType, tile: Tile) -> String {
    let lanes = ["x", "y", "z", "w"];
    let mut code = String::new();
    for channel in 0..tile.channels() {
        let finish = |pixel: usize| {
            let sum = if tile.vectors == 0 {
                format!("s0_{}.{}", pixel / 4 * 4, lanes[pixel % 4])
            } else {
                format!("s{}_{pixel}.{}", channel / 4, lanes[channel % 4])
            };
            format!("finish_channel(o + {channel}u, {sum})")
        };
        let row = format!("(b * CHANNELS + o + {channel}u) * PIXELS + p0");
        let mut stores = String::new();
        if ty.is_packed() {
            for quad in (0..tile.pixels).step_by(4) {
                let part = |lane: usize| {
                    let value = finish(quad + lane);
                    format!("(bitcast<u32>({value}) & 255u) << {}u", 8 * lane)
                };
                let word = (0..4).map(part).collect::<Vec<_>>().join(" | ");
                let at = format!("({row} + {quad}u) / 4u");
                let _ = writeln!(stores, "if p0 + {quad}u < PIXELS {{ y[{at}] = {word}; }}");
            }
        } else {
            for pixel in 0..tile.pixels {
                let value = finish(pixel);
                let value =
                    if ty == DeviceType::F32 { format!("epilogue({value})") } else { value };
                let _ = writeln!(
                    stores,
                    "if p0 + {pixel}u < PIXELS {{ y[{row} + {pixel}u] = {value}; }}"
                );
            }
        }
        let _ = writeln!(code, "if o + {channel}u < CHANNELS {{\n{stores}}}");
    }
    code
}
