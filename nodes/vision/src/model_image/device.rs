//! The input of a model from an image on the GPU.

use afferent_core::{ScalarType, Tensor};
use afferent_gpu::Gpu;
use afferent_messages::{Affine, Image};
use afferent_package::Resize;

use super::ModelImage;

impl ModelImage {
    /// True if the whole input shows the image, without a border.
    pub(crate) fn is_stretched(&self) -> bool {
        self.settings.resize == Some(Resize::Stretch)
    }

    /// As [`ModelImage::prepare_region`], on the GPU; `None` if the image is not there, or the input
    /// can be made on the CPU only: of another type than `f32`, or with the color of the corners around
    /// it.
    ///
    /// # Errors
    /// The pixel format that is not supported, or what the device reports.
    pub(crate) fn prepare_on_device(
        &mut self,
        gpu: &Gpu,
        image: &Image,
        to_image: &Affine,
    ) -> Result<Option<Tensor>, String> {
        let is_row_major = self.shape.is_interleaved == self.shape.is_channels_last;
        let is_possible = crate::gpu::is_on_device(gpu, image)
            && self.shape.dtype == ScalarType::Float
            && is_row_major
            && self.corners.is_none();
        if !is_possible {
            return Ok(None);
        }
        let (target, sampling, sizes) =
            (self.target(), self.sampling(to_image), self.shape.sizes());
        let transform = (target, to_image, sampling);
        let input = self.preparation.run(gpu, image, transform, &sizes)?;
        (self.to_image, self.to_source) = (*to_image, image.to_source);
        self.size = [image.width(), image.height()];
        Ok(Some(input))
    }
}

#[cfg(test)]
mod tests {
    use afferent_messages::PixelFormat;
    use afferent_package::{Color, ImageInput, Pad, Resampling};

    use super::*;
    use crate::model_image::InputShape;

    /// Compares the inputs for the whole image and for a turned region with those of the CPU.
    fn check(format: PixelFormat, sizes: &[usize], settings: &ImageInput) {
        let shape = InputShape::of(sizes, &[0, 1, 2, 3], ScalarType::Float).unwrap();
        let mut model = ModelImage::new(shape, settings).unwrap();
        let fit = model.fit(52, 38);
        check_region(&mut model, format, sizes, &fit);
        // The region begins outside of the image.
        let turned = Affine([[0.7, -0.4, 3.1], [0.45, 0.8, -2.3]]);
        check_region(&mut model, format, sizes, &turned);
    }

    fn check_region(model: &mut ModelImage, format: PixelFormat, sizes: &[usize], region: &Affine) {
        let Some(gpu) = crate::gpu::device_of_tests() else { return };
        let mut image = Image::default();
        let pixels = image.reshape_padded(format, 52, 38, 52 * format.pixel_bytes() + 8).unwrap();
        for (at, byte) in pixels.iter_mut().enumerate() {
            *byte = (at * 89 % 253) as u8;
        }
        let expected = model.prepare_region(&image, region).unwrap();
        let expected = expected.data::<f32>().unwrap().to_vec();
        let copy = crate::gpu::upload(&gpu, &image).unwrap();
        let mut on_gpu = image.clone();
        on_gpu.set_pixels(format, 52, 38, copy).unwrap();
        assert!(model.prepare_on_device(&gpu, &image, region).unwrap().is_none(), "on the host");
        let found = model.prepare_on_device(&gpu, &on_gpu, region).unwrap().expect("on the device");
        assert_eq!((found.sizes(), found.device_memory().is_some()), (sizes, true));
        let found = found.data::<f32>().unwrap();
        for (at, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() < 2e-3, "{format:?} {at}: {a}, not {b}");
        }
    }

    #[test]
    fn inputs_are_those_of_the_cpu() {
        let letterbox = ImageInput::default();
        let stretch = ImageInput {
            resize: Some(Resize::Stretch),
            resampling: Some(Resampling::AntialiasBicubic),
            mean: Some([0.485, 0.456, 0.406]),
            std: Some([0.229, 0.224, 0.225]),
            color: Some(Color::Bgr),
            ..ImageInput::default()
        };
        for format in [
            PixelFormat::Rgb8,
            PixelFormat::Bgr8,
            PixelFormat::Rgba8,
            PixelFormat::Mono8,
            PixelFormat::Yuyv,
            PixelFormat::Uyvy,
            PixelFormat::Nv12,
            PixelFormat::I420,
        ] {
            check(format, &[1, 3, 24, 24], &letterbox);
            check(format, &[1, 20, 30, 3], &stretch);
        }
        let gray = ImageInput {
            pad: Some(Pad::Value(0.0)),
            resampling: Some(Resampling::AntialiasBilinear),
            color: Some(Color::Gray),
            ..ImageInput::default()
        };
        check(PixelFormat::Rgb8, &[1, 1, 40, 16], &gray);
    }
}
