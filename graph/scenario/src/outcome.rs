//! Outcome of a case for users and programs.

use std::{fmt::Write as _, time::Duration};

use afferent_graph::Field;
use afferent_spec::Diagnostic;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{
    judge::Window,
    prepare::Prepared,
    spec::Case,
    state::{Event, State},
};

/// Outcome of a case.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Name of the case.
    pub name: String,
    /// Scenario file of the case.
    pub file: String,
    /// Line of the case in its file.
    pub line: usize,
    /// Duration on the session clock.
    pub length: Duration,
    /// Wall time of all runs.
    pub real: Duration,
    /// Number of runs.
    pub runs: usize,
    /// Unmet expectations and other errors. Empty if the case passed.
    pub faults: Vec<Fault>,
}

/// An unmet expectation, or an error in the case.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Message and source location.
    pub diagnostic: Diagnostic,
    /// Nearest events of the run, one per line.
    pub events: Vec<Happened>,
}

/// An event of the run.
#[derive(Debug, Clone, Serialize)]
pub struct Happened {
    /// Send time on the session clock, in seconds.
    pub t_s: f64,
    /// Output as `node.port`.
    pub event: String,
    /// Formatted fields of the event.
    pub fields: String,
    /// True if the event matches a pattern of the expectation.
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

    /// True if all expectations were met.
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// Formats all faults like compiler diagnostics, with or without terminal colors.
    pub fn render(&self, color: bool) -> String {
        self.faults.iter().map(|fault| fault.render(color)).collect::<Vec<_>>().join("\n\n")
    }
}

impl Fault {
    /// Formats the fault like a compiler diagnostic, followed by the nearest events.
    pub fn render(&self, color: bool) -> String {
        let mut text = self.diagnostic.render(color);
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

/// Maximum numbers of shown events: matching events, other events of the same outputs, and events
/// of other outputs.
const MAX_SHOWN_EVENTS: [usize; 3] = [8, 8, 8];

/// Scope of an expectation: its window, its streams, and the log indices of matching events.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) window: Option<Window>,
    pub(crate) streams: Vec<usize>,
    pub(crate) fits: Vec<usize>,
}

/// Events nearest to the window of an expectation, or the last events of the run.
pub(crate) fn nearest(prepared: &Prepared, state: &State, scope: &Scope) -> Vec<Happened> {
    let distance = |event: &Event| match scope.window {
        Some(Window { from, until }) => {
            let after = until.map_or(Duration::ZERO, |until| event.now.since(until));
            from.since(event.now).max(after)
        }
        None => state.over.map_or(Duration::ZERO, |over| over.since(event.now)),
    };
    let fits = |index: &usize| scope.fits.contains(index);
    let kind = |index: &usize| {
        let stream = state.log[*index].stream;
        match scope.streams.contains(&stream) {
            true => Some(usize::from(!fits(index))),
            false if prepared.streams[stream].is_bulk => None,
            false => Some(2),
        }
    };
    let mut chosen = Vec::new();
    for (number, most) in MAX_SHOWN_EVENTS.into_iter().enumerate() {
        let indices = 0..state.log.len();
        let mut indices: Vec<_> = indices.filter(|index| kind(index) == Some(number)).collect();
        indices.sort_by_key(|index| distance(&state.log[*index]));
        let within = indices.partition_point(|index| distance(&state.log[*index]).is_zero());
        // If the window holds too many, keep the first and the last.
        if within > most && scope.window.is_some() {
            indices.drain(most / 2..within - most / 2);
        }
        chosen.extend(indices.into_iter().take(most));
    }
    chosen.sort_unstable();
    let happened = |index: usize| {
        let event = &state.log[index];
        Happened {
            t_s: event.now.as_secs_f64(),
            event: prepared.streams[event.stream].name.clone(),
            fields: event.fields.iter().map(text_of).collect::<Vec<_>>().join("  "),
            fits: fits(&index),
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
