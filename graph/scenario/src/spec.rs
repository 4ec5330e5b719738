//! A scenario as it is written: turns, and what is expected of a graph.

use std::{path::PathBuf, time::Duration};

use afferent_spec::{Location, yaml::Node};

/// One scenario: a graph, what a user does, and what must happen.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name, with the values that it varies in brackets.
    pub name: String,
    /// Where it is written.
    pub location: Location,
    pub(crate) graph: PathBuf,
    /// Where the graph is named.
    pub(crate) graph_location: Location,
    pub(crate) profile: Option<(String, Location)>,
    /// Changes of the graph's nodes.
    pub(crate) nodes: Option<Node>,
    pub(crate) source: SourceSpec,
    /// It fails when it takes longer.
    pub(crate) duration: Duration,
    /// How long it goes on when nothing is left to do or to wait for.
    pub(crate) tail: Duration,
    pub(crate) turns: Vec<Turn>,
    pub(crate) checks: Vec<Check>,
    /// What turns and checks look for.
    pub(crate) patterns: Vec<Pattern>,
}

/// Who hears the user, and what it hears beside him.
#[derive(Debug, Clone)]
pub(crate) struct SourceSpec {
    /// The node, where it is named.
    pub(crate) node: Option<(String, Location)>,
    pub(crate) rate: u32,
    pub(crate) block: Duration,
    /// Level of the noise that is always there.
    pub(crate) noise_dbfs: Option<f64>,
    pub(crate) echo: Option<Echo>,
}

/// The sound of an output in the microphone.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    pub(crate) of: Output,
    /// Against the sound as it was sent.
    pub(crate) level_db: f64,
    /// Behind the time of the sound.
    pub(crate) delay: Duration,
}

/// What a user does.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) name: Option<String>,
    pub(crate) location: Location,
    pub(crate) act: Act,
    pub(crate) when: When,
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Say(Speech, Shape),
    Play(PathBuf, Shape),
    Send(Send),
    Silence(Duration),
    Interrupt,
}

/// What espeak-ng is to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Speech {
    pub(crate) text: String,
    pub(crate) voice: String,
    /// Words a minute.
    pub(crate) rate: u32,
    /// 0 to 99.
    pub(crate) pitch: u32,
}

/// How a sound is heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape {
    /// Level of what is not silent; as it is when absent.
    pub(crate) level_dbfs: Option<f64>,
    /// White noise with the sound, that much below it.
    pub(crate) snr_db: Option<f64>,
    /// The part of the sound that is heard; to its end when the second is absent.
    pub(crate) from: Duration,
    pub(crate) to: Option<Duration>,
    /// Whether silence before and behind is cut off.
    pub(crate) trim: bool,
}

/// A packet that the scenario sends.
#[derive(Debug, Clone)]
pub(crate) struct Send {
    /// The port of the graph.
    pub(crate) to: Output,
    /// The fields of the payload.
    pub(crate) fields: Vec<(String, String, Location)>,
}

/// A port as it is written: `node.port`, or `node` for the only one.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) location: Location,
}

/// When a turn begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    At(Duration),
    After(Anchor, Duration),
}

/// A moment that others are told from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The start of the session.
    Start,
    /// The begin of a turn.
    Begin(usize),
    /// Its end.
    End(usize),
    /// When an event happened for the `nth` time, from one on, since the begin of a turn or the
    /// start of the session.
    Event { pattern: usize, nth: usize, since: Option<usize> },
}

/// Events of one output, with conditions on their fields.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) output: Output,
    /// Whether an event counts when it was sent, or at its own time.
    pub(crate) own_time: bool,
    pub(crate) conditions: Vec<Condition>,
}

/// A condition on a field of an event.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) field: String,
    pub(crate) test: Test,
}

#[derive(Debug, Clone)]
pub(crate) enum Test {
    Is(String),
    /// Upper and lower case count the same.
    Contains(String),
    Min(f64),
    Max(f64),
}

/// What must happen, or must not.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) location: Location,
    /// The turn that it belongs to.
    pub(crate) turn: Option<usize>,
    pub(crate) goal: Goal,
    pub(crate) after: Anchor,
    /// How long after that it begins to look.
    pub(crate) delay: Duration,
    /// To the end of the scenario when absent.
    pub(crate) within: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) enum Goal {
    /// An event happens that often.
    Count { pattern: usize, least: usize, most: Option<usize> },
    /// Events happen one after the other.
    Order(Vec<usize>),
    /// Times from an event to the one that follows from it, with limits of the median, of 95 % and of
    /// all.
    Budget { from: usize, to: usize, limits: [Option<Duration>; 3] },
}

impl Pattern {
    /// The pattern for people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.output.name.clone();
        for (number, condition) in self.conditions.iter().enumerate() {
            text.push_str(if number == 0 { " with " } else { " and " });
            let Condition { field, test } = condition;
            text.push_str(&match test {
                Test::Is(value) => format!("{field} \"{value}\""),
                Test::Contains(part) => format!("{field} that contains \"{part}\""),
                Test::Min(least) => format!("{field} of at least {least}"),
                Test::Max(most) => format!("{field} of at most {most}"),
            });
        }
        text
    }
}
