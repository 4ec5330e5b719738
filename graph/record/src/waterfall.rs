//! Latency breakdown of each turn, from output to output.

use std::{
    collections::VecDeque,
    fmt::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use afferent_engine::Observer;
use afferent_graph::{Header, Packet, PortId, PortKind, Timestamp};
use afferent_spec::CheckedGraph;
use serde::Serialize;

use crate::lock;

/// Maximum number of open turns. Beyond it, the oldest is discarded.
const MAX_OPEN_TURNS: usize = 256;
/// Maximum number of completed turns. Beyond it, the oldest is discarded and counted.
const MAX_TURNS: usize = 4096;

/// Measures the latency of each turn along the outputs of [`CheckedGraph::waterfall`]. For a
/// conversation, these lead from the end of speech to the first audio of the answer.
///
/// Packets of one turn have the same trace. The time of the first output is the timestamp of its
/// packet, when its event happened. The time of every other output is the send time of its first
/// packet. For the last output it is not before the timestamp of the packet, which for audio is
/// when it becomes audible.
///
/// Only the last 4096 turns are kept. Pass it to [`RunOptions::observers`], and read
/// [`Waterfall::turns`] at the end.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct Waterfall {
    /// Node and port of each stage.
    stages: Vec<(String, String)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Open turns by trace, oldest first.
    open: VecDeque<(u64, Vec<Option<Reached>>)>,
    /// Completed turns, oldest first.
    done: VecDeque<Vec<Option<Reached>>>,
    /// Number of completed turns that were discarded.
    earlier: u64,
}

/// A stage that a turn has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reached {
    at: Timestamp,
    model_ns: u64,
}

/// One completed turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// Start on the session clock, in seconds.
    pub begin_s: f64,
    /// Stages that the turn reached.
    pub stages: Vec<Stage>,
}

/// A stage of a turn: the step from the previous output it reached to this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Output as `node.port`.
    pub output: String,
    /// Time since the start of the turn, in milliseconds.
    pub after_ms: f64,
    /// Model time since the previous stage, in milliseconds.
    pub model_ms: f64,
}

impl Waterfall {
    /// Creates a waterfall for a run of `graph`, or `None` if the graph names no outputs for one.
    pub fn new(graph: &CheckedGraph) -> Option<Arc<Self>> {
        let name = |(node, port): &(usize, PortId)| {
            let node = &graph.nodes[*node];
            (node.name.clone(), node.def.port_name(PortKind::Output, *port).into_owned())
        };
        let stages: Vec<_> = graph.waterfall.iter().map(name).collect();
        (stages.len() > 1).then(|| Arc::new(Self { stages, state: Mutex::default() }))
    }

    /// The last completed turns, in order of completion.
    pub fn turns(&self) -> Vec<Turn> {
        lock(&self.state).done.iter().filter_map(|reached| self.turn(reached)).collect()
    }

    /// Number of completed turns before [`Waterfall::turns`].
    pub fn earlier(&self) -> u64 {
        lock(&self.state).earlier
    }

    /// `node.port` of each stage.
    fn names(&self) -> impl Iterator<Item = String> {
        self.stages.iter().map(|(node, port)| format!("{node}.{port}"))
    }

    fn turn(&self, reached: &[Option<Reached>]) -> Option<Turn> {
        let begin = reached.iter().flatten().next()?.at;
        let mut model_ns = 0;
        let stages = self.names().zip(reached).filter_map(|(output, reached)| {
            let reached = (*reached)?;
            let spent = reached.model_ns.saturating_sub(model_ns);
            model_ns = model_ns.max(reached.model_ns);
            Some(Stage {
                output,
                after_ms: reached.at.since(begin).as_secs_f64() * 1e3,
                model_ms: Duration::from_nanos(spent).as_secs_f64() * 1e3,
            })
        });
        Some(Turn { begin_s: begin.as_secs_f64(), stages: stages.collect() })
    }
}

impl Observer for Waterfall {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let stage = self.stages.iter().position(|(name, other)| name == node && *other == port);
        if let Some(stage) = stage {
            self.reach(stage, now, &packet.header);
        }
    }
}

impl Waterfall {
    /// A packet with `header` left the output of this index in [`CheckedGraph::waterfall`] at
    /// session time `now`. Called for outputs that no observer of this process sees.
    pub fn reach(&self, stage: usize, now: Timestamp, header: &Header) {
        let last = self.stages.len() - 1;
        if stage > last {
            return;
        }
        let at = match stage {
            0 => header.at,
            stage if stage == last => now.max(header.at),
            _ => now,
        };
        let reached = Reached { at, model_ns: header.model_ns };
        let mut state = lock(&self.state);
        let known = state.open.iter().position(|(trace, _)| *trace == header.trace);
        match known {
            None if stage == 0 => {
                if state.open.len() == MAX_OPEN_TURNS {
                    state.open.pop_front();
                }
                let mut stages = vec![None; self.stages.len()];
                stages[0] = Some(reached);
                state.open.push_back((header.trace, stages));
            }
            Some(index) if stage == last => {
                let Some((_, mut stages)) = state.open.remove(index) else { return };
                stages[last] = Some(reached);
                if state.done.len() == MAX_TURNS {
                    state.done.pop_front();
                    state.earlier += 1;
                }
                state.done.push_back(stages);
            }
            Some(index) => {
                state.open[index].1[stage].get_or_insert(reached);
            }
            None => {}
        }
    }
}

impl Waterfall {
    /// Writes the latency of each stage over all [`Waterfall::turns`] that reached it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_summary(&self, out: &mut impl Write) -> fmt::Result {
        let turns = self.turns();
        if turns.is_empty() {
            return Ok(());
        }
        let width = self.names().map(|name| name.len()).max().unwrap_or(0);
        let title = self.title(turns.len());
        writeln!(out, "\n{title}, ms after the first: p50, p95, model time p50")?;
        for name in self.names() {
            let stages = turns.iter().flat_map(|turn| &turn.stages);
            let stages: Vec<_> = stages.filter(|stage| stage.output == name).collect();
            if stages.is_empty() {
                writeln!(out, "  {name:width$} never reached")?;
                continue;
            }
            let all = |value: fn(&Stage) -> f64| {
                let mut values: Vec<f64> = stages.iter().map(|stage| value(stage)).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (after, model) = (all(|stage| stage.after_ms), all(|stage| stage.model_ms));
            let [p50, p95] = [0.5, 0.95].map(|share| quantile(&after, share));
            let model = quantile(&model, 0.5);
            write!(out, "  {name:width$} {p50:9.1} {p95:9.1} {model:9.2}")?;
            match stages.len() {
                count if count < turns.len() => writeln!(out, "  in {count} turns")?,
                _ => writeln!(out)?,
            }
        }
        Ok(())
    }

    fn title(&self, kept: usize) -> String {
        match self.earlier() {
            0 => format!("waterfall of {kept} turns"),
            earlier => format!("waterfall of the last {kept} of {} turns", earlier + kept as u64),
        }
    }

    /// An SVG diagram of the [`Waterfall::turns`]: a row for each turn, with a bar for each stage.
    pub fn svg(&self) -> String {
        const COLORS: [&str; 8] = [
            "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f",
        ];
        const LEFT: f64 = 90.0;
        const ROW: f64 = 22.0;
        const WIDTH: f64 = 640.0;
        let (turns, names) = (self.turns(), self.names().skip(1).collect::<Vec<_>>());
        let last = |turn: &Turn| turn.stages.last().map_or(0.0, |stage| stage.after_ms);
        let longest = turns.iter().map(last).fold(1.0, f64::max);
        let height = ROW * (turns.len() + names.len() + 2) as f64;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{height:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n",
            LEFT + WIDTH + 90.0,
            self.title(turns.len())
        );
        // Writing to a string does not fail.
        for (row, turn) in turns.iter().enumerate() {
            let y = ROW * row as f64;
            let (text_y, begin) = (y + 15.0, turn.begin_s);
            let _ = writeln!(text, "<text x=\"4\" y=\"{text_y:.0}\">{begin:.2} s</text>");
            let mut from = LEFT;
            for stage in turn.stages.iter().skip(1) {
                let to = LEFT + WIDTH * stage.after_ms / longest;
                let number = names.iter().position(|name| *name == stage.output);
                let color = COLORS[number.unwrap_or(0) % COLORS.len()];
                let _ = writeln!(
                    text,
                    "<rect x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\" fill=\"{color}\"/>",
                    y + 3.0,
                    (to - from).max(0.0)
                );
                from = from.max(to);
            }
            let (x, total) = (from + 6.0, last(turn));
            let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{text_y:.0}\">{total:.0} ms</text>");
        }
        for (number, name) in names.iter().enumerate() {
            let y = ROW * (turns.len() + 1 + number) as f64;
            let color = COLORS[number % COLORS.len()];
            let _ = writeln!(
                text,
                "<rect x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"14\" height=\"14\" fill=\"{color}\"/>\n\
                 <text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
                LEFT + 20.0,
                y + 12.0
            );
        }
        text + "</svg>\n"
    }
}

/// The smallest of the sorted `values` that at least a fraction `share` of them does not exceed.
fn quantile(values: &[f64], share: f64) -> f64 {
    let index = (values.len() as f64 * share).ceil() as usize;
    values.get(index.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use afferent_graph::Header;
    use afferent_messages::Text;

    use super::*;

    fn waterfall() -> Waterfall {
        let stages = [("vad", "events"), ("llm", "answer"), ("speaker", "heard")];
        let stages = stages.map(|(node, port)| (node.to_owned(), port.to_owned())).to_vec();
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

    fn summary(waterfall: &Waterfall) -> String {
        let mut text = String::new();
        waterfall.write_summary(&mut text).unwrap();
        text
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
        let text = summary(&waterfall);
        assert!(text.contains("llm.answer        320.0     320.0      8.00\n"), "{text}");
        let svg = waterfall.svg();
        assert!(svg.contains("390 ms") && svg.matches("<rect").count() == 4, "{svg}");
    }

    #[test]
    fn a_stage_is_timed_over_the_turns_that_reached_it() {
        let waterfall = waterfall();
        for trace in 1..=8 {
            waterfall.sent("vad", "events", ms(0), &packet(0, trace, 0));
            if trace == 8 {
                waterfall.sent("llm", "answer", ms(40), &packet(0, trace, 0));
            }
            waterfall.sent("speaker", "heard", ms(90), &packet(0, trace, 0));
        }
        let text = summary(&waterfall);
        assert!(
            text.contains("llm.answer         40.0      40.0      0.00  in 1 turns\n"),
            "{text}"
        );
        assert!(text.contains("speaker.heard      90.0      90.0      0.00\n"), "{text}");
        let svg = waterfall.svg();
        let count_color = |color: &str| svg.matches(&format!("fill=\"{color}\"")).count();
        assert_eq!((count_color("#4e79a7"), count_color("#f28e2b")), (2, 9), "{svg}");
    }

    #[test]
    fn only_the_last_turns_are_kept_and_the_rest_is_counted() {
        let waterfall = waterfall();
        for trace in 0..MAX_TURNS as u64 + 3 {
            waterfall.sent("vad", "events", ms(0), &packet(trace as i64, trace, 0));
            waterfall.sent("speaker", "heard", ms(0), &packet(0, trace, 0));
        }
        let turns = waterfall.turns();
        assert_eq!((turns.len(), turns[0].begin_s, waterfall.earlier()), (MAX_TURNS, 0.003, 3));
        let text = summary(&waterfall);
        assert!(text.contains("waterfall of the last 4096 of 4099 turns"), "{text}");
        assert!(text.contains("llm.answer    never reached"), "{text}");
    }

    #[test]
    fn turns_that_never_complete_are_discarded() {
        let waterfall = waterfall();
        for trace in 0..1000 {
            waterfall.sent("vad", "events", ms(0), &packet(0, trace, 0));
        }
        assert_eq!(lock(&waterfall.state).open.len(), MAX_OPEN_TURNS);
        waterfall.sent("speaker", "heard", ms(1), &packet(1, 3, 0));
        assert!(waterfall.turns().is_empty());
    }
}
