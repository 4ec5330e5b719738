//! Images on the GPU: shaders of the vision nodes, and their tables.
//!
//! A shader reads bytes of an image as words of four, and its tables as words of one buffer, which is
//! written again only if they change.

use afferent_core::{ForeignBytes, ScalarType, Tensor};
use afferent_gpu::{Access, Binding, Buffer, Device, DeviceMemory, Dispatch, Gpu, GpuError};
use afferent_messages::Image;
use afferent_simd::image::{Tables, Taps};

mod depth_colors;
mod prepare;

pub(crate) use depth_colors::{Colors, DepthColors};
pub(crate) use prepare::Preparation;

/// Threads of a workgroup of all shaders.
const GROUP: usize = 64;

/// Words of a buffer that change rarely.
#[derive(Default)]
struct Words {
    words: Vec<u32>,
    buffer: Option<Buffer>,
}

impl Words {
    /// The buffer with `words`.
    fn update(&mut self, device: &Device, words: Vec<u32>) -> Result<&Buffer, GpuError> {
        if self.buffer.is_none() || self.words != words {
            let buffer = device.buffer(4 * words.len() as u64)?;
            device.upload(&buffer, 0, bytemuck::cast_slice(&words))?;
            (self.buffer, self.words) = (Some(buffer), words);
        }
        let missing = GpuError::Invalid { reason: "a buffer was made above".into() };
        self.buffer.as_ref().ok_or(missing)
    }
}

/// Memory of a tensor on the device of `gpu`: its own, or an upload of its elements.
pub(crate) fn on_device(gpu: &Gpu, tensor: &Tensor) -> Result<ForeignBytes, GpuError> {
    if let Some(memory) = tensor.device_memory()
        && DeviceMemory::buffer_of(memory, gpu).is_some()
    {
        return Ok(memory.clone());
    }
    let view = tensor.view();
    let memory = gpu.memory(view.bytes().len())?;
    gpu.device()?.upload(memory.buffer(), 0, view.bytes())?;
    Ok(memory.into())
}

/// True if the pixels of `image` are on the device of `gpu`.
pub(crate) fn is_on_device(gpu: &Gpu, image: &Image) -> bool {
    let memory = image.pixels().device_memory();
    memory.is_some_and(|memory| DeviceMemory::buffer_of(memory, gpu).is_some())
}

/// Tensor of the elements in `memory`.
fn tensor(memory: DeviceMemory, dtype: ScalarType, sizes: &[usize]) -> Result<Tensor, String> {
    let order: Vec<u8> = (0..sizes.len() as u8).collect();
    let elements = ForeignBytes::from(memory);
    Tensor::from_foreign(dtype, sizes, &order, elements).map_err(|error| error.to_string())
}

/// Runs a shader for `count` threads. The last of `buffers` but `reads` is written.
fn run(
    device: &Device,
    source: &str,
    reads: &[&Buffer],
    write: &Buffer,
    count: usize,
) -> Result<(), GpuError> {
    let mut accesses = vec![Access::Read; reads.len()];
    accesses.push(Access::Write);
    let pipeline = device.pipeline(source, &accesses)?;
    let buffers = reads.iter().copied().chain([write]);
    let bindings: Vec<_> = buffers.map(|buffer| Binding { buffer, offset: 0, bytes: 0 }).collect();
    let bindings = device.bind(&pipeline, &bindings)?;
    let groups = u32::try_from(count.div_ceil(GROUP)).unwrap_or(u32::MAX);
    let columns = groups.min(device.max_workgroups()).max(1);
    let workgroups = [columns, groups.div_ceil(columns), 1];
    device.run(&[Dispatch { pipeline, bindings, workgroups }])
}

/// Words before the tables.
const HEADER: usize = 80;

/// Index of the words of a transform with rotation: its six numbers, the size of the source, and 1 if
/// it takes the nearest pixel.
const TURN: usize = 64;

/// WGSL of `channel(k, x, y)`, channel `k` of the output at column `x` and row `y` of the part in the
/// source. It needs [`UPRIGHT`] or [`TURNED`]. The tables are in the binding `t`, the bytes of the image
/// in `image`.
const CHANNEL: &str = "
fn byte(at: u32) -> f32 { return f32((image[at >> 2u] >> (8u * (at & 3u))) & 255u); }
fn number(at: u32) -> f32 { return bitcast<f32>(t[at]); }
fn channel(k: u32, x: u32, y: u32) -> f32 {
    let row = 40u + 8u * k;
    var sum = number(row + 3u);
    for (var c = 0u; c < t[6]; c++) {
        let weight = number(row + c);
        if weight != 0.0 { sum += weight * component(c, x, y); }
    }
    return clamp(sum, 0.0, 255.0) * number(row + 4u) + number(row + 5u);
}";

/// WGSL of a component, and of the pixels that lie in the source, for transforms without rotation: sums
/// of the taps.
const UPRIGHT: &str = "
fn shows(x: u32, y: u32) -> bool { return x >= t[2] && x < t[3] && y >= t[4] && y < t[5]; }
fn component(c: u32, x: u32, y: u32) -> f32 {
    let part = 16u + 8u * c;
    let h = t[part + 3u] + 3u * x;
    let v = t[part + 4u] + 3u * y;
    var sum = 0.0;
    for (var j = t[v + 1u]; j < t[v + 2u]; j++) {
        let row = t[part] + (t[v] + j - t[v + 1u]) * t[part + 1u];
        var line = 0.0;
        for (var i = t[h + 1u]; i < t[h + 2u]; i++) {
            line += byte(row + t[part + 2u] * (t[h] + i - t[h + 1u])) * number(i);
        }
        sum += line * number(j);
    }
    return sum;
}";

/// As [`UPRIGHT`], for transforms with rotation: the nearest pixel, or the four around the position.
const TURNED: &str = "
fn position(x: u32, y: u32) -> vec2<f32> {
    let center = vec3<f32>(f32(x) + 0.5, f32(y) + 0.5, 1.0);
    return vec2<f32>(dot(vec3<f32>(number(64u), number(65u), number(66u)), center),
                     dot(vec3<f32>(number(67u), number(68u), number(69u)), center));
}
fn shows(x: u32, y: u32) -> bool {
    let at = position(x, y);
    return at.x >= 0.0 && at.y >= 0.0 && at.x < f32(t[70]) && at.y < f32(t[71]);
}
fn value(part: u32, at: vec2<i32>) -> f32 {
    let last = vec2<i32>(i32(t[70]), i32(t[71])) - 1;
    let cell = vec2<u32>(clamp(at, vec2<i32>(), last)) >> vec2<u32>(t[part + 5u], t[part + 6u]);
    return byte(t[part] + cell.y * t[part + 1u] + cell.x * t[part + 2u]);
}
fn component(c: u32, x: u32, y: u32) -> f32 {
    let part = 16u + 8u * c;
    let at = position(x, y);
    if t[72] == 1u { return value(part, vec2<i32>(floor(at))); }
    let corner = floor(at - 0.5);
    let share = at - 0.5 - corner;
    let first = vec2<i32>(corner);
    let top = mix(value(part, first), value(part, first + vec2<i32>(1, 0)), share.x);
    let low = mix(value(part, first + vec2<i32>(0, 1)), value(part, first + 1), share.x);
    return mix(top, low, share.y);
}";

/// Words of `tables` for the planes of `image`, and an output of `width` columns and `height` rows.
fn words(
    tables: &Tables,
    image: &Image,
    [width, height]: [usize; 2],
    is_interleaved: bool,
) -> Vec<u32> {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let mut all = vec![0; HEADER];
    let counts = [tables.components.len(), tables.channels.len(), usize::from(is_interleaved)];
    let (columns, rows) = (&tables.columns, &tables.rows);
    let sizes = [width, height, columns.start, columns.end, rows.start, rows.end];
    for (to, value) in all.iter_mut().zip(sizes.into_iter().chain(counts)) {
        *to = word(value);
    }
    let planes = image.plane_layout();
    for (at, part) in tables.components.iter().enumerate().take(3) {
        let (start, stride) = planes.get(part.plane).copied().unwrap_or_default();
        let horizontal = append(&mut all, &part.horizontal);
        let vertical = append(&mut all, &part.vertical);
        let values = [word(start + part.offset), word(stride), word(part.step)];
        all[16 + 8 * at..][..3].copy_from_slice(&values);
        let [columns, rows] = part.shift;
        all[19 + 8 * at..][..4].copy_from_slice(&[horizontal, vertical, columns, rows]);
    }
    for (at, channel) in tables.channels.iter().enumerate().take(3) {
        let [a, b, c] = channel.weights;
        let values = [a, b, c, channel.constant, channel.factor, channel.offset, channel.pad];
        all[40 + 8 * at..][..7].copy_from_slice(&values.map(f32::to_bits));
    }
    all
}

/// Appends the taps of all pixels: three words for each, then the weights. Returns their index.
fn append(all: &mut Vec<u32>, taps: &Taps) -> u32 {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let first = all.len();
    let weights = first + 3 * taps.starts.len();
    let mut begin = 0;
    for (start, end) in taps.starts.iter().zip(&taps.ends) {
        all.extend([word(*start), word(weights + begin), word(weights + end)]);
        begin = *end;
    }
    all.extend(taps.weights.iter().map(|weight| weight.to_bits()));
    word(first)
}

/// Copies the pixels of `image` to the device, once for all nodes that use them there.
///
/// # Errors
/// If the device fails.
pub(crate) fn upload(gpu: &Gpu, image: &Image) -> Result<Tensor, String> {
    let pixels = image.pixels();
    let memory = on_device(gpu, pixels).map_err(|error| error.to_string())?;
    let (sizes, order) = (pixels.sizes(), pixels.dim_order());
    let part = memory.part(0, pixels.byte_len());
    let part = part.ok_or("the memory of an image is too small")?;
    Tensor::from_foreign(pixels.dtype(), sizes, order, part).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) fn device_of_tests() -> Option<Gpu> {
    let gpu = Gpu::new(afferent_gpu::GpuOptions::from_env());
    match gpu.device() {
        Ok(_) => Some(gpu),
        Err(error) => {
            println!("skipped: no Vulkan device: {error}");
            None
        }
    }
}
