//! Classes of images and texts.

use std::sync::Arc;

use super::count;
use crate::{Cdr, CdrMessage, cdr::ros_header};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Classes of an image or a text, the most probable first (ROS `vision_msgs/Classification`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Classes {
    /// Coordinate frame of the camera; empty for a text.
    pub frame_id: String,
    /// The classes that the node reports.
    pub classes: Vec<Class>,
}

/// A class and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name of the class, or its index if the model has no names.
    pub label: Arc<str>,
    /// Score from 0 to 1. Scores of a softmax add up to 1 over all classes of the model.
    pub score: f32,
}

impl Payload for Classes {
    const TYPE: &'static str = "vision/Classes";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("classes", count(self.classes.len())),
        ];
        if let Some(best) = self.classes.first() {
            fields.push(("label", Field::Text(best.label.to_string())));
            fields.push(("score", Field::Number(best.score.into())));
        }
        fields
    }
}

/// The standard message of ROS 2. Its stamp is zero because a recording stores the timestamp beside
/// each message.
impl CdrMessage for Classes {
    const MESSAGE: &'static str = "vision_msgs/msg/Classification";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
vision_msgs/ObjectHypothesis[] results
",
        ros_header!(),
        "================================================================================
MSG: vision_msgs/ObjectHypothesis
string class_id
float64 score
"
    );
    type Wire = ((i32, u32), String, Vec<(String, f64)>);

    fn to_wire(&self) -> Self::Wire {
        let classes = self.classes.iter();
        let classes = classes.map(|class| (class.label.to_string(), class.score.into())).collect();
        ((0, 0), self.frame_id.clone(), classes)
    }

    fn from_wire((_, frame_id, classes): Self::Wire) -> Result<Self, String> {
        let class =
            |(label, score): (String, f64)| Class { label: label.into(), score: score as f32 };
        Ok(Self { frame_id, classes: classes.into_iter().map(class).collect() })
    }
}
