//! Results for the viewers of recordings.

use std::{sync::Arc, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{
    Camera, Image,
    vision::{
        AnnotationLabel, AnnotationShape, BodyPose, CameraCalibration, Classes, Detections, Hands,
        ImageAnnotations, ShapeKind, TextRegions,
    },
};

use crate::drawing::{
    Color, Draw, draw_bodies, draw_classes, draw_detections, draw_hands, draw_texts,
};

params! {
    /// Settings of [`Annotations`].
    pub struct AnnotationsParams {
        /// Time after which a result is no longer shown beside newer ones.
        pub keep: Duration = "1s", range 0.001..=3600.0;
        /// Time between two calibrations.
        pub every: Duration = "1s", range 0.001..=3600.0;
    }
}

/// Converts results of vision models to lines and text that viewers such as Foxglove draw over the images of
/// a recording, and sends the calibration of the camera.
///
/// `overlay` draws into the images; this node leaves them as they are. The annotations hold the last result
/// of each input.
///
/// ```yaml
/// viewer: {use: annotations, in: {images: camera.images, detections: objects.detections}}
/// ```
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::vision::{Box2d, Detection, Detections, ImageAnnotations};
/// use afferent_nodes_vision::{Annotations, AnnotationsParams};
///
/// let params = AnnotationsParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(Annotations::open(params, &OpenCx::default())?);
/// let bounds = Box2d::from_corners([10.0, 20.0], [30.0, 60.0]);
/// let cup = Detection { label: "cup".into(), score: 0.9, bounds, track: None };
/// let found = Detections { detections: vec![cup], ..Detections::default() };
/// let sent = bench.call(Annotations::DETECTIONS, Timestamp::ZERO, found)?;
/// let drawn = sent[0].1.get::<ImageAnnotations>().unwrap();
/// assert_eq!(drawn.shapes[0].points[0], [10.0, 20.0]);
/// assert_eq!(drawn.labels[0].text, "cup  90 %");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Annotations {
    params: AnnotationsParams,
    /// Annotations of the last result of each input, with its time.
    drawn: [Option<(Timestamp, ImageAnnotations)>; 5],
    /// The last calibration, and its time.
    sent: Option<(Timestamp, Arc<Camera>)>,
}

ports! {
    impl Annotations {
        /// Images with the calibration of their camera.
        in IMAGES: Image, optional;
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
        /// Lines and text, at the time of the newest result.
        out ANNOTATIONS: ImageAnnotations, optional;
        /// The calibration of the images: at first, after a change, and again after `every`.
        out CALIBRATION: CameraCalibration, optional;
    }
}

impl Annotations {
    /// Sends the calibration of an image, unless it was sent lately.
    fn calibrate(&mut self, cx: &mut Cx<'_>, image: &Image) {
        let Some(camera) = &image.camera else { return };
        let at = cx.at();
        let is_known = self.sent.as_ref().is_some_and(|(last, known)| {
            let is_recent = at.since(*last).max(last.since(at)) < self.params.every;
            is_recent && known == camera
        });
        if !is_known {
            self.sent = Some((at, camera.clone()));
            let (frame_id, camera) = (image.frame_id.clone(), camera.clone());
            cx.send(Self::CALIBRATION, CameraCalibration { frame_id, camera });
        }
    }
}

/// Lines that are collected, one shape for each color.
#[derive(Default)]
struct Sketch(ImageAnnotations);

/// Height of a line of text in the corner, in pixels.
const LINE_PX: f32 = 14.0;

impl Sketch {
    /// The last shape, if it is of this kind and color, or else a new one.
    fn shape(&mut self, kind: ShapeKind, color: Color) -> &mut Vec<[f32; 2]> {
        let shapes = &mut self.0.shapes;
        let is_same = shapes.last().is_some_and(|last| last.kind == kind && last.color == color);
        if !is_same || kind == ShapeKind::Outline {
            shapes.push(AnnotationShape { kind, points: Vec::new(), color });
        }
        let last = shapes.len() - 1;
        &mut shapes[last].points
    }
}

impl Draw for Sketch {
    fn line(&mut self, from: [f32; 2], to: [f32; 2], color: Color) {
        self.shape(ShapeKind::Lines, color).extend([from, to]);
    }

    fn outline(&mut self, corners: &[[f32; 2]], color: Color) {
        self.shape(ShapeKind::Outline, color).extend(corners);
    }

    fn dot(&mut self, at: [f32; 2], color: Color) {
        self.shape(ShapeKind::Points, color).push(at);
    }

    fn label(&mut self, at: [f32; 2], text: &str, color: Color, background: Color) {
        let text = text.to_owned();
        self.0.labels.push(AnnotationLabel { position: at, text, color, background });
    }

    fn line_of_text(&mut self, line: usize, text: &str, color: Color, background: Color) {
        self.label([0.0, (line + 1) as f32 * LINE_PX], text, color, background);
    }
}

impl Node for Annotations {
    type Params = AnnotationsParams;

    const NAME: &'static str = "annotations";
    const SUMMARY: &'static str = "Converts results to lines and text for viewers of recordings.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: AnnotationsParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, drawn: Default::default(), sent: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(packet) = cx.packet().cloned()
            && let Some(image) = packet.get::<Image>()
        {
            self.calibrate(cx, image);
            return Ok(());
        }
        let mut sketch = Sketch::default();
        let input = if let Some(found) = cx.get(Self::DETECTIONS) {
            draw_detections(&mut sketch, found);
            0
        } else if let Some(found) = cx.get(Self::HANDS) {
            draw_hands(&mut sketch, found);
            1
        } else if let Some(found) = cx.get(Self::TEXTS) {
            draw_texts(&mut sketch, found);
            2
        } else if let Some(found) = cx.get(Self::POSES) {
            draw_bodies(&mut sketch, found);
            3
        } else if let Some(found) = cx.get(Self::CLASSES) {
            draw_classes(&mut sketch, found);
            4
        } else {
            return Ok(());
        };
        let at = cx.at();
        self.drawn[input] = Some((at, sketch.0));
        let is_shown = |time: &Timestamp| at.since(*time).max(time.since(at)) <= self.params.keep;
        let mut all = ImageAnnotations::default();
        for (_, drawn) in self.drawn.iter().flatten().filter(|(time, _)| is_shown(time)) {
            all.shapes.extend_from_slice(&drawn.shapes);
            all.labels.extend_from_slice(&drawn.labels);
        }
        cx.send(Self::ANNOTATIONS, all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params};
    use afferent_messages::{
        PixelFormat,
        vision::{Body, Box2d, Detection, Hand, Keypoint},
    };

    use super::*;

    fn bench() -> NodeBench<Annotations> {
        let params = AnnotationsParams::from_values(&ParamValues::new()).unwrap();
        NodeBench::new(Annotations::open(params, &OpenCx::default()).unwrap())
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn the_last_result_of_each_input_is_shown() {
        let mut bench = bench();
        let bounds = Box2d::from_corners([1.0, 2.0], [3.0, 4.0]);
        let cup = Detection { label: "cup".into(), score: 0.5, bounds, track: Some(7) };
        let found = Detections { detections: vec![cup], ..Detections::default() };
        let sent = bench.call(Annotations::DETECTIONS, Timestamp(0), found).unwrap();
        let drawn = sent[0].1.get::<ImageAnnotations>().unwrap();
        let corners = [[1.0, 2.0], [3.0, 2.0], [3.0, 4.0], [1.0, 4.0]];
        assert_eq!(drawn.shapes[0].points, corners);
        assert_eq!((drawn.shapes.len(), &*drawn.labels[0].text), (1, "cup 7  50 %"));

        let hands = Hands { hands: vec![Hand::default()], ..Hands::default() };
        let mut kinds = |at: i64| {
            let sent = bench.call(Annotations::HANDS, Timestamp(at), hands.clone()).unwrap();
            let drawn = sent[0].1.get::<ImageAnnotations>().unwrap();
            drawn.shapes.iter().map(|shape| (shape.kind, shape.points.len())).collect::<Vec<_>>()
        };
        let hand = [(ShapeKind::Lines, 42), (ShapeKind::Points, 21)];
        assert_eq!(kinds(SECOND / 2), [[(ShapeKind::Outline, 4)].as_slice(), &hand].concat());
        assert_eq!(kinds(2 * SECOND), hand, "the box is old");
    }

    #[test]
    fn points_that_are_not_seen_are_left_out() {
        let mut keypoints = vec![Keypoint { position: [5.0, 6.0], score: 0.9 }; 17];
        keypoints[0].score = 0.0;
        let body = Body { keypoints, ..Body::default() };
        let found = BodyPose { bodies: vec![body], ..BodyPose::default() };
        let sent = bench().call(Annotations::POSES, Timestamp(0), found).unwrap();
        let drawn = sent[0].1.get::<ImageAnnotations>().unwrap();
        let counts: Vec<usize> = drawn.shapes.iter().map(|shape| shape.points.len()).collect();
        assert_eq!(counts, [28, 16], "two limbs begin at the nose");
    }

    #[test]
    fn calibrations_are_sent_once_in_a_while() {
        let mut bench = bench();
        let k = [[50.0, 0.0, 31.5], [0.0, 50.0, 23.5], [0.0, 0.0, 1.0]];
        let camera = Arc::new(Camera::from_matrix(64, 48, k));
        let mut send = |at: i64, camera: Option<&Arc<Camera>>| {
            let mut image = Image::default();
            image.reshape(PixelFormat::Mono8, 64, 48).unwrap();
            image.camera = camera.cloned();
            let sent = bench.call(Annotations::IMAGES, Timestamp(at), image).unwrap();
            let sent = sent.iter().filter_map(|(_, packet)| packet.get::<CameraCalibration>());
            sent.map(|calibration| calibration.camera.width).collect::<Vec<_>>()
        };
        assert_eq!(send(0, None), [0; 0]);
        assert_eq!(send(1, Some(&camera)), [64]);
        assert_eq!(send(SECOND / 2, Some(&camera)), [0; 0]);
        assert_eq!(send(SECOND + 1, Some(&camera)), [64]);
        let other = Arc::new(Camera { width: 80, ..(*camera).clone() });
        assert_eq!(send(SECOND + 2, Some(&other)), [80]);
    }
}
