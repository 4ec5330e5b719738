//! Poses.

use crate::{Cdr, CdrMessage, cdr::ros_header};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Position and orientation in a coordinate frame (ROS `geometry_msgs/PoseStamped`).
#[derive(Debug, Clone, PartialEq)]
pub struct Pose {
    /// Coordinate frame that the pose is given in.
    pub frame_id: String,
    /// Position along x, y, and z, in meters.
    pub position_m: [f64; 3],
    /// Orientation as a unit quaternion x, y, z, w.
    pub orientation_xyzw: [f64; 4],
}

impl Default for Pose {
    /// The origin of a frame without a name.
    fn default() -> Self {
        Self { frame_id: String::new(), position_m: [0.0; 3], orientation_xyzw: IDENTITY }
    }
}

/// Message definition of a pose, and those that it depends on.
macro_rules! pose_definition {
    () => {
        "================================================================================
MSG: geometry_msgs/Pose
geometry_msgs/Point position
geometry_msgs/Quaternion orientation
================================================================================
MSG: geometry_msgs/Point
float64 x
float64 y
float64 z
================================================================================
MSG: geometry_msgs/Quaternion
float64 x
float64 y
float64 z
float64 w
"
    };
}
pub(crate) use pose_definition;

/// The rotation that changes nothing.
pub(crate) const IDENTITY: [f64; 4] = [0.0, 0.0, 0.0, 1.0];

impl Payload for Pose {
    const TYPE: &'static str = "spatial/Pose";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::DropOldest;
    const INTERPOLATES: bool = true;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let names = ["x", "y", "z", "qx", "qy", "qz", "qw"];
        let values = self.position_m.iter().chain(&self.orientation_xyzw);
        let mut fields = vec![("frame_id", Field::Text(self.frame_id.clone()))];
        fields.extend(names.into_iter().zip(values.map(|value| Field::Number(*value))));
        fields
    }

    /// Linear for the position, spherical linear for the orientation. Between poses of different
    /// coordinate frames, the value is that of the nearer one.
    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        if self.frame_id != later.frame_id {
            into.clone_from(if share < 0.5 { self } else { later });
            return;
        }
        into.frame_id.clone_from(&self.frame_id);
        into.position_m = std::array::from_fn(|axis| {
            self.position_m[axis] + (later.position_m[axis] - self.position_m[axis]) * share
        });
        into.orientation_xyzw = slerp(self.orientation_xyzw, later.orientation_xyzw, share);
    }
}

/// Rotation between two others along the shorter arc, as a unit quaternion.
pub(crate) fn slerp(from: [f64; 4], to: [f64; 4], share: f64) -> [f64; 4] {
    let dot: f64 = from.iter().zip(to).map(|(a, b)| a * b).sum();
    // Both signs of a quaternion are the same rotation.
    let (dot, sign) = if dot < 0.0 { (-dot, -1.0) } else { (dot, 1.0) };
    let angle = dot.min(1.0).acos();
    let [before, after] = if angle < 1e-6 {
        [1.0 - share, share]
    } else {
        [1.0 - share, share].map(|part| (part * angle).sin() / angle.sin())
    };
    let sum: [f64; 4] = std::array::from_fn(|at| before * from[at] + after * sign * to[at]);
    let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    if norm > 0.0 { sum.map(|value| value / norm) } else { from }
}

/// The standard message of ROS 2. Its stamp is zero because a recording stores the timestamp beside
/// each message.
impl CdrMessage for Pose {
    const MESSAGE: &'static str = "geometry_msgs/msg/PoseStamped";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
geometry_msgs/Pose pose
",
        ros_header!(),
        pose_definition!(),
    );
    type Wire = ((i32, u32), String, [f64; 3], [f64; 4]);

    fn to_wire(&self) -> Self::Wire {
        ((0, 0), self.frame_id.clone(), self.position_m, self.orientation_xyzw)
    }

    fn from_wire((_, frame_id, position_m, orientation_xyzw): Self::Wire) -> Result<Self, String> {
        Ok(Self { frame_id, position_m, orientation_xyzw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rotation about z.
    fn about_z(degrees: f64) -> [f64; 4] {
        let half = degrees.to_radians() / 2.0;
        [0.0, 0.0, half.sin(), half.cos()]
    }

    fn pose(x: f64, orientation_xyzw: [f64; 4]) -> Pose {
        Pose { frame_id: "map".to_owned(), position_m: [x, 0.0, -x], orientation_xyzw }
    }

    fn between(from: &Pose, to: &Pose, share: f64) -> Pose {
        let mut into = Pose::default();
        from.interpolate(to, share, &mut into);
        into
    }

    #[test]
    fn poses_turn_evenly_along_the_shorter_arc() {
        let negated = about_z(90.0).map(|value| -value);
        for to in [about_z(90.0), negated] {
            for (share, degrees) in [(0.0, 0.0), (0.25, 22.5), (0.5, 45.0), (1.0, 90.0)] {
                let found = between(&pose(0.0, IDENTITY), &pose(4.0, to), share);
                assert_eq!((&*found.frame_id, found.position_m[0]), ("map", 4.0 * share));
                for (found, expected) in found.orientation_xyzw.iter().zip(about_z(degrees)) {
                    assert!((found - expected).abs() < 1e-12, "{share}: {found}, {expected}");
                }
            }
        }
    }

    #[test]
    fn degenerate_rotations_stay_finite() {
        for (from, to) in [
            (IDENTITY, IDENTITY),
            ([0.0; 4], [0.0; 4]),
            (IDENTITY, [0.0, 0.0, 1e-9, 1.0]),
            (about_z(0.0), about_z(180.0)),
            ([0.0, 0.0, 0.0, 5.0], IDENTITY),
        ] {
            let found = slerp(from, to, 0.5);
            assert!(found.iter().all(|value| value.is_finite()), "{from:?} {to:?}: {found:?}");
        }
    }

    #[test]
    fn poses_of_different_frames_are_not_mixed() {
        let (map, mut odom) = (pose(0.0, IDENTITY), pose(2.0, IDENTITY));
        "odom".clone_into(&mut odom.frame_id);
        assert_eq!(between(&map, &odom, 0.4), map);
        assert_eq!(between(&map, &odom, 0.6), odom);
    }
}
