//! What nodes say and are told in words.

use std::time::Duration;

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec};

/// Text as it is written, or a part of it as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The turn of a conversation that it belongs to, from 0 on: what a user says and the answer to
    /// it have one number.
    pub turn: u64,
    /// The text; the texts of a turn in a row are the whole.
    pub text: String,
    /// Whether the text of the turn ends with it.
    pub is_last: bool,
}

impl Default for Text {
    /// The empty text, whole.
    fn default() -> Self {
        Self { turn: 0, text: String::new(), is_last: true }
    }
}

impl From<&str> for Text {
    /// A whole text of no conversation.
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl Payload for Text {
    const TYPE: &'static str = "text/Text";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);

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

/// One spoken word; the time of the packet is when it begins in the sound that says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// As in [`Text`].
    pub turn: u64,
    /// The word, in small letters.
    pub text: String,
    /// How long it lasts.
    pub duration: Duration,
    /// How many words of the turn's text, as they are written with space between them, are said
    /// with it.
    pub position: u32,
}

impl Payload for Word {
    const TYPE: &'static str = "speech/Word";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);

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
