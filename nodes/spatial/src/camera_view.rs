//! View of the world from a camera with a known pose and a depth map.

use afferent_graph::{Cx, NodeError};
use afferent_messages::{
    Camera, Pose,
    vision::{Box2d, Depth, DepthKind},
};
use glam::{DMat3, DQuat, DVec2, DVec3};

use crate::frames::Rigid;

/// A view of the world: the pose of a camera, and the depth of what it shows.
///
/// The camera looks along its z axis; x points to the right and y down (the optical frame of REP 103).
pub(crate) struct CameraView<'v> {
    pub(crate) world_from_camera: Rigid,
    camera: &'v Camera,
    depth: &'v Depth,
}

/// Reasons why a depth map gives no view.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum ViewError {
    #[error(
        "an affine_inverse depth orders points of an image and measures nothing; use a model whose \
         `contract` is metric_depth"
    )]
    NotMetric,
    #[error(
        "the depth has no calibration of its camera; set `calibration` of the node that gives the \
         images"
    )]
    NoCalibration,
}

impl ViewError {
    /// The error of a packet on an input.
    pub(crate) fn at(self, port: &'static str) -> NodeError {
        NodeError::InvalidInput { port: port.into(), reason: self.to_string() }
    }
}

impl<'v> CameraView<'v> {
    /// The view of a camera at the pose `world_from_camera`.
    pub(crate) fn new(pose: &Pose, depth: &'v Depth) -> Result<Self, ViewError> {
        if depth.kind != DepthKind::Metric {
            return Err(ViewError::NotMetric);
        }
        let camera = depth.camera.as_deref().ok_or(ViewError::NoCalibration)?;
        Ok(Self { world_from_camera: Rigid::from(pose), camera, depth })
    }

    /// Rotation from the axes of the camera to those of the world.
    pub(crate) fn rotation(&self) -> DMat3 {
        DMat3::from_quat(DQuat::from_array(self.world_from_camera.rotation_xyzw))
    }

    /// Focal length in pixels of the source image.
    pub(crate) fn focal_px(&self) -> DVec2 {
        DVec2::from_array(self.camera.focal_px)
    }

    /// Width and height of the source image.
    pub(crate) fn size_px(&self) -> DVec2 {
        DVec2::new(f64::from(self.camera.width), f64::from(self.camera.height))
    }

    /// The point of the world that a pixel of the source image shows at a depth in meters.
    pub(crate) fn point(&self, pixel: [f64; 2], depth_m: f64) -> Option<DVec3> {
        let [x, y] = self.camera.direction(pixel)?;
        let point = [x * depth_m, y * depth_m, depth_m];
        Some(DVec3::from_array(self.world_from_camera.apply(point)))
    }

    /// Pixel of the source image that shows a point of the world, and its depth in meters. `None` if
    /// the point is not in front of the camera. The pixel may lie outside of the image.
    #[cfg(any(test, feature = "scene-memory"))]
    pub(crate) fn project(&self, point: DVec3) -> Option<(DVec2, f64)> {
        let [x, y, z] = self.world_from_camera.inverse().apply(point.to_array());
        (z > 0.05).then(|| (DVec2::from_array(self.camera.project([x / z, y / z])), z))
    }

    /// Depth in meters at a pixel of the source image; `None` if it is not known.
    #[cfg(any(test, feature = "scene-memory"))]
    pub(crate) fn depth_at(&self, pixel: DVec2) -> Option<f64> {
        let [x, y] = self.depth.to_source.inverse()?.apply(pixel.to_array());
        self.value(x.floor(), y.floor())
    }

    /// The value of a column and a row of the depth map.
    fn value(&self, x: f64, y: f64) -> Option<f64> {
        let (width, height) = (self.depth.width(), self.depth.height());
        if !(x >= 0.0 && y >= 0.0 && x < width as f64 && y < height as f64) {
            return None;
        }
        let values = self.depth.values.data::<f32>().ok()?;
        let value = f64::from(*values.get(y as usize * width + x as usize)?);
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// Points of the world in a grid of at most `most` columns and rows, up to a distance: the number of
    /// columns, and the points row after row.
    pub(crate) fn points(&self, most: usize, max_distance_m: f64) -> (usize, Vec<Option<DVec3>>) {
        let (width, height) = (self.depth.width(), self.depth.height());
        let step = width.max(height).div_ceil(most).max(1);
        let (columns, rows) = (width / step, height / step);
        let point = |index: usize| {
            let [x, y] = [index % columns, index / columns].map(|at| (at * step + step / 2) as f64);
            let depth_m = self.value(x, y).filter(|depth_m| *depth_m <= max_distance_m)?;
            self.point(self.depth.to_source.apply([x, y]), depth_m)
        };
        (columns, (0..columns * rows).map(point).collect())
    }

    /// Depths in meters inside of a box, shrunk about its center by `share`, in increasing order.
    pub(crate) fn depths_in(&self, bounds: &Box2d, share: f64) -> Vec<f64> {
        let Some(from_source) = self.depth.to_source.inverse() else { return Vec::new() };
        let center = bounds.center.map(f64::from);
        let corner = |sign: f64| {
            let at = |axis: usize| center[axis] + sign * share * f64::from(bounds.size[axis]) / 2.0;
            from_source.apply([at(0), at(1)])
        };
        let ([left, top], [right, bottom]) = (corner(-1.0), corner(1.0));
        // At least the pixel in the middle.
        let span = |low: f64, high: f64, size: usize| {
            let first = low.floor().max(0.0);
            let last = high.ceil().max(low.floor() + 1.0).min(size as f64);
            (0..(last - first).max(0.0) as usize).map(move |at| first + at as f64)
        };
        let columns = || span(left, right, self.depth.width());
        let rows =
            span(top, bottom, self.depth.height()).flat_map(|y| columns().map(move |x| (x, y)));
        let mut found: Vec<f64> = rows.filter_map(|(x, y)| self.value(x, y)).collect();
        found.sort_by(f64::total_cmp);
        found
    }
}

/// Refuses a call that another input than `primary` has caused.
pub(crate) fn require_sync(cx: &Cx<'_>, primary: &str) -> Result<(), NodeError> {
    match cx.port() {
        Some(port) if port != primary => Err(NodeError::InvalidInput {
            port: port.to_owned().into(),
            reason: format!(
                "it must be joined with `{primary}`: add `sync: exact` to it, or `sync: interpolate` for poses"
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use afferent_messages::Affine;

    use super::*;

    /// A depth map of 8 x 6 for a camera with images of 80 x 60.
    pub(crate) fn depth(values: impl Fn(usize, usize) -> f32) -> Depth {
        let k = [[50.0, 0.0, 39.5], [0.0, 50.0, 29.5], [0.0, 0.0, 1.0]];
        let mut depth = Depth {
            to_source: Affine::scale_and_shift([10.0; 2], [0.0; 2]),
            camera: Some(Arc::new(Camera::from_matrix(80, 60, k))),
            ..Depth::default()
        };
        let data = depth.reshape(8, 6).unwrap();
        for (index, value) in data.iter_mut().enumerate() {
            *value = values(index % 8, index / 8);
        }
        depth
    }

    /// A camera at (1, 2, 1.5) that looks along x of a world with z up.
    pub(crate) fn pose() -> Pose {
        Pose {
            frame_id: "world".to_owned(),
            position_m: [1.0, 2.0, 1.5],
            orientation_xyzw: [-0.5, 0.5, -0.5, 0.5],
        }
    }

    #[test]
    fn points_project_to_their_pixels() {
        let depth = depth(|x, y| (x + y) as f32);
        let view = CameraView::new(&pose(), &depth).unwrap();
        // 10 pixels to the right and 5 down, at 2 m.
        let point = view.point([50.0, 35.0], 2.0).unwrap();
        let expected = DVec3::new(3.0, 2.0 - 0.4, 1.5 - 0.2);
        assert!(point.distance(expected) < 1e-9, "{point}");
        let (pixel, z) = view.project(point).unwrap();
        assert!(pixel.distance(DVec2::new(50.0, 35.0)) < 1e-9 && (z - 2.0).abs() < 1e-9);
        assert_eq!(view.project(DVec3::new(0.0, 2.0, 1.5)), None, "behind the camera");
        assert_eq!(view.depth_at(DVec2::new(75.0, 59.0)), Some(12.0));
        assert_eq!(view.depth_at(DVec2::new(5.0, 5.0)), None, "a depth of zero is not known");
        assert_eq!(view.depth_at(DVec2::new(80.0, 5.0)), None);
    }

    #[test]
    fn depths_of_a_box_are_those_inside() {
        let depth = depth(|x, y| if (x, y) == (3, 2) { f32::NAN } else { (1 + x + 10 * y) as f32 });
        let view = CameraView::new(&pose(), &depth).unwrap();
        let bounds = Box2d::from_corners([20.0, 10.0], [40.0, 30.0]);
        assert_eq!(view.depths_in(&bounds, 1.0), [13.0, 14.0, 23.0]);
        let small = Box2d::from_corners([21.0, 11.0], [23.0, 12.0]);
        assert_eq!(view.depths_in(&small, 0.4), [13.0]);
        let outside = Box2d::from_corners([-90.0, 0.0], [-50.0, 10.0]);
        assert!(view.depths_in(&outside, 1.0).is_empty());
    }

    #[test]
    fn maps_without_meaning_are_refused() {
        let check = |depth: &Depth, expected: ViewError| {
            assert_eq!(CameraView::new(&pose(), depth).err(), Some(expected));
        };
        check(&Depth { kind: DepthKind::AffineInverse, ..depth(|_, _| 1.0) }, ViewError::NotMetric);
        check(&Depth { camera: None, ..depth(|_, _| 1.0) }, ViewError::NoCalibration);
    }
}
