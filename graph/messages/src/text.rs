//! Text and words of a conversation.

use std::time::Duration;

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec, WireCodec};

/// Text, or a chunk of streamed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Turn of the conversation, from zero. A user turn and its answer have the same number.
    pub turn: u64,
    /// The text. The complete text of a turn is the concatenation of its chunks.
    pub text: String,
    /// True if this is the last chunk of the turn.
    pub is_last: bool,
}

impl Default for Text {
    /// Complete empty text.
    fn default() -> Self {
        Self { turn: 0, text: String::new(), is_last: true }
    }
}

impl From<&str> for Text {
    /// Complete text outside a conversation.
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl Payload for Text {
    const TYPE: &'static str = "text/Text";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("turn", Field::Int(i64::try_from(self.turn).unwrap_or(i64::MAX))),
            ("text", Field::Text(self.text.clone())),
            ("is_last", Field::Bool(self.is_last)),
        ]
    }
}

impl CdrMessage for Text {
    const MESSAGE: &'static str = "afferent_msgs/msg/Text";
    const SCHEMA: &'static str = "uint64 turn\nstring text\nbool is_last\n";
    type Wire = (u64, String, bool);

    fn to_wire(&self) -> Self::Wire {
        (self.turn, self.text.clone(), self.is_last)
    }

    fn from_wire((turn, text, is_last): Self::Wire) -> Result<Self, String> {
        Ok(Self { turn, text, is_last })
    }
}

/// One spoken word. The timestamp of the packet is the start of the word in the synthesized audio.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Turn of the conversation, as in [`Text`].
    pub turn: u64,
    /// The word in lower case.
    pub text: String,
    /// Duration of the word.
    pub duration: Duration,
    /// Number of whitespace-separated words of the turn's text that were spoken when this word
    /// ends.
    pub position: u32,
}

impl Payload for Word {
    const TYPE: &'static str = "speech/Word";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let duration = self.duration.as_secs_f64() * 1e3;
        vec![
            ("turn", Field::Int(i64::try_from(self.turn).unwrap_or(i64::MAX))),
            ("text", Field::Text(self.text.clone())),
            ("duration_ms", Field::Number(duration)),
            ("position", Field::Int(i64::from(self.position))),
        ]
    }
}

impl CdrMessage for Word {
    const MESSAGE: &'static str = "afferent_msgs/msg/Word";
    const SCHEMA: &'static str = "uint64 turn\nstring text\nuint64 duration_ns\nuint32 position\n";
    type Wire = (u64, String, u64, u32);

    fn to_wire(&self) -> Self::Wire {
        let duration = u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX);
        (self.turn, self.text.clone(), duration, self.position)
    }

    fn from_wire((turn, text, duration, position): Self::Wire) -> Result<Self, String> {
        Ok(Self { turn, text, duration: Duration::from_nanos(duration), position })
    }
}
