//! Runs on the real clock that are repeated call by call.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use afferent_engine::{Report, RunOptions, run};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, Out, Port, PortId, Timestamp,
};
use afferent_messages::KeywordEvent;
use afferent_record::{RecordOptions, Recorder, Recording, Skipped, StreamVerdict};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};

const WORDS: Out<KeywordEvent> = Out::at(0, "words");
const FIRST: In<KeywordEvent> = In::at(0, "first");
const SECOND: In<KeywordEvent> = In::at(1, "second");

fn event(label: String) -> KeywordEvent {
    KeywordEvent { label, score: 0.0 }
}

/// Sends a word every `PERIOD_US` microseconds.
struct Talker<const PERIOD_US: u64>(u32);

impl<const PERIOD_US: u64> Node for Talker<PERIOD_US> {
    type Params = ();
    const NAME: &'static str = "talker";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[WORDS.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        cx.send_at(WORDS, now, event(format!("{PERIOD_US} {}", self.0)));
        self.0 += 1;
        match self.0 {
            60 => cx.end(),
            _ => cx.resume_at(now + Duration::from_micros(PERIOD_US)),
        }
        Ok(())
    }
}

/// Sends which input a word came from, the time, and a running number of all words; again 700 us
/// later, with `SUFFIX`.
#[derive(Default)]
struct Mixer<const SUFFIX: char> {
    words: u32,
    due: Option<Timestamp>,
}

impl<const SUFFIX: char> Node for Mixer<SUFFIX> {
    type Params = ();
    const NAME: &'static str = "mixer";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[FIRST.port(), SECOND.port(), WORDS.port()];
    const TIMED: bool = true;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self::default())
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        for (port, name) in [(FIRST, 'a'), (SECOND, 'b')] {
            if let Some(word) = cx.get(port).map(|word| word.label.clone()) {
                self.words += 1;
                let text = format!("{name} {word} at {} as {}", now.0, self.words);
                cx.send_at(WORDS, now, event(text));
            }
        }
        if self.due.take_if(|due| *due <= now).is_some() {
            let suffix = if self.words > 50 { SUFFIX } else { '.' };
            cx.send_at(WORDS, now, event(format!("later {}{suffix}", now.0)));
        }
        if cx.packet().is_some() {
            self.due.get_or_insert(now + Duration::from_micros(700));
        }
        if let Some(due) = self.due {
            cx.wake_at(due);
        }
        Ok(())
    }
}

/// Counts executions of a call with an effect.
static EFFECTS: AtomicUsize = AtomicUsize::new(0);

struct Tool;

impl Node for Tool {
    type Params = ();
    const NAME: &'static str = "tool";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[FIRST.port(), WORDS.port()];
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let number = EFFECTS.fetch_add(1, Ordering::Relaxed);
        let now = cx.now();
        cx.send_at(WORDS, now, event(format!("result {number}")));
        Ok(())
    }
}

fn graph(mixer: NodeDef) -> CheckedGraph {
    let policy = EdgePolicy { on_full: OnFull::DropOldest, queue: 4, max_age: None };
    let port = PortId::at;
    let edge = |from: usize, to| Edge::new((from, port(0)), to, policy);
    CheckedGraph {
        name: "test".to_owned(),
        nodes: vec![
            CheckedNode::new("slow", NodeDef::of::<Talker<1300>>()),
            CheckedNode::new("fast", NodeDef::of::<Talker<900>>()),
            CheckedNode::new("tool", NodeDef::of::<Tool>()),
            CheckedNode::new("mixer", mixer.clone()),
            CheckedNode::new("last", mixer),
        ],
        edges: vec![
            edge(0, (3, port(0))),
            edge(1, (2, port(0))),
            edge(2, (3, port(1))),
            edge(3, (4, port(0))),
            edge(0, (4, port(1))),
        ],
        ..CheckedGraph::default()
    }
}

fn record(path: &Path, options: RecordOptions) -> (CheckedGraph, Report) {
    let graph = graph(NodeDef::of::<Mixer<'.'>>());
    let recorder = Recorder::create(path, &graph, &options).unwrap();
    let options = RunOptions { observers: vec![recorder.clone()], ..RunOptions::default() };
    let report = run(&graph, &OpenCx::default(), options).unwrap();
    let recorded = recorder.finish();
    assert_eq!((recorded.dropped(), recorded.dropped_calls, recorded.error), (0, 0, None));
    (graph, report)
}

fn states(verdicts: &[StreamVerdict]) -> Vec<(&str, Option<Skipped>, bool)> {
    verdicts.iter().map(|one| (&*one.output, one.skipped, one.is_equal())).collect()
}

#[test]
fn calls_are_repeated_without_effects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let (graph, report) = record(&path, RecordOptions { calls: true, ..RecordOptions::default() });
    let effects = EFFECTS.load(Ordering::Relaxed);
    assert!(effects > 30);
    let recording = Recording::open(&path).unwrap();
    assert!(recording.has_calls());
    assert_eq!(recording.streams().len(), 5, "the calls are no stream");
    let verdicts = recording.repeat(&graph, &OpenCx::default()).unwrap();
    let source = Some(Skipped::Source);
    let expected = [
        ("slow.words", source, true),
        ("fast.words", source, true),
        ("tool.words", Some(Skipped::Effects), true),
        ("mixer.words", None, true),
        ("last.words", None, true),
    ];
    assert_eq!(states(&verdicts), expected);
    assert_eq!(verdicts[4].packets, report.node("last").unwrap().packets_out);
    assert_eq!(EFFECTS.load(Ordering::Relaxed), effects, "nothing was executed again");
    // Another program.
    let other = self::graph(NodeDef::of::<Mixer<'!'>>());
    let verdicts = recording.repeat(&other, &OpenCx::default()).unwrap();
    let difference = verdicts[3].difference.unwrap();
    assert!(!verdicts[3].is_equal() && difference.packet > 50, "{difference:?}");
}

#[test]
fn a_recording_with_gaps_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let options =
        RecordOptions { calls: true, max_bytes: Some(40_000), ..RecordOptions::default() };
    let graph = graph(NodeDef::of::<Mixer<'.'>>());
    let recorder = Recorder::create(&path, &graph, &options).unwrap();
    let options = RunOptions { observers: vec![recorder.clone()], ..RunOptions::default() };
    run(&graph, &OpenCx::default(), options).unwrap();
    let recorded = recorder.finish();
    assert!(recorded.is_full && recorded.dropped_calls > 0);
    // What was recorded up to there repeats.
    let verdicts = Recording::open(&path).unwrap().repeat(&graph, &OpenCx::default()).unwrap();
    assert!(verdicts[3].packets > 0 && verdicts[3].difference.is_none(), "{verdicts:?}");
}
