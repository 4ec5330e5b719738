//! Nodes that work on the boxes of a detector: each image is joined with its own boxes.

use std::{fs, path::Path};

use afferent_engine::{ClockKind, RunOptions, run};
use afferent_messages::vision::{BodyPose, Detections, Embedding, Mask};
use afferent_spec::{LoadOptions, load_and_check};

use crate::bench::{Keep, catalog, services};

const IMAGES: usize = 6;

const GRAPH: &str = "afferent: 1
name: regions
nodes:
  camera: {use: test_pattern, params: {width: 160, height: 120, count: 6}}
  found:
    use: detect
    in: {images: {from: camera.images, on_full: block}}
    params: {model: DATA/dense.pte, score: 0.6, max: 8}
  poses:
    use: body_pose
    in:
      images: {from: camera.images, on_full: block}
      detections: {from: found.detections, sync: exact, on_full: block}
    params: {model: DATA/pose_simcc.pte, classes: all}
  masks:
    use: segment
    in:
      images: {from: camera.images, on_full: block}
      prompts: {from: found.detections, sync: exact, on_full: block}
    params: {model: DATA/mask_prompts.pte}
  vectors:
    use: embed_image
    in:
      images: {from: camera.images, on_full: block}
      detections: {from: found.detections, sync: exact, on_full: block}
    params: {model: DATA/classes.pte}
";

#[test]
fn each_image_is_joined_with_its_boxes() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nodes/vision/tests/data");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.yaml");
    fs::write(&file, GRAPH.replace("DATA", data.to_str().unwrap())).unwrap();
    let checked = load_and_check(&file, &LoadOptions::default(), &catalog(), &services());
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let keep = Keep::of(&["found", "poses", "masks", "vectors"]);
    let options = RunOptions {
        clock: ClockKind::Virtual,
        observers: vec![keep.clone()],
        ..RunOptions::default()
    };
    run(&graph, &services(), options).unwrap();
    let sent = keep.take();
    let of = |node: &str| {
        let packets = sent.iter().filter(|sent| sent.node == node).map(|sent| &sent.packet);
        let packets: Vec<_> = packets.collect();
        assert_eq!(packets.len(), IMAGES, "{node}");
        packets
    };
    let found = of("found");
    let results = of("poses").into_iter().zip(of("masks")).zip(of("vectors"));
    let mut counts = Vec::new();
    for (found, ((pose, mask), vectors)) in found.into_iter().zip(results) {
        let at = found.header.at;
        assert_eq!([pose.header.at, mask.header.at, vectors.header.at], [at; 3]);
        let boxes = &found.get::<Detections>().unwrap().detections;
        let bodies = &pose.get::<BodyPose>().unwrap().bodies;
        assert!(boxes.iter().map(|one| one.bounds).eq(bodies.iter().map(|one| one.bounds)));
        let labels = boxes.iter().map(|one| &*one.label);
        let named = mask.get::<Mask>().unwrap();
        assert!(labels.eq(named.labels[1..].iter().map(|label| &**label)));
        assert_eq!(vectors.get::<Embedding>().unwrap().vectors.sizes(), [boxes.len(), 6]);
        counts.push(boxes.len());
    }
    assert!(counts.iter().any(|count| *count > 0), "{counts:?}");
}
