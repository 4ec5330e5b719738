//! Poses of bodies.

use std::{path::PathBuf, sync::atomic::Ordering};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Affine, Image,
    vision::{Body, BodyPose as Bodies, Detection, Detections, Keypoint, Skeleton},
};

use crate::{
    boxes::{Candidate, Edges, Suppression},
    fit,
    regions::{RegionInput, Regions, box_in_source, edges_in},
    vision_model::VisionModel,
};

pub(crate) mod layout;

use layout::{Keypoints, Layout};

params! {
    /// Settings of [`BodyPose`].
    pub struct BodyPoseParams {
        /// Path of the model package, program, or folder of an Ultralytics export.
        pub model: PathBuf;
        /// Score from which on a keypoint is visible. Others keep their position and get the score 0.
        pub keypoint: f32 = "0.3", range 0.0..=1.0;
        /// Score above which a body is reported, for models that find bodies by themselves.
        pub score: f32 = "0.25", range 0.0..=1.0;
        /// Overlap (intersection over union) above which two boxes are the same body, for such models.
        pub iou: f32 = "0.7", range 0.0..=1.0;
        /// Largest number of bodies in an image.
        pub max: usize = "20", range 1.0..=1000.0;
        /// Names of the classes of `detections` that have a body, with commas between them; `all` for
        /// every class.
        pub classes: String = "person";
    }
}

/// Finds the joints of bodies in images with a model.
///
/// The layout of the outputs is recognized by their shapes:
///
/// | outputs of `forward` | models | bodies |
/// |---|---|---|
/// | `[1, keypoints, bins * width]`, `[1, keypoints, bins * height]` | RTMPose and other SimCC models | one in each region |
/// | `[1, 5 + 3 * keypoints, boxes]`: center, size, score, keypoints | Ultralytics YOLOv8-pose to YOLO12-pose | found by the model |
/// | `[1, boxes, 6 + 3 * keypoints]`: corners, score, class, keypoints | YOLO26-pose | found by the model |
///
/// The skeleton follows from the number of keypoints: 17, 26, 33 or 133 ([`Skeleton`]). Positions are in
/// pixels of the source image, and may lie outside of it.
///
/// A SimCC model runs once for each object of `detections` that is a person, on the region that mmpose
/// uses: the box, 1.25 times as large, widened to the aspect ratio of the input. The body has the box,
/// score and track of the detection. Join the detections with the images, as in `detections: {from:
/// detect.detections, sync: exact}`; an image that gets none has no poses. Without `detections`, the
/// whole image is taken as the box of one body, whose score is the mean of its keypoints. Unless
/// `model.yaml` says otherwise, the region is normalized as in mmpose, with mean 123.675, 116.28, 103.53
/// and deviation 58.395, 57.12, 57.375; a `resize` in it is not used.
///
/// Other models run once for each image. Unless `model.yaml` says otherwise, it is a letterbox with
/// values from 0 to 1, and overlapping boxes are merged where the model leaves them.
///
/// The model is a package with the task `body_pose`, a program, or the folder that Ultralytics exports
/// with `format=executorch`.
///
/// Latency: a run of the model, for each body if they are detected before.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision};
/// use afferent_nodes_vision::{BodyPose, BodyPoseParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pose_simcc.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = BodyPoseParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(BodyPose::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Rgb8, 64, 64, 192, &[128; 64 * 64 * 3])?;
/// let sent = bench.call(BodyPose::IMAGES, Timestamp::ZERO, image)?;
/// let found = sent[0].1.get::<vision::BodyPose>().unwrap();
/// assert_eq!((found.bodies.len(), found.bodies[0].keypoints.len()), (1, 17));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct BodyPose {
    params: BodyPoseParams,
    model: VisionModel,
    layout: Layout,
    skeleton: Skeleton,
    regions: RegionInput,
}

ports! {
    impl BodyPose {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Objects of each image, joined with it, for a model that sees one body.
        in DETECTIONS: Detections, optional;
        /// Bodies of each image, the most probable first.
        out POSES: Bodies, in_step;
    }
}

/// Growth of a box to the region of a body, as `GetBBoxCenterScale` of mmpose.
const GROWTH: f64 = 1.25;

/// The region of a body in an image. mmpose maps the centers of pixels as `fit::region` maps their
/// corners.
fn region(edges: Edges, size: [usize; 2]) -> Affine {
    let half = Affine::scale_and_shift([1.0; 2], [0.5; 2]);
    let back = Affine::scale_and_shift([1.0; 2], [-0.5; 2]);
    half.after(&fit::region(edges.0.map(f64::from), size, GROWTH)).after(&back)
}

impl BodyPose {
    fn keypoints(&self, to_source: &Affine, found: &Keypoints) -> Vec<Keypoint> {
        let keypoint = |(position, score): &([f32; 2], f32)| {
            let position = to_source.apply(position.map(f64::from)).map(|value| value as f32);
            let is_known = position.iter().all(|value| value.is_finite());
            let is_visible = is_known && *score > 0.0 && *score >= self.params.keypoint;
            Keypoint {
                position: if is_known { position } else { [0.0; 2] },
                score: if is_visible { *score } else { 0.0 },
            }
        };
        found.iter().map(keypoint).collect()
    }

    fn is_chosen(&self, label: &str) -> bool {
        let mut names = self.params.classes.split(',').map(str::trim);
        names.any(|name| name == "all" || name == label)
    }

    /// The boxes of the bodies in an image, and what is known of them.
    fn boxes(&self, image: &Image, regions: Regions) -> Vec<(Edges, Body)> {
        let Regions::Detected(mut found) = regions else {
            let edges = Edges([0.0, 0.0, image.width() as f32, image.height() as f32]);
            let bounds = box_in_source(image, edges);
            return vec![(edges, Body { bounds, ..Body::default() })];
        };
        found.retain(|one| self.is_chosen(&one.label));
        // Stable: of equal scores, the first one stays first.
        found.sort_by(|one, other| other.score.total_cmp(&one.score));
        let body = |one: Detection| {
            let Detection { score, bounds, track, .. } = one;
            Some((edges_in(image, &bounds)?, Body { score, bounds, track, keypoints: Vec::new() }))
        };
        found.into_iter().filter_map(body).take(self.params.max).collect()
    }

    /// The pose of one body in each region.
    fn top_down(
        &mut self,
        cx: &mut Cx<'_>,
        image: &Image,
        regions: Regions,
    ) -> Result<Vec<Body>, NodeError> {
        let is_whole = matches!(regions, Regions::Whole);
        let canceled = cx.cancel_flag();
        let (boxes, layout) = (self.boxes(image, regions), self.layout);
        let shape = self.model.image().shape();
        let (size, settings) = ([shape.width, shape.height], self.suppression());
        let mut bodies = Vec::with_capacity(boxes.len());
        for (edges, mut body) in boxes {
            if canceled.load(Ordering::Relaxed) {
                return Err(NodeError::Canceled);
            }
            let (to_image, model) = (region(edges, size), &mut self.model);
            let found = cx.time_model(|| {
                model.run_region(image, &to_image, |input, outputs| {
                    layout.read(outputs, input.shape(), 0.0, &settings)
                })
            })?;
            for (_, keypoints) in &found {
                body.keypoints = self.keypoints(&self.model.image().to_source(), keypoints);
            }
            if is_whole {
                let sum: f32 = body.keypoints.iter().map(|one| one.score.clamp(0.0, 1.0)).sum();
                body.score = sum / body.keypoints.len() as f32;
            }
            bodies.push(body);
        }
        Ok(bodies)
    }

    /// All bodies that the model finds in the image.
    fn whole(&mut self, cx: &mut Cx<'_>, image: &Image) -> Result<Vec<Body>, NodeError> {
        let (layout, score, settings) = (self.layout, self.params.score, self.suppression());
        let model = &mut self.model;
        let found = cx.time_model(|| {
            model.run(image, |input, outputs| layout.read(outputs, input.shape(), score, &settings))
        })?;
        let to_source = self.model.image().to_source();
        let body = |(candidate, keypoints): &(Option<Candidate>, Keypoints)| {
            let candidate = (*candidate)?;
            let bounds = self.model.image().box_in_source(candidate.edges)?;
            let keypoints = self.keypoints(&to_source, keypoints);
            Some(Body { score: candidate.score, bounds, keypoints, track: None })
        };
        Ok(found.iter().filter_map(body).collect())
    }

    fn suppression(&self) -> Suppression {
        let BodyPoseParams { iou, max, .. } = self.params;
        Suppression { overlap: iou, is_agnostic: true, most: max }
    }
}

impl Node for BodyPose {
    type Params = BodyPoseParams;

    const NAME: &'static str = "body_pose";
    const SUMMARY: &'static str = "Finds the joints of bodies in images with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model, for each body if they are detected before";

    fn open(params: BodyPoseParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let model = VisionModel::open(&params.model, "body_pose", cx, Layout::image)?;
        let found = Layout::find(model.outputs(), model.image().shape());
        let (layout, skeleton) = found.map_err(|reason| model.error(reason))?;
        let regions = RegionInput::open(Self::DETECTIONS, cx);
        if regions.is_connected() && !layout.is_top_down() {
            let reason = "it finds the bodies by itself: leave the input detections unconnected";
            return Err(model.error(reason));
        }
        Ok(Self { params, model, layout, skeleton, regions })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let regions = self.regions.read(cx)?;
        // A second holder of the image: it is not copied.
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let bodies = match (self.layout.is_top_down(), regions) {
            (true, Regions::Missing) => return Ok(()),
            (true, regions) => self.top_down(cx, image, regions)?,
            (false, _) => self.whole(cx, image)?,
        };
        let (frame_id, skeleton) = (image.frame_id.clone(), self.skeleton);
        cx.send(Self::POSES, Bodies { frame_id, skeleton, bodies });
        Ok(())
    }
}
