//! Runs a case repeatedly and reports its outcome.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use afferent_engine::{ClockKind, Observer, Report, RunError, RunOptions, Session, Threads};
use afferent_graph::{Catalog, OpenCx, Timestamp};
use afferent_spec::Diagnostic;

use crate::{
    judge::{self, Verdict, Window},
    outcome::{Fault, Outcome, Scope, nearest},
    prepare::Prepared,
    sound::Sounds,
    spec::{Anchor, Case, Check, Goal},
    stage::Stage,
    state::{Event, State},
};

/// Options of a [`Runner`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Worker threads of the engine.
    pub threads: Threads,
    /// Number of runs of each case, at least one. All runs must send the same packets.
    pub repeat: usize,
    /// Cache folder for synthesized speech.
    pub cache: PathBuf,
}

impl Default for Options {
    /// Two runs, with the cache in the folder for temporary files.
    fn default() -> Self {
        let cache = std::env::temp_dir().join("afferent-scenario");
        Self { threads: Threads::Auto, repeat: 2, cache }
    }
}

/// Runs cases on the virtual clock.
pub struct Runner<'r> {
    catalog: &'r Catalog,
    services: &'r OpenCx,
    options: Options,
    sounds: Sounds,
}

/// One run of a case.
struct Run {
    stage: Arc<Stage>,
    events: Vec<Event>,
    failures: Vec<String>,
    length: Duration,
}

impl<'r> Runner<'r> {
    /// Creates a runner for graphs with the nodes of `catalog`. Their models use `services`.
    pub fn new(catalog: &'r Catalog, services: &'r OpenCx, options: Options) -> Self {
        let sounds = Sounds::new(catalog, options.cache.clone());
        Self { catalog, services, options, sounds }
    }

    /// Runs `case` and returns its outcome.
    pub fn run(&mut self, case: &Case) -> Outcome {
        let start = Instant::now();
        let mut outcome = Outcome::new(case);
        let prepared = Prepared::new(case, self.catalog, self.services, &mut self.sounds);
        match prepared {
            Ok(prepared) => self.run_prepared(case, &prepared, &mut outcome),
            Err(faults) => outcome.faults.extend(faults.into_iter().map(Fault::from)),
        }
        outcome.real = start.elapsed();
        outcome
    }

    fn run_prepared(&self, case: &Case, prepared: &Prepared, outcome: &mut Outcome) {
        let mut first: Option<Run> = None;
        for number in 1..=self.options.repeat.max(1) {
            let run = match self.run_once(case, prepared) {
                Ok(run) => run,
                Err(error) => {
                    let message = format!("the graph cannot start: {error}");
                    let fault = Diagnostic::error(Some(&case.graph_location), message);
                    return outcome.faults.push(fault.into());
                }
            };
            outcome.runs = number;
            let Some(first) = &first else {
                outcome.length = run.length;
                judge_run(case, prepared, &run, outcome);
                first = Some(run);
                continue;
            };
            if let Some(difference) = difference(prepared, &first.events, &run.events) {
                let message = format!("run {number} differs from run 1: {difference}");
                outcome.faults.push(Diagnostic::error(Some(&case.location), message).into());
                return;
            }
        }
    }

    fn run_once(&self, case: &Case, prepared: &Prepared) -> Result<Run, RunError> {
        let (graph, witness, stage) = prepared.run(case);
        let options = RunOptions {
            threads: self.options.threads,
            clock: ClockKind::Virtual,
            // Sources normally end before this limit.
            duration: Some(case.duration + Duration::from_secs(1)),
            observers: vec![witness as Arc<dyn Observer>],
            ..RunOptions::default()
        };
        let session = Session::start(&graph, self.services, options)?;
        drop(stage.interrupt.set(session.interrupt_handle()));
        let report: Report = match session.wait() {
            Ok(report) => report,
            Err(RunError::Failed(report)) => *report,
            Err(error) => return Err(error),
        };
        let events = stage.events();
        let last = events.last().map_or(Timestamp::ZERO, |event| event.now);
        let length = stage.close().over.unwrap_or(last).since(Timestamp::ZERO);
        let failures = report.failures.iter().map(ToString::to_string).collect();
        Ok(Run { stage, events, failures, length })
    }
}

/// Adds the failures and unmet expectations of a run to the outcome.
fn judge_run(case: &Case, prepared: &Prepared, run: &Run, outcome: &mut Outcome) {
    for failure in &run.failures {
        let fault = Diagnostic::error(Some(&case.graph_location), failure.clone());
        outcome.faults.push(fault.into());
    }
    let state = run.stage.close();
    for (number, turn) in case.turns.iter().enumerate() {
        let late =
            |(begin, _): (Timestamp, Timestamp)| state.over.is_some_and(|over| begin >= over);
        if state.times[number].is_none_or(late) {
            let after = Timestamp::ZERO + run.length;
            let message =
                format!("{} never started: the run ended at {after}", turn_words(case, number));
            let mut fault = Fault::from(Diagnostic::error(Some(&turn.location), message));
            fault.events = nearest(prepared, &state, &Scope::default());
            outcome.faults.push(fault);
        }
    }
    for check in &case.checks {
        let (verdict, window) = judge::verdict(&run.stage.script, &state, check, None);
        let Verdict::Failed(what) = verdict else { continue };
        let message = format!("{}: {what}", expectation(case, check, &state));
        let mut fault = Fault::from(Diagnostic::error(Some(&check.location), message));
        fault.diagnostic.help = help(case, prepared, check, &state);
        fault.events = nearest(prepared, &state, &scope(prepared, check, window, &state));
        outcome.faults.push(fault);
    }
}

/// Scope of an expectation, for the event listing.
fn scope(prepared: &Prepared, check: &Check, window: Option<Window>, state: &State) -> Scope {
    let patterns = patterns(check);
    let streams = patterns.iter().map(|pattern| prepared.stream_of(*pattern)).collect();
    let hits = |pattern: &usize| window.map(|window| judge::hits(state, *pattern, window));
    let fits = patterns.iter().filter_map(hits).flatten().map(|(_, event)| *event);
    Scope { window, streams, fits: fits.collect() }
}

fn patterns(check: &Check) -> Vec<usize> {
    match &check.goal {
        Goal::Count { pattern, .. } => vec![*pattern],
        Goal::Order(patterns) => patterns.clone(),
        Goal::Budget { from, to, .. } => vec![*from, *to],
    }
}

/// Help for a misspelled field: one that the events of the output never have.
fn help(case: &Case, prepared: &Prepared, check: &Check, state: &State) -> Option<String> {
    patterns(check).into_iter().find_map(|pattern| {
        let stream = prepared.stream_of(pattern);
        let pattern = &case.patterns[pattern];
        let event = state.log.iter().find(|event| event.stream == stream)?;
        let known: Vec<_> = event.fields.iter().map(|(name, _)| *name).collect();
        let wrong = pattern
            .conditions
            .iter()
            .find(|condition| !known.contains(&condition.field.as_str()))?;
        let (output, field) = (&pattern.output.name, &wrong.field);
        Some(format!("{output} has no field \"{field}\"; it has {}", known.join(", ")))
    })
}

fn turn_words(case: &Case, number: usize) -> String {
    match &case.turns[number].name {
        Some(name) => format!("turn {} (\"{name}\")", number + 1),
        None => format!("turn {}", number + 1),
    }
}

/// Human-readable text of an expectation.
fn expectation(case: &Case, check: &Check, state: &State) -> String {
    let pattern = |pattern: usize| case.patterns[pattern].text();
    let mut text = match check.turn {
        Some(turn) => format!("{} expects ", turn_words(case, turn)),
        None => "expected ".to_owned(),
    };
    text += &match &check.goal {
        Goal::Count { pattern: p, least: 0, most: Some(0) } => format!("no {}", pattern(*p)),
        Goal::Count { pattern: p, least: 1, most: None } => pattern(*p),
        Goal::Count { pattern: p, least, most: Some(most) } if least == most => {
            format!("{} {least} times", pattern(*p))
        }
        Goal::Count { pattern: p, least, most: Some(most) } => {
            format!("{} {least} to {most} times", pattern(*p))
        }
        Goal::Count { pattern: p, least, most: None } => {
            format!("{} {least} times or more", pattern(*p))
        }
        Goal::Order(patterns) => {
            patterns.iter().map(|p| pattern(*p)).collect::<Vec<_>>().join(", then ")
        }
        Goal::Budget { from, to, .. } => {
            format!("a time from {} to {}", pattern(*from), pattern(*to))
        }
    };
    let of = |turn: usize| match check.turn {
        Some(own) if own == turn => "it".to_owned(),
        _ => turn_words(case, turn),
    };
    let (within, delay) = (check.within, check.delay);
    text += &match (within, delay.is_zero()) {
        (Some(within), true) => format!(" within {within:?} of "),
        (Some(within), false) => format!(" within {within:?}, from {delay:?} after "),
        (None, true) if check.after == Anchor::Start => return text,
        (None, true) => " after ".to_owned(),
        (None, false) => format!(", from {delay:?} after "),
    };
    text += &match check.after {
        Anchor::Start => "the start".to_owned(),
        Anchor::Begin(turn) => format!("the start of {}", of(turn)),
        Anchor::End(turn) => format!("the end of {}", of(turn)),
        Anchor::Event { pattern: p, nth: 1, .. } => pattern(p),
        Anchor::Event { pattern: p, nth, .. } => format!("number {nth} of {}", pattern(p)),
    };
    match state.time_of(check.after) {
        Some(at) if check.after != Anchor::Start => format!("{text} at {at}"),
        _ => text,
    }
}

/// Describes the first difference between two runs.
fn difference(prepared: &Prepared, one: &[Event], other: &[Event]) -> Option<String> {
    let pair = one.iter().zip(other).find(|(one, other)| one.key() != other.key());
    let event = match pair {
        Some((one, other)) => one.min_by_key(other),
        None if one.len() == other.len() => return None,
        None => one.get(other.len()).or_else(|| other.get(one.len()))?,
    };
    let name = &prepared.streams[event.stream].name;
    Some(format!("the first difference is at {}, packet {} of {name}", event.now, event.number))
}

impl Event {
    /// The earlier of two events.
    fn min_by_key<'e>(&'e self, other: &'e Self) -> &'e Self {
        if other.key() < self.key() { other } else { self }
    }
}
