//! Runs on the real clock that are repeated call by call.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    borrow::Cow,
    fs::{self, File},
    io::BufWriter,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use afferent_engine::{Report, RunOptions, run};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, Out, Port, PortId, Service, Timestamp,
};
use afferent_messages::KeywordEvent;
use afferent_record::{RecordOptions, Recorder, Recording, ReplayError, Skipped, StreamVerdict};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
use serde_json::{Value, json};

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

/// Number of calls with an effect.
#[derive(Clone, Default)]
struct Effects(Arc<AtomicUsize>);

impl Service for Effects {
    const NAME: &'static str = "effects";
    const HINT: &'static str = "of this test";
}

struct Tool(Effects);

impl Node for Tool {
    type Params = ();
    const NAME: &'static str = "tool";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[FIRST.port(), WORDS.port()];
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none";

    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(cx.services.need::<Effects>().cloned().unwrap_or_default()))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let number = self.0.0.fetch_add(1, Ordering::Relaxed);
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

fn record(path: &Path, cx: &OpenCx, options: RecordOptions) -> (CheckedGraph, Report) {
    let graph = graph(NodeDef::of::<Mixer<'.'>>());
    let recorder = Recorder::create(path, &graph, &options).unwrap();
    let options = RunOptions { observers: vec![recorder.clone()], ..RunOptions::default() };
    let report = run(&graph, cx, options).unwrap();
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
    let effects = Effects::default();
    let cx = OpenCx::with_service(effects.clone());
    let options = RecordOptions { calls: true, ..RecordOptions::default() };
    let (graph, report) = record(&path, &cx, options);
    let executed = effects.0.load(Ordering::Relaxed);
    assert!(executed > 30);
    let recording = Recording::open(&path).unwrap();
    assert!(recording.has_calls());
    assert_eq!(recording.streams().len(), 5, "the calls are no stream");
    let verdicts = recording.repeat(&graph, &cx).unwrap();
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
    assert_eq!(effects.0.load(Ordering::Relaxed), executed, "nothing was executed again");
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
    // The recorded part is equal.
    let verdicts = Recording::open(&path).unwrap().repeat(&graph, &OpenCx::default()).unwrap();
    assert!(verdicts[3].packets > 0 && verdicts[3].difference.is_none(), "{verdicts:?}");
}

/// Copies a recording with changed calls.
fn change_calls(from: &Path, to: &Path, change: impl Fn(&mut Value)) {
    let bytes = fs::read(from).unwrap();
    let mut out = mcap::Writer::new(BufWriter::new(File::create(to).unwrap())).unwrap();
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let mut message = message.unwrap();
        if message.channel.topic == "afferent/calls" {
            let mut call =
                serde_json::from_slice(&message.data[8..message.data.len() - 1]).unwrap();
            change(&mut call);
            let json = serde_json::to_vec(&call).unwrap();
            let len = u32::try_from(json.len() + 1).unwrap().to_le_bytes();
            message.data = Cow::Owned([&[0, 1, 0, 0], &len[..], &json, &[0]].concat());
        }
        out.write(&message).unwrap();
    }
    out.finish().unwrap();
}

#[test]
fn damaged_calls_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let [path, changed] = ["run.mcap", "changed.mcap"].map(|name| folder.path().join(name));
    let options = RecordOptions { calls: true, ..RecordOptions::default() };
    let (graph, _) = record(&path, &OpenCx::default(), options);
    let incomplete = |change: &dyn Fn(&mut Value)| {
        change_calls(&path, &changed, change);
        let recording = Recording::open(&changed).unwrap();
        let verdicts = recording.repeat(&graph, &OpenCx::default()).unwrap();
        assert_eq!(verdicts[3].skipped, Some(Skipped::Incomplete), "{:?}", verdicts[3]);
    };
    incomplete(&|call| call["number"] = json!(7));
    incomplete(&|call| call["joined"] = json!([[70_000, [[0, 0]]]]));
    incomplete(&|call| call["joined"] = json!([[1, [[1_000_000, 0]]]]));
    for edge in [99, 1] {
        let packet = json!({"packet": {"edge": edge, "sequence": 0, "restarts": 0}});
        incomplete(&|call| call["cause"] = packet.clone());
    }
    incomplete(&|call| call["node"] = json!(99));
    change_calls(&path, &changed, |call| call["now"] = json!("soon"));
    let error = Recording::open(&changed).unwrap().repeat(&graph, &OpenCx::default()).unwrap_err();
    assert!(error.to_string().contains("the call is damaged: "), "{error}");
}

#[test]
fn calls_of_another_graph_are_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let options = RecordOptions { calls: true, ..RecordOptions::default() };
    let (mut graph, _) = record(&path, &OpenCx::default(), options);
    graph.nodes.swap(0, 1);
    let error = Recording::open(&path).unwrap().repeat(&graph, &OpenCx::default()).unwrap_err();
    assert!(matches!(error, ReplayError::OtherGraph { .. }), "{error}");
}
