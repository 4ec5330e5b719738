//! Depth as colors over an image.

use afferent_core::{ScalarType, Tensor};
use afferent_gpu::{Buffer, DeviceMemory, Gpu, GpuError};
use afferent_messages::{
    Affine, Image,
    vision::{Depth, DepthKind},
};
use afferent_simd::image::{Source, Tables};

use super::{CHANNEL, UPRIGHT, Words, on_device, run, words};
use crate::pixels::source_of;

/// Draws depth into images on the device.
#[derive(Default)]
pub(crate) struct DepthColors {
    known: Option<(Source, usize)>,
    tables: Vec<u32>,
    tables_buffer: Words,
    settings: Words,
}

/// Settings of the colors.
pub(crate) struct Colors {
    /// Share of the color in the image.
    pub(crate) opacity: f64,
    /// Depth in meters that has the color of far points.
    pub(crate) far: f64,
}

impl DepthColors {
    /// Pixels of `image` as `rgb8`, `[height, 3 * width]`, with the colors of `depth`.
    ///
    /// # Errors
    /// The pixel format that is not supported, or what the device reports.
    pub(crate) fn run(
        &mut self,
        gpu: &Gpu,
        image: &Image,
        depth: Option<&Depth>,
        colors: &Colors,
    ) -> Result<Tensor, String> {
        let failed = |error: GpuError| error.to_string();
        let (width, height) = (image.width(), image.height());
        let source = source_of(image)?;
        let known = (source, image.row_stride());
        if self.known != Some(known) {
            let tables = Tables::rgb(source).map_err(|error| error.to_string())?;
            self.tables = words(&tables, image, [width, height], true);
            self.known = Some(known);
        }
        let device = gpu.device().map_err(failed)?;
        let tables =
            self.tables_buffer.update(device, self.tables.clone()).map_err(failed)?.clone();
        let settings = self.settings.update(device, settings(image, depth, colors));
        let settings = settings.map_err(failed)?.clone();
        let pixels = on_device(gpu, image.pixels()).map_err(failed)?;
        let pixels = buffer(&pixels, gpu)?;
        let values = depth.map(|depth| on_device(gpu, &depth.values)).transpose();
        let values = values.map_err(failed)?;
        let values = values.as_ref().map_or(Ok(&settings), |values| buffer(values, gpu))?;
        let range = gpu.memory(8).map_err(failed)?;
        if depth.is_some_and(|depth| depth.kind == DepthKind::AffineInverse) {
            run(device, RANGE, &[values, &settings], range.buffer(), 1).map_err(failed)?;
        }
        let memory = gpu.memory((3 * width * height).next_multiple_of(4)).map_err(failed)?;
        let reads = [pixels, &tables, &settings, values, range.buffer()];
        let shader = format!("{SHADER}{CHANNEL}{UPRIGHT}");
        let count = (3 * width * height).div_ceil(4);
        run(device, &shader, &reads, memory.buffer(), count).map_err(failed)?;
        let bytes = afferent_core::ForeignBytes::from(memory);
        let part = bytes.part(0, 3 * width * height).ok_or("the memory is too small")?;
        let pixels = Tensor::from_foreign(ScalarType::Byte, &[height, 3 * width], &[0, 1], part);
        pixels.map_err(|error| error.to_string())
    }
}

fn buffer<'b>(memory: &'b afferent_core::ForeignBytes, gpu: &Gpu) -> Result<&'b Buffer, String> {
    let buffer = DeviceMemory::buffer_of(memory, gpu);
    buffer.ok_or_else(|| "a tensor is not on the device".to_owned())
}

/// Words: columns and rows of the map, its kind, far, opacity, and the map from pixels to it.
fn settings(image: &Image, depth: Option<&Depth>, colors: &Colors) -> Vec<u32> {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let to_map = depth.and_then(|depth| depth.to_source.inverse());
    let to_map = to_map.map(|from_source| from_source.after(&image.to_source));
    let (width, height, kind) = match (depth, to_map) {
        (Some(depth), Some(_)) => {
            let kind = u32::from(depth.kind == DepthKind::AffineInverse);
            (word(depth.width()), word(depth.height()), kind)
        }
        _ => (0, 0, 0),
    };
    let Affine([x, y]) = to_map.unwrap_or(Affine::IDENTITY);
    let numbers = [colors.far, colors.opacity].into_iter().chain(x).chain(y);
    let numbers = numbers.map(|number| (number as f32).to_bits());
    [width, height, kind].into_iter().chain(numbers).collect()
}

/// Least and largest known value of a map.
const RANGE: &str = "
@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> s: array<u32>;
@group(0) @binding(2) var<storage, read_write> range: array<f32>;
var<workgroup> low: array<f32, 64>;
var<workgroup> high: array<f32, 64>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) at: u32) {
    var least = 3.4e38;
    var most = -3.4e38;
    for (var i = at; i < s[0] * s[1]; i += 64u) {
        let value = values[i];
        if (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u {
            least = min(least, value);
            most = max(most, value);
        }
    }
    low[at] = least;
    high[at] = most;
    workgroupBarrier();
    if at == 0u {
        for (var i = 1u; i < 64u; i++) {
            least = min(least, low[i]);
            most = max(most, high[i]);
        }
        range[0] = least;
        range[1] = most;
    }
}";

const SHADER: &str = "
@group(0) @binding(0) var<storage, read> image: array<u32>;
@group(0) @binding(1) var<storage, read> t: array<u32>;
@group(0) @binding(2) var<storage, read> s: array<u32>;
@group(0) @binding(3) var<storage, read> values: array<u32>;
@group(0) @binding(4) var<storage, read> range: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<u32>;
fn setting(at: u32) -> f32 { return bitcast<f32>(s[at]); }
fn mixed(pixel: u32, k: u32) -> f32 {
    let x = pixel % t[0];
    let y = pixel / t[0];
    let own = floor(channel(k, x, y) + 0.5);
    let center = vec2(f32(x) + 0.5, f32(y) + 0.5);
    let at = vec2(
        setting(5u) * center.x + setting(6u) * center.y + setting(7u),
        setting(8u) * center.x + setting(9u) * center.y + setting(10u),
    );
    if at.x < 0.0 || at.y < 0.0 || at.x >= f32(s[0]) || at.y >= f32(s[1]) { return own; }
    let bits = values[u32(at.y) * s[0] + u32(at.x)];
    if (bits & 0x7f800000u) == 0x7f800000u { return own; }
    let value = bitcast<f32>(bits);
    var near = 1.0 - value / setting(3u);
    if s[2] == 1u { near = (value - range[0]) / max(range[1] - range[0], 1e-9); }
    near = clamp(near, 0.0, 1.0);
    let peak = 1.0 - 0.5 * f32(k);
    let color = clamp(1.0 - abs(near - peak) * 2.0, 0.0, 1.0) * 255.0;
    return floor(own * (1.0 - setting(4u)) + color * setting(4u) + 0.5);
}
@compute @workgroup_size(64) fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let index = id.x + id.y * groups.x * 64u;
    let bytes = 3u * t[0] * t[1];
    if index >= (bytes + 3u) / 4u { return; }
    var word = 0u;
    for (var i = 0u; i < 4u; i++) {
        let at = 4u * index + i;
        if at < bytes { word |= u32(mixed(at / 3u, at % 3u)) << (8u * i); }
    }
    out[index] = word;
}";

#[cfg(test)]
mod tests {
    use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
    use afferent_messages::PixelFormat;

    use crate::{Overlay, OverlayParams};

    use super::*;

    /// Image that the node draws on a device, or on the CPU.
    fn drawn(gpu: Option<&Gpu>, image: &Image, depth: &Depth) -> Image {
        let cx = gpu.map_or_else(OpenCx::default, |gpu| OpenCx::with_service(gpu.clone()));
        let params = OverlayParams::from_values(&Default::default()).unwrap();
        let mut bench = NodeBench::new(Overlay::open(params, &cx).unwrap());
        let mut image = image.clone();
        if let Some(gpu) = gpu {
            let (format, to_source) = (image.format(), image.to_source);
            let copy = crate::gpu::upload(gpu, &image).unwrap();
            image.set_pixels(format, image.width(), image.height(), copy).unwrap();
            image.to_source = to_source;
        }
        let at = Timestamp::ZERO;
        bench.join(Overlay::DEPTH, at, depth.clone());
        let sent = bench.call(Overlay::IMAGES, at, image).unwrap();
        sent[0].1.get::<Image>().unwrap().clone()
    }

    #[test]
    fn depth_is_drawn_as_on_the_cpu() {
        let Some(gpu) = crate::gpu::device_of_tests() else { return };
        let mut depth = Depth::default();
        for (at, value) in depth.reshape(9, 7).unwrap().iter_mut().enumerate() {
            *value = if at % 11 == 0 { f32::NAN } else { at as f32 * 0.1 };
        }
        depth.to_source = Affine::scale_and_shift([4.0; 2], [2.0, 3.0]);
        for kind in [DepthKind::Metric, DepthKind::AffineInverse] {
            depth.kind = kind;
            for format in [PixelFormat::Rgb8, PixelFormat::Nv12, PixelFormat::Mono8] {
                let mut image = Image::default();
                for (at, byte) in image.reshape(format, 42, 30).unwrap().iter_mut().enumerate() {
                    *byte = (at * 71 % 249) as u8;
                }
                image.to_source = Affine::scale_and_shift([1.0; 2], [1.0, 1.0]);
                let [found, expected] = [Some(&gpu), None].map(|gpu| drawn(gpu, &image, &depth));
                assert_eq!(found.to_source, expected.to_source);
                assert!(found.pixels().device_memory().is_some());
                let pairs = found.bytes().iter().zip(expected.bytes());
                let differ = pairs.filter(|(a, b)| a.abs_diff(**b) > 1).count();
                assert_eq!(differ, 0, "{format:?} {kind:?}");
            }
        }
    }
}
