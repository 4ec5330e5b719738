//! Gestures of a hand.

use super::Handedness;
use crate::{Cdr, CdrMessage, wire::choice};
use afferent_graph::{Choice, Field, Payload, RecordCodec, WireCodec, choices};

choices! {
    /// Shape of a hand that has a meaning.
    #[derive(Default, Hash)]
    pub enum GestureKind {
        /// The tips of thumb and index finger touch.
        #[default]
        Pinch = "pinch",
        /// All fingers are stretched.
        OpenPalm = "open_palm",
        /// All fingers are bent.
        Fist = "fist",
        /// Only the index finger is stretched, or it and the thumb.
        Point = "point",
        /// Index and middle finger are stretched; the thumb may be, too.
        Victory = "victory",
        /// Only the thumb is stretched, and points up in the image.
        ThumbUp = "thumb_up",
    }
}

/// Start or end of a gesture. The timestamp of the packet is that of the image in which it was
/// confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GestureEvent {
    /// The gesture.
    pub gesture: GestureKind,
    /// True at the start of the gesture, false at its end.
    pub is_start: bool,
    /// Side of the hand, of the person and not of the image.
    pub handedness: Handedness,
    /// Position in pixels of the source image, x and y: between the tips of a pinch, the tip of the
    /// index finger of `point`, and the middle of the palm otherwise. At the end of a gesture of a
    /// hand that is lost, its last one.
    pub position: [f32; 2],
}

impl Payload for GestureEvent {
    const TYPE: &'static str = "vision/Gesture";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let event = if self.is_start { "gesture_start" } else { "gesture_end" };
        vec![
            ("event", Field::Text(event.to_owned())),
            ("gesture", Field::Text(self.gesture.word().to_owned())),
            ("side", Field::Text(self.handedness.word().to_owned())),
            ("x", Field::Number(self.position[0].into())),
            ("y", Field::Number(self.position[1].into())),
        ]
    }
}

impl CdrMessage for GestureEvent {
    const MESSAGE: &'static str = "afferent_msgs/msg/GestureEvent";
    const SCHEMA: &'static str = "string gesture # such as pinch
bool is_start
string handedness # left or right
float32[2] position # x, y in pixels
";
    type Wire = (String, bool, String, [f32; 2]);

    fn to_wire(&self) -> Self::Wire {
        let Self { gesture, is_start, handedness, position } = *self;
        (gesture.word().to_owned(), is_start, handedness.word().to_owned(), position)
    }

    fn from_wire((gesture, is_start, handedness, position): Self::Wire) -> Result<Self, String> {
        let gesture = choice("gesture", &gesture)?;
        let handedness = choice("handedness", &handedness)?;
        Ok(Self { gesture, is_start, handedness, position })
    }
}
