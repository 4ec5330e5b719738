//! Results that are drawn into images.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Affine, Image, PixelFormat,
    vision::{BodyPose, Classes, Depth, DepthKind, Detections, Hands, Mask, MaskKind, TextRegions},
};
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};

use crate::{
    drawing::{
        COLORS, color_of, draw_bodies, draw_classes, draw_detections, draw_hands, draw_texts,
    },
    pixels::{source_of, with_planes},
};

mod canvas;

use canvas::Canvas;

params! {
    /// Settings of [`Overlay`].
    pub struct OverlayParams {
        /// Share of the color of the depth in the image.
        pub depth_opacity: f64 = "0.6", range 0.0..=1.0;
        /// Share of the color of a mask in the image.
        pub mask_opacity: f64 = "0.5", range 0.0..=1.0;
        /// Depth in meters that has the color of far points; nearer ones go over green and red.
        pub far: f64 = "5", range 0.1..=1000.0, unit "m";
    }
}

/// Draws results into the images that they were found in.
///
/// Boxes have the color of their track, or of their class. Hands and bodies are drawn as their bones,
/// text as its outline with the words, classes in the upper left corner, masks as a color for each
/// class or object, and depth as colors from red (near) over
/// green to blue (far); relative depth is spread over its values in the image.
///
/// Join each result with its image by `sync: exact`, as in `detections: {from: detect.detections,
/// sync: exact}`: results lie in pixels of the source image and are drawn at the same points, also if
/// the image is a crop. Without `sync`, the last result would be drawn into later images.
///
/// Images on the GPU ([`GpuImage`](crate::GpuImage)) with depth, or without a result, are drawn there.
///
/// Latency: that of the slowest result.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_vision::{Overlay, OverlayParams};
///
/// let params = OverlayParams::from_values(&Default::default()).unwrap();
/// let mut bench = NodeBench::new(Overlay::open(params, &OpenCx::default())?);
/// let mut image = Image::default();
/// image.reshape(PixelFormat::Nv12, 64, 48)?.fill(128);
/// let sent = bench.call(Overlay::IMAGES, Timestamp::ZERO, image)?;
/// let drawn = sent[0].1.get::<Image>().unwrap();
/// assert_eq!((drawn.width(), drawn.format()), (64, PixelFormat::Rgb8));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Overlay {
    params: OverlayParams,
    /// Tables for the last kind of images.
    plan: Option<(Source, Plan)>,
    #[cfg(feature = "gpu")]
    gpu: Option<afferent_gpu::Gpu>,
    #[cfg(feature = "gpu")]
    depth_colors: crate::gpu::DepthColors,
}

ports! {
    impl Overlay {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Boxes of objects.
        in DETECTIONS: Detections, optional;
        /// Hands.
        in HANDS: Hands, optional;
        /// Regions with text.
        in TEXTS: TextRegions, optional;
        /// Bodies.
        in POSES: BodyPose, optional;
        /// Classes of the image.
        in CLASSES: Classes, optional;
        /// Classes, objects or foreground of the pixels.
        in MASK: Mask, optional;
        /// Depth of the image.
        in DEPTH: Depth, optional;
        /// The images as `rgb8` with the results.
        out DRAWN: Image, in_step;
    }
}

/// Color of a nearness from 0 to 1: blue, green, red.
fn color_of_nearness(near: f64) -> [f64; 3] {
    let near = near.clamp(0.0, 1.0);
    let part = |center: f64| (1.0 - (near - center).abs() * 2.0).clamp(0.0, 1.0) * 255.0;
    [part(1.0), part(0.5), part(0.0)]
}

impl Overlay {
    /// Converts `image` to `rgb8`.
    fn convert(&mut self, image: &Image, drawn: &mut Image) -> Result<(), NodeError> {
        let fault = |reason| NodeError::InvalidInput { port: Self::IMAGES.name().into(), reason };
        let source = source_of(image).map_err(fault)?;
        if self.plan.as_ref().is_none_or(|(known, _)| *known != source) {
            let target = Target {
                width: source.width,
                height: source.height,
                channels: Channels::Rgb,
                order: Order::Nhwc,
                pad: 0.0,
                scale: 1.0,
                mean: [0.0; 3],
                std: [1.0; 3],
            };
            let plan = Plan::new(source, target, Affine::IDENTITY.0, Sampling::Nearest);
            self.plan = Some((source, plan.map_err(|error| fault(error.to_string()))?));
        }
        let out = drawn.reshape(PixelFormat::Rgb8, image.width(), image.height())?;
        if let Some((_, plan)) = &mut self.plan {
            let run = with_planes(image, |planes| plan.run(Isa::best(), planes, out));
            run.map_err(fault)?;
        }
        drawn.derive_from(image, &Affine::IDENTITY);
        Ok(())
    }

    /// Draws depth on the GPU. Returns false if the image is not there, or the packet has other
    /// results.
    #[cfg(feature = "gpu")]
    fn on_device(
        &mut self,
        cx: &Cx<'_>,
        image: &Image,
        drawn: &mut Image,
    ) -> Result<bool, NodeError> {
        let has_more = cx.get(Self::DETECTIONS).is_some()
            || cx.get(Self::HANDS).is_some()
            || cx.get(Self::TEXTS).is_some()
            || cx.get(Self::POSES).is_some()
            || cx.get(Self::CLASSES).is_some()
            || cx.get(Self::MASK).is_some();
        let gpu = self.gpu.as_ref().filter(|gpu| crate::gpu::is_on_device(gpu, image));
        let Some(gpu) = gpu.filter(|_| !has_more) else { return Ok(false) };
        let OverlayParams { depth_opacity: opacity, far, .. } = self.params;
        let colors = crate::gpu::Colors { opacity, far };
        let pixels = self.depth_colors.run(gpu, image, cx.get(Self::DEPTH), &colors);
        let fault = |reason| NodeError::InvalidInput { port: Self::IMAGES.name().into(), reason };
        let pixels = pixels.map_err(fault)?;
        drawn.set_pixels(PixelFormat::Rgb8, image.width(), image.height(), pixels)?;
        drawn.derive_from(image, &Affine::IDENTITY);
        Ok(true)
    }

    fn draw_depth(&self, drawn: &mut Image, depth: &Depth) -> Result<(), NodeError> {
        let Some(from_source) = depth.to_source.inverse() else { return Ok(()) };
        let to_map = from_source.after(&drawn.to_source);
        let values = depth.values.data::<f32>()?;
        let known = values.iter().copied().filter(|value| value.is_finite());
        let (least, most) = known
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let span = f64::from(most - least).max(1e-9);
        let nearness = |value: f32| match depth.kind {
            DepthKind::Metric => 1.0 - f64::from(value) / self.params.far,
            DepthKind::AffineInverse => f64::from(value - least) / span,
        };
        let opacity = self.params.depth_opacity;
        mix(drawn, &to_map, [depth.width(), depth.height()], |index| {
            let value = values[index];
            value.is_finite().then(|| (color_of_nearness(nearness(value)), opacity))
        })
    }
}

/// Mixes a color into each pixel that `to_map` leads into a map of this width and height. `color` gives
/// it and its share by the index in the map; `None` leaves the pixel as it is.
fn mix(
    drawn: &mut Image,
    to_map: &Affine,
    [map_width, map_height]: [usize; 2],
    color: impl Fn(usize) -> Option<([f64; 3], f64)>,
) -> Result<(), NodeError> {
    let (width, height) = (drawn.width(), drawn.height());
    let out = drawn.reshape(PixelFormat::Rgb8, width, height)?;
    for (index, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let [x, y] = to_map.apply([(index % width) as f64 + 0.5, (index / width) as f64 + 0.5]);
        if x < 0.0 || y < 0.0 || x >= map_width as f64 || y >= map_height as f64 {
            continue;
        }
        let Some((color, share)) = color(y as usize * map_width + x as usize) else { continue };
        for (channel, color) in pixel.iter_mut().zip(color) {
            *channel = (f64::from(*channel) * (1.0 - share) + color * share).round() as u8;
        }
    }
    Ok(())
}

/// Mixes the color of each value of a mask into the image. Class 0 and the background stay as they are.
fn draw_mask(drawn: &mut Image, mask: &Mask, opacity: f64) -> Result<(), NodeError> {
    let Some(from_source) = mask.to_source.inverse() else { return Ok(()) };
    let to_mask = from_source.after(&drawn.to_source);
    let values = mask.values.data::<u8>()?;
    mix(drawn, &to_mask, [mask.width(), mask.height()], |index| {
        let value = values[index];
        let (color, share) = match mask.kind {
            MaskKind::Matte => (COLORS[0], f64::from(value) / 255.0),
            _ => (color_of(value.into()), f64::from(u8::from(value > 0))),
        };
        Some((color.map(f64::from), share * opacity))
    })
}

impl Node for Overlay {
    type Params = OverlayParams;

    const NAME: &'static str = "overlay";
    const SUMMARY: &'static str = "Draws results into the images that they were found in.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the slowest result";

    fn open(params: OverlayParams, cx: &OpenCx) -> Result<Self, NodeError> {
        #[cfg(not(feature = "gpu"))]
        let _ = cx;
        Ok(Self {
            params,
            plan: None,
            #[cfg(feature = "gpu")]
            gpu: cx.services.need::<afferent_gpu::Gpu>().ok().cloned(),
            #[cfg(feature = "gpu")]
            depth_colors: crate::gpu::DepthColors::default(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES).filter(|image| image.width() > 0) else {
            return Ok(());
        };
        let mut drawn = cx.loan(Self::DRAWN);
        #[cfg(feature = "gpu")]
        if self.on_device(cx, image, &mut drawn)? {
            cx.send(Self::DRAWN, drawn);
            return Ok(());
        }
        self.convert(image, &mut drawn)?;
        let (to_source, frame_id, camera) =
            (image.to_source, image.frame_id.clone(), image.camera.clone());
        if let Some(depth) = cx.get(Self::DEPTH) {
            self.draw_depth(&mut drawn, depth)?;
        }
        if let Some(mask) = cx.get(Self::MASK) {
            draw_mask(&mut drawn, mask, self.params.mask_opacity)?;
        }
        if let Some(from_source) = to_source.inverse() {
            let (width, height) = (drawn.width(), drawn.height());
            let pixels = drawn.reshape(PixelFormat::Rgb8, width, height)?;
            let mut canvas = Canvas::new(pixels, width, height, from_source);
            if let Some(found) = cx.get(Self::DETECTIONS) {
                draw_detections(&mut canvas, found);
            }
            if let Some(found) = cx.get(Self::HANDS) {
                draw_hands(&mut canvas, found);
            }
            if let Some(found) = cx.get(Self::POSES) {
                draw_bodies(&mut canvas, found);
            }
            if let Some(found) = cx.get(Self::TEXTS) {
                draw_texts(&mut canvas, found);
            }
            if let Some(found) = cx.get(Self::CLASSES) {
                draw_classes(&mut canvas, found);
            }
        }
        (drawn.to_source, drawn.frame_id, drawn.camera) = (to_source, frame_id, camera);
        cx.send(Self::DRAWN, drawn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Params, Timestamp};
    use afferent_messages::vision::{Body, Box2d, Detection, Keypoint};

    use super::*;
    use crate::drawing::TEXT;

    fn overlay() -> Overlay {
        Overlay::open(OverlayParams::from_values(&Default::default()).unwrap(), &OpenCx::default())
            .unwrap()
    }

    fn black(width: usize, height: usize) -> Image {
        Image::new(PixelFormat::Rgb8, width, height, width * 3, &vec![0; width * height * 3])
            .unwrap()
    }

    fn at(image: &Image, x: usize, y: usize) -> [u8; 3] {
        image.bytes().as_chunks::<3>().0[y * image.width() + x]
    }

    #[test]
    fn boxes_are_drawn_where_they_are_in_a_crop() {
        let mut image = black(100, 80);
        // Each pixel is 2 of the source, from (50, 20) on.
        image.to_source = Affine::scale_and_shift([2.0; 2], [50.0, 20.0]);
        let mut canvas_of = image.clone();
        let bounds = Box2d::from_corners([90.0, 80.0], [170.0, 140.0]);
        let detection = Detection { label: "cup".into(), score: 0.9, bounds, track: Some(1) };
        let found = Detections { frame_id: String::new(), detections: vec![detection] };
        let from_source = image.to_source.inverse().unwrap();
        let pixels = canvas_of.reshape(PixelFormat::Rgb8, 100, 80).unwrap();
        draw_detections(&mut Canvas::new(pixels, 100, 80, from_source), &found);
        // In the image: (20, 30) to (60, 60).
        for (x, y) in [(20, 50), (60, 50), (40, 30), (40, 60)] {
            assert_eq!(at(&canvas_of, x, y), color_of(1), "{x} {y}");
        }
        assert_eq!(at(&canvas_of, 40, 45), [0; 3], "the inside");
        assert_eq!(at(&canvas_of, 90, 70), [0; 3]);
        let label: Vec<_> = (20..28).flat_map(|x| (20..30).map(move |y| (x, y))).collect();
        assert!(label.iter().any(|(x, y)| at(&canvas_of, *x, *y) == TEXT), "the label");
    }

    #[test]
    fn depth_is_colored_and_unknown_depth_is_not() {
        let mut image = black(4, 2);
        let mut depth = Depth { kind: DepthKind::Metric, ..Depth::default() };
        depth.reshape(2, 1).unwrap().copy_from_slice(&[0.0, f32::NAN]);
        depth.to_source = Affine::scale_and_shift([2.0; 2], [0.0; 2]);
        overlay().draw_depth(&mut image, &depth).unwrap();
        assert_eq!(at(&image, 1, 1), [153, 0, 0], "60 % of red");
        assert_eq!(at(&image, 2, 1), [0; 3]);
        assert_eq!(color_of_nearness(0.5), [0.0, 255.0, 0.0]);
        assert_eq!(color_of_nearness(-9.0), [0.0, 0.0, 255.0]);
    }

    #[test]
    fn masks_are_mixed_and_bodies_are_drawn() {
        let mut image = black(4, 2);
        let mut mask = Mask { kind: MaskKind::Classes, ..Mask::default() };
        mask.reshape(2, 1).unwrap().copy_from_slice(&[0, 2]);
        mask.to_source = Affine::scale_and_shift([2.0; 2], [0.0; 2]);
        draw_mask(&mut image, &mask, 0.5).unwrap();
        assert_eq!((at(&image, 1, 1), at(&image, 2, 0)), ([0; 3], [53, 120, 87]));
        mask.kind = MaskKind::Matte;
        mask.reshape(2, 1).unwrap().copy_from_slice(&[255, 0]);
        let mut image = black(4, 2);
        draw_mask(&mut image, &mask, 1.0).unwrap();
        assert_eq!((at(&image, 0, 0), at(&image, 3, 1)), (COLORS[0], [0; 3]));

        let mut image = black(60, 40);
        let mut keypoints = vec![Keypoint::default(); 17];
        // From one shoulder to the other.
        keypoints[5] = Keypoint { position: [10.0, 20.0], score: 0.9 };
        keypoints[6] = Keypoint { position: [50.0, 20.0], score: 0.9 };
        let bodies = vec![Body { keypoints, ..Body::default() }];
        let found = BodyPose { bodies, ..BodyPose::default() };
        let pixels = image.reshape(PixelFormat::Rgb8, 60, 40).unwrap();
        draw_bodies(&mut Canvas::new(pixels, 60, 40, Affine::IDENTITY), &found);
        assert_eq!((at(&image, 30, 20), at(&image, 30, 30)), (color_of(0), [0; 3]));
        assert_eq!(at(&image, 0, 0), [0; 3], "keypoints that are not visible");
    }

    #[test]
    fn images_without_results_are_converted() {
        let mut bench = afferent_graph::NodeBench::new(overlay());
        let mut image = Image::default();
        image.reshape(PixelFormat::Mono8, 3, 2).unwrap().copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        let sent = bench.call(Overlay::IMAGES, Timestamp::ZERO, image).unwrap();
        let drawn = sent[0].1.get::<Image>().unwrap();
        assert_eq!(drawn.bytes()[..6], [1, 1, 1, 2, 2, 2]);
        let depth = Image::new(PixelFormat::Depth16, 1, 1, 2, &[0; 2]).unwrap();
        let error = bench.call(Overlay::IMAGES, Timestamp::ZERO, depth).unwrap_err().to_string();
        assert!(error.contains("16UC1"), "{error}");
    }
}
