//! Last image of each object.

use afferent_messages::{
    Image, PixelFormat,
    vision::{Box2d, Detection3d},
};
use glam::DVec3;

use super::{LastImage, SceneMemory};
use crate::camera_view::CameraView;

/// Least time between two kept images of an object, in nanoseconds.
const EVERY_NS: u64 = 1_000_000_000;

/// Longest side of a kept image, in pixels.
const MAX_SIDE: usize = 96;

/// Part of the image that is kept, in sizes of the object.
const MARGIN: f64 = 1.4;

impl SceneMemory {
    /// Keeps the parts of an image that show objects: `seen` in the frame of the view, as
    /// [`SceneMemory::observe`] has returned them.
    pub(crate) fn keep_images(
        &mut self,
        at_ns: u64,
        seen: &[(u64, Detection3d)],
        view: &CameraView<'_>,
        image: &Image,
    ) {
        for (id, found) in seen {
            let Some(entity) = self.entities.get(id) else { continue };
            let is_recent = |last: &LastImage| last.at_ns.abs_diff(at_ns) < EVERY_NS;
            if self.world.get::<LastImage>(*entity).is_some_and(is_recent) {
                continue;
            }
            if let Some(png) = bounds(view, found).and_then(|bounds| cropped(image, &bounds)) {
                self.world.entity_mut(*entity).insert(LastImage { at_ns, png: png.into() });
                self.changed.insert(*id);
            }
        }
    }

    /// PNG file of an object when it was last seen; `None` if no image of it is kept.
    pub fn image(&mut self, id: u64) -> Option<std::sync::Arc<[u8]>> {
        let entity = self.entities.get(&id)?;
        self.world.get::<LastImage>(*entity).map(|image| image.png.clone())
    }
}

/// The box of an object in the source image, with a margin.
fn bounds(view: &CameraView<'_>, found: &Detection3d) -> Option<Box2d> {
    let (center, z) = view.project(DVec3::from_array(found.position_m))?;
    let size_m = f64::from(found.size_m.into_iter().fold(0.0, f32::max)) * MARGIN;
    let size = view.focal_px() * (size_m / z);
    let float = |value: glam::DVec2| value.to_array().map(|value| value as f32);
    Some(Box2d { center: float(center), size: float(size), angle_rad: 0.0 })
}

/// A part of an image as PNG; `None` if it lies outside. `bounds` is in pixels of the source image.
fn cropped(image: &Image, bounds: &Box2d) -> Option<Vec<u8>> {
    let from_source = image.to_source.inverse()?;
    let corner = |sign: f32| {
        let at = |axis: usize| f64::from(bounds.center[axis] + sign * bounds.size[axis] / 2.0);
        from_source.apply([at(0), at(1)])
    };
    let (one, other) = (corner(-1.0), corner(1.0));
    let span = |axis: usize, size: usize| {
        let low = one[axis].min(other[axis]).round().max(0.0) as usize;
        let high = one[axis].max(other[axis]).round().clamp(0.0, size as f64) as usize;
        (low < high).then_some(low..high)
    };
    let (columns, rows) = (span(0, image.width())?, span(1, image.height())?);
    let step = columns.len().max(rows.len()).div_ceil(MAX_SIDE);
    let (width, height) = (columns.len() / step, rows.len() / step);
    let mut part = Image::default();
    let pixel = image.format().pixel_bytes();
    let to = part.reshape(image.format(), width, height).ok()?;
    let source: Vec<&[u8]> = image.rows().collect();
    for (index, to) in to.chunks_exact_mut(pixel).enumerate() {
        let (left, top) = (columns.start + index % width * step, rows.start + index / width * step);
        for (channel, to) in to.iter_mut().enumerate() {
            let block = source[top..top + step].iter().flat_map(|row| {
                (left..left + step).map(|column| u32::from(row[column * pixel + channel]))
            });
            let count = (step * step) as u32;
            *to = ((block.sum::<u32>() + count / 2) / count) as u8;
        }
    }
    part.to_png().ok()
}

/// Formats whose pixels are bytes side by side.
pub(crate) const FORMATS: [PixelFormat; 3] =
    [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Mono8];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_and_made_smaller() {
        let mut image = Image::default();
        let pixels = image.reshape(PixelFormat::Rgb8, 300, 200).unwrap();
        for (index, pixel) in pixels.chunks_exact_mut(3).enumerate() {
            let is_red = (100..260).contains(&(index % 300)) && (20..180).contains(&(index / 300));
            pixel.copy_from_slice(if is_red { &[200, 10, 0] } else { &[0, 0, 90] });
        }
        let part = |corners: [[f32; 2]; 2]| {
            let png = cropped(&image, &Box2d::from_corners(corners[0], corners[1]))?;
            let mut part = Image::default();
            part.read_file(&png).unwrap();
            Some(part)
        };
        let red = part([[100.0, 20.0], [260.0, 180.0]]).unwrap();
        assert_eq!((red.width(), red.height()), (80, 80));
        assert!(red.bytes().chunks_exact(3).all(|pixel| pixel == [200, 10, 0]));
        let corner = part([[-50.0, -50.0], [20.0, 10.0]]).unwrap();
        assert_eq!((corner.width(), corner.height()), (20, 10));
        assert!(part([[400.0, 0.0], [500.0, 50.0]]).is_none());
    }
}
