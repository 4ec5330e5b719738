//! Transforms between coordinate frames.

use afferent_core::ForeignBytes;
use serde::{Deserialize, Serialize};

use crate::{Cdr, CdrMessage, Wire, WireMessage, cdr::ros_header, pose::IDENTITY, wire::no_bulk};
use afferent_graph::{Field, Payload, RecordCodec, Timestamp, WireCodec};

/// Transforms that were published together (ROS `tf2_msgs/TFMessage`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transforms {
    /// The transforms, each with its own time.
    pub transforms: Vec<Transform>,
}

/// Transform from a child frame to its parent frame (ROS `geometry_msgs/TransformStamped`).
///
/// It is `parent_from_child`: it turns coordinates of the child frame into coordinates of the
/// parent frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Transform {
    /// Time at which the transform holds, on the session clock.
    pub at: Timestamp,
    /// Parent frame.
    pub frame_id: String,
    /// Child frame.
    pub child_frame_id: String,
    /// Origin of the child frame in the parent frame: x, y, and z, in meters.
    pub translation_m: [f64; 3],
    /// Orientation of the child frame in the parent frame, as a unit quaternion x, y, z, w.
    pub rotation_xyzw: [f64; 4],
}

impl Default for Transform {
    /// The identity between frames without names.
    fn default() -> Self {
        Self {
            at: Timestamp::ZERO,
            frame_id: String::new(),
            child_frame_id: String::new(),
            translation_m: [0.0; 3],
            rotation_xyzw: IDENTITY,
        }
    }
}

impl Payload for Transforms {
    const TYPE: &'static str = "spatial/Transforms";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let frames: Vec<String> = self
            .transforms
            .iter()
            .map(|transform| format!("{} from {}", transform.frame_id, transform.child_frame_id))
            .collect();
        vec![("frames", Field::Text(frames.join(", ")))]
    }
}

/// The standard message of ROS 2. The stamps are on the session clock; one that does not fit in 32
/// bits of seconds is limited.
impl CdrMessage for Transforms {
    const MESSAGE: &'static str = "tf2_msgs/msg/TFMessage";
    const SCHEMA: &'static str = concat!(
        "geometry_msgs/TransformStamped[] transforms
",
        ros_header!(),
        "================================================================================
MSG: geometry_msgs/TransformStamped
std_msgs/Header header
string child_frame_id
geometry_msgs/Transform transform
================================================================================
MSG: geometry_msgs/Transform
geometry_msgs/Vector3 translation
geometry_msgs/Quaternion rotation
================================================================================
MSG: geometry_msgs/Vector3
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
    );
    type Wire = Vec<RosTransform>;

    fn to_wire(&self) -> Self::Wire {
        let transforms = self.transforms.iter();
        transforms.map(|transform| RosTransform::new(stamp(transform.at), transform)).collect()
    }

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let nanos = |(sec, nanosec): (i32, u32)| i64::from(sec) * SECOND_NS + i64::from(nanosec);
        let transforms = wire.into_iter().map(|ros| {
            let at = Timestamp(nanos(ros.stamp));
            ros.transform(at)
        });
        Ok(Self { transforms: transforms.collect() })
    }
}

const SECOND_NS: i64 = 1_000_000_000;

/// Seconds, rounded down, and nanoseconds.
fn stamp(at: Timestamp) -> (i32, u32) {
    let seconds = at.0.div_euclid(SECOND_NS);
    let nanos = u32::try_from(at.0.rem_euclid(SECOND_NS)).unwrap_or(0);
    match i32::try_from(seconds) {
        Ok(seconds) => (seconds, nanos),
        Err(_) if seconds < 0 => (i32::MIN, 0),
        Err(_) => (i32::MAX, 999_999_999),
    }
}

/// The times of the standard message have less range than a timestamp.
impl WireMessage for Transforms {
    const LAYOUT: &'static str = "Transform[] transforms:
  int64 at_ns
  string frame_id
  string child_frame_id
  float64[3] translation_m
  float64[4] rotation_xyzw
";
    type Meta = Vec<(i64, String, String, [f64; 3], [f64; 4])>;

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        let transforms = self.transforms.iter().map(|transform| {
            let Transform { at, frame_id, child_frame_id, translation_m, rotation_xyzw } =
                transform.clone();
            (at.0, frame_id, child_frame_id, translation_m, rotation_xyzw)
        });
        Ok((transforms.collect(), &[]))
    }

    fn from_parts(meta: Self::Meta, bulk: ForeignBytes) -> Result<Self, String> {
        no_bulk(&bulk)?;
        let transforms =
            meta.into_iter().map(|(at, frame_id, child_frame_id, translation_m, rotation_xyzw)| {
                Transform {
                    at: Timestamp(at),
                    frame_id,
                    child_frame_id,
                    translation_m,
                    rotation_xyzw,
                }
            });
        Ok(Self { transforms: transforms.collect() })
    }
}

/// Fields of `geometry_msgs/msg/TransformStamped`.
#[derive(Serialize, Deserialize)]
pub struct RosTransform {
    stamp: (i32, u32),
    frame_id: String,
    child_frame_id: String,
    translation: [f64; 3],
    rotation: [f64; 4],
}

impl RosTransform {
    fn new(stamp: (i32, u32), transform: &Transform) -> Self {
        let Transform { frame_id, child_frame_id, translation_m, rotation_xyzw, .. } =
            transform.clone();
        Self {
            stamp,
            frame_id,
            child_frame_id,
            translation: translation_m,
            rotation: rotation_xyzw,
        }
    }

    fn transform(self, at: Timestamp) -> Transform {
        let Self { frame_id, child_frame_id, translation, rotation, .. } = self;
        let (translation_m, rotation_xyzw) = (translation, rotation);
        Transform { at, frame_id, child_frame_id, translation_m, rotation_xyzw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_recorded_as_seconds_and_nanoseconds() {
        for (at, recorded, again) in [
            (0, (0, 0), 0),
            (-1, (-1, 999_999_999), -1),
            (5_000_000_007, (5, 7), 5_000_000_007),
            (i64::MAX, (i32::MAX, 999_999_999), 2_147_483_647_999_999_999),
            (i64::MIN, (i32::MIN, 0), -2_147_483_648_000_000_000),
        ] {
            let transform = Transform { at: Timestamp(at), ..Transform::default() };
            let wire = Transforms { transforms: vec![transform] }.to_wire();
            assert_eq!(wire[0].stamp, recorded);
            assert_eq!(Transforms::from_wire(wire).unwrap().transforms[0].at, Timestamp(again));
        }
    }
}
