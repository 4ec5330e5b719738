//! `images.yaml`: images are written, recorded and replayed bit-exactly.

use std::{fs, path::Path, sync::Arc};

use afferent_engine::{ClockKind, Observer, RunOptions, run};
use afferent_graph::{Choice, Cx, Node, NodeDef, NodeError, OpenCx, Port, ports};
use afferent_messages::{Image, PixelFormat};
use afferent_record::{Compare, RecordOptions, Recorder, Recording, StreamVerdict};
use afferent_spec::{CheckedGraph, LoadOptions, load_and_check};

use crate::bench::{Keep, catalog, pipelines, services};

const IMAGES: usize = 6;

/// Loads the graph with images of `format` that are written to `folder`.
fn graph(format: &str, folder: &Path) -> CheckedGraph {
    let set = vec![
        format!("pattern.format={format}"),
        format!("pattern.count={IMAGES}"),
        format!("files.path={}", folder.display()),
    ];
    let options = LoadOptions { set, ..LoadOptions::default() };
    let checked = load_and_check(&pipelines("images.yaml"), &options, &catalog(), &services());
    checked.unwrap_or_else(|faults| panic!("{faults}")).graph
}

/// Runs the graph on the virtual clock and returns the images of the source.
fn source_images(graph: &CheckedGraph, observer: Arc<dyn Observer>) -> Vec<(i64, Image)> {
    let keep = Keep::of(&["pattern"]);
    let observers = vec![observer, keep.clone() as Arc<dyn Observer>];
    let options = RunOptions { clock: ClockKind::Virtual, observers, ..RunOptions::default() };
    run(graph, &services(), options).unwrap();
    let sent = keep.take();
    let image = |packet: &afferent_graph::Packet| packet.get::<Image>().unwrap().clone();
    sent.iter().map(|sent| (sent.packet.header.at.0, image(&sent.packet))).collect()
}

fn replay(recording: &Recording, graph: &CheckedGraph) -> (Vec<(i64, Image)>, Vec<StreamVerdict>) {
    let compare = Compare::new(graph, Some(recording)).unwrap();
    let images = source_images(graph, compare.clone());
    (images, compare.verdicts())
}

#[test]
fn images_of_every_format_are_replayed_bit_exactly() {
    for format in PixelFormat::WORDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.mcap");
        let mut graph = graph(format, &folder.path().join("files"));
        let recorder = Recorder::create(&path, &graph, &RecordOptions::default()).unwrap();
        let live = source_images(&graph, recorder.clone());
        let report = recorder.finish();
        assert_eq!((report.written(), report.dropped()), (IMAGES as u64, 0), "{report:?}");
        let raw: usize = live.iter().map(|(_, image)| image.bytes().len()).sum();
        assert!(report.bytes < raw as u64 / 4, "{format}: {} bytes of {raw}", report.bytes);

        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.streams()[0].message, "sensor_msgs/msg/CompressedImage");
        assert_eq!(recording.replace_nodes(&mut graph, false).unwrap(), ["pattern", "files"]);
        let runs = [(); 2].map(|()| replay(&recording, &graph));
        for (again, verdicts) in &runs {
            assert_eq!(*again, live, "{format}");
            assert!(verdicts.iter().all(StreamVerdict::is_equal), "{verdicts:?}");
        }
        assert_eq!(runs[0].1[0].hash, runs[1].1[0].hash);
    }
}

#[test]
fn a_replay_of_different_images_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mcap");
    let graph_of = |format| graph(format, &folder.path().join("files"));
    let recorder = Recorder::create(&path, &graph_of("rgb8"), &RecordOptions::default()).unwrap();
    source_images(&graph_of("rgb8"), recorder.clone());
    recorder.finish();
    let recording = Recording::open(&path).unwrap();
    let (_, verdicts) = replay(&recording, &graph_of("rgb8"));
    assert!(verdicts[0].is_equal(), "the source sends the same images again");
    let (_, verdicts) = replay(&recording, &graph_of("bgr8"));
    assert_eq!(verdicts[0].difference.map(|difference| difference.packet), Some(0));
}

#[test]
fn consumers_of_a_source_share_its_images() {
    const GRAPH: &str = "afferent: 1
name: shared
nodes:
  pattern: {use: test_pattern, params: {width: 64, height: 48, count: 20}}
  files: {use: image_writer, in: {images: {from: pattern.images, on_full: block}}, params: {path: files}}
  view: {use: image_view, in: {images: {from: pattern.images, on_full: block}}, params: {width: 32, height: 24}}
  drawn: {use: overlay, in: {images: {from: pattern.images, on_full: block}}}
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.yaml");
    fs::write(&file, GRAPH).unwrap();
    let checked = load_and_check(&file, &LoadOptions::default(), &catalog(), &services());
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let options = RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
    let report = run(&graph, &services(), options).unwrap();
    let calls: Vec<u64> = report.nodes.iter().map(|node| node.packets_in).collect();
    assert_eq!(calls, [0, 20, 20, 20]);
    let copied: usize = report.pools.iter().map(|pool| pool.copied).sum();
    println!("copies of an image: 1 by the source, {copied} for its three consumers");
    assert_eq!(copied, 0);
}

/// Inverts the bytes of the pixels of each image.
struct Negative;

ports! {
    impl Negative {
        /// Images.
        in IMAGES: Image;
        /// The images with inverted bytes.
        out NEGATIVES: Image;
    }
}

impl Node for Negative {
    type Params = ();
    const NAME: &'static str = "negative";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES) else { return Ok(()) };
        let mut negative = cx.loan(Self::NEGATIVES);
        let bytes = negative.reshape(image.format(), image.width(), image.height())?;
        let pixels = image.rows().flatten();
        bytes.iter_mut().zip(pixels).for_each(|(to, from)| *to = !from);
        cx.send(Self::NEGATIVES, negative);
        Ok(())
    }
}

#[test]
fn outputs_for_replayed_images_match_the_recording() {
    const GRAPH: &str = "afferent: 1
name: negatives
nodes:
  pattern: {use: test_pattern, params: {width: 64, height: 48, format: bgr8, count: 20}}
  negative: {use: negative, in: pattern.images}
  files: {use: image_writer, in: negative.negatives, params: {path: files}}
";
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("graph.yaml"), folder.path().join("run.mcap"));
    fs::write(&file, GRAPH).unwrap();
    let nodes = catalog().with_node(NodeDef::of::<Negative>());
    let checked = load_and_check(&file, &LoadOptions::default(), &nodes, &services());
    let mut graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let recorder = Recorder::create(&path, &graph, &RecordOptions::default()).unwrap();
    source_images(&graph, recorder.clone());
    let report = recorder.finish();
    assert_eq!((report.written(), report.dropped()), (40, 0), "{report:?}");
    let recording = Recording::open(&path).unwrap();
    recording.replace_nodes(&mut graph, false).unwrap();
    let runs = [(); 2].map(|()| replay(&recording, &graph).1);
    assert!(runs[0].iter().all(|verdict| verdict.is_equal() && verdict.packets == 20));
    assert_ne!(runs[0][0].hash, runs[0][1].hash);
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn every_image_is_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("new/files");
    let graph = graph("mono16", &files);
    let live = source_images(&graph, Compare::new(&graph, None).unwrap());
    assert_eq!(fs::read_dir(&files).unwrap().count(), IMAGES);
    for (number, (_, image)) in live.iter().enumerate() {
        let file = fs::read(files.join(format!("{number:06}.png"))).unwrap();
        let mut written = Image::from_png(PixelFormat::Mono16, &file).unwrap();
        written.frame_id.clone_from(&image.frame_id);
        assert_eq!(written, *image);
    }
}
