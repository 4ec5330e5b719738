//! Messages between dialogue nodes other than audio and text.

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec, WireCodec};

/// A tool call, or the result of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolMessage {
    /// Turn whose answer contains the call.
    pub turn: u64,
    /// Name of the tool.
    pub tool: String,
    /// Arguments or results as a JSON object.
    pub json: String,
}

impl Payload for ToolMessage {
    const TYPE: &'static str = "text/Tool";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("turn", Field::Int(i64::try_from(self.turn).unwrap_or(i64::MAX))),
            ("tool", Field::Text(self.tool.clone())),
            ("json", Field::Text(self.json.clone())),
        ]
    }
}

impl CdrMessage for ToolMessage {
    const MESSAGE: &'static str = "afferent_msgs/msg/ToolMessage";
    const SCHEMA: &'static str = "uint64 turn\nstring tool\nstring json\n";
    type Wire = (u64, String, String);

    fn to_wire(&self) -> Self::Wire {
        (self.turn, self.tool.clone(), self.json.clone())
    }

    fn from_wire((turn, tool, json): Self::Wire) -> Result<Self, String> {
        Ok(Self { turn, tool, json })
    }
}

/// Kind of a [`TurnEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnEventKind {
    /// The user started to speak.
    #[default]
    Start,
    /// The turn ended, and its text is final.
    End,
    /// The user continued before the answer became audible. The turn is open again.
    Resume,
    /// The user asked the agent to stop. The turn has no text.
    Stop,
}

/// Start, end, resumption, or stop of a user turn. The timestamp of the packet is the time of the
/// decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnEvent {
    /// Number of the turn, from zero.
    pub turn: u64,
    /// Kind of the event.
    pub kind: TurnEventKind,
}

const TURN_EVENTS: [(TurnEventKind, &str); 4] = [
    (TurnEventKind::Start, "turn_start"),
    (TurnEventKind::End, "turn_end"),
    (TurnEventKind::Resume, "turn_resume"),
    (TurnEventKind::Stop, "turn_stop"),
];

impl Payload for TurnEvent {
    const TYPE: &'static str = "speech/Turn";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let name = TURN_EVENTS.iter().find(|(kind, _)| *kind == self.kind);
        vec![
            ("event", Field::Text(name.map_or("", |(_, name)| name).to_owned())),
            ("turn", Field::Int(i64::try_from(self.turn).unwrap_or(i64::MAX))),
        ]
    }
}

impl CdrMessage for TurnEvent {
    const MESSAGE: &'static str = "afferent_msgs/msg/TurnEvent";
    const SCHEMA: &'static str =
        "uint8 START=0\nuint8 END=1\nuint8 RESUME=2\nuint8 STOP=3\nuint64 turn\nuint8 kind\n";
    type Wire = (u64, u8);

    fn to_wire(&self) -> Self::Wire {
        (self.turn, self.kind as u8)
    }

    fn from_wire((turn, kind): Self::Wire) -> Result<Self, String> {
        let found = TURN_EVENTS.get(usize::from(kind));
        let (kind, _) = found.ok_or_else(|| format!("there is no turn event {kind}"))?;
        Ok(Self { turn, kind: *kind })
    }
}

/// Cancels the current work of a graph. The `interrupt` key of a graph file names an output of this
/// type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interruption {
    /// Human-readable reason.
    pub reason: String,
}

impl Payload for Interruption {
    const TYPE: &'static str = "graph/Interruption";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("event", Field::Text("interrupt".to_owned())),
            ("reason", Field::Text(self.reason.clone())),
        ]
    }
}

impl CdrMessage for Interruption {
    const MESSAGE: &'static str = "afferent_msgs/msg/Interruption";
    const SCHEMA: &'static str = "string reason\n";
    type Wire = (String,);

    fn to_wire(&self) -> Self::Wire {
        (self.reason.clone(),)
    }

    fn from_wire((reason,): Self::Wire) -> Result<Self, String> {
        Ok(Self { reason })
    }
}
