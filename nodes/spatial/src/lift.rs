//! Detected objects in space.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::{
    Affine, Pose,
    vision::{Depth, Detection, Detection3d, Detections, Detections3d, View},
};
use glam::{DMat3, DVec3};

use crate::camera_view::{CameraView, require_sync};

params! {
    /// Settings of [`Lift`].
    pub struct LiftParams {
        /// Least score of an object.
        pub score: f32 = "0.4", range 0.0..=1.0;
        /// Objects that are farther away are dropped.
        pub max_distance: f64 = "6", range 0.1..=1000.0, unit "m";
        /// Standard deviation of the depth, as a share of it. The errors of a model that estimates depth
        /// from one image are alike in images from nearby: a large value lets the positions follow from
        /// the directions in which an object is seen.
        pub depth_error: f64 = "0.3", range 0.001..=1.0;
    }
}

/// Lifts detected objects into space: from a box in an image, the depth there, and the pose of the
/// camera to a position in the world.
///
/// The depth of an object is the 30th percentile of the depth map in the inner 40 % of its box. The object is
/// taken to be as deep as it is wide, so that its middle lies behind the surface that is seen. The
/// covariance of the position is that of a ray: long along the line of sight, by `depth_error` and the
/// size of the object, and short across it. A box that touches the upper or lower border of the image shows a
/// part of the object; its covariance is as large as the part. One that touches the left or the right border is
/// dropped: its direction is not known.
///
/// Depth maps must be metric, and must have the calibration of their camera. A source of images gets it by its
/// parameter `calibration`. Poses are `world_from_camera`, of the optical frame: z ahead, x to the right,
/// y down. The world has z up.
///
/// ```yaml
/// objects:
///   use: lift
///   in:
///     detections: detect.detections
///     depth: {from: depth.depth, sync: exact}
///     pose: {from: camera.pose, sync: interpolate}
/// ```
///
/// Latency: none.
///
/// ```
/// use std::sync::Arc;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{
///     Camera, Pose,
///     vision::{Box2d, Depth, Detection, Detections, Detections3d},
/// };
/// use afferent_nodes_spatial::{Lift, LiftParams};
///
/// let params = LiftParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(Lift::open(params, &OpenCx::default())?);
/// let camera = Camera::from_matrix(64, 48, [[50.0, 0.0, 31.5], [0.0, 50.0, 23.5], [0.0, 0.0, 1.0]]);
/// let mut depth = Depth { camera: Some(Arc::new(camera)), ..Depth::default() };
/// depth.reshape(64, 48)?.fill(2.0);
/// bench.join(Lift::DEPTH, Timestamp::ZERO, depth);
/// // A camera that looks straight up.
/// bench.join(Lift::POSE, Timestamp::ZERO, Pose { frame_id: "world".to_owned(), ..Pose::default() });
/// let bounds = Box2d::from_corners([27.0, 19.0], [37.0, 29.0]);
/// let lamp = Detection { label: "lamp".into(), score: 0.9, bounds, track: None };
/// let found = Detections { detections: vec![lamp], ..Detections::default() };
/// let sent = bench.call(Lift::DETECTIONS, Timestamp::ZERO, found)?;
/// let objects = sent[0].1.get::<Detections3d>().unwrap();
/// // The middle is half of its width, 0.2 m, behind the surface.
/// assert_eq!(objects.detections[0].position_m, [0.0, 0.0, 2.2]);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Lift {
    params: LiftParams,
}

ports! {
    impl Lift {
        /// Objects of an image.
        in DETECTIONS: Detections;
        /// Depth of the image.
        in DEPTH: Depth;
        /// Pose of the camera at the time of the image.
        in POSE: Pose;
        /// The objects in the frame of the pose. Those whose depth is not known are missing.
        out OBJECTS: Detections3d, in_step;
    }
}

/// Share of a box, along each side, in which the depth is measured.
const INNER: f64 = 0.4;

/// Share of the depths there that are nearer than the object: an object with gaps, such as a chair, shows
/// what is behind it.
const PERCENTILE: f64 = 0.3;

/// Deepest an object is taken to be behind its surface, in meters.
const MAX_HALF_DEPTH_M: f64 = 0.35;

/// Standard deviation of the middle of a box, as a share of its size.
const BOX_ERROR: f64 = 0.1;

/// Distance to the border of the image, in pixels, within which a box is cut off by it.
const BORDER_PX: f64 = 2.0;

impl Lift {
    fn lift(&self, view: &CameraView<'_>, found: &Detection) -> Option<Detection3d> {
        let depths = view.depths_in(&found.bounds, INNER);
        let surface = *depths.get((depths.len() as f64 * PERCENTILE) as usize)?;
        if found.score < self.params.score || surface > self.params.max_distance {
            return None;
        }
        let size_px = found.bounds.size.map(f64::from);
        let [width, height] = [0, 1].map(|axis| size_px[axis] * surface / view.focal_px()[axis]);
        let half_depth = (width / 2.0).min(MAX_HALF_DEPTH_M);
        let center = found.bounds.center.map(f64::from);
        let position = view.point(center, surface + half_depth)?;
        let image = view.size_px().to_array();
        let is_cut = |axis: usize| {
            let (low, high) =
                (center[axis] - size_px[axis] / 2.0, center[axis] + size_px[axis] / 2.0);
            low < BORDER_PX || high > image[axis] - BORDER_PX
        };
        if is_cut(0) {
            return None;
        }
        let height_error = if is_cut(1) { 0.5 } else { BOX_ERROR };
        let along = (self.params.depth_error * surface).hypot(half_depth / 2.0);
        // Across the ray, at least two pixels.
        let least = 2.0 * surface / view.focal_px().x;
        let sigma =
            DVec3::new((width * BOX_ERROR).max(least), (height * height_error).max(least), along);
        let axes = ray_axes(view, position);
        let covariance = axes * DMat3::from_diagonal(sigma * sigma) * axes.transpose();
        if !position.is_finite() || !covariance.is_finite() {
            return None;
        }
        // Along each axis of the world: exact for an object of equal sides.
        let size = DVec3::new(width, height, 2.0 * half_depth);
        let size = (view.rotation() * DMat3::from_diagonal(size)).transpose().to_cols_array_2d();
        Some(Detection3d {
            label: found.label.clone(),
            score: found.score,
            position_m: position.to_array(),
            covariance_m2: covariance.transpose().to_cols_array_2d(),
            size_m: size.map(|row| DVec3::from_array(row).length() as f32),
        })
    }
}

/// Axes of the world: to the right and down in the image, and along the ray to a point.
fn ray_axes(view: &CameraView<'_>, point: DVec3) -> DMat3 {
    let camera = DVec3::from_array(view.world_from_camera.translation_m);
    let ray = (point - camera).normalize_or(view.rotation().z_axis);
    let right =
        (view.rotation().x_axis - ray * ray.dot(view.rotation().x_axis)).normalize_or_zero();
    DMat3::from_cols(right, ray.cross(right), ray)
}

/// Most columns and rows of the depth that is sent on.
const MAX_COLUMNS: usize = 40;

/// A smaller depth map of the same view: the median of each block of pixels.
fn shrunk(depth: &Depth) -> Result<Depth, NodeError> {
    let (width, height) = (depth.width(), depth.height());
    let step = width.max(height).div_ceil(MAX_COLUMNS).max(1);
    let (columns, rows) = (width / step, height / step);
    if columns == 0 || rows == 0 {
        return Ok(Depth::default());
    }
    let values = depth.values.data::<f32>()?;
    let mut small = Depth {
        to_source: depth.to_source.after(&Affine::scale_and_shift([step as f64; 2], [0.0; 2])),
        frame_id: depth.frame_id.clone(),
        kind: depth.kind,
        camera: depth.camera.clone(),
        ..Depth::default()
    };
    let mut block = Vec::with_capacity(step * step);
    for (index, to) in small.reshape(columns, rows)?.iter_mut().enumerate() {
        let (left, top) = (index % columns * step, index / columns * step);
        block.clear();
        for row in values.chunks_exact(width).skip(top).take(step) {
            block.extend(row[left..left + step].iter().filter(|value| value.is_finite()));
        }
        block.sort_by(f32::total_cmp);
        *to = block.get(block.len() / 2).copied().unwrap_or(f32::NAN);
    }
    Ok(small)
}

impl Node for Lift {
    type Params = LiftParams;

    const NAME: &'static str = "lift";
    const SUMMARY: &'static str = "Lifts detected objects from an image into space.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: LiftParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        require_sync(cx, Self::DETECTIONS.name())?;
        let (Some(found), Some(depth), Some(pose)) =
            (cx.get(Self::DETECTIONS), cx.get(Self::DEPTH), cx.get(Self::POSE))
        else {
            return Ok(());
        };
        let view = CameraView::new(pose, depth).map_err(|error| error.at("depth"))?;
        let detections = found.detections.iter().filter_map(|found| self.lift(&view, found));
        let detections = detections.collect();
        let view = Some(View { pose: pose.clone(), depth: shrunk(depth)? });
        let objects = Detections3d { frame_id: pose.frame_id.clone(), detections, view };
        cx.send(Self::OBJECTS, objects);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params, Timestamp};
    use afferent_messages::vision::Box2d;

    use super::*;
    use crate::camera_view::tests::{depth, pose};

    /// The objects of these boxes, with a depth of 2 m in the middle and of 4 m around it.
    fn lift(boxes: &[Box2d]) -> Vec<Detection3d> {
        let params = LiftParams::from_values(&ParamValues::new()).unwrap();
        let mut bench = NodeBench::new(Lift::open(params, &OpenCx::default()).unwrap());
        let near = |x: usize, y: usize| (2..6).contains(&x) && (2..4).contains(&y);
        bench.join(Lift::DEPTH, Timestamp(0), depth(|x, y| if near(x, y) { 2.0 } else { 4.0 }));
        bench.join(Lift::POSE, Timestamp(0), pose());
        let detection = |bounds: &Box2d| Detection {
            label: "box".into(),
            score: 0.9,
            bounds: *bounds,
            track: None,
        };
        let detections = boxes.iter().map(detection).collect();
        let found = Detections { detections, ..Detections::default() };
        let sent = bench.call(Lift::DETECTIONS, Timestamp(0), found).unwrap();
        sent[0].1.get::<Detections3d>().unwrap().detections.clone()
    }

    #[test]
    fn an_object_lies_on_the_ray_beyond_its_surface() {
        let found = lift(&[Box2d::from_corners([30.0, 20.0], [50.0, 40.0])]);
        // 20 pixels at 2 m and a focal length of 50 pixels are 0.8 m; at most 0.35 m beyond the surface count.
        let expected = DVec3::new(1.0 + 2.35, 2.0, 1.5);
        let position = DVec3::from_array(found[0].position_m);
        assert!(position.distance(expected) < 1e-9, "{position}");
        // The camera looks along x: far less certain there than across.
        let deviation = [0, 1, 2].map(|axis| found[0].covariance_m2[axis][axis].sqrt());
        assert!((deviation[0] - 0.6_f64.hypot(0.175)).abs() < 1e-9, "{deviation:?}");
        assert!((deviation[1] - 0.08).abs() < 1e-9 && (deviation[2] - 0.08).abs() < 1e-9);
        assert_eq!(found[0].size_m.map(|size| (size * 100.0).round()), [70.0, 80.0, 80.0]);
    }

    #[test]
    fn a_box_at_the_border_is_less_certain() {
        let inside = lift(&[Box2d::from_corners([10.0, 20.0], [30.0, 40.0])]);
        let cut = lift(&[Box2d::from_corners([10.0, 40.0], [30.0, 60.0])]);
        assert!(cut[0].covariance_m2[2][2] > 4.0 * inside[0].covariance_m2[2][2]);
        let side = lift(&[Box2d::from_corners([0.0, 20.0], [20.0, 40.0])]);
        assert_eq!(side, [], "its direction is not known");
        assert_eq!(lift(&[Box2d::from_corners([-90.0, 0.0], [-50.0, 10.0])]), [], "no depth");
    }

    #[test]
    fn inputs_without_sync_are_refused() {
        let params = LiftParams::from_values(&ParamValues::new()).unwrap();
        let mut bench = NodeBench::new(Lift::open(params, &OpenCx::default()).unwrap());
        let told = bench.call(Lift::POSE, Timestamp(0), pose()).unwrap_err().to_string();
        assert!(told.contains("it must be joined with `detections`"), "{told}");
    }
}
