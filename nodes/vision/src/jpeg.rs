//! Images as JPEG files, for pages.

use afferent_messages::{Affine, Image, PixelFormat};
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};
use jpeg_encoder::{ColorType, Encoder};

use crate::pixels::{source_of, with_planes};

/// Writes images as JPEG files of a limited size.
pub struct JpegWriter {
    /// Longest side, in pixels; larger images are scaled down.
    max_size: u32,
    /// Quality, 1 to 100.
    quality: u8,
    /// Tables for the last kind of images.
    plan: Option<(Source, Plan)>,
    /// Red, green, blue of the last image.
    pixels: Vec<u8>,
}

impl JpegWriter {
    /// Writer of images whose longest side is at most `max_size` pixels, with a `quality` of 1 to 100.
    pub fn new(max_size: u32, quality: u8) -> Self {
        Self { max_size: max_size.max(1), quality, plan: None, pixels: Vec::new() }
    }

    /// Bytes of the file with `image`.
    ///
    /// # Errors
    /// Why the image has no colors or shades, such as a depth image.
    pub fn write(&mut self, image: &Image) -> Result<Vec<u8>, String> {
        let source = source_of(image)?;
        if self.plan.as_ref().is_none_or(|(known, _)| *known != source) {
            self.plan = Some((source, self.plan_for(source)?));
        }
        let Some((_, plan)) = &mut self.plan else { return Ok(Vec::new()) };
        let (width, height) = (plan.target().width, plan.target().height);
        self.pixels.resize(width * height * PixelFormat::Rgb8.pixel_bytes(), 0);
        let pixels = &mut self.pixels;
        with_planes(image, |planes| plan.run(Isa::best(), planes, pixels))?;
        let mut file = Vec::new();
        let side = |side: usize| u16::try_from(side).map_err(|error| error.to_string());
        let (width, height) = (side(width)?, side(height)?);
        let encoder = Encoder::new(&mut file, self.quality);
        let encoded = encoder.encode(&self.pixels, width, height, ColorType::Rgb);
        encoded.map_err(|error| error.to_string())?;
        Ok(file)
    }

    fn plan_for(&self, source: Source) -> Result<Plan, String> {
        let longest = source.width.max(source.height) as f64;
        let scale = (f64::from(self.max_size) / longest).min(1.0);
        let scaled = |side: usize| ((side as f64 * scale).round() as usize).max(1);
        let target = Target {
            width: scaled(source.width),
            height: scaled(source.height),
            channels: Channels::Rgb,
            order: Order::Nhwc,
            pad: 0.0,
            scale: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
        };
        let to_source = [
            source.width as f64 / target.width as f64,
            source.height as f64 / target.height as f64,
        ];
        let to_source = Affine::scale_and_shift(to_source, [0.0; 2]);
        let plan = Plan::new(source, target, to_source.0, Sampling::Bilinear);
        plan.map_err(|error| error.to_string())
    }
}
