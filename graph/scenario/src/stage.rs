//! What the sources of a scenario and who looks on at its run know together.
//!
//! On the virtual clock time moves only when every thread rests. So whoever is called at a time
//! knows everything that was sent before it, whatever thread it was sent on; what is sent at that
//! very time he leaves alone. Everything that is decided here depends on nothing else, so that it
//! does not matter who calls first.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use afferent_engine::InterruptHandle;
use afferent_graph::{Field, Packet, Timestamp};
use afferent_messages::SampleRate;

use crate::{
    judge::{self, Verdict},
    spec::{Anchor, Check, Condition, Test, When},
};

/// A scenario whose names are resolved.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) turns: Vec<Planned>,
    pub(crate) checks: Vec<Check>,
    pub(crate) patterns: Vec<Resolved>,
    pub(crate) streams: Vec<Stream>,
    /// The stream of all interrupts.
    pub(crate) interrupts: usize,
    /// The stream whose sound is heard by the source.
    pub(crate) echo: Option<usize>,
    pub(crate) duration: Duration,
    pub(crate) tail: Duration,
    pub(crate) rate: SampleRate,
    /// Samples of a block.
    pub(crate) block: usize,
}

/// A turn and how long it takes.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) when: When,
    pub(crate) length: Duration,
    pub(crate) action: Action,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Sound(Arc<[f32]>),
    /// One of the senders does it.
    Send,
    Interrupt,
    Silence,
}

/// A pattern whose output is known.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) stream: usize,
    pub(crate) own_time: bool,
    pub(crate) conditions: Vec<Condition>,
}

/// An output of the graph.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// As `node.port`.
    pub(crate) name: String,
    /// Whether its values are long and many, so that they are shown only where they are looked for.
    pub(crate) is_bulk: bool,
    pub(crate) is_looked_for: bool,
}

/// A packet that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// When it was sent, on the clock of the session.
    pub(crate) now: Timestamp,
    pub(crate) stream: usize,
    pub(crate) number: u64,
    /// Its own time.
    pub(crate) at: Timestamp,
    /// Of its value.
    pub(crate) hash: u64,
    pub(crate) fields: Vec<(&'static str, Field)>,
}

impl Event {
    /// What orders events, the same in every run.
    pub(crate) fn key(&self) -> (Timestamp, usize, u64, Timestamp, u64) {
        (self.now, self.stream, self.number, self.at, self.hash)
    }
}

/// See the head of this file.
pub(crate) struct Stage {
    pub(crate) script: Script,
    state: Mutex<State>,
    /// Given as soon as the graph runs.
    pub(crate) interrupt: OnceLock<InterruptHandle>,
}

/// What has happened.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Events that may not be complete for their time yet.
    inbox: Vec<Event>,
    /// The events before, in their order.
    pub(crate) log: Vec<Event>,
    /// For each pattern the events that fit: their time, in whose order they stand, and place in
    /// `log`.
    pub(crate) hits: Vec<Vec<(Timestamp, usize)>>,
    /// Of each turn begin and end, once they are known.
    pub(crate) times: Vec<Option<(Timestamp, Timestamp)>>,
    /// Sound that is to be heard again.
    pub(crate) echo: VecDeque<Packet>,
    pub(crate) echo_inbox: Vec<(Timestamp, Packet)>,
    /// Since when there is nothing left to do or to wait for.
    settled: Option<Timestamp>,
    /// When the scenario ended; later events are not looked at.
    pub(crate) over: Option<Timestamp>,
}

impl Stage {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        let state = State {
            hits: vec![Vec::new(); script.patterns.len()],
            times: vec![None; script.turns.len()],
            ..State::default()
        };
        Arc::new(Self { script, state: Mutex::new(state), interrupt: OnceLock::new() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event in; with its packet where it is heard again.
    pub(crate) fn take(&self, event: Event, packet: &Packet) {
        let mut state = self.lock();
        if self.script.echo == Some(event.stream) && state.over.is_none() {
            state.echo_inbox.push((event.now, packet.clone()));
        }
        state.inbox.push(event);
    }

    /// Takes in that there was an interrupt.
    pub(crate) fn note_interrupt(&self, now: Timestamp) {
        self.lock().note_interrupt(&self.script, now);
    }

    /// Everything that was sent before `now` is known: lets turns begin, and sees whether the
    /// scenario is over.
    pub(crate) fn advance(&self, now: Timestamp) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.over.is_none() {
            state.drain(&self.script, Some(now));
            self.begin_turns(&mut state, now);
            let judgement = |check: &Check| judge::verdict(&self.script, &state, check, Some(now));
            let waits = |check: &Check| matches!(judgement(check).0, Verdict::Waiting);
            let ended = state.times.iter().all(|times| times.is_some_and(|(_, end)| end < now));
            let is_settled = ended && !self.script.checks.iter().any(waits);
            if is_settled {
                let since = *state.settled.get_or_insert(now);
                if now >= since + self.script.tail {
                    state.over = Some(now);
                }
            }
            if now >= Timestamp::ZERO + self.script.duration {
                state.over = Some(now);
            }
        }
        state
    }

    /// Takes in what is left when the run has ended.
    pub(crate) fn close(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.over.is_none() {
            state.drain(&self.script, None);
        }
        state
    }

    /// Everything that was sent, in its order.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.lock();
        let mut all: Vec<_> = state.log.iter().chain(&state.inbox).cloned().collect();
        all.sort_by_key(Event::key);
        all
    }

    /// Gives begin and end to the turns for which what they wait for has come.
    fn begin_turns(&self, state: &mut State, now: Timestamp) {
        // A sound can begin in the block that is made now, everything else from now on.
        let heard = self.block_before(now);
        for (location, turn) in self.script.turns.iter().enumerate() {
            if state.times[location].is_some() {
                continue;
            }
            let begin = match turn.when {
                When::At(at) => Some(Timestamp::ZERO + at),
                When::After(anchor, delay) => state.time_of(anchor).map(|time| time + delay),
            };
            let Some(begin) = begin else { continue };
            let earliest = if matches!(turn.action, Action::Sound(_)) { heard } else { now };
            let begin = begin.max(earliest);
            state.times[location] = Some((begin, begin + turn.length));
        }
    }

    /// The begin of the block that is made at `now`, or that `now` lies in.
    fn block_before(&self, now: Timestamp) -> Timestamp {
        let Script { rate, block, .. } = self.script;
        let samples = rate.samples(now.since(Timestamp(1)));
        Timestamp::ZERO + rate.duration(samples / block * block)
    }

    /// The end of the block that begins at or before `now` and ends behind it.
    pub(crate) fn block_after(&self, now: Timestamp) -> Timestamp {
        let Script { rate, block, .. } = self.script;
        let samples = rate.samples(now.since(Timestamp::ZERO));
        let end = |blocks: usize| Timestamp::ZERO + rate.duration(blocks * block);
        let blocks = samples / block + 1;
        if end(blocks) > now { end(blocks) } else { end(blocks + 1) }
    }
}

impl State {
    /// Takes in that there was an interrupt.
    pub(crate) fn note_interrupt(&mut self, script: &Script, now: Timestamp) {
        let (stream, fields) = (script.interrupts, Vec::new());
        self.inbox.push(Event { now, stream, number: 0, at: now, hash: 0, fields });
    }

    /// Takes in what was sent before `now`, or everything.
    fn drain(&mut self, script: &Script, now: Option<Timestamp>) {
        let is_known = |time: Timestamp| now.is_none_or(|now| time < now);
        let (mut known, later): (Vec<_>, Vec<_>) =
            self.inbox.drain(..).partition(|event| is_known(event.now));
        self.inbox = later;
        known.sort_by_key(Event::key);
        for event in known {
            for (pattern, hits) in script.patterns.iter().zip(&mut self.hits) {
                if pattern.stream == event.stream && fits(&pattern.conditions, &event.fields) {
                    let time = if pattern.own_time { event.at } else { event.now };
                    // A packet of the scenario can come between.
                    let location = hits.partition_point(|(other, _)| *other <= time);
                    hits.insert(location, (time, self.log.len()));
                }
            }
            self.log.push(event);
        }
        let (known, later): (Vec<_>, Vec<_>) =
            self.echo_inbox.drain(..).partition(|(sent, _)| is_known(*sent));
        self.echo_inbox = later;
        self.echo.extend(known.into_iter().map(|(_, packet)| packet));
    }

    /// When `anchor` was, as far as that is known.
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

/// Whether the fields of an event keep all conditions.
pub(crate) fn fits(conditions: &[Condition], fields: &[(&'static str, Field)]) -> bool {
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
