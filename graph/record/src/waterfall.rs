//! Where the time of each piece of work goes, from output to output.

use std::{
    collections::VecDeque,
    fmt::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use afferent_engine::{CheckedGraph, Observer};
use afferent_graph::{Packet, Timestamp};
use serde::Serialize;

/// Work that is under way at a time; of more, the oldest is given up.
const ON_THE_WAY: usize = 256;

/// Times the outputs of [`CheckedGraph::waterfall`] for every piece of work that comes to the last
/// of them: for a conversation, from the end of speech to the first sound of the answer.
///
/// What belongs together has one trace. The first output counts when its event happened, which the
/// time of its packet tells; the others count when their first packet was sent, the last one no
/// earlier than its packet's time, which for sound is when it is heard.
///
/// Give it to [`RunOptions::observers`], and ask for its [`Waterfall::turns`] at the end.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct Waterfall {
    /// Node and port of each stage.
    stages: Vec<(String, &'static str)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By trace, the oldest first.
    open: VecDeque<(u64, Vec<Option<Reached>>)>,
    turns: Vec<Turn>,
}

/// A stage that work has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reached {
    at: Timestamp,
    model_ns: u64,
}

/// One piece of work that went all the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// When it began, on the clock of the session, in seconds.
    pub begin_s: f64,
    /// Its stages.
    pub stages: Vec<Stage>,
}

/// What happened between one output and the one before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// `node.port`.
    pub output: String,
    /// From the begin of the work, in milliseconds.
    pub after_ms: f64,
    /// How long models ran on the way from the stage before, in milliseconds.
    pub model_ms: f64,
}

impl Waterfall {
    /// A waterfall for a run of `graph`; `None` when it names no outputs for one.
    pub fn new(graph: &CheckedGraph) -> Option<Arc<Self>> {
        let name = |(node, port): &(usize, &'static str)| (graph.nodes[*node].name.clone(), *port);
        let stages: Vec<_> = graph.waterfall.iter().map(name).collect();
        (stages.len() > 1).then(|| Arc::new(Self { stages, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work that went all the way, in its order.
    pub fn turns(&self) -> Vec<Turn> {
        self.lock().turns.clone()
    }

    fn turn(&self, reached: &[Option<Reached>]) -> Option<Turn> {
        let begin = reached.iter().flatten().next()?.at;
        let mut model_ns = 0;
        let stages = self.stages.iter().zip(reached).filter_map(|((node, port), reached)| {
            let reached = (*reached)?;
            let spent = reached.model_ns.saturating_sub(model_ns);
            model_ns = model_ns.max(reached.model_ns);
            Some(Stage {
                output: format!("{node}.{port}"),
                after_ms: reached.at.since(begin).as_secs_f64() * 1e3,
                model_ms: Duration::from_nanos(spent).as_secs_f64() * 1e3,
            })
        });
        Some(Turn { begin_s: begin.as_secs_f64(), stages: stages.collect() })
    }
}

impl Observer for Waterfall {
    fn sent(&self, node: &str, port: &'static str, now: Timestamp, packet: &Packet) {
        let stage = self.stages.iter().position(|(name, other)| name == node && *other == port);
        let Some(stage) = stage else { return };
        let (header, last) = (&packet.header, self.stages.len() - 1);
        let at = match stage {
            0 => header.at,
            stage if stage == last => now.max(header.at),
            _ => now,
        };
        let reached = Reached { at, model_ns: header.model_ns };
        let mut state = self.lock();
        let known = state.open.iter().position(|(trace, _)| *trace == header.trace);
        match known {
            None if stage == 0 => {
                if state.open.len() == ON_THE_WAY {
                    state.open.pop_front();
                }
                let mut stages = vec![None; self.stages.len()];
                stages[0] = Some(reached);
                state.open.push_back((header.trace, stages));
            }
            Some(place) if stage == last => {
                let finished = state.open.remove(place);
                let turn = finished.and_then(|(_, mut stages)| {
                    stages[last] = Some(reached);
                    self.turn(&stages)
                });
                state.turns.extend(turn);
            }
            Some(place) => {
                state.open[place].1[stage].get_or_insert(reached);
            }
            None => {}
        }
    }
}

/// Writes how long it took to each stage, over all turns.
///
/// # Errors
/// Those of `out`.
pub fn write_turns(turns: &[Turn], out: &mut impl Write) -> fmt::Result {
    let Some(first) = turns.first() else { return Ok(()) };
    let width = first.stages.iter().map(|stage| stage.output.len()).max().unwrap_or(0);
    let count = turns.len();
    writeln!(
        out,
        "\nwaterfall of {count} turns, ms after the first: p50, p95, of which models p50"
    )?;
    for (number, stage) in first.stages.iter().enumerate() {
        let all = |value: fn(&Stage) -> f64| {
            let stages = turns.iter().filter_map(|turn| turn.stages.get(number));
            let mut values: Vec<f64> = stages.map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (after, model) = (all(|stage| stage.after_ms), all(|stage| stage.model_ms));
        let [p50, p95] = [0.5, 0.95].map(|share| quantile(&after, share));
        let model = quantile(&model, 0.5);
        let name = &stage.output;
        writeln!(out, "  {name:width$} {p50:9.1} {p95:9.1} {model:9.2}")?;
    }
    Ok(())
}

/// The value that a share of the sorted `values` does not exceed.
fn quantile(values: &[f64], share: f64) -> f64 {
    let place = (values.len() as f64 * share).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A picture of `turns`: a row for each, with a bar for each stage.
pub fn svg(turns: &[Turn]) -> String {
    const COLOURS: [&str; 8] =
        ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f"];
    const LEFT: f64 = 90.0;
    const ROW: f64 = 22.0;
    const WIDTH: f64 = 640.0;
    let longest = turns.iter().filter_map(|turn| turn.stages.last()).map(|stage| stage.after_ms);
    let longest = longest.fold(1.0, f64::max);
    let names: Vec<_> = turns
        .first()
        .map(|turn| turn.stages.iter().skip(1))
        .into_iter()
        .flatten()
        .map(|stage| stage.output.as_str())
        .collect();
    let height = ROW * (turns.len() + names.len() + 2) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n",
        LEFT + WIDTH + 90.0
    );
    // Writing to a string does not fail.
    for (row, turn) in turns.iter().enumerate() {
        let y = ROW * row as f64;
        let _ = writeln!(text, "<text x=\"4\" y=\"{:.0}\">{:.2} s</text>", y + 15.0, turn.begin_s);
        let mut from = LEFT;
        for (number, stage) in turn.stages.iter().skip(1).enumerate() {
            let to = LEFT + WIDTH * stage.after_ms / longest;
            let colour = COLOURS[number % COLOURS.len()];
            let _ = writeln!(
                text,
                "<rect x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\" fill=\"{colour}\"/>",
                y + 3.0,
                (to - from).max(0.0)
            );
            from = from.max(to);
        }
        let total = turn.stages.last().map_or(0.0, |stage| stage.after_ms);
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.0}\">{total:.0} ms</text>",
            from + 6.0,
            y + 15.0
        );
    }
    for (number, name) in names.iter().enumerate() {
        let y = ROW * (turns.len() + 1 + number) as f64;
        let colour = COLOURS[number % COLOURS.len()];
        let _ = writeln!(
            text,
            "<rect x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"14\" height=\"14\" fill=\"{colour}\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            LEFT + 20.0,
            y + 12.0
        );
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Header, Text};

    use super::*;

    fn waterfall() -> Waterfall {
        let stages = [("vad", "events"), ("llm", "answer"), ("speaker", "heard")];
        let stages = stages.map(|(node, port)| (node.to_owned(), port)).to_vec();
        Waterfall { stages, state: Mutex::default() }
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn packet(at: i64, trace: u64, model_ms: u64) -> Packet {
        let header =
            Header { at: ms(at), trace, model_ns: model_ms * 1_000_000, ..Header::default() };
        Packet::new(Text::default(), header)
    }

    #[test]
    fn stages_are_timed_by_trace() {
        let waterfall = waterfall();
        waterfall.sent("vad", "events", ms(1200), &packet(1000, 7, 1));
        waterfall.sent("vad", "events", ms(1300), &packet(1250, 8, 0));
        waterfall.sent("asr", "transcript", ms(1300), &packet(1250, 7, 0));
        waterfall.sent("llm", "answer", ms(1320), &packet(1300, 7, 9));
        waterfall.sent("llm", "answer", ms(1330), &packet(1300, 7, 12));
        waterfall.sent("speaker", "heard", ms(1350), &packet(1390, 7, 14));
        waterfall.sent("speaker", "heard", ms(1360), &packet(1400, 7, 14));
        let turns = waterfall.turns();
        let stage = |output: &str, after_ms, model_ms| Stage {
            output: output.to_owned(),
            after_ms,
            model_ms,
        };
        let stages = vec![
            stage("vad.events", 0.0, 1.0),
            stage("llm.answer", 320.0, 8.0),
            stage("speaker.heard", 390.0, 5.0),
        ];
        assert_eq!(turns, [Turn { begin_s: 1.0, stages }]);
        let mut text = String::new();
        write_turns(&turns, &mut text).unwrap();
        assert!(text.contains("llm.answer        320.0     320.0      8.00"), "{text}");
        let svg = svg(&turns);
        assert!(svg.contains("390 ms") && svg.matches("<rect").count() == 4, "{svg}");
    }

    #[test]
    fn work_that_never_arrives_is_forgotten() {
        let waterfall = waterfall();
        for trace in 0..1000 {
            waterfall.sent("vad", "events", ms(0), &packet(0, trace, 0));
        }
        assert_eq!(waterfall.lock().open.len(), ON_THE_WAY);
        waterfall.sent("speaker", "heard", ms(1), &packet(1, 3, 0));
        assert!(waterfall.turns().is_empty());
    }
}
