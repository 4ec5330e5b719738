//! Packets that a scenario sends: payloads made of fields.
//!
//! Another payload type: its row in `TYPES`.

use std::{str::FromStr, time::Duration};

use afferent_graph::{
    Header, HeardWord, KeywordEvent, NodeDef, Packet, Payload, SpeechEvent, SpeechEventKind, Text,
    TextPiece, Timestamp, ToolMessage, Transcript, Word,
};

use crate::source::sender;

/// A payload type that can be sent.
pub(crate) struct Sendable {
    /// [`Payload::TYPE`].
    pub(crate) ty: &'static str,
    /// The fields that it may be made of.
    pub(crate) fields: &'static [&'static str],
    /// Makes the packet of a moment.
    pub(crate) make: fn(&Fields<'_>, Timestamp) -> Result<Packet, String>,
    /// A source of it.
    pub(crate) source: NodeDef,
}

/// Every one of them, by its name.
pub(crate) const TYPES: &[Sendable] = &[
    sendable::<SpeechEvent>(&["event", "probability"], |fields, at| {
        let kind = match fields.text("event")?.as_str() {
            "speech_start" => SpeechEventKind::Start,
            "speech_end" => SpeechEventKind::End,
            other => return Err(format!("\"event\" must be speech_start or speech_end, not \"{other}\"")),
        };
        Ok(packet(SpeechEvent { kind, probability: fields.number_or("probability", 1.0)? }, at))
    }),
    sendable::<KeywordEvent>(&["label", "score"], |fields, at| {
        let (label, score) = (fields.text("label")?, fields.number_or("score", 1.0)?);
        Ok(packet(KeywordEvent { label, score }, at))
    }),
    sendable::<Transcript>(&["event", "utterance", "text"], |fields, at| {
        let is_final = match fields.text_or("event", "final").as_str() {
            "final" => true,
            "partial" => false,
            other => return Err(format!("\"event\" must be final or partial, not \"{other}\"")),
        };
        let text = fields.text("text")?;
        let word = |text: &str| HeardWord { text: text.to_owned(), start: at, end: at };
        let words = text.split_whitespace().map(word).collect();
        Ok(packet(Transcript { utterance: fields.number_or("utterance", 0)?, is_final, words }, at))
    }),
    sendable::<Word>(&["text", "duration_ms"], |fields, at| {
        let ms: f64 = fields.number_or("duration_ms", 0.0)?;
        let duration = Duration::try_from_secs_f64(ms / 1e3).map_err(|error| error.to_string())?;
        Ok(packet(Word { text: fields.text("text")?, duration }, at))
    }),
    sendable::<TextPiece>(&["answer", "text", "is_last"], |fields, at| {
        let (answer, text) = (fields.number_or("answer", 0)?, fields.text_or("text", ""));
        Ok(packet(TextPiece { answer, text, is_last: fields.number_or("is_last", false)? }, at))
    }),
    sendable::<Text>(&["text"], |fields, at| Ok(packet(Text { text: fields.text("text")? }, at))),
    sendable::<ToolMessage>(&["answer", "tool", "json"], |fields, at| {
        let (tool, json) = (fields.text("tool")?, fields.text_or("json", "{}"));
        Ok(packet(ToolMessage { answer: fields.number_or("answer", 0)?, tool, json }, at))
    }),
];

const fn sendable<T: Payload>(
    fields: &'static [&'static str],
    make: fn(&Fields<'_>, Timestamp) -> Result<Packet, String>,
) -> Sendable {
    Sendable { ty: T::TYPE, fields, make, source: sender::<T>() }
}

fn packet<T: Payload>(value: T, at: Timestamp) -> Packet {
    Packet::new(value, Header { at, ..Header::default() })
}

/// Fields by name, as they are written.
pub(crate) struct Fields<'f>(pub(crate) &'f [(String, String)]);

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, text)| text.as_str())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.get(name).map(str::to_owned).ok_or_else(|| format!("the field \"{name}\" is missing"))
    }

    fn text_or(&self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or(default).to_owned()
    }

    fn number_or<N: FromStr>(&self, name: &str, default: N) -> Result<N, String> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("\"{name}\" cannot be \"{text}\""))
    }
}
