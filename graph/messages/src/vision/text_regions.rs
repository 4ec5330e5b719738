//! Text in images.

use super::count;
use crate::{Cdr, CdrMessage, cdr::ros_header};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Text in an image, in reading order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextRegions {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// The lines or words.
    pub regions: Vec<TextRegion>,
}

/// A line or a word.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextRegion {
    /// Corners in pixels of the source image: clockwise, from the one at which the first character
    /// has its top left.
    pub corners: [[f32; 2]; 4],
    /// Score of the detection of text, from 0 to 1.
    pub score: f32,
    /// The text; empty if it is not recognized yet.
    pub text: String,
    /// Confidence of the recognized text, from 0 to 1; 0 if it is not recognized yet.
    pub confidence: f32,
}

impl Payload for TextRegions {
    const TYPE: &'static str = "vision/TextRegions";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let text: Vec<&str> = self.regions.iter().map(|region| &*region.text).collect();
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("regions", count(self.regions.len())),
            ("text", Field::Text(text.join("\n"))),
        ]
    }
}

impl CdrMessage for TextRegions {
    const MESSAGE: &'static str = "afferent_msgs/msg/TextRegions";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
afferent_msgs/TextRegion[] regions
",
        ros_header!(),
        "================================================================================
MSG: afferent_msgs/TextRegion
float32[8] corners # x, y of 4 points, in pixels
float32 score
string text
float32 confidence
"
    );
    type Wire = ((i32, u32), String, Vec<([[f32; 2]; 4], f32, String, f32)>);

    fn to_wire(&self) -> Self::Wire {
        let regions = self.regions.iter().map(|region| {
            let TextRegion { corners, score, text, confidence } = region.clone();
            (corners, score, text, confidence)
        });
        ((0, 0), self.frame_id.clone(), regions.collect())
    }

    fn from_wire((_, frame_id, regions): Self::Wire) -> Result<Self, String> {
        let regions = regions.into_iter().map(|(corners, score, text, confidence)| TextRegion {
            corners,
            score,
            text,
            confidence,
        });
        Ok(Self { frame_id, regions: regions.collect() })
    }
}
