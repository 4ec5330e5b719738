//! Detected objects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::count;
use crate::{Cdr, CdrMessage, cdr::ros_header, pose::pose_definition};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Objects in an image, the most probable first (ROS `vision_msgs/Detection2DArray`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detections {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// The objects.
    pub detections: Vec<Detection>,
}

/// An object in an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Name of the class, or its index if the model has no names.
    pub label: Arc<str>,
    /// Score from 0 to 1.
    pub score: f32,
    /// Box around the object.
    pub bounds: Box2d,
    /// Number of the object, the same in every image, if a tracker assigned one.
    pub track: Option<u64>,
}

/// A rectangle in pixels of the source image (ROS `vision_msgs/BoundingBox2D`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Box2d {
    /// Center: x and y.
    pub center: [f32; 2],
    /// Size along the sides: width and height.
    pub size: [f32; 2],
    /// Clockwise rotation about the center, as seen in the image; 0 if the sides are parallel to
    /// rows and columns.
    pub angle_rad: f32,
}

impl Box2d {
    /// The rectangle without rotation between two corners.
    pub fn from_corners([left, top]: [f32; 2], [right, bottom]: [f32; 2]) -> Self {
        Self {
            center: [(left + right) / 2.0, (top + bottom) / 2.0],
            size: [right - left, bottom - top],
            angle_rad: 0.0,
        }
    }

    /// Corners clockwise from the top left one, as seen without the rotation.
    pub fn corners(&self) -> [[f32; 2]; 4] {
        let ([x, y], [width, height]) = (self.center, self.size);
        let (sin, cos) = self.angle_rad.sin_cos();
        [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]].map(|[right, down]| {
            let (right, down) = (right * width, down * height);
            [x + cos * right - sin * down, y + sin * right + cos * down]
        })
    }
}

impl Payload for Detections {
    const TYPE: &'static str = "vision/Detections";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let labels: Vec<&str> = self.detections.iter().map(|found| &*found.label).collect();
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("detections", count(self.detections.len())),
            ("labels", Field::Text(labels.join(", "))),
        ]
    }
}

/// The standard message of ROS 2 (`vision_msgs` 4). Its stamps are zero because a recording stores
/// the timestamp beside each message. An object has one hypothesis, whose pose is zero.
impl CdrMessage for Detections {
    const MESSAGE: &'static str = "vision_msgs/msg/Detection2DArray";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
vision_msgs/Detection2D[] detections
",
        ros_header!(),
        "================================================================================
MSG: vision_msgs/Detection2D
std_msgs/Header header
vision_msgs/ObjectHypothesisWithPose[] results
vision_msgs/BoundingBox2D bbox
string id
================================================================================
MSG: vision_msgs/ObjectHypothesisWithPose
vision_msgs/ObjectHypothesis hypothesis
geometry_msgs/PoseWithCovariance pose
================================================================================
MSG: vision_msgs/ObjectHypothesis
string class_id
float64 score
================================================================================
MSG: vision_msgs/BoundingBox2D
vision_msgs/Pose2D center
float64 size_x
float64 size_y
================================================================================
MSG: vision_msgs/Pose2D
vision_msgs/Point2D position
float64 theta
================================================================================
MSG: vision_msgs/Point2D
float64 x
float64 y
================================================================================
MSG: geometry_msgs/PoseWithCovariance
geometry_msgs/Pose pose
float64[36] covariance
",
        pose_definition!(),
    );
    type Wire = ((i32, u32), String, Vec<RosDetection>);

    fn to_wire(&self) -> Self::Wire {
        let detections = self.detections.iter().map(|found| RosDetection::new(self, found));
        ((0, 0), self.frame_id.clone(), detections.collect())
    }

    fn from_wire((_, frame_id, detections): Self::Wire) -> Result<Self, String> {
        let detections = detections.into_iter().map(RosDetection::detection);
        Ok(Self { frame_id, detections: detections.collect::<Result<_, _>>()? })
    }
}

/// Fields of `vision_msgs/msg/Detection2D`.
#[derive(Serialize, Deserialize)]
pub struct RosDetection {
    stamp: (i32, u32),
    frame_id: String,
    results: Vec<RosHypothesis>,
    /// Center x and y, rotation, width, height.
    bbox: [f64; 5],
    id: String,
}

/// Fields of `vision_msgs/msg/ObjectHypothesisWithPose`.
#[derive(Serialize, Deserialize)]
struct RosHypothesis {
    class_id: String,
    score: f64,
    position: [f64; 3],
    orientation: [f64; 4],
    covariance: [[f64; 6]; 6],
}

impl RosDetection {
    fn new(all: &Detections, found: &Detection) -> Self {
        let ([x, y], [width, height]) = (found.bounds.center, found.bounds.size);
        let hypothesis = RosHypothesis {
            class_id: found.label.to_string(),
            score: found.score.into(),
            position: [0.0; 3],
            orientation: crate::pose::IDENTITY,
            covariance: [[0.0; 6]; 6],
        };
        Self {
            stamp: (0, 0),
            frame_id: all.frame_id.clone(),
            results: vec![hypothesis],
            bbox: [x, y, found.bounds.angle_rad, width, height].map(f64::from),
            id: found.track.map_or_else(String::new, |track| track.to_string()),
        }
    }

    fn detection(self) -> Result<Detection, String> {
        let [hypothesis] = <[RosHypothesis; 1]>::try_from(self.results).map_err(|results| {
            format!("an object with {} hypotheses; it must have one", results.len())
        })?;
        let [x, y, angle_rad, width, height] = self.bbox.map(|value| value as f32);
        let track = match &*self.id {
            "" => None,
            id => Some(
                id.parse().map_err(|_| format!("id {id:?} of an object; it must be a number"))?,
            ),
        };
        Ok(Detection {
            label: hypothesis.class_id.into(),
            score: hypothesis.score as f32,
            bounds: Box2d { center: [x, y], size: [width, height], angle_rad },
            track,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_turned_clockwise() {
        let upright = Box2d::from_corners([10.0, 20.0], [16.0, 24.0]);
        assert_eq!((upright.center, upright.size), ([13.0, 22.0], [6.0, 4.0]));
        assert_eq!(upright.corners(), [[10.0, 20.0], [16.0, 20.0], [16.0, 24.0], [10.0, 24.0]]);
        let angle_rad = std::f32::consts::FRAC_PI_2;
        let turned = Box2d { angle_rad, ..upright }.corners();
        for (found, wanted) in turned.iter().flatten().zip([15.0, 19.0, 15.0, 25.0, 11.0, 25.0]) {
            assert!((found - wanted).abs() < 1e-5, "{turned:?}");
        }
    }

    #[test]
    fn messages_of_other_senders_are_checked() {
        let found =
            Detection { label: "cup".into(), score: 0.5, bounds: Box2d::default(), track: Some(7) };
        let value = Detections { frame_id: "camera".to_owned(), detections: vec![found] };
        let check = |change: fn(&mut RosDetection), expected: &str| {
            let mut wire = value.to_wire();
            change(&mut wire.2[0]);
            assert_eq!(Detections::from_wire(wire).unwrap_err(), expected);
        };
        check(|found| found.results.clear(), "an object with 0 hypotheses; it must have one");
        check(|found| found.id = "a".to_owned(), "id \"a\" of an object; it must be a number");
    }
}
