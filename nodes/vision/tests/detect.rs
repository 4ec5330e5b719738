//! Detectors with random weights, one for each layout of the outputs, against PyTorch and the
//! reference code of the layout (`data/make.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{Affine, Image, vision::Detections};
use afferent_nodes_vision::{Detect, DetectParams};

#[derive(serde::Deserialize)]
struct Expected {
    score: f64,
    iou: f64,
    found: BTreeMap<String, Vec<Found>>,
}

#[derive(Debug, serde::Deserialize)]
struct Found {
    #[serde(rename = "box")]
    corners: [f32; 4],
    score: f32,
    label: String,
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn expected() -> Expected {
    serde_json::from_str(include_str!("data/detections.json")).unwrap()
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn detect(model: &Path, settings: &[(&str, ParamValue)]) -> NodeBench<Detect> {
    let mut values = ParamValues::default();
    values.insert("model".to_owned(), ParamValue::Path(model.to_owned()));
    values.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let params = DetectParams::from_values(&values).unwrap();
    let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
    NodeBench::new(Detect::open(params, &cx).unwrap())
}

fn found(bench: &mut NodeBench<Detect>, image: Image) -> Detections {
    let sent = bench.call(Detect::IMAGES, Timestamp::ZERO, image).unwrap();
    sent[0].1.get::<Detections>().unwrap().clone()
}

#[test]
fn every_layout_gives_the_boxes_of_pytorch() {
    let Expected { score, iou, found: cases } = expected();
    let settings = [("score", ParamValue::Float(score)), ("iou", ParamValue::Float(iou))];
    assert_eq!(cases.len(), 4);
    for (layout, expected) in cases {
        let mut bench = detect(&Path::new(DATA).join(format!("{layout}.pte")), &settings);
        let detections = found(&mut bench, image()).detections;
        assert_eq!(detections.len(), expected.len(), "{layout}");
        assert!(expected.len() > 5, "{layout}");
        for (found, expected) in detections.iter().zip(&expected) {
            assert_eq!(*found.label, *expected.label, "{layout} {found:?} {expected:?}");
            assert!((found.score - expected.score).abs() < 1e-3, "{layout} {found:?} {expected:?}");
            let [left, top] = found.bounds.corners()[0];
            let [right, bottom] = found.bounds.corners()[2];
            for (found, expected) in [left, top, right, bottom].iter().zip(expected.corners) {
                assert!((found - expected).abs() < 0.05, "{layout} {found} {expected}");
            }
        }
    }
}

#[test]
fn boxes_of_a_crop_are_those_of_its_source() {
    let model = Path::new(DATA).join("split.pte");
    let mut bench = detect(&model, &[]);
    let whole = found(&mut bench, image());
    let mut crop = image();
    crop.to_source = Affine::scale_and_shift([2.0, 2.0], [100.0, 50.0]);
    crop.frame_id = "head".to_owned();
    let cropped = found(&mut bench, crop);
    assert_eq!(cropped.frame_id, "head");
    for (one, other) in whole.detections.iter().zip(&cropped.detections) {
        let ([x, y], [width, height]) = (one.bounds.center, one.bounds.size);
        let expected = [x * 2.0 + 100.0, y * 2.0 + 50.0, width * 2.0, height * 2.0];
        let found = [other.bounds.center, other.bounds.size].concat();
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-3));
    }
}

#[test]
fn a_folder_of_ultralytics_has_names_and_classes_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(Path::new(DATA).join("dense.pte"), folder.path().join("model.pte")).unwrap();
    let metadata = "names:\n  0: cat\n  1: dog\n  2: cow\n";
    std::fs::write(folder.path().join("metadata.yaml"), metadata).unwrap();
    let mut all = detect(folder.path(), &[]);
    let mut dogs = detect(folder.path(), &[("classes", ParamValue::Text("dog".into()))]);
    let (all, dogs) = (found(&mut all, image()), found(&mut dogs, image()));
    assert!(all.detections.iter().any(|found| &*found.label == "cow"));
    assert!(!dogs.detections.is_empty());
    assert!(dogs.detections.iter().all(|found| &*found.label == "dog"));
    let mut one = detect(folder.path(), &[("max", ParamValue::Int(1))]);
    assert_eq!(found(&mut one, image()).detections, all.detections[..1]);
}
