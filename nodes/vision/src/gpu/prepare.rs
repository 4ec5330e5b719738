//! Preparation of an image for a model: size, color, normalization.

use afferent_core::{ScalarType, Tensor};
use afferent_gpu::{DeviceMemory, Gpu};
use afferent_messages::{Affine, Image};
use afferent_simd::image::{Order, Sampling, Source, Tables, Target};

use super::{CHANNEL, TURN, TURNED, UPRIGHT, Words, run, tensor, words};
use crate::pixels::source_of;

/// Tables of the last kind of images.
#[derive(Default)]
pub(crate) struct Preparation {
    known: Option<(Source, Affine, usize)>,
    tables: Vec<u32>,
    buffer: Words,
}

impl Preparation {
    /// Elements of `target` for an image on the device, as a tensor of `f32` with these sizes.
    ///
    /// # Errors
    /// The pixel format that is not supported, or what the device reports.
    pub(crate) fn run(
        &mut self,
        gpu: &Gpu,
        image: &Image,
        (target, to_image, sampling): (Target, &Affine, Sampling),
        sizes: &[usize],
    ) -> Result<Tensor, String> {
        let failed = |error: afferent_gpu::GpuError| error.to_string();
        let source = source_of(image)?;
        let known = (source, *to_image, image.row_stride());
        let is_turned = to_image.0[0][1] != 0.0 || to_image.0[1][0] != 0.0;
        if self.known.as_ref() != Some(&known) {
            let tables = match is_turned {
                true => Tables::without_taps(source, target),
                false => Tables::new(source, target, to_image.0, sampling),
            };
            let tables = tables.map_err(|error| error.to_string())?;
            let is_interleaved = target.order == Order::Nhwc;
            self.tables = words(&tables, image, [target.width, target.height], is_interleaved);
            if is_turned {
                self.tables[TURN..][..9].copy_from_slice(&turn(image, to_image, sampling));
            }
            self.known = Some(known);
        }
        let device = gpu.device().map_err(failed)?;
        let tables = self.buffer.update(device, self.tables.clone()).map_err(failed)?;
        let pixels = image.pixels().device_memory();
        let pixels = pixels.and_then(|memory| DeviceMemory::buffer_of(memory, gpu));
        let pixels = pixels.ok_or("the image is not on the device")?;
        let elements = target.elements().ok_or("the input of the model is too large")?;
        let memory = gpu.memory(4 * elements).map_err(failed)?;
        let shader = format!("{SHADER}{CHANNEL}{}", if is_turned { TURNED } else { UPRIGHT });
        let count = target.width * target.height;
        run(device, &shader, &[pixels, tables], memory.buffer(), count).map_err(failed)?;
        tensor(memory, ScalarType::Float, sizes)
    }
}

/// Words of a transform with rotation, from [`TURN`] on.
fn turn(image: &Image, to_image: &Affine, sampling: Sampling) -> [u32; 9] {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let [[a, b, c], [d, e, f]] = to_image.0.map(|row| row.map(|value| (value as f32).to_bits()));
    let is_nearest = u32::from(sampling == Sampling::Nearest);
    [a, b, c, d, e, f, word(image.width()), word(image.height()), is_nearest]
}

const SHADER: &str = "
@group(0) @binding(0) var<storage, read> image: array<u32>;
@group(0) @binding(1) var<storage, read> t: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64) fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let index = id.x + id.y * groups.x * 64u;
    let plane = t[0] * t[1];
    if index >= plane { return; }
    let x = index % t[0];
    let y = index / t[0];
    let is_inside = shows(x, y);
    for (var k = 0u; k < t[7]; k++) {
        var value = number(46u + 8u * k);
        if is_inside { value = channel(k, x - t[2], y - t[4]); }
        if t[8] == 1u { out[index * t[7] + k] = value; } else { out[k * plane + index] = value; }
    }
}";
