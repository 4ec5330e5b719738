//! What a language model says, piece by piece, and the tools that it calls.

use crate::{Codec, Field, Payload, Recorded};

/// Some text of an answer, as it comes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextPiece {
    /// Number of the answer, from 0 on.
    pub answer: u64,
    /// The text; the texts of an answer in a row are the whole.
    pub text: String,
    /// Whether the answer ends with it.
    pub is_last: bool,
}

impl Payload for TextPiece {
    const TYPE: &'static str = "text/Piece";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("answer", Field::Int(i64::try_from(self.answer).unwrap_or(i64::MAX))),
            ("text", Field::Text(self.text.clone())),
            ("is_last", Field::Bool(self.is_last)),
        ]
    }
}

impl Recorded for TextPiece {
    const MESSAGE: &'static str = "afferent_msgs/msg/TextPiece";
    const SCHEMA: &'static str = "uint64 answer\nstring text\nbool is_last\n";
    type Wire = (u64, String, bool);

    fn to_wire(&self) -> Self::Wire {
        (self.answer, self.text.clone(), self.is_last)
    }

    fn from_wire((answer, text, is_last): Self::Wire) -> Result<Self, String> {
        Ok(Self { answer, text, is_last })
    }
}

/// A call of a tool, or what the tool gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolMessage {
    /// Number of the answer that asks for it, from 0 on.
    pub answer: u64,
    /// Name of the tool.
    pub tool: String,
    /// Arguments or results, a JSON object.
    pub json: String,
}

impl Payload for ToolMessage {
    const TYPE: &'static str = "text/Tool";
    const CODEC: Option<Codec> = Some(Codec::of::<Self>());

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("answer", Field::Int(i64::try_from(self.answer).unwrap_or(i64::MAX))),
            ("tool", Field::Text(self.tool.clone())),
            ("json", Field::Text(self.json.clone())),
        ]
    }
}

impl Recorded for ToolMessage {
    const MESSAGE: &'static str = "afferent_msgs/msg/ToolMessage";
    const SCHEMA: &'static str = "uint64 answer\nstring tool\nstring json\n";
    type Wire = (u64, String, String);

    fn to_wire(&self) -> Self::Wire {
        (self.answer, self.tool.clone(), self.json.clone())
    }

    fn from_wire((answer, tool, json): Self::Wire) -> Result<Self, String> {
        Ok(Self { answer, tool, json })
    }
}
