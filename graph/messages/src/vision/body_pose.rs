//! Bodies and their joints.

use serde::{Deserialize, Serialize};

use super::{Box2d, count};
use crate::{Cdr, CdrMessage, cdr::ros_header, wire::choice};
use afferent_graph::{Choice, Field, OnFull, Payload, RecordCodec, WireCodec, choices};

choices! {
    /// Order of the keypoints of a body.
    #[derive(Default, Hash)]
    pub enum Skeleton {
        /// COCO: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles; left before
        /// right.
        #[default]
        Coco17 = "coco17",
        /// Halpe: COCO, then head, neck, hip, big toes, small toes, heels.
        Halpe26 = "halpe26",
        /// COCO-WholeBody: COCO, then 6 points of the feet, 68 of the face, 21 of each hand.
        WholeBody133 = "wholebody133",
        /// BlazePose of MediaPipe.
        BlazePose33 = "blazepose33",
    }
}

impl Skeleton {
    /// Number of keypoints.
    pub const fn keypoints(self) -> usize {
        match self {
            Self::Coco17 => 17,
            Self::Halpe26 => 26,
            Self::WholeBody133 => 133,
            Self::BlazePose33 => 33,
        }
    }
}

/// Bodies in an image, the most probable first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BodyPose {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// Order of the keypoints.
    pub skeleton: Skeleton,
    /// The bodies.
    pub bodies: Vec<Body>,
}

/// A body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// Score from 0 to 1.
    pub score: f32,
    /// Box around the body.
    pub bounds: Box2d,
    /// Keypoints, as many as [`Skeleton::keypoints`].
    pub keypoints: Vec<Keypoint>,
    /// Number of the body, the same in every image, if a tracker assigned one.
    pub track: Option<u64>,
}

/// A joint or another point of a body.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Keypoint {
    /// Position in pixels of the source image: x and y.
    pub position: [f32; 2],
    /// Score of the visibility. Its range depends on the model; 0 is not visible.
    pub score: f32,
}

impl Payload for BodyPose {
    const TYPE: &'static str = "vision/BodyPose";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("skeleton", Field::Text(self.skeleton.word().to_owned())),
            ("bodies", count(self.bodies.len())),
        ]
    }
}

impl CdrMessage for BodyPose {
    const MESSAGE: &'static str = "afferent_msgs/msg/BodyPose";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
string skeleton # coco17, halpe26, wholebody133 or blazepose33
afferent_msgs/Body[] bodies
",
        ros_header!(),
        "================================================================================
MSG: afferent_msgs/Body
float32 score
float32[5] bounds # center x and y, width, height in pixels, rotation in radians
uint64[<=1] track
afferent_msgs/Keypoint[] keypoints
================================================================================
MSG: afferent_msgs/Keypoint
float32 x
float32 y
float32 score
"
    );
    type Wire = ((i32, u32), String, String, Vec<(f32, Box2d, Vec<u64>, Vec<Keypoint>)>);

    fn to_wire(&self) -> Self::Wire {
        let bodies = self.bodies.iter().map(|body| {
            let track = body.track.into_iter().collect();
            (body.score, body.bounds, track, body.keypoints.clone())
        });
        ((0, 0), self.frame_id.clone(), self.skeleton.word().to_owned(), bodies.collect())
    }

    fn from_wire((_, frame_id, skeleton, bodies): Self::Wire) -> Result<Self, String> {
        let skeleton = choice::<Skeleton>("skeleton", &skeleton)?;
        let body = |(score, bounds, track, keypoints): (_, _, Vec<u64>, Vec<_>)| {
            let (found, wanted) = (keypoints.len(), skeleton.keypoints());
            if found != wanted {
                let name = skeleton.word();
                return Err(format!("a body of {found} keypoints; {name} has {wanted}"));
            }
            if track.len() > 1 {
                return Err(format!("{} tracks of a body; it has at most one", track.len()));
            }
            Ok(Body { score, bounds, keypoints, track: track.first().copied() })
        };
        let bodies = bodies.into_iter().map(body).collect::<Result<_, _>>()?;
        Ok(Self { frame_id, skeleton, bodies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_another_skeleton_are_refused() {
        let keypoints = vec![Keypoint::default(); 17];
        let bodies = vec![Body { keypoints, ..Body::default() }];
        let value = BodyPose { bodies, ..BodyPose::default() };
        let check = |change: fn(&mut <BodyPose as CdrMessage>::Wire), expected: &str| {
            let mut wire = value.to_wire();
            change(&mut wire);
            assert_eq!(BodyPose::from_wire(wire).unwrap_err(), expected);
        };
        check(|wire| wire.2 = "halpe26".to_owned(), "a body of 17 keypoints; halpe26 has 26");
        check(
            |wire| wire.2 = "coco".to_owned(),
            "skeleton \"coco\" is none of coco17, halpe26, wholebody133, blazepose33",
        );
        check(|wire| wire.3[0].2 = vec![1, 2], "2 tracks of a body; it has at most one");
    }
}
