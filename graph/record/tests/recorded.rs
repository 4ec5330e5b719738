//! Tests of recording, replay, comparison, and traces.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use afferent_engine::{ClockKind, Observer, Report, RunError, RunOptions, pools, run};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, Out, OutputPath, ParamValue, Port, PortId,
    Timestamp, Weight, params,
};
use afferent_messages::{Image, KeywordEvent, PixelFormat};
use afferent_record::{
    Compare, RecordError, RecordOptions, Recorder, Recording, ReplayError, TraceFile,
};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
use mcap::records::Record;

const WORDS: Out<KeywordEvent> = Out::at(0, "words");
const HEARD: In<KeywordEvent> = In::at(0, "heard");
const IMAGES: Out<Image> = Out::at(0, "images");
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";
const PACKETS: u32 = 300;

/// Sends a word every 10 ms, with a timestamp 5 ms earlier.
struct Talker(u32);

impl Node for Talker {
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
        let event = KeywordEvent { label: format!("word {}", self.0), score: self.0 as f32 };
        cx.send_at(WORDS, Timestamp(now.0 - 5_000_000), event);
        self.0 += 1;
        if self.0 == PACKETS {
            cx.end();
        } else {
            cx.resume_at(now + Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Repeats its input with the score multiplied by `GAIN`. Sends nothing if `GAIN` is 0.
struct Parrot<const GAIN: u32>;

impl<const GAIN: u32> Node for Parrot<GAIN> {
    type Params = ();
    const NAME: &'static str = "parrot";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[HEARD.port(), WORDS.port()];
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if GAIN == 0 {
            return Ok(());
        }
        let mut event = cx.get(HEARD).cloned().unwrap_or_default();
        if event.score > 100.0 {
            event.score *= GAIN as f32;
        }
        cx.send(WORDS, event);
        Ok(())
    }
}

/// First port of either direction.
const FIRST: PortId = PortId::at(0);

fn graph(parrot: NodeDef) -> CheckedGraph {
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    CheckedGraph {
        name: "test".to_owned(),
        nodes: vec![
            CheckedNode::new("talker", NodeDef::of::<Talker>()),
            CheckedNode::new("parrot", parrot),
        ],
        edges: vec![Edge::new((0, FIRST), (1, FIRST), policy)],
        ..CheckedGraph::default()
    }
}

fn run_with(graph: &CheckedGraph, observers: Vec<Arc<dyn Observer>>) {
    try_run(graph, observers).unwrap();
}

fn try_run(graph: &CheckedGraph, observers: Vec<Arc<dyn Observer>>) -> Result<Report, RunError> {
    let clock = ClockKind::Virtual;
    run(graph, &OpenCx::default(), RunOptions { clock, observers, ..RunOptions::default() })
}

fn record(path: &Path) -> CheckedGraph {
    let graph = graph(NodeDef::of::<Parrot<1>>());
    let recorder = Recorder::create(path, &graph, &RecordOptions::default()).unwrap();
    run_with(&graph, vec![recorder.clone()]);
    let report = recorder.finish();
    assert_eq!((report.written(), report.dropped(), report.error), (600, 0, None));
    assert!(report.bytes > 600 * 20);
    graph
}

#[test]
fn a_replay_sends_the_recorded_packets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let mut graph = record(&path);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.cut(), None);
    let stream = recording.stream("talker", "words").unwrap();
    assert_eq!((stream.packets, stream.last), (300, Timestamp(2_990_000_000)));
    assert_eq!(recording.replace_nodes(&mut graph, false).unwrap(), ["talker"]);
    let verdicts = [(); 2].map(|()| {
        let compare = Compare::new(&graph, Some(&recording)).unwrap();
        run_with(&graph, vec![compare.clone()]);
        compare.verdicts()
    });
    assert!(verdicts[0].iter().all(|verdict| verdict.is_equal() && verdict.packets == 300));
    assert_eq!(verdicts[0], verdicts[1]);
}

params! {
    /// Parameters of [`Model`].
    struct ModelParams {
        /// Model file.
        pub model: Option<PathBuf>;
        /// File that the node writes.
        pub log: Option<OutputPath>;
    }
}

/// A node with a model file.
struct Model;

impl Node for Model {
    type Params = ModelParams;
    const NAME: &'static str = "model";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[HEARD.port(), WORDS.port()];
    const LATENCY: &'static str = "none";

    fn open(_: ModelParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

#[test]
fn a_recording_holds_attachments_and_file_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["run.mcap", "model.pte", "sound.wav"];
    let [path, model, sunk] = names.map(|name| folder.path().join(name));
    for path in [&model, &sunk] {
        fs::write(path, b"abc").unwrap();
    }
    let mut graph = graph(NodeDef::of::<Model>());
    graph.nodes[1].params.insert("model".to_owned(), ParamValue::Path(model.clone()));
    // A file that a node writes is overwritten by this run.
    let end = graph.nodes.len();
    let mut sink = CheckedNode::new("end", NodeDef::of::<Model>());
    sink.params.insert("log".to_owned(), ParamValue::Path(sunk.clone()));
    graph.nodes.push(sink);
    graph.edges.push(Edge::new((1, FIRST), (end, FIRST), graph.edges[0].policy));
    let files = [("g.yaml", "nodes: {}"), ("parts/values.json", "{}")];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).to_vec();
    let options = RecordOptions { attachments: files.clone(), ..RecordOptions::default() };
    let before_packets = |graph: &CheckedGraph| {
        let recorder = Recorder::create(&path, graph, &options).unwrap();
        run_with(graph, vec![recorder.clone()]);
        recorder.finish();
        let (mut attached, mut kinds, mut hashes) = (Vec::new(), Vec::new(), BTreeMap::new());
        for record in mcap::read::LinearReader::new(&fs::read(&path).unwrap()).unwrap() {
            match record.unwrap() {
                Record::Attachment { header, data, .. } => {
                    attached.push((header.name, data.into_owned()));
                    kinds.push(header.media_type);
                }
                Record::Metadata(all) if all.name == "afferent.files" => hashes = all.metadata,
                _ => {}
            }
        }
        (attached, kinds, hashes)
    };
    let (attached, kinds, hashes) = before_packets(&graph);
    assert_eq!((attached, kinds), (files, vec![YAML.to_owned(), JSON.to_owned()]));
    // The SHA-256 of "abc" in FIPS 180-4.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hashes, BTreeMap::from([("parrot.model".to_owned(), abc.to_owned())]));
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.changed_files(&graph), Vec::<String>::new());
    for path in [&model, &sunk] {
        fs::write(path, b"abd").unwrap();
    }
    assert_eq!(recording.changed_files(&graph), ["parrot.model"]);
    // A folder with links to files has the hash of their targets.
    #[cfg(unix)]
    {
        let folder = folder.path().join("model");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&model, folder.join("model.pte")).unwrap();
        graph.nodes[1].params.insert("model".to_owned(), ParamValue::Path(folder));
        before_packets(&graph);
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.changed_files(&graph), Vec::<String>::new());
        fs::write(&model, b"abe").unwrap();
        assert_eq!(recording.changed_files(&graph), ["parrot.model"]);
    }
    // A device may be unbounded.
    let device = ParamValue::Path("/dev/null".into());
    graph.nodes[1].params.insert("model".to_owned(), device);
    assert_eq!(before_packets(&graph).2, BTreeMap::new());
}

/// Packets that wait to be written hold payload buffers.
#[test]
fn recording_stays_within_the_planned_pools() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(NodeDef::of::<Parrot<1>>());
    let recorder =
        Recorder::create(&folder.path().join("run.mcap"), &graph, &RecordOptions::default());
    let recorder = recorder.unwrap();
    let (clock, observers) = (ClockKind::Virtual, vec![recorder.clone() as Arc<dyn Observer>]);
    let options = RunOptions { clock, observers, ..RunOptions::default() };
    let report = run(&graph, &OpenCx::default(), options).unwrap();
    assert_eq!(recorder.finish().dropped(), 0);
    let plan = pools(&graph);
    assert_eq!(report.pools.len(), plan.len());
    for (pool, plan) in report.pools.iter().zip(&plan) {
        assert_eq!(pool.values, plan.values + 1025, "{pool:?}");
        assert!(pool.allocated <= pool.values, "{pool:?}");
    }
}

#[test]
fn differences_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    record(&path);
    let recording = Recording::open(&path).unwrap();
    let mut louder = graph(NodeDef::of::<Parrot<2>>());
    recording.replace_nodes(&mut louder, false).unwrap();
    let compare = Compare::new(&louder, Some(&recording)).unwrap();
    run_with(&louder, vec![compare.clone()]);
    let verdicts = compare.verdicts();
    assert!(verdicts[0].is_equal() && !verdicts[1].is_equal());
    let difference = verdicts[1].difference.unwrap();
    let at = Timestamp(101 * 10_000_000 - 5_000_000);
    assert_eq!((difference.packet, difference.at), (101, Some(at)));
}

#[test]
fn a_stream_without_packets_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let silent = graph(NodeDef::of::<Parrot<0>>());
    let recorder = Recorder::create(&path, &silent, &RecordOptions::default()).unwrap();
    run_with(&silent, vec![recorder.clone()]);
    recorder.finish();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.stream("parrot", "words").unwrap().packets, 0);
    let verdicts = |mut graph: CheckedGraph| {
        recording.replace_nodes(&mut graph, false).unwrap();
        let compare = Compare::new(&graph, Some(&recording)).unwrap();
        run_with(&graph, vec![compare.clone()]);
        compare.verdicts()
    };
    assert!(verdicts(silent)[1].is_equal());
    let spoken = &verdicts(graph(NodeDef::of::<Parrot<1>>()))[1];
    assert_eq!((spoken.recorded, spoken.difference.unwrap().packet), (Some(0), 0));
    // As the replacement of a source it sends nothing.
    let mut swapped = graph(NodeDef::of::<Parrot<1>>());
    (swapped.nodes[0].name, swapped.nodes[1].name) = ("parrot".to_owned(), "other".to_owned());
    assert!(verdicts(swapped).iter().all(|verdict| verdict.packets == 0));
}

#[test]
fn a_truncated_recording_is_read_up_to_the_truncation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    record(&path);
    let complete = fs::read(&path).unwrap();
    let (mut refused, mut read) = (0, 0);
    for len in (0..complete.len()).step_by(97) {
        fs::write(&path, &complete[..len]).unwrap();
        match Recording::open(&path) {
            Ok(recording) => {
                assert!(recording.streams().iter().all(|stream| stream.packets <= 300));
                assert!(recording.cut().is_some(), "{len} of {}", complete.len());
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("run.mcap"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && read > 0, "{refused} refused, {read} read");
}

#[test]
fn mismatches_are_reported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    record(&path);
    let recording = Recording::open(&path).unwrap();
    let mut other = graph(NodeDef::of::<Parrot<1>>());
    other.nodes[0].name = "singer".to_owned();
    let error = recording.replace_nodes(&mut other, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node singer is not in the recording: words was not recorded; recorded streams are parrot.words, \
         talker.words"
    );
    fs::write(&path, b"no recording").unwrap();
    assert!(matches!(Recording::open(&path), Err(ReplayError::File { .. })));
    let options = RecordOptions { streams: vec!["parrot.word".to_owned()], ..Default::default() };
    let error = Recorder::create(&path, &other, &options).err().unwrap();
    assert!(matches!(error, RecordError::UnknownStream { .. }), "{error}");
    // A file cannot be the parent of another file. Missing folders are created.
    let error = Recorder::create(&path.join("all.mcap"), &other, &RecordOptions::default());
    let error = error.err().unwrap().to_string();
    assert!(error.contains("all.mcap: the file cannot be created: "), "{error}");
    let below = folder.path().join("new/folder/all.mcap");
    assert!(Recorder::create(&below, &other, &RecordOptions::default()).is_ok() && below.exists());
}

#[test]
fn a_full_disk_ends_the_recording_but_not_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mcap");
    let graph = graph(NodeDef::of::<Parrot<1>>());
    for most in [3_000, 8_000, 8_050, 20_000] {
        let options = RecordOptions { max_bytes: Some(most), ..RecordOptions::default() };
        let recorder = Recorder::create(&path, &graph, &options).unwrap();
        let compare = Compare::new(&graph, None).unwrap();
        run_with(&graph, vec![recorder.clone(), compare.clone()]);
        assert!(compare.verdicts().iter().all(|verdict| verdict.packets == 300));
        let report = recorder.finish();
        assert!(report.is_full && report.error.is_none(), "{report:?}");
        assert_eq!(report.written() + report.dropped(), 600);
        assert!((most - 1_000..=most).contains(&report.bytes), "{report:?}");
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.cut(), None);
        for stream in &report.streams {
            let (node, output) = stream.output.split_once('.').unwrap();
            let found = recording.stream(node, output).unwrap();
            assert_eq!(found.packets, stream.written, "{most}: {stream:?}");
        }
    }
    let options = RecordOptions { max_bytes: Some(1_000), ..RecordOptions::default() };
    let refused = |path: &Path, options: &RecordOptions| {
        let recorder = Recorder::create(path, &graph, options).unwrap();
        try_run(&graph, vec![recorder]).unwrap_err().to_string()
    };
    let error = refused(&path, &options);
    assert!(error.ends_with("the maximum file size is reached"), "{error}");
    let error = refused(Path::new("/dev/full"), &RecordOptions::default());
    assert!(error.contains("No space left"), "{error}");
}

#[test]
fn a_run_that_fails_to_start_keeps_existing_files() {
    let folder = tempfile::tempdir().unwrap();
    let [record, traced] = ["x.mcap", "x.json"].map(|name| folder.path().join(name));
    let mut graph = graph(NodeDef::of::<Parrot<1>>());
    let parrot = graph.nodes[1].def.clone();
    let observers = |graph: &CheckedGraph| {
        let recorder = Recorder::create(&record, graph, &RecordOptions::default()).unwrap();
        (recorder, TraceFile::create(&traced, graph).unwrap())
    };
    let long = vec![b'x'; 1 << 20];
    for path in [&record, &traced] {
        fs::write(path, &long).unwrap();
    }
    graph.nodes[1].def = parrot.with_open(|_| {
        Err(NodeError::Device { name: "lp0".to_owned(), reason: "it is off".to_owned() })
    });
    let (recorder, trace) = observers(&graph);
    let error = try_run(&graph, vec![recorder, trace]).unwrap_err();
    assert!(matches!(error, RunError::Open { .. }), "{error}");
    assert!([&record, &traced].iter().all(|path| fs::read(path).unwrap() == long));
    // A run that starts overwrites the file.
    graph.nodes[1].def = parrot;
    let (recorder, trace) = observers(&graph);
    run_with(&graph, vec![recorder.clone(), trace.clone()]);
    assert_eq!((recorder.finish().written(), trace.finish().error), (600, None));
    assert_eq!(Recording::open(&record).unwrap().cut(), None);
    let trace = fs::read(&traced).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&trace).is_ok());
}

#[test]
fn a_slow_disk_drops_and_counts_packets() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(NodeDef::of::<Parrot<1>>());
    let options = RecordOptions { queue: 1, ..RecordOptions::default() };
    let recorder = Recorder::create(&folder.path().join("x.mcap"), &graph, &options).unwrap();
    run_with(&graph, vec![recorder.clone()]);
    let report = recorder.finish();
    assert_eq!(report.written() + report.dropped(), 600);
    let recording = Recording::open(&report.path).unwrap();
    let read: u64 = recording.streams().iter().map(|stream| stream.packets).sum();
    assert_eq!(read, report.written());
}

/// Sends images at the rate of their timestamps.
struct Camera(u32);

impl Node for Camera {
    type Params = ();
    const NAME: &'static str = "camera";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[IMAGES.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let mut image = cx.loan(IMAGES);
        image.reshape(PixelFormat::Rgb8, 64, 48)?.fill(self.0 as u8);
        cx.send_at(IMAGES, Timestamp(self.0.into()), image);
        self.0 += 1;
        if self.0 == PACKETS {
            cx.end();
        }
        Ok(())
    }
}

#[test]
fn queued_images_respect_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = vec![CheckedNode::new("camera", NodeDef::of::<Camera>())];
    let graph = CheckedGraph { name: "test".to_owned(), nodes, ..CheckedGraph::default() };
    let options = RecordOptions { queue_bytes: 0, ..RecordOptions::default() };
    let recorder = Recorder::create(&folder.path().join("x.mcap"), &graph, &options).unwrap();
    run_with(&graph, vec![recorder.clone()]);
    let report = recorder.finish();
    assert_eq!(report.written() + report.dropped(), u64::from(PACKETS));
    assert!(report.written() > 0, "an empty queue accepts any packet");
    let recording = Recording::open(&report.path).unwrap();
    assert_eq!(recording.streams()[0].packets, report.written());
}

#[test]
fn a_trace_shows_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let graph = graph(NodeDef::of::<Parrot<1>>());
    let trace = TraceFile::create(&path, &graph).unwrap();
    run_with(&graph, vec![trace.clone()]);
    let report = trace.finish();
    assert_eq!((report.dropped, report.error), (0, None));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!(of("X") as u64, report.calls);
    assert_eq!(of("s"), 300, "an arrow starts at each packet of the source");
    assert!(of("t") >= 300);
    assert_eq!(of("M"), 3, "the graph and two threads");
}
