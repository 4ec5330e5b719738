//! Hands and their joints.

use serde::{Deserialize, Serialize};

use super::count;
use crate::{Cdr, CdrMessage, cdr::ros_header, wire::choice};
use afferent_graph::{Choice, Field, OnFull, Payload, RecordCodec, WireCodec, choices};

/// Hands in an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hands {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// The hands.
    pub hands: Vec<Hand>,
}

choices! {
    /// Side of a hand.
    #[derive(Default)]
    pub enum Handedness {
        /// A left hand.
        Left = "left",
        /// A right hand.
        #[default]
        Right = "right",
    }
}

/// A hand with the 21 landmarks of MediaPipe: the wrist (0), then four joints each of thumb (1 to
/// 4), index finger (5 to 8), middle finger (9 to 12), ring finger (13 to 16) and little finger (17
/// to 20), from the palm to the tip.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hand {
    /// Side of the hand, of the person and not of the image.
    pub handedness: Handedness,
    /// Score of the side, from 0.5 to 1.
    pub handedness_score: f32,
    /// Score of the presence of a hand, from 0 to 1.
    pub score: f32,
    /// Landmarks in the source image: x and y in pixels, and z with the same scale, relative to the
    /// wrist and larger with the distance.
    pub landmarks: [[f32; 3]; Hand::LANDMARKS],
    /// Landmarks in meters, relative to the center of the hand, with the axes of the camera. The
    /// scale is that of an average hand.
    pub world_m: [[f32; 3]; Hand::LANDMARKS],
}

impl Hand {
    /// Number of landmarks.
    pub const LANDMARKS: usize = 21;
}

impl Payload for Hands {
    const TYPE: &'static str = "vision/Hands";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let sides: Vec<&str> = self.hands.iter().map(|hand| hand.handedness.word()).collect();
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("hands", count(self.hands.len())),
            ("sides", Field::Text(sides.join(", "))),
        ]
    }
}

impl CdrMessage for Hands {
    const MESSAGE: &'static str = "afferent_msgs/msg/Hands";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
afferent_msgs/Hand[] hands
",
        ros_header!(),
        "================================================================================
MSG: afferent_msgs/Hand
string handedness # left or right
float32 handedness_score
float32 score
float32[63] landmarks # x, y, z of 21 points, in pixels
float32[63] world_m # x, y, z of 21 points
"
    );
    type Wire = ((i32, u32), String, Vec<HandFields>);

    fn to_wire(&self) -> Self::Wire {
        ((0, 0), self.frame_id.clone(), self.hands.iter().map(HandFields::new).collect())
    }

    fn from_wire((_, frame_id, hands): Self::Wire) -> Result<Self, String> {
        let hands = hands.into_iter().map(HandFields::hand).collect::<Result<_, _>>()?;
        Ok(Self { frame_id, hands })
    }
}

/// Fields of `afferent_msgs/msg/Hand`.
#[derive(Serialize, Deserialize)]
pub struct HandFields {
    handedness: String,
    handedness_score: f32,
    score: f32,
    landmarks: [[f32; 3]; Hand::LANDMARKS],
    world_m: [[f32; 3]; Hand::LANDMARKS],
}

impl HandFields {
    fn new(hand: &Hand) -> Self {
        let Hand { handedness, handedness_score, score, landmarks, world_m } = hand.clone();
        let handedness = handedness.word().to_owned();
        Self { handedness, handedness_score, score, landmarks, world_m }
    }

    fn hand(self) -> Result<Hand, String> {
        let Self { handedness, handedness_score, score, landmarks, world_m } = self;
        let handedness = choice("handedness", &handedness)?;
        Ok(Hand { handedness, handedness_score, score, landmarks, world_m })
    }
}
