//! Public models with random weights, against their own post-processing in PyTorch.
//!
//! `tools/bench/export_vision.py FOLDER` writes them; `AFFERENT_VISION_MODELS=FOLDER` names the folder.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::{fs, path::Path};

use afferent_backend_xnnpack::Xnnpack;
use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
use afferent_messages::{
    Image,
    vision::{self, Classes, Detections},
};
use afferent_nodes_vision::{Classify, Depth, Detect};
use afferent_runtime::ModelOptions;

#[derive(serde::Deserialize)]
struct Expected {
    task: String,
    #[serde(default)]
    found: Vec<Found>,
    #[serde(default)]
    classes: Vec<(String, f32)>,
    #[serde(default)]
    depth: Vec<f32>,
    score: f64,
    iou: f64,
}

#[derive(Debug, serde::Deserialize)]
struct Found {
    #[serde(rename = "box")]
    corners: [f32; 4],
    score: f32,
    label: String,
}

/// The node with the model in `folder`.
fn open<N: Node>(folder: &Path, settings: &[(&str, f64)]) -> NodeBench<N> {
    let model = ("model".to_owned(), ParamValue::Path(folder.to_owned()));
    let settings =
        settings.iter().map(|(name, value)| ((*name).to_owned(), ParamValue::Float(*value)));
    let values = settings.chain([model]).collect();
    let options = ModelOptions::new(afferent_kernels::KERNELS).with_backend(Xnnpack);
    let cx = OpenCx::with_service(options);
    NodeBench::new(N::open(N::Params::from_values(&values).unwrap(), &cx).unwrap())
}

fn detections(folder: &Path, image: Image, expected: &Expected) {
    let settings = [("score", expected.score), ("iou", expected.iou)];
    let mut bench = open::<Detect>(folder, &settings);
    let sent = bench.call(Detect::IMAGES, Timestamp::ZERO, image).unwrap();
    let found = &sent[0].1.get::<Detections>().unwrap().detections;
    let mut farthest = 0.0_f32;
    // Scores near the limit may fall on either side of it.
    let is_sure = |score: f32| f64::from(score) > expected.score + 0.01;
    // Random boxes may have no area.
    let truths: Vec<&Found> = expected
        .found
        .iter()
        .filter(|truth| {
            let [left, top, right, bottom] = truth.corners;
            left < right && top < bottom
        })
        .collect();
    for truth in truths.iter().filter(|truth| is_sure(truth.score)) {
        let distance = |detection: &vision::Detection| {
            let [a, _, b, _] = detection.bounds.corners();
            let corners = [a[0], a[1], b[0], b[1]];
            let pairs = corners.iter().zip(truth.corners);
            pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
        };
        let same = found.iter().filter(|found| {
            *found.label == *truth.label && (found.score - truth.score).abs() < 0.02
        });
        let nearest = same.map(distance).fold(f32::INFINITY, f32::min);
        assert!(nearest < 0.5, "{truth:?} of {}: {nearest} pixels", folder.display());
        farthest = farthest.max(nearest);
    }
    let sure =
        |scores: &mut dyn Iterator<Item = f32>| scores.filter(|score| is_sure(*score)).count();
    let (own, other) = (
        sure(&mut found.iter().map(|found| found.score)),
        sure(&mut truths.iter().map(|found| found.score)),
    );
    assert!(own.abs_diff(other) <= 1 + other / 20, "{own} and {other} objects");
    println!("{}: {other} boxes within {farthest:.3} pixels", folder.display());
}

fn classes(folder: &Path, image: Image, expected: &Expected) {
    let mut bench = open::<Classify>(folder, &[]);
    let sent = bench.call(Classify::IMAGES, Timestamp::ZERO, image).unwrap();
    let found = &sent[0].1.get::<Classes>().unwrap().classes;
    for (found, (label, score)) in found.iter().zip(&expected.classes) {
        assert_eq!(*found.label, **label);
        assert!((found.score - score).abs() < 0.02, "{found:?} {score}");
    }
    println!("{}: {} classes", folder.display(), found.len());
}

fn depth(folder: &Path, image: Image, expected: &Expected) {
    let mut bench = open::<Depth>(folder, &[]);
    let sent = bench.call(Depth::IMAGES, Timestamp::ZERO, image).unwrap();
    let values = sent[0].1.get::<vision::Depth>().unwrap().values.data::<f32>().unwrap().to_vec();
    assert_eq!(values.len(), expected.depth.len());
    let most = expected.depth.iter().copied().fold(0.0, f32::max);
    let pairs = values.iter().zip(&expected.depth);
    let farthest = pairs.map(|(one, other)| (one - other).abs() / most).fold(0.0, f32::max);
    assert!(farthest < 0.02, "{farthest}");
    println!("{}: depth within {:.3} % of its range", folder.display(), farthest * 100.0);
}

#[test]
fn public_models_give_what_their_own_code_gives() {
    let Some(models) = std::env::var_os("AFFERENT_VISION_MODELS") else {
        println!("public vision models: skipped (set AFFERENT_VISION_MODELS)");
        return;
    };
    let mut count = 0;
    for entry in fs::read_dir(models).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("expected.json")) else { continue };
        let expected: Expected = serde_json::from_str(&text).unwrap();
        let mut image = Image::default();
        image.read_file(&fs::read(folder.join("image.png")).unwrap()).unwrap();
        match expected.task.as_str() {
            "detection" => detections(&folder, image, &expected),
            "classification" => classes(&folder, image, &expected),
            _ => depth(&folder, image, &expected),
        }
        count += 1;
    }
    assert!(count > 0, "no models");
}
