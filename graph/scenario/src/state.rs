//! Script of a run, and its progress.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use afferent_graph::{Codec, Field, Packet, Timestamp};
use afferent_messages::SampleRate;

use crate::spec::{Anchor, Check, Condition, Test, When};

/// A scenario with resolved names.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) turns: Vec<Planned>,
    pub(crate) checks: Vec<Check>,
    pub(crate) patterns: Vec<Resolved>,
    pub(crate) streams: Vec<Stream>,
    /// Stream of all interrupts.
    pub(crate) interrupts: usize,
    /// Stream whose audio the source receives as echo.
    pub(crate) echo: Option<usize>,
    pub(crate) duration: Duration,
    pub(crate) tail: Duration,
    pub(crate) rate: SampleRate,
    /// Samples per block.
    pub(crate) block: usize,
}

/// A turn with its duration.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) when: When,
    pub(crate) length: Duration,
    pub(crate) action: Action,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Sound(Arc<[f32]>),
    /// A [`Sender`](crate::source::Sender) sends the packet.
    Send,
    Interrupt,
    Silence,
}

/// A pattern with a resolved output.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) stream: usize,
    pub(crate) own_time: bool,
    pub(crate) conditions: Vec<Condition>,
}

/// An output of the graph.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Output as `node.port`.
    pub(crate) name: String,
    /// Codec by which values are compared; `None` if their type has none.
    pub(crate) codec: Option<Codec>,
    /// True if the stream carries bulk data. Its events are shown only if a pattern refers to it.
    pub(crate) is_bulk: bool,
    pub(crate) is_looked_for: bool,
}

/// A packet that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Send time on the session clock.
    pub(crate) now: Timestamp,
    pub(crate) stream: usize,
    pub(crate) number: u64,
    /// Timestamp of the packet.
    pub(crate) at: Timestamp,
    /// Hash of the value.
    pub(crate) hash: u64,
    pub(crate) fields: Vec<(&'static str, Field)>,
}

impl Event {
    /// Sort key of events, equal in every run.
    pub(crate) fn key(&self) -> (Timestamp, usize, u64, Timestamp, u64) {
        (self.now, self.stream, self.number, self.at, self.hash)
    }
}

/// Progress of a run.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Events of a time that may still be incomplete.
    pub(crate) inbox: Vec<Event>,
    /// Complete events, in order.
    pub(crate) log: Vec<Event>,
    /// Matching events of each pattern: their time, which orders them, and their index in `log`.
    pub(crate) hits: Vec<Vec<(Timestamp, usize)>>,
    /// Start and end of each turn, once known.
    pub(crate) times: Vec<Option<(Timestamp, Timestamp)>>,
    /// Audio to be heard as echo.
    pub(crate) echo: VecDeque<Packet>,
    pub(crate) echo_inbox: Vec<(Timestamp, Packet)>,
    /// Time since which no turn or expectation is pending.
    pub(crate) settled: Option<Timestamp>,
    /// End of the scenario. Later events are ignored.
    pub(crate) over: Option<Timestamp>,
}

impl State {
    /// Records an interrupt.
    pub(crate) fn note_interrupt(&mut self, script: &Script, now: Timestamp) {
        let (stream, fields) = (script.interrupts, Vec::new());
        self.inbox.push(Event { now, stream, number: 0, at: now, hash: 0, fields });
    }

    /// Processes the events sent before `now`, or all events if it is `None`.
    pub(crate) fn drain(&mut self, script: &Script, now: Option<Timestamp>) {
        let is_known = |time: Timestamp| now.is_none_or(|now| time < now);
        let (mut known, later): (Vec<_>, Vec<_>) =
            self.inbox.drain(..).partition(|event| is_known(event.now));
        self.inbox = later;
        known.sort_by_key(Event::key);
        for event in known {
            for (pattern, hits) in script.patterns.iter().zip(&mut self.hits) {
                if pattern.stream == event.stream && fits(&pattern.conditions, &event.fields) {
                    let time = if pattern.own_time { event.at } else { event.now };
                    // Timestamps can be out of order, so the index is searched.
                    let index = hits.partition_point(|(other, _)| *other <= time);
                    hits.insert(index, (time, self.log.len()));
                }
            }
            self.log.push(event);
        }
        let (known, later): (Vec<_>, Vec<_>) =
            self.echo_inbox.drain(..).partition(|(sent, _)| is_known(*sent));
        self.echo_inbox = later;
        self.echo.extend(known.into_iter().map(|(_, packet)| packet));
    }

    /// Time of `anchor`, if known.
    pub(crate) fn time_of(&self, anchor: Anchor) -> Option<Timestamp> {
        match anchor {
            Anchor::Start => Some(Timestamp::ZERO),
            Anchor::Begin(turn) => self.times.get(turn).copied()?.map(|(begin, _)| begin),
            Anchor::End(turn) => self.times.get(turn).copied()?.map(|(_, end)| end),
            Anchor::Event { pattern, nth, since } => {
                let since = match since {
                    Some(turn) => self.time_of(Anchor::Begin(turn))?,
                    None => Timestamp::ZERO,
                };
                let hits = &self.hits[pattern];
                let first = hits.partition_point(|(now, _)| *now < since);
                hits.get(first + nth - 1).map(|(now, _)| *now)
            }
        }
    }
}

/// True if the fields of an event satisfy all conditions.
fn fits(conditions: &[Condition], fields: &[(&'static str, Field)]) -> bool {
    conditions.iter().all(|condition| {
        let field = fields.iter().find(|(name, _)| *name == condition.field);
        field.is_some_and(|(_, field)| keeps(&condition.test, field))
    })
}

fn keeps(test: &Test, field: &Field) -> bool {
    let number = match field {
        Field::Number(number) => Some(*number),
        Field::Int(number) => Some(*number as f64),
        Field::Text(_) | Field::Bool(_) => None,
    };
    match (test, field) {
        (Test::Is(expected), Field::Text(text)) => expected == text,
        (Test::Is(expected), Field::Bool(flag)) => *expected == flag.to_string(),
        (Test::Is(expected), _) => {
            let expected = expected.parse::<f64>().ok();
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0);
            expected.zip(number).is_some_and(near)
        }
        (Test::Contains(part), Field::Text(text)) => {
            text.to_lowercase().contains(&part.to_lowercase())
        }
        (Test::Contains(_), _) => false,
        (Test::Min(least), _) => number.is_some_and(|number| number >= *least),
        (Test::Max(most), _) => number.is_some_and(|number| number <= *most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_look_at_fields_of_every_kind() {
        let fields = [
            ("text", Field::Text("Turn on the Lights".to_owned())),
            ("score", Field::Number(0.75)),
            ("answer", Field::Int(3)),
            ("is_last", Field::Bool(true)),
        ];
        let is = |text: &str| Test::Is(text.to_owned());
        let cases = [
            ("text", Test::Contains("lights".to_owned()), true),
            ("text", is("lights"), false),
            ("score", Test::Min(0.75), true),
            ("score", Test::Max(0.7), false),
            ("score", is("0.75"), true),
            ("answer", is("3"), true),
            ("answer", is("x"), false),
            ("is_last", is("true"), true),
            ("is_last", is("false"), false),
            ("nothing", is("true"), false),
        ];
        for (field, test, expected) in cases {
            let condition = Condition { field: field.to_owned(), test };
            assert_eq!(fits(std::slice::from_ref(&condition), &fields), expected, "{condition:?}");
        }
    }
}
