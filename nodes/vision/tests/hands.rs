//! Palm detector and landmark model with random weights, against PyTorch and the calculations of
//! MediaPipe (`data/hands.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use afferent_graph::{
    Choice, Node, NodeBench, NodeError, OpenCx, ParamValue, ParamValues, Params, Timestamp,
};
use afferent_messages::{
    Affine, Image,
    vision::{Detections, Hand, Hands},
};
use afferent_nodes_vision::{HandDetect, HandDetectParams, HandTrack, HandTrackParams};

#[derive(serde::Deserialize)]
struct Expected {
    score: f64,
    palms: Vec<Palm>,
    /// The hand in an image, and in the same image once more.
    hands: Vec<Found>,
}

#[derive(serde::Deserialize)]
struct Palm {
    score: f32,
    center: [f32; 2],
    side: f32,
    angle: f32,
}

#[derive(serde::Deserialize)]
struct Found {
    landmarks: Vec<[f32; 3]>,
    world_m: Vec<[f32; 3]>,
    presence: f32,
    side: String,
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn expected() -> Expected {
    serde_json::from_str(include_str!("data/hands.json")).unwrap()
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn cx() -> OpenCx {
    OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS))
}

fn values(settings: &[(&str, ParamValue)]) -> ParamValues {
    settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn path(file: &str) -> ParamValue {
    ParamValue::Path(format!("{DATA}/{file}").into())
}

fn tracker(
    more: &[(&str, ParamValue)],
    landmarks: ParamValue,
) -> Result<NodeBench<HandTrack>, NodeError> {
    let mut all = values(&[
        ("detector", path("palms.pte")),
        ("landmarks", landmarks),
        ("hands", ParamValue::Int(1)),
        ("score", ParamValue::Float(expected().score)),
        ("presence", ParamValue::Float(0.0)),
        ("min_cutoff", ParamValue::Float(0.0)),
    ]);
    all.extend(values(more));
    let params = HandTrackParams::from_values(&all).unwrap();
    Ok(NodeBench::new(HandTrack::open(params, &cx())?))
}

fn track(bench: &mut NodeBench<HandTrack>, at: i64, image: Image) -> Vec<Hand> {
    let sent = bench.call(HandTrack::IMAGES, Timestamp(at * 33_333_333), image).unwrap();
    sent[0].1.get::<Hands>().unwrap().hands.clone()
}

fn check(hand: &Hand, expected: &Found) {
    let near = |found: &[[f32; 3]], expected: &[[f32; 3]], limit: f32| {
        for (one, other) in found.as_flattened().iter().zip(expected.as_flattened()) {
            assert!((one - other).abs() < limit, "{found:?} {expected:?}");
        }
    };
    near(&hand.landmarks, &expected.landmarks, 0.05);
    near(&hand.world_m, &expected.world_m, 2e-4);
    assert!((hand.score - expected.presence).abs() < 1e-3, "{} {}", hand.score, expected.presence);
    assert_eq!(hand.handedness.word(), expected.side);
}

#[test]
fn palms_are_those_of_the_reference() {
    let score = ("score", ParamValue::Float(expected().score));
    let params = HandDetectParams::from_values(&values(&[("model", path("palms.pte")), score]));
    let mut bench = NodeBench::new(HandDetect::open(params.unwrap(), &cx()).unwrap());
    let sent = bench.call(HandDetect::IMAGES, Timestamp::ZERO, image()).unwrap();
    let found = &sent[0].1.get::<Detections>().unwrap().detections;
    let expected = expected().palms;
    assert!(expected.len() > 3);
    assert_eq!(found.len(), expected.len());
    for (palm, expected) in found.iter().zip(expected) {
        let bounds = palm.bounds;
        assert!((palm.score - expected.score).abs() < 1e-3);
        for axis in [0, 1] {
            assert!((bounds.center[axis] - expected.center[axis]).abs() < 0.05, "{bounds:?}");
            assert!((bounds.size[axis] - expected.side).abs() < 0.05, "{bounds:?}");
        }
        let turn = (bounds.angle_rad - expected.angle).sin().abs();
        assert!(turn < 5e-3, "{bounds:?} {}", expected.angle);
    }
}

#[test]
fn hands_are_found_and_followed_as_in_the_reference() {
    let mut bench = tracker(&[], path("hand.pte")).unwrap();
    let [first, second] = &expected().hands[..] else { panic!("two images") };
    check(&track(&mut bench, 0, image())[0], first);
    check(&track(&mut bench, 1, image())[0], second);
}

#[test]
fn hands_are_in_pixels_of_the_source() {
    let mut bench = tracker(&[], path("hand.pte")).unwrap();
    let mut image = image();
    image.to_source = Affine::scale_and_shift([2.0; 2], [10.0, 20.0]);
    let hand = &track(&mut bench, 0, image.clone())[0];
    let [wrist, ..] = expected().hands[0].landmarks[..] else { panic!("landmarks") };
    let moved = [2.0 * wrist[0] + 10.0, 2.0 * wrist[1] + 20.0];
    assert!((hand.landmarks[0][0] - moved[0]).abs() < 0.1, "{:?} {moved:?}", hand.landmarks[0]);
    assert!((hand.landmarks[0][1] - moved[1]).abs() < 0.1, "{:?} {moved:?}", hand.landmarks[0]);
    // The hand is followed in an image that shows another part of the source.
    let hand = &track(&mut bench, 1, image)[0];
    let wrist = expected().hands[1].landmarks[0];
    assert!((hand.landmarks[0][0] - 2.0 * wrist[0] - 10.0).abs() < 0.1);
}

#[test]
fn lost_hands_and_presence() {
    let presence = ("presence", ParamValue::Float(1.0));
    let mut bench = tracker(&[presence], path("hand.pte")).unwrap();
    assert!(track(&mut bench, 0, image()).is_empty());
    let two = ("hands", ParamValue::Int(16));
    let mut bench = tracker(&[two], path("hand.pte")).unwrap();
    let found = track(&mut bench, 0, image()).len();
    assert!(found > 1 && found <= expected().palms.len(), "{found}");
}

#[test]
fn other_models_are_refused_with_what_was_expected() {
    let error = tracker(&[], path("classes.pte")).err().unwrap().to_string();
    assert!(error.contains("[1, 63] (landmarks)") && error.contains("classes.pte"), "{error}");
    let params = HandDetectParams::from_values(&values(&[("model", path("dense.pte"))])).unwrap();
    let error = HandDetect::open(params, &cx()).err().unwrap().to_string();
    assert!(error.contains("palm detector for 96 x 64 pixels"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    fs::copy(format!("{DATA}/hand.pte"), folder.path().join("hand.pte")).unwrap();
    let open = |more: &str| {
        let manifest = format!(
            "afferent_model: 1\nname: hand\ntask: hand_landmarks\nlicense: CC0-1.0\n\
             provenance: test\nvariants: [{{file: hand.pte, backend: portable, precision: fp32}}]\n\
             {more}\n"
        );
        fs::write(folder.path().join("model.yaml"), manifest).unwrap();
        tracker(&[], ParamValue::Path(folder.path().to_owned()))
    };
    let error = open("contract: face").err().unwrap().to_string();
    assert!(error.contains("hand_landmarks or mediapipe_hand"), "{error}");
    let error = open("contract: hand_landmarks\nlabels: [a, b]").err().unwrap().to_string();
    assert!(error.contains("must be left and right"), "{error}");
    // Without mirroring, the side is the other one, and depths keep their scale.
    let mut bench = open("contract: hand_landmarks\nlabels: [left, right]").unwrap();
    let hand = &track(&mut bench, 0, image())[0];
    let expected = &expected().hands[0];
    assert_ne!(hand.handedness.word(), expected.side);
    assert!((hand.landmarks[4][2] - 0.4 * expected.landmarks[4][2]).abs() < 0.05);
}
