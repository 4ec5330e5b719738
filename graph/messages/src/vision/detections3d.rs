//! Objects in space.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Depth, count, depth::depth_fields};
use crate::{
    Cdr, CdrMessage, Pose,
    camera::{camera_definition, geometry_fields},
    cdr::ros_header,
    pose::pose_definition,
};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Objects with their positions in space, and the view that they were found in.
#[derive(Debug, Clone, Default)]
pub struct Detections3d {
    /// Coordinate frame of the positions.
    pub frame_id: String,
    /// The objects.
    pub detections: Vec<Detection3d>,
    /// View of the camera, if known. An object that lies in the view and was not found may be
    /// gone.
    pub view: Option<View>,
}

/// An object in space.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Detection3d {
    /// Name of the class.
    pub label: Arc<str>,
    /// Score from 0 to 1.
    pub score: f32,
    /// Middle of the object: x, y and z, in meters.
    pub position_m: [f64; 3],
    /// Covariance of the position, row after row, in square meters.
    pub covariance_m2: [[f64; 3]; 3],
    /// Size along x, y and z of the frame, in meters.
    pub size_m: [f32; 3],
}

/// A view of the world: the pose of a camera, and the depth of what it shows.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// `world_from_camera`. The camera looks along its z axis; x points to the right and y down (the
    /// optical frame of REP 103).
    pub pose: Pose,
    /// Metric depth with the calibration of the camera.
    pub depth: Depth,
}

impl Payload for Detections3d {
    const TYPE: &'static str = "vision/Detections3d";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let described = |found: &Detection3d| {
            let [x, y, z] = found.position_m;
            format!("{} {x:.2} {y:.2} {z:.2}", found.label)
        };
        let objects: Vec<String> = self.detections.iter().map(described).collect();
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("detections", count(self.detections.len())),
            ("objects", Field::Text(objects.join(", "))),
        ]
    }
}

impl CdrMessage for Detections3d {
    const MESSAGE: &'static str = "afferent_msgs/msg/Detections3d";
    const SCHEMA: &'static str = concat!(
        "string frame_id
afferent_msgs/Detection3d[] detections
afferent_msgs/View[<=1] view
================================================================================
MSG: afferent_msgs/Detection3d
string label
float32 score
float64[3] position_m
float64[9] covariance_m2
float32[3] size_m
================================================================================
MSG: afferent_msgs/View
geometry_msgs/PoseStamped pose # world_from_camera, optical frame
afferent_msgs/Depth depth
================================================================================
MSG: geometry_msgs/PoseStamped
std_msgs/Header header
geometry_msgs/Pose pose
",
        pose_definition!(),
        "================================================================================
MSG: afferent_msgs/Depth
",
        depth_fields!(),
        ros_header!(),
        camera_definition!(),
    );
    type Wire =
        (String, Vec<Detection3d>, Vec<(<Pose as CdrMessage>::Wire, <Depth as CdrMessage>::Wire)>);

    fn to_wire(&self) -> Self::Wire {
        let view = self.view.iter().map(|view| (view.pose.to_wire(), view.depth.to_wire()));
        (self.frame_id.clone(), self.detections.clone(), view.collect())
    }

    fn from_wire((frame_id, detections, view): Self::Wire) -> Result<Self, String> {
        for found in &detections {
            let size = found.size_m.iter().map(|value| f64::from(*value));
            let numbers = found.position_m.iter().chain(found.covariance_m2.as_flattened());
            if !numbers.copied().chain(size).all(f64::is_finite) {
                let label = &found.label;
                return Err(format!("{label}: position, covariance and size must be finite"));
            }
        }
        if view.len() > 1 {
            return Err(format!("{} views; at most one was expected", view.len()));
        }
        let view = view.into_iter().next().map(|(pose, depth)| {
            Ok::<_, String>(View { pose: Pose::from_wire(pose)?, depth: Depth::from_wire(depth)? })
        });
        Ok(Self { frame_id, detections, view: view.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_senders_are_checked() {
        let cup = Detection3d {
            label: "cup".into(),
            score: 0.5,
            position_m: [1.0, 2.0, 3.0],
            covariance_m2: [[0.04, 0.01, 0.0], [0.01, 0.05, 0.0], [0.0, 0.0, 0.06]],
            size_m: [0.1, 0.1, 0.25],
        };
        let value = Detections3d {
            frame_id: "world".to_owned(),
            detections: vec![cup.clone()],
            view: Some(View::default()),
        };
        let again = Detections3d::from_wire(value.to_wire()).unwrap();
        assert_eq!((again.detections, again.view.unwrap().pose), (vec![cup], Pose::default()));
        let check = |change: fn(&mut <Detections3d as CdrMessage>::Wire), expected: &str| {
            let mut wire = value.to_wire();
            change(&mut wire);
            assert_eq!(Detections3d::from_wire(wire).unwrap_err(), expected);
        };
        let finite = "cup: position, covariance and size must be finite";
        check(|wire| wire.1[0].position_m[1] = f64::NAN, finite);
        check(|wire| wire.1[0].covariance_m2[2][2] = f64::INFINITY, finite);
        check(
            |wire| {
                let view = View::default();
                wire.2.push((view.pose.to_wire(), view.depth.to_wire()));
            },
            "2 views; at most one was expected",
        );
    }
}
