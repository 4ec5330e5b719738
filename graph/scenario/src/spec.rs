//! Parsed form of a scenario: turns and expectations.

use std::{path::PathBuf, time::Duration};

use afferent_spec::{Location, yaml::Node};

/// One case of a scenario: a graph, the turns of a simulated user, and expectations.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name, with the varied values in brackets.
    pub name: String,
    /// Location of the case in its file.
    pub location: Location,
    pub(crate) graph: PathBuf,
    /// Location of the graph's name.
    pub(crate) graph_location: Location,
    pub(crate) profile: Option<(String, Location)>,
    /// Changes to the nodes of the graph.
    pub(crate) nodes: Option<Node>,
    pub(crate) source: SourceSpec,
    /// Maximum duration. A longer case fails.
    pub(crate) duration: Duration,
    /// Time that the case continues after all turns and expectations are settled.
    pub(crate) tail: Duration,
    pub(crate) turns: Vec<Turn>,
    pub(crate) checks: Vec<Check>,
    /// Patterns used by turns and expectations.
    pub(crate) patterns: Vec<Pattern>,
}

/// Source that receives the simulated user, and its background sounds.
#[derive(Debug, Clone)]
pub(crate) struct SourceSpec {
    /// Name of the node, if given.
    pub(crate) node: Option<(String, Location)>,
    pub(crate) rate: u32,
    pub(crate) block: Duration,
    /// Level of the background noise.
    pub(crate) noise_dbfs: Option<f64>,
    pub(crate) echo: Option<Echo>,
}

/// Echo of an output in the microphone.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    pub(crate) of: Output,
    /// Level relative to the sent audio.
    pub(crate) level_db: f64,
    /// Delay relative to the timestamp of the audio.
    pub(crate) delay: Duration,
}

/// A turn of the simulated user.
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

/// Input of espeak-ng.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Speech {
    pub(crate) text: String,
    pub(crate) voice: String,
    /// Speaking rate in words per minute.
    pub(crate) rate: u32,
    /// Pitch, 0 to 99.
    pub(crate) pitch: u32,
}

/// Shaping of a sound.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape {
    /// Level of the parts that are not silent, or `None` to keep it.
    pub(crate) level_dbfs: Option<f64>,
    /// Signal-to-noise ratio of added white noise.
    pub(crate) snr_db: Option<f64>,
    /// Start of the excerpt. It ends at `to`, or at the end of the sound if `to` is `None`.
    pub(crate) from: Duration,
    pub(crate) to: Option<Duration>,
    /// True if leading and trailing silence is removed.
    pub(crate) trim: bool,
}

/// A packet that the scenario sends.
#[derive(Debug, Clone)]
pub(crate) struct Send {
    /// Port of the graph.
    pub(crate) to: Output,
    /// Fields of the payload.
    pub(crate) fields: Vec<(String, String, Location)>,
}

/// A port as written: `node.port`, or `node` for its only port.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) location: Location,
}

/// Start of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    At(Duration),
    After(Anchor, Duration),
}

/// Reference time of a turn or an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The start of the session.
    Start,
    /// Start of a turn.
    Begin(usize),
    /// End of a turn.
    End(usize),
    /// The `nth` event, counted from one, since the start of a turn or of the session.
    Event { pattern: usize, nth: usize, since: Option<usize> },
}

/// Events of one output, with conditions on their fields.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) output: Output,
    /// True if the timestamp of an event counts instead of its send time.
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
    /// Case-insensitive substring.
    Contains(String),
    Min(f64),
    Max(f64),
}

/// An expectation.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) location: Location,
    /// Turn that the expectation belongs to.
    pub(crate) turn: Option<usize>,
    pub(crate) goal: Goal,
    pub(crate) after: Anchor,
    /// Time from the anchor to the start of the window.
    pub(crate) delay: Duration,
    /// Length of the window, or `None` for the end of the scenario.
    pub(crate) within: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) enum Goal {
    /// Number of events that match a pattern.
    Count { pattern: usize, least: usize, most: Option<usize> },
    /// Events in this order.
    Order(Vec<usize>),
    /// Durations from an event to the one that follows it, with limits of the median, the 95th
    /// percentile, and the maximum.
    Budget { from: usize, to: usize, limits: [Option<Duration>; 3] },
}

impl Pattern {
    /// Human-readable text of the pattern.
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
