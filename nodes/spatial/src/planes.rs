//! Floors, walls and table tops.

use std::collections::BTreeSet;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::{
    Pose,
    vision::{Depth, Plane, PlaneAlignment, PlaneLabel, Planes as PlanesPayload},
};
use glam::{DMat3, DQuat, DVec3};

use crate::{
    camera_view::{CameraView, require_sync},
    plane_fit::{FittedPlane, PointGrid, main_direction},
};

params! {
    /// Settings of [`Planes`].
    pub struct PlanesParams {
        /// Distance of a point from its plane, as a share of its distance from the camera.
        pub tolerance: f64 = "0.03", range 0.001..=0.5;
        /// Points that are farther away are dropped.
        pub max_distance: f64 = "5", range 0.1..=1000.0, unit "m";
        /// Least area of a plane.
        pub min_area: f64 = "0.15", range 0.001..=100.0, unit "m²";
    }
}

/// Finds flat surfaces in depth maps: floor, ceiling, walls, table tops.
///
/// Planes are horizontal or vertical; tilted ones are not searched. They are found by RANSAC with local
/// normals, in a grid of at most 64 x 64 points, and each is one connected part of the image. The rectangle
/// of a plane encloses what is seen of it.
///
/// | label | a plane that |
/// |---|---|
/// | `floor` | faces up and is the lowest one so far, at least 0.9 m below the camera and at first 0.5 m² large |
/// | `table` | faces up, 0.3 to 1.3 m above the floor |
/// | `ceiling` | faces down, above the camera |
/// | `wall` | is vertical, and at least 1 m high or wide |
/// | `other` | is none of them |
///
/// Depth maps must be metric, and must have the calibration of their camera. Poses are `world_from_camera`, of
/// the optical frame: z ahead, x to the right, y down. The world has z up.
///
/// ```yaml
/// planes:
///   use: planes
///   in:
///     depth: depth.depth
///     pose: {from: camera.pose, sync: interpolate}
/// ```
///
/// Latency: none.
///
/// ```
/// use std::sync::Arc;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{Camera, Pose, vision};
/// use afferent_nodes_spatial::{Planes, PlanesParams};
///
/// let params = PlanesParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(Planes::open(params, &OpenCx::default())?);
/// let camera = Camera::from_matrix(64, 48, [[50.0, 0.0, 31.5], [0.0, 50.0, 23.5], [0.0, 0.0, 1.0]]);
/// let mut depth = vision::Depth { camera: Some(Arc::new(camera)), ..Default::default() };
/// depth.reshape(64, 48)?.fill(1.5);
/// // A camera 1.5 m above the floor that looks straight down: half a turn about x.
/// let pose = Pose {
///     frame_id: "world".to_owned(),
///     position_m: [0.0, 0.0, 1.5],
///     orientation_xyzw: [1.0, 0.0, 0.0, 0.0],
/// };
/// bench.join(Planes::POSE, Timestamp::ZERO, pose);
/// let sent = bench.call(Planes::DEPTH, Timestamp::ZERO, depth)?;
/// let found = &sent[0].1.get::<vision::Planes>().unwrap().planes;
/// assert_eq!(found[0].label, vision::PlaneLabel::Floor);
/// assert!(found[0].center_m[2].abs() < 1e-9);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Planes {
    params: PlanesParams,
    /// Height of the floor, once it was seen.
    floor_m: Option<f64>,
}

ports! {
    impl Planes {
        /// Metric depth.
        in DEPTH: Depth;
        /// Pose of the camera at the time of the image.
        in POSE: Pose;
        /// The planes in the frame of the pose.
        out PLANES: PlanesPayload, in_step;
    }
}

/// Most columns and rows of points.
const MAX_COLUMNS: usize = 64;

/// Least points of a plane.
const LEAST_POINTS: usize = 24;

/// Least height of a camera above the floor, in meters.
const CAMERA_ABOVE_FLOOR_M: f64 = 0.9;

/// Difference in height up to which two planes are the floor, in meters.
const FLOOR_TOLERANCE_M: f64 = 0.2;

/// Least area of a plane that begins a floor, in square meters.
const FLOOR_M2: f64 = 0.5;

/// Share of a new height of the floor in the kept one.
const FLOOR_SHARE: f64 = 0.1;

/// Height of tables above the floor, in meters.
const TABLE_M: std::ops::Range<f64> = 0.3..1.3;

/// Side of the squares, and least share of them that has points, of a table.
const SQUARE_M: f64 = 0.15;
const FILLED: f64 = 0.6;

/// Least height or width of a wall, in meters.
const WALL_M: f32 = 1.0;

/// Share of the points at each end of a rectangle that may lie outside of it.
const OUTSIDE: f64 = 0.02;

impl Planes {
    fn find(&mut self, view: &CameraView<'_>) -> Vec<Plane> {
        let camera = DVec3::from_array(view.world_from_camera.translation_m);
        let (columns, points) = view.points(MAX_COLUMNS, self.params.max_distance);
        let grid = PointGrid::new(columns, &points, camera, self.params.tolerance);
        let found = grid.planes(LEAST_POINTS).into_iter();
        let found = found.filter_map(|found| Some((rectangle(&found)?, found)));
        let (mut planes, fitted): (Vec<Plane>, Vec<FittedPlane>) =
            found.filter(|(plane, _)| area(plane) >= self.params.min_area).unzip();
        for plane in planes.iter().filter(|plane| is_upward(plane)) {
            self.update_floor(plane, camera.z);
        }
        for (plane, found) in planes.iter_mut().zip(&fitted) {
            plane.label = self.label(plane, camera.z);
            // Chairs and the things on a table lie at one height, too.
            if plane.label == PlaneLabel::Table && filled(plane, &found.points) < FILLED {
                plane.label = PlaneLabel::Other;
            }
        }
        planes
    }

    /// Keeps the height of the lowest plane that faces up.
    fn update_floor(&mut self, plane: &Plane, camera_m: f64) {
        let height_m = plane.center_m[2];
        let is_floor = camera_m - height_m >= CAMERA_ABOVE_FLOOR_M;
        let is_lower = self.floor_m.is_none_or(|floor| height_m < floor - FLOOR_TOLERANCE_M);
        if !is_floor || is_lower && area(plane) < FLOOR_M2 {
            return;
        }
        self.floor_m = Some(match self.floor_m {
            Some(floor) if height_m > floor + FLOOR_TOLERANCE_M => floor,
            Some(floor) if height_m > floor - FLOOR_TOLERANCE_M => {
                floor + (height_m - floor) * FLOOR_SHARE
            }
            _ => height_m,
        });
    }

    fn label(&self, plane: &Plane, camera_m: f64) -> PlaneLabel {
        let height = plane.center_m[2];
        match plane.alignment {
            PlaneAlignment::HorizontalUpward => match self.floor_m.map(|floor| height - floor) {
                Some(above) if above.abs() <= FLOOR_TOLERANCE_M => PlaneLabel::Floor,
                Some(above) if TABLE_M.contains(&above) => PlaneLabel::Table,
                _ => PlaneLabel::Other,
            },
            PlaneAlignment::HorizontalDownward if height > camera_m => PlaneLabel::Ceiling,
            PlaneAlignment::Vertical if plane.size_m[0].max(plane.size_m[1]) >= WALL_M => {
                PlaneLabel::Wall
            }
            _ => PlaneLabel::Other,
        }
    }
}

fn is_upward(plane: &Plane) -> bool {
    plane.alignment == PlaneAlignment::HorizontalUpward
}

/// Area in square meters.
fn area(plane: &Plane) -> f64 {
    f64::from(plane.size_m[0]) * f64::from(plane.size_m[1])
}

/// Share of the rectangle of a plane that has points, in squares of a side of [`SQUARE_M`].
fn filled(plane: &Plane, points: &[DVec3]) -> f64 {
    let (center, to) =
        (DVec3::from_array(plane.center_m), DQuat::from_array(plane.orientation_xyzw).inverse());
    let square = |point: &DVec3| {
        let at = (to * (*point - center) / SQUARE_M).floor();
        (at.x as i64, at.y as i64)
    };
    let squares: BTreeSet<_> = points.iter().map(square).collect();
    squares.len() as f64 * SQUARE_M * SQUARE_M / area(plane)
}

/// The rectangle around the points of a plane, without a label.
fn rectangle(found: &FittedPlane) -> Option<Plane> {
    let normal = found.normal;
    let mean = found.points.iter().sum::<DVec3>() / found.points.len().max(1) as f64;
    let alignment = match normal.z {
        0.5.. => PlaneAlignment::HorizontalUpward,
        ..-0.5 => PlaneAlignment::HorizontalDownward,
        _ => PlaneAlignment::Vertical,
    };
    // Horizontal along the surface; on a floor in the direction that it is longest in.
    let along = match alignment {
        PlaneAlignment::Vertical => DVec3::Z.cross(normal),
        _ => {
            main_direction(found.points.iter().map(|point| (*point - mean).truncate()))?.extend(0.0)
        }
    };
    let across = normal.cross(along);
    let span = |axis: DVec3| {
        let mut values: Vec<f64> =
            found.points.iter().map(|point| axis.dot(*point - mean)).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let outside = (values.len() as f64 * OUTSIDE) as usize;
        (values[outside], values[last - outside])
    };
    let ((left, right), (bottom, top)) = (span(along), span(across));
    let center = mean + along * ((left + right) / 2.0) + across * ((bottom + top) / 2.0);
    let rotation = DQuat::from_mat3(&DMat3::from_cols(along, across, normal));
    Some(Plane {
        label: PlaneLabel::Other,
        alignment,
        center_m: center.to_array(),
        orientation_xyzw: rotation.normalize().to_array(),
        size_m: [(right - left) as f32, (top - bottom) as f32],
    })
}

impl Node for Planes {
    type Params = PlanesParams;

    const NAME: &'static str = "planes";
    const SUMMARY: &'static str = "Finds floors, walls and table tops in depth maps.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: PlanesParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, floor_m: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        require_sync(cx, Self::DEPTH.name())?;
        let (Some(depth), Some(pose)) = (cx.get(Self::DEPTH), cx.get(Self::POSE)) else {
            return Ok(());
        };
        let view = CameraView::new(pose, depth).map_err(|error| error.at("depth"))?;
        let planes = self.find(&view);
        let frame_id = pose.frame_id.clone();
        cx.send(Self::PLANES, PlanesPayload { frame_id, planes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use afferent_graph::{NodeBench, ParamValues, Params, Timestamp};
    use afferent_messages::Camera;

    use super::*;
    use crate::frames::{Rigid, rotate};

    /// Surfaces of a room: axis, coordinate on it, and the ranges of the other two.
    const ROOM: &[(usize, f64, [f64; 2], [f64; 2])] = &[
        (2, 0.0, [-5.0, 5.0], [-5.0, 5.0]),
        (2, 2.5, [-5.0, 5.0], [-5.0, 5.0]),
        (0, 4.0, [-5.0, 5.0], [0.0, 2.5]),
        (1, 2.0, [-5.0, 4.0], [0.0, 2.5]),
        // A table 0.75 m high.
        (2, 0.75, [1.6, 2.8], [-0.6, 0.6]),
    ];

    /// Depth of the room along the z axis of the camera, with noise as a share of it.
    fn depth(pose: &Pose, noise: f64) -> Depth {
        let (width, height) = (96, 72);
        let k = [[70.0, 0.0, 47.5], [0.0, 70.0, 35.5], [0.0, 0.0, 1.0]];
        let camera = Camera::from_matrix(96, 72, k);
        let mut rng = fastrand::Rng::with_seed(3);
        let rigid = Rigid::from(pose);
        let mut depth = Depth { camera: Some(Arc::new(camera)), ..Depth::default() };
        for (index, value) in depth.reshape(width, height).unwrap().iter_mut().enumerate() {
            let (x, y) = ((index % width) as f64, (index / width) as f64);
            let ray = rotate(rigid.rotation_xyzw, [(x - 47.5) / 70.0, (y - 35.5) / 70.0, 1.0]);
            let hits = ROOM.iter().filter_map(|(axis, at, first, second)| {
                let along = (at - rigid.translation_m[*axis]) / ray[*axis];
                let point: [f64; 3] =
                    std::array::from_fn(|axis| rigid.translation_m[axis] + along * ray[axis]);
                let others: Vec<f64> =
                    (0..3).filter(|other| other != axis).map(|other| point[other]).collect();
                let is_inside = (first[0]..=first[1]).contains(&others[0])
                    && (second[0]..=second[1]).contains(&others[1]);
                (along > 0.0 && is_inside).then_some(along)
            });
            let nearest = hits.fold(f64::INFINITY, f64::min);
            *value = (nearest * (1.0 + noise * (rng.f64() - 0.5))) as f32;
        }
        depth
    }

    /// A camera at this point that looks along x, 25° down.
    fn pose(x: f64, y: f64, z: f64) -> Pose {
        let down = DQuat::from_rotation_y(25_f64.to_radians());
        let optical = DQuat::from_array([-0.5, 0.5, -0.5, 0.5]);
        Pose {
            frame_id: "world".to_owned(),
            position_m: [x, y, z],
            orientation_xyzw: (down * optical).to_array(),
        }
    }

    fn bench() -> NodeBench<Planes> {
        let params = PlanesParams::from_values(&ParamValues::new()).unwrap();
        NodeBench::new(Planes::open(params, &OpenCx::default()).unwrap())
    }

    fn find(bench: &mut NodeBench<Planes>, pose: &Pose, noise: f64) -> Vec<Plane> {
        bench.join(Planes::POSE, Timestamp(0), pose.clone());
        let sent = bench.call(Planes::DEPTH, Timestamp(0), depth(pose, noise)).unwrap();
        sent[0].1.get::<PlanesPayload>().unwrap().planes.clone()
    }

    #[test]
    fn a_room_has_a_floor_walls_and_a_table() {
        for noise in [0.0, 0.01] {
            let found = find(&mut bench(), &pose(0.0, 0.0, 1.6), noise);
            let one = |label: PlaneLabel| -> Vec<Plane> {
                found.iter().filter(|plane| plane.label == label).copied().collect()
            };
            let floor = one(PlaneLabel::Floor)[0];
            assert!(floor.center_m[2].abs() < 0.03, "{floor:?}");
            let table = one(PlaneLabel::Table)[0];
            let [x, y, z] = table.center_m;
            assert!(
                (x - 2.2).abs() < 0.15 && y.abs() < 0.1 && (z - 0.75).abs() < 0.03,
                "{table:?}"
            );
            let area = table.size_m[0] * table.size_m[1];
            assert!((1.0..1.6).contains(&area), "{table:?}");
            let normals: Vec<DVec3> = one(PlaneLabel::Wall)
                .iter()
                .map(|wall| DQuat::from_array(wall.orientation_xyzw) * DVec3::Z)
                .collect();
            for expected in [DVec3::NEG_X, DVec3::NEG_Y] {
                assert!(normals.iter().any(|normal| normal.dot(expected) > 0.99), "{normals:?}");
            }
        }
    }

    #[test]
    fn a_table_seen_first_is_not_the_floor() {
        // From near, the table fills the image.
        let found = find(&mut bench(), &pose(1.2, 0.0, 1.2), 0.0);
        assert!(
            found.iter().all(|plane| {
                plane.label != PlaneLabel::Floor || plane.center_m[2].abs() < 0.05
            }),
            "{found:?}"
        );
    }

    #[test]
    fn faults_of_inputs_are_told() {
        let pose = pose(0.0, 0.0, 1.6);
        let mut told = bench();
        told.join(Planes::POSE, Timestamp(0), pose.clone());
        let no_camera = Depth { camera: None, ..depth(&pose, 0.0) };
        let told = told.call(Planes::DEPTH, Timestamp(0), no_camera).unwrap_err().to_string();
        assert!(told.contains("set `calibration`"), "{told}");
        let mut nothing = bench();
        nothing.join(Planes::POSE, Timestamp(0), pose.clone());
        let mut unknown = depth(&pose, 0.0);
        unknown.reshape(96, 72).unwrap().fill(f32::NAN);
        let sent = nothing.call(Planes::DEPTH, Timestamp(0), unknown).unwrap();
        assert!(sent[0].1.get::<PlanesPayload>().unwrap().planes.is_empty());
    }
}
