//! Pose models with random weights, one for each layout of the outputs, against reference code
//! (`data/make_poses.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{
    Affine, Image,
    vision::{Body, BodyPose as Bodies, Box2d, Detection, Detections, Skeleton},
};
use afferent_nodes_vision::{BodyPose, BodyPoseParams};

#[derive(serde::Deserialize)]
struct Expected {
    keypoint: f64,
    score: f64,
    iou: f64,
    sim_cc: SimCc,
    dense: Vec<Found>,
    selected: Vec<Found>,
}

/// Boxes, the last around the whole image, and keypoints of each: x, y, score.
#[derive(serde::Deserialize)]
struct SimCc {
    boxes: Vec<[f32; 4]>,
    keypoints: Vec<Vec<[f32; 3]>>,
}

#[derive(serde::Deserialize)]
struct Found {
    #[serde(rename = "box")]
    corners: [f32; 4],
    score: f32,
    keypoints: Vec<[f32; 3]>,
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn expected() -> Expected {
    serde_json::from_str(include_str!("data/poses.json")).unwrap()
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn open(
    model: &str,
    settings: &[(&str, ParamValue)],
    connected: &[&str],
) -> Result<NodeBench<BodyPose>, String> {
    let mut values = ParamValues::default();
    values.insert("model".to_owned(), ParamValue::Path(format!("{DATA}/{model}.pte").into()));
    values.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let params = BodyPoseParams::from_values(&values).unwrap();
    let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
    let mut cx = OpenCx::with_service(models);
    cx.connected = connected.iter().map(|name| (*name).into()).collect();
    BodyPose::open(params, &cx).map(NodeBench::new).map_err(|error| error.to_string())
}

fn bodies(bench: &mut NodeBench<BodyPose>, image: Image) -> Bodies {
    let sent = bench.call(BodyPose::IMAGES, Timestamp::ZERO, image).unwrap();
    sent[0].1.get::<Bodies>().unwrap().clone()
}

/// Checks positions, and scores where the keypoint is visible.
fn check_keypoints(body: &Body, expected: &[[f32; 3]], least: f32) {
    assert_eq!(body.keypoints.len(), expected.len());
    for (found, [x, y, score]) in body.keypoints.iter().zip(expected) {
        let [found_x, found_y] = found.position;
        let distance = (found_x - x).hypot(found_y - y);
        assert!(distance < 0.05, "{found:?} {x} {y}");
        let score = if *score < least { 0.0 } else { *score };
        assert!((found.score - score).abs() < 1e-3, "{found:?} {score}");
    }
}

fn detection(label: &str, score: f32, [left, top, right, bottom]: [f32; 4]) -> Detection {
    let bounds = Box2d::from_corners([left, top], [right, bottom]);
    Detection { label: label.into(), score, bounds, track: Some(left as u64) }
}

#[test]
fn bodies_in_boxes_are_those_of_mmpose() {
    let Expected { keypoint, sim_cc: SimCc { boxes, keypoints }, .. } = expected();
    let mut bench = open("pose_simcc", &[], &["images", "detections"]).unwrap();
    let score = |index: usize| 0.5 + index as f32 / 10.0;
    let mut found: Vec<Detection> =
        (0..3).map(|index| detection("person", score(index), boxes[index])).collect();
    found.push(detection("dog", 0.9, boxes[0]));
    found.push(detection("person", 0.9, [-50.0, 0.0, -10.0, 50.0]));
    let detections = Detections { frame_id: String::new(), detections: found };
    bench.join(BodyPose::DETECTIONS, Timestamp::ZERO, detections.clone());
    let poses = bodies(&mut bench, image());
    assert_eq!((poses.skeleton, poses.bodies.len()), (Skeleton::Coco17, 3));
    // The most probable first.
    for (body, index) in poses.bodies.iter().zip([2, 1, 0]) {
        assert_eq!((body.score, body.bounds), (score(index), detections.detections[index].bounds));
        assert_eq!(body.track, detections.detections[index].track);
        check_keypoints(body, &keypoints[index], keypoint as f32);
    }
    let hidden =
        poses.bodies.iter().flat_map(|body| &body.keypoints).filter(|one| one.score == 0.0);
    assert!(hidden.count() > 0);

    bench.join(BodyPose::DETECTIONS, Timestamp::ZERO, Detections::default());
    assert_eq!(bodies(&mut bench, image()).bodies, []);
    let sent = bench.call(BodyPose::IMAGES, Timestamp::ZERO, image()).unwrap();
    assert!(sent.is_empty(), "the boxes of this image are not known");
    let error = bench.call(BodyPose::DETECTIONS, Timestamp::ZERO, detections.clone()).unwrap_err();
    assert!(error.to_string().contains("input detections: it must be joined"), "{error}");

    let settings = [("classes", ParamValue::Text("dog, cat".into()))];
    let mut bench = open("pose_simcc", &settings, &["images", "detections"]).unwrap();
    bench.join(BodyPose::DETECTIONS, Timestamp::ZERO, detections.clone());
    assert_eq!(bodies(&mut bench, image()).bodies.len(), 1);
    let settings = [("classes", ParamValue::Text("all".into())), ("max", ParamValue::Int(2))];
    let mut bench = open("pose_simcc", &settings, &["images", "detections"]).unwrap();
    bench.join(BodyPose::DETECTIONS, Timestamp::ZERO, detections);
    let poses = bodies(&mut bench, image());
    assert_eq!(poses.bodies.iter().map(|body| body.score).collect::<Vec<_>>(), [0.9, 0.7]);
}

#[test]
fn a_whole_image_is_the_box_of_one_body() {
    let Expected { keypoint, sim_cc: SimCc { keypoints, .. }, .. } = expected();
    let mut bench = open("pose_simcc", &[], &[]).unwrap();
    let poses = bodies(&mut bench, image());
    let [body] = poses.bodies.as_slice() else { panic!("{poses:?}") };
    check_keypoints(body, &keypoints[3], keypoint as f32);
    assert_eq!(body.bounds, Box2d::from_corners([0.0, 0.0], [150.0, 90.0]));
    let mean = body.keypoints.iter().map(|one| one.score).sum::<f32>() / 17.0;
    assert!((body.score - mean).abs() < 1e-6);

    // A part of a source with twice the size.
    let mut part = image();
    part.to_source = Affine::scale_and_shift([2.0; 2], [100.0, 50.0]);
    let poses = bodies(&mut bench, part.clone());
    let position = |[x, y]: [f32; 2]| [x * 2.0 + 100.0, y * 2.0 + 50.0];
    for (one, other) in body.keypoints.iter().zip(&poses.bodies[0].keypoints) {
        assert_eq!((position(one.position), one.score), (other.position, other.score));
    }
    // The same box in pixels of the source.
    let mut bench = open("pose_simcc", &[], &["images", "detections"]).unwrap();
    let detections = vec![detection("person", 0.5, [100.0, 50.0, 400.0, 230.0])];
    let detections = Detections { frame_id: String::new(), detections };
    bench.join(BodyPose::DETECTIONS, Timestamp::ZERO, detections);
    assert_eq!(bodies(&mut bench, part).bodies[0].keypoints, poses.bodies[0].keypoints);
}

#[test]
fn bodies_of_models_that_find_them_are_those_of_ultralytics() {
    let Expected { keypoint, score, iou, dense, selected, .. } = expected();
    let settings = [
        ("keypoint", ParamValue::Float(keypoint)),
        ("score", ParamValue::Float(score)),
        ("iou", ParamValue::Float(iou)),
        ("max", ParamValue::Int(100)),
    ];
    for (name, expected) in [("pose_dense", dense), ("pose_selected", selected)] {
        let mut bench = open(name, &settings, &[]).unwrap();
        let poses = bodies(&mut bench, image());
        assert_eq!(poses.bodies.len(), expected.len(), "{name}");
        assert!(expected.len() > 5, "{name}");
        for (body, expected) in poses.bodies.iter().zip(&expected) {
            assert!((body.score - expected.score).abs() < 1e-3, "{name}");
            let found = [body.bounds.corners()[0], body.bounds.corners()[2]].concat();
            for (found, expected) in found.iter().zip(expected.corners) {
                assert!((found - expected).abs() < 0.05, "{name} {found} {expected}");
            }
            check_keypoints(body, &expected.keypoints, 0.0);
        }
        let told = open(name, &settings, &["images", "detections"]).err().unwrap();
        assert!(told.contains("leave the input detections unconnected"), "{told}");
    }
}

#[test]
fn other_models_are_refused_with_what_was_expected() {
    for model in ["classes", "dense", "queries", "depth"] {
        let told = open(model, &[], &[]).err().unwrap();
        assert!(told.contains("not those of a pose model") && told.contains("SimCC"), "{told}");
    }
}
