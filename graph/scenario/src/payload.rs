//! Packets that a scenario sends, with payloads built from fields.
//!
//! To support another payload type, add a row to `TYPES`.

use std::{str::FromStr, time::Duration};

use afferent_graph::{
    Header, NodeDef, NodeError, NodeSpec, Packet, Payload, Port, PortId, Timestamp,
};
use afferent_messages::{
    Gain, HeardWord, Interruption, KeywordEvent, Played, SpeechEvent, SpeechEventKind, Text,
    ToolMessage, Transcript, TurnEvent, TurnEventKind, Word,
};

/// A payload type that a scenario can send.
pub(crate) struct Sendable {
    /// Value of [`Payload::TYPE`].
    pub(crate) ty: &'static str,
    /// Accepted fields.
    pub(crate) fields: &'static [&'static str],
    /// Builds the packet from its fields, for a send time.
    pub(crate) make: fn(&Fields<'_>, Timestamp) -> Result<Packet, String>,
    /// Contract of a source that sends this type.
    pub(crate) source: fn() -> NodeDef,
}

/// Output of [`sender`].
pub(crate) const PACKETS: PortId = PortId::at(0);

/// All supported payload types, by name.
pub(crate) const TYPES: &[Sendable] = &[
    sendable::<SpeechEvent>(&["event", "probability"], |fields, at| {
        let kind = match fields.text("event")?.as_str() {
            "speech_start" => SpeechEventKind::Start,
            "speech_end" => SpeechEventKind::End,
            other => {
                return Err(format!(
                    "\"event\" must be speech_start or speech_end, not \"{other}\""
                ));
            }
        };
        Ok(packet(SpeechEvent { kind, probability: fields.number_or("probability", 1.0)? }, at))
    }),
    sendable::<KeywordEvent>(&["label", "score"], |fields, at| {
        let (label, score) = (fields.text("label")?, fields.number_or("score", 1.0)?);
        Ok(packet(KeywordEvent { label, score }, at))
    }),
    sendable::<Transcript>(&["event", "utterance", "text", "language"], |fields, at| {
        let is_final = match fields.text_or("event", "final").as_str() {
            "final" => true,
            "partial" => false,
            other => return Err(format!("\"event\" must be final or partial, not \"{other}\"")),
        };
        let text = fields.text("text")?;
        let word = |text: &str| HeardWord {
            text: text.to_owned(),
            start: at,
            end: at,
            ..HeardWord::default()
        };
        let words = text.split_whitespace().map(word).collect();
        let (utterance, language) =
            (fields.number_or("utterance", 0)?, fields.text_or("language", ""));
        Ok(packet(Transcript { utterance, is_final, words, language }, at))
    }),
    sendable::<TurnEvent>(&["event", "turn"], |fields, at| {
        let kind = match fields.text("event")?.as_str() {
            "turn_start" => TurnEventKind::Start,
            "turn_end" => TurnEventKind::End,
            "turn_resume" => TurnEventKind::Resume,
            "turn_stop" => TurnEventKind::Stop,
            other => {
                return Err(format!(
                    "\"event\" must be turn_start, turn_end, turn_resume or turn_stop, not \"{other}\""
                ));
            }
        };
        Ok(packet(TurnEvent { turn: fields.number_or("turn", 0)?, kind }, at))
    }),
    sendable::<Word>(&["turn", "text", "duration_ms", "position"], |fields, at| {
        let ms: f64 = fields.number_or("duration_ms", 0.0)?;
        let duration = Duration::try_from_secs_f64(ms / 1e3).map_err(|error| error.to_string())?;
        let (turn, position) = (fields.number_or("turn", 0)?, fields.number_or("position", 1)?);
        Ok(packet(Word { turn, text: fields.text("text")?, duration, position }, at))
    }),
    sendable::<Text>(&["turn", "text", "is_last"], |fields, at| {
        let (turn, text) = (fields.number_or("turn", 0)?, fields.text("text")?);
        Ok(packet(Text { turn, text, is_last: fields.number_or("is_last", true)? }, at))
    }),
    sendable::<ToolMessage>(&["turn", "tool", "json"], |fields, at| {
        let (tool, json) = (fields.text("tool")?, fields.text_or("json", "{}"));
        Ok(packet(ToolMessage { turn: fields.number_or("turn", 0)?, tool, json }, at))
    }),
    sendable::<Gain>(&["gain_db"], |fields, at| {
        Ok(packet(Gain { decibels: fields.number_or("gain_db", 0.0)? }, at))
    }),
    sendable::<Played>(&["until_ns", "is_playing"], |fields, at| {
        let until = Timestamp(fields.number_or("until_ns", at.0)?);
        Ok(packet(Played { until, is_playing: fields.number_or("is_playing", true)? }, at))
    }),
    sendable::<Interruption>(&["reason"], |fields, at| {
        Ok(packet(Interruption { reason: fields.text_or("reason", "the scenario") }, at))
    }),
];

const fn sendable<T: Payload>(
    fields: &'static [&'static str],
    make: fn(&Fields<'_>, Timestamp) -> Result<Packet, String>,
) -> Sendable {
    Sendable { ty: T::TYPE, fields, make, source: sender::<T> }
}

/// Contract of a source that sends `T` on the output [`PACKETS`]. At run time
/// [`Sender`](crate::source::Sender) replaces it.
fn sender<T: Payload>() -> NodeDef {
    let ports = [Port::output::<T>("packets")];
    let spec = NodeSpec {
        summary: "Sends packets of a scenario".into(),
        ..NodeSpec::new("scenario", &ports)
    };
    NodeDef::from_fn(spec, |cx| {
        let reason = "this source runs only within a scenario".to_owned();
        Err(NodeError::Device { name: cx.name.clone(), reason })
    })
}

fn packet<T: Payload>(value: T, at: Timestamp) -> Packet {
    Packet::new(value, Header { at, ..Header::default() })
}

/// Fields by name, with their values as written in the scenario.
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
