//! What came of a case, for people and for programs.

use std::{fmt::Write as _, time::Duration};

use afferent_graph::Field;
use afferent_spec::Diagnostic;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{
    judge::Window,
    prepare::Prepared,
    spec::Case,
    stage::{Event, State},
};

/// What came of a case.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its line in it.
    pub line: usize,
    /// How long it took on the clock of the session.
    pub length: Duration,
    /// How long all runs took on the clock of the machine.
    pub real: Duration,
    /// How often it ran.
    pub runs: usize,
    /// What was expected and did not happen; it passed when there is nothing.
    pub faults: Vec<Fault>,
}

/// Something that was expected and did not happen, or is wrong with the case.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What, and where it is written.
    pub diagnostic: Diagnostic,
    /// The nearest events that did happen, one a line.
    pub events: Vec<Happened>,
}

/// An event that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Happened {
    /// When it was sent, in seconds on the clock of the session.
    pub t_s: f64,
    /// The output, as `node.port`.
    pub event: String,
    /// Its fields.
    pub fields: String,
    /// Whether it is one that was looked for.
    pub fits: bool,
}

impl From<Diagnostic> for Fault {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, events: Vec::new() }
    }
}

impl Outcome {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            name: case.name.clone(),
            file: case.location.file().to_owned(),
            line: case.location.line(),
            length: Duration::ZERO,
            real: Duration::ZERO,
            runs: 0,
            faults: Vec::new(),
        }
    }

    /// Whether everything happened as expected.
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// What went wrong, like a compiler writes it, with terminal colours or without.
    pub fn render(&self, colour: bool) -> String {
        self.faults.iter().map(|fault| fault.render(colour)).collect::<Vec<_>>().join("\n\n")
    }
}

impl Fault {
    /// The fault like a compiler writes it, and below it what happened instead.
    pub fn render(&self, colour: bool) -> String {
        let mut text = self.diagnostic.render(colour);
        if self.events.is_empty() {
            return text;
        }
        text.push_str("\nwhat happened:");
        let width = self.events.iter().map(|event| event.event.chars().count()).max().unwrap_or(0);
        for Happened { t_s, event, fields, fits } in &self.events {
            let mark = if *fits { '>' } else { ' ' };
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{mark} {t_s:>8.3} s  {event:width$}  {fields}");
        }
        text
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Outcome", 8)?;
        object.serialize_field("case", &self.name)?;
        object.serialize_field("file", &self.file)?;
        object.serialize_field("line", &self.line)?;
        object.serialize_field("passed", &self.passed())?;
        object.serialize_field("virtual_s", &self.length.as_secs_f64())?;
        object.serialize_field("real_s", &self.real.as_secs_f64())?;
        object.serialize_field("runs", &self.runs)?;
        object.serialize_field("faults", &self.faults)?;
        object.end()
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Diagnostic { message, help, location, .. } = &self.diagnostic;
        let mut object = serializer.serialize_struct("Fault", 6)?;
        object.serialize_field("message", message)?;
        object.serialize_field("help", help)?;
        object.serialize_field("file", &location.as_ref().map(|location| location.file()))?;
        object.serialize_field("line", &location.as_ref().map(|location| location.line()))?;
        object.serialize_field("column", &location.as_ref().map(|location| location.column()))?;
        object.serialize_field("events", &self.events)?;
        object.end()
    }
}

/// Most events that are shown of those that fit, of others of their outputs, and of other outputs.
const SHOWN: [usize; 3] = [8, 8, 8];

/// What a check looked for: in which time, on which streams, and the places of what fits in the log.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) window: Option<Window>,
    pub(crate) streams: Vec<usize>,
    pub(crate) fits: Vec<usize>,
}

/// The events that happened next to what was looked for, or the last ones.
pub(crate) fn nearest(prepared: &Prepared, state: &State, looked: &Looked) -> Vec<Happened> {
    let distance = |event: &Event| match looked.window {
        Some(Window { from, until }) => {
            let after = until.map_or(Duration::ZERO, |until| event.now.since(until));
            from.since(event.now).max(after)
        }
        None => state.over.map_or(Duration::ZERO, |over| over.since(event.now)),
    };
    let fits = |location: &usize| looked.fits.contains(location);
    let kind = |location: &usize| {
        let stream = state.log[*location].stream;
        match looked.streams.contains(&stream) {
            true => Some(usize::from(!fits(location))),
            false if prepared.streams[stream].is_bulk => None,
            false => Some(2),
        }
    };
    let mut chosen = Vec::new();
    for (number, most) in SHOWN.into_iter().enumerate() {
        let locations = 0..state.log.len();
        let mut locations: Vec<_> =
            locations.filter(|location| kind(location) == Some(number)).collect();
        locations.sort_by_key(|location| distance(&state.log[*location]));
        let within =
            locations.partition_point(|location| distance(&state.log[*location]).is_zero());
        // Of many in its time, the first and the last.
        if within > most && looked.window.is_some() {
            locations.drain(most / 2..within - most / 2);
        }
        chosen.extend(locations.into_iter().take(most));
    }
    chosen.sort_unstable();
    let happened = |location: usize| {
        let event = &state.log[location];
        Happened {
            t_s: event.now.as_secs_f64(),
            event: prepared.streams[event.stream].name.clone(),
            fields: event.fields.iter().map(text_of).collect::<Vec<_>>().join("  "),
            fits: fits(&location),
        }
    };
    chosen.into_iter().map(happened).collect()
}

fn text_of((name, field): &(&'static str, Field)) -> String {
    match field {
        Field::Text(text) => format!("{name} {text:?}"),
        Field::Number(number) => format!("{name} {}", (number * 1000.0).round() / 1000.0),
        Field::Int(number) => format!("{name} {number}"),
        Field::Bool(flag) => format!("{name} {flag}"),
    }
}
