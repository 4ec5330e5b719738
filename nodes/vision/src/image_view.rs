//! Images in another size and pixel format.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, choices, params, ports};
use afferent_messages::{Affine, Image, PixelFormat};
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};

use crate::{
    fit::Fit,
    pixels::{source_of, with_planes},
};

choices! {
    /// Pixel format of a view.
    pub enum ViewFormat {
        /// Red, green, blue.
        Rgb8 = "rgb8",
        /// Blue, green, red.
        Bgr8 = "bgr8",
        /// Luma.
        Mono8 = "mono8",
    }
}

choices! {
    /// Selection of pixels of the image for a pixel of the view.
    pub enum Resampling {
        /// The nearest pixel.
        Nearest = "nearest",
        /// Linear interpolation between four pixels.
        Bilinear = "bilinear",
        /// Linear interpolation over all pixels that a pixel of the view covers, against moiré when
        /// an image is made much smaller.
        AntialiasBilinear = "antialias_bilinear",
        /// Cubic interpolation over all pixels that a pixel of the view covers.
        AntialiasBicubic = "antialias_bicubic",
    }
}

params! {
    /// Settings of [`ImageView`].
    pub struct ImageViewParams {
        /// Width of the output; without it, that of the image, or that which keeps the aspect ratio
        /// if `height` is set.
        pub width: Option<u32>, range 1.0..=16384.0, unit "px";
        /// Height of the output; without it, that of the image, or that which keeps the aspect ratio
        /// if `width` is set.
        pub height: Option<u32>, range 1.0..=16384.0, unit "px";
        /// Fit of the image to this size.
        pub fit: Fit = "letterbox";
        /// Value of the border of a letterbox.
        pub pad: u32 = "114", range 0.0..=255.0;
        /// Pixel format of the output.
        pub format: ViewFormat = "rgb8";
        /// Interpolation of pixels.
        pub resampling: Resampling = "bilinear";
    }
}

/// Converts images to another size and pixel format.
///
/// All 8-bit formats are accepted. The map to the source image and the calibration of the camera
/// travel along, so results that are found in the view are still reported in pixels of the source.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, ParamValue, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_vision::{ImageView, ImageViewParams};
///
/// let size = [("width", 64), ("height", 64)];
/// let values = size.map(|(name, size)| (name.to_owned(), ParamValue::Int(size))).into();
/// let params = ImageViewParams::from_values(&values).unwrap();
/// let mut bench = NodeBench::new(ImageView::open(params, &OpenCx::default())?);
/// let mut image = Image::default();
/// image.reshape(PixelFormat::Yuyv, 128, 72)?.fill(128);
/// let sent = bench.call(ImageView::IMAGES, Timestamp::ZERO, image)?;
/// let view = sent[0].1.get::<Image>().unwrap();
/// assert_eq!((view.width(), view.height(), view.format()), (64, 64, PixelFormat::Rgb8));
/// // The border at the top has 14 rows, and its pixels lie outside of the source.
/// assert_eq!(view.bytes()[0], 114);
/// assert_eq!(view.to_source.apply([0.0, 14.0]), [0.0, 0.0]);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct ImageView {
    params: ImageViewParams,
    /// Tables for the last kind of images.
    plan: Option<(Source, Plan)>,
}

ports! {
    impl ImageView {
        /// Images of any size, in a format of 8 bits.
        in IMAGES: Image;
        /// The images in the size and format of the parameters.
        out VIEWS: Image, in_step;
    }
}

impl ImageView {
    /// Width and height of the view of `source`.
    fn size(&self, source: &Source) -> [usize; 2] {
        let (width, height) = (source.width, source.height);
        let scaled = |side: usize, to: u32, from: usize| {
            (side as f64 * f64::from(to) / from as f64).round().clamp(1.0, 16_384.0) as usize
        };
        match (self.params.width, self.params.height) {
            (None, None) => [width, height],
            (Some(to), None) => [to as usize, scaled(height, to, width)],
            (None, Some(to)) => [scaled(width, to, height), to as usize],
            (Some(width), Some(height)) => [width as usize, height as usize],
        }
    }

    /// Map from pixels of the view to those of the image.
    fn to_image(&self, source: &Source) -> Affine {
        let size = self.size(source);
        let ImageViewParams { fit, width, height, .. } = self.params;
        // A size that follows from the other one has the aspect ratio, except for rounding.
        let fit = if width.is_none() || height.is_none() { Fit::Stretch } else { fit };
        fit.to_image([source.width, source.height], size)
    }

    fn plan(&self, source: Source) -> Result<Plan, String> {
        let [width, height] = self.size(&source);
        let target = Target {
            width,
            height,
            channels: match self.params.format {
                ViewFormat::Rgb8 => Channels::Rgb,
                ViewFormat::Bgr8 => Channels::Bgr,
                ViewFormat::Mono8 => Channels::Gray,
            },
            order: Order::Nhwc,
            pad: self.params.pad as f32,
            scale: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
        };
        let sampling = match self.params.resampling {
            Resampling::Nearest => Sampling::Nearest,
            Resampling::Bilinear => Sampling::Bilinear,
            Resampling::AntialiasBilinear => Sampling::AntialiasBilinear,
            Resampling::AntialiasBicubic => Sampling::AntialiasBicubic,
        };
        let plan = Plan::new(source, target, self.to_image(&source).0, sampling);
        plan.map_err(|error| error.to_string())
    }
}

impl Node for ImageView {
    type Params = ImageViewParams;

    const NAME: &'static str = "image_view";
    const SUMMARY: &'static str = "Converts images to another size and pixel format.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: ImageViewParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, plan: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES).filter(|image| !image.bytes().is_empty()) else {
            return Ok(());
        };
        let fault = |reason| NodeError::InvalidInput { port: Self::IMAGES.name().into(), reason };
        let source = source_of(image).map_err(fault)?;
        if self.plan.as_ref().is_none_or(|(known, _)| *known != source) {
            self.plan = Some((source, self.plan(source).map_err(fault)?));
        }
        let to_image = self.to_image(&source);
        let mut view = cx.loan(Self::VIEWS);
        if let Some((_, plan)) = &mut self.plan {
            let format = match self.params.format {
                ViewFormat::Rgb8 => PixelFormat::Rgb8,
                ViewFormat::Bgr8 => PixelFormat::Bgr8,
                ViewFormat::Mono8 => PixelFormat::Mono8,
            };
            let out = view.reshape(format, plan.target().width, plan.target().height)?;
            let run = with_planes(image, |planes| plan.run(Isa::best(), planes, out));
            run.map_err(fault)?;
        }
        view.derive_from(image, &to_image);
        cx.send(Self::VIEWS, view);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use afferent_graph::{NodeBench, Params, Timestamp};
    use afferent_messages::{Camera, ColorMatrix, ColorRange, Colorimetry};

    use super::*;

    fn open(settings: &[(&str, &str)]) -> NodeBench<ImageView> {
        let values = settings.iter().map(|(name, text)| {
            let param = ImageViewParams::PARAMS.iter().find(|param| param.name == *name);
            ((*name).to_owned(), param.unwrap().parse(text).unwrap())
        });
        let params = ImageViewParams::from_values(&values.collect()).unwrap();
        NodeBench::new(ImageView::open(params, &OpenCx::default()).unwrap())
    }

    fn view(bench: &mut NodeBench<ImageView>, image: &Image) -> Image {
        let sent = bench.call(ImageView::IMAGES, Timestamp::ZERO, image.clone()).unwrap();
        sent[0].1.get::<Image>().unwrap().clone()
    }

    fn image(format: PixelFormat, width: usize, height: usize) -> Image {
        let len = width * format.pixel_bytes() * format.stored_rows(height);
        let bytes: Vec<u8> = (0..len).map(|at| (at * at / 7 + at) as u8).collect();
        Image::new(format, width, height, width * format.pixel_bytes(), &bytes).unwrap()
    }

    /// The image of `tests/data/views.py`, of 24 × 16 pixels.
    fn smooth_image(format: PixelFormat) -> Image {
        let row = 24 * format.pixel_bytes();
        let value = |at: usize| {
            let (y, x, channel) =
                (at / row, at % row / format.pixel_bytes(), at % format.pixel_bytes());
            let phase = y as f64 * 0.31 + x as f64 * 0.17 + channel as f64 * 1.3;
            (120.0 + 80.0 * phase.sin()).floor() as u8
        };
        let bytes: Vec<u8> = (0..row * format.stored_rows(16)).map(value).collect();
        Image::new(format, 24, 16, row, &bytes).unwrap()
    }

    #[test]
    fn views_are_those_of_opencv_and_pillow() {
        use PixelFormat as F;
        let mut rest = include_bytes!("../tests/data/views.bin").as_slice();
        for (format, [width, height], resampling, to, what) in [
            (F::Rgb8, ["11", "9"], "bilinear", "rgb8", "cv2.resize"),
            (F::Rgb8, ["30", "20"], "bilinear", "rgb8", "cv2.resize"),
            (F::Rgb8, ["11", "9"], "antialias_bilinear", "rgb8", "Pillow, bilinear"),
            (F::Rgb8, ["11", "9"], "antialias_bicubic", "rgb8", "Pillow, bicubic"),
            (F::Yuyv, ["24", "16"], "nearest", "rgb8", "cv2.cvtColor, YUYV"),
            (F::Uyvy, ["24", "16"], "bilinear", "rgb8", "cv2.cvtColor, UYVY"),
            (F::Nv12, ["24", "16"], "bilinear", "rgb8", "cv2.cvtColor, NV12"),
            (F::Rgb8, ["24", "16"], "bilinear", "mono8", "cv2.cvtColor, gray"),
        ] {
            let mut bench = open(&[
                ("width", width),
                ("height", height),
                ("fit", "stretch"),
                ("resampling", resampling),
                ("format", to),
            ]);
            let found = view(&mut bench, &smooth_image(format));
            let (expected, after) = rest.split_at(found.bytes().len());
            rest = after;
            for (at, (found, expected)) in found.bytes().iter().zip(expected).enumerate() {
                assert!(found.abs_diff(*expected) <= 1, "{what}, byte {at}: {found}, {expected}");
            }
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn geometry_and_camera_travel_along() {
        let mut source = image(PixelFormat::Rgb8, 40, 20);
        let k = [[50.0, 0.0, 19.5], [0.0, 50.0, 9.5], [0.0, 0.0, 1.0]];
        source.camera = Some(Arc::new(Camera::from_matrix(40, 20, k)));
        source.frame_id.push_str("front");
        let mut bench = open(&[("width", "20"), ("height", "20"), ("fit", "crop")]);
        let found = view(&mut bench, &source);
        assert_eq!((found.camera.clone(), &*found.frame_id), (source.camera.clone(), "front"));
        assert_eq!(found.to_source, Affine::scale_and_shift([1.0; 2], [10.0, 0.0]));
        // A view of the view.
        let again = view(&mut open(&[("width", "10")]), &found);
        assert_eq!(again.to_source, Affine::scale_and_shift([2.0; 2], [10.0, 0.0]));
        let matrix = again.camera.as_ref().unwrap().matrix_of(&again.to_source).unwrap();
        assert_eq!(matrix[0], [25.0, 0.0, (19.5 + 0.5 - 10.0) / 2.0 - 0.5]);
        let pixels: Vec<u8> = source.rows().flat_map(|row| row[30..90].iter().copied()).collect();
        assert_eq!(found.bytes(), pixels);
    }

    #[test]
    fn sizes_keep_the_aspect_ratio() {
        let source = image(PixelFormat::Nv12, 64, 36);
        for (settings, size) in [
            (&[][..], (64, 36)),
            (&[("width", "32")][..], (32, 18)),
            (&[("height", "9")][..], (16, 9)),
            (&[("width", "10"), ("height", "30"), ("fit", "stretch")][..], (10, 30)),
        ] {
            let found = view(&mut open(settings), &source);
            assert_eq!((found.width(), found.height()), size);
        }
    }

    #[test]
    fn colors_follow_the_colorimetry() {
        let mut source = Image::new(PixelFormat::Yuyv, 2, 1, 4, &[81, 90, 81, 240]).unwrap();
        let mut bench = open(&[]);
        assert_eq!(view(&mut bench, &source).bytes(), [254, 0, 0, 254, 0, 0], "red of BT.601");
        source.colorimetry = Colorimetry { matrix: ColorMatrix::Bt709, range: ColorRange::Full };
        let other = view(&mut bench, &source);
        // R = 81 + 1.5748 (240 - 128), and G and B likewise.
        assert_eq!(other.bytes()[..3], [255, 36, 10]);
        assert_eq!(other.colorimetry, Colorimetry::default());
        let gray = view(&mut open(&[("format", "mono8")]), &source);
        assert_eq!(gray.bytes(), [81, 81]);
    }

    #[test]
    fn changes_of_the_images_are_followed() {
        let mut bench = open(&[("width", "8"), ("height", "8"), ("format", "bgr8")]);
        for (format, width) in
            [(PixelFormat::Rgb8, 8), (PixelFormat::Bgr8, 8), (PixelFormat::Mono8, 4)]
        {
            let found = view(&mut bench, &image(format, width, width));
            assert_eq!((found.width(), found.format()), (8, PixelFormat::Bgr8));
        }
        let same = image(PixelFormat::Bgr8, 8, 8);
        assert_eq!(view(&mut bench, &same).bytes(), same.bytes());
        assert!(
            bench.call(ImageView::IMAGES, Timestamp::ZERO, Image::default()).unwrap().is_empty()
        );
    }

    #[test]
    fn images_without_colors_are_refused() {
        let depth = image(PixelFormat::Depth16, 4, 4);
        let error = open(&[]).call(ImageView::IMAGES, Timestamp::ZERO, depth).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("images in 16UC1 are not supported; accepted are mono8"), "{error}");
    }
}
