//! Models that give one result for an image, with random weights, against PyTorch (`data/make.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{
    Image,
    vision::{self, Box2d, Classes, DepthKind, Detection, Detections, Embedding},
};
use afferent_nodes_vision::{
    Classify, ClassifyParams, Depth, DepthParams, EmbedImage, EmbedImageParams,
};

#[derive(serde::Deserialize)]
struct Expected {
    probabilities: Vec<f32>,
    depth: Vec<f32>,
    /// Vectors of two boxes.
    regions: Vec<Vec<f32>>,
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn expected() -> Expected {
    serde_json::from_str(include_str!("data/whole_images.json")).unwrap()
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn values(model: &str, more: &[(&str, ParamValue)]) -> ParamValues {
    let mut values = ParamValues::default();
    values.insert("model".to_owned(), ParamValue::Path(model.into()));
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    values
}

fn cx() -> OpenCx {
    OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS))
}

#[test]
fn classes_are_those_of_pytorch() {
    let model = format!("{DATA}/classes.pte");
    let top = ("top", ParamValue::Int(6));
    let params = ClassifyParams::from_values(&values(&model, &[top])).unwrap();
    let mut bench = NodeBench::new(Classify::open(params, &cx()).unwrap());
    let sent = bench.call(Classify::IMAGES, Timestamp::ZERO, image()).unwrap();
    let classes = &sent[0].1.get::<Classes>().unwrap().classes;
    let expected = expected().probabilities;
    assert_eq!(classes.len(), expected.len());
    assert!(classes.is_sorted_by(|one, next| one.score >= next.score));
    for class in classes {
        let wanted = expected[class.label.parse::<usize>().unwrap()];
        // Pillow rounds the resized pixels.
        assert!((class.score - wanted).abs() < 5e-3, "{class:?} {wanted}");
    }
    let score = ("score", ParamValue::Float(f64::from(classes[1].score) + 1e-6));
    let params = ClassifyParams::from_values(&values(&model, &[score])).unwrap();
    let mut bench = NodeBench::new(Classify::open(params, &cx()).unwrap());
    let sent = bench.call(Classify::IMAGES, Timestamp::ZERO, image()).unwrap();
    assert_eq!(sent[0].1.get::<Classes>().unwrap().classes, classes[..1]);
}

#[test]
fn depth_is_that_of_pytorch_and_not_faster_than_asked() {
    let model = format!("{DATA}/depth.pte");
    let params = DepthParams::from_values(&values(&model, &[])).unwrap();
    let mut bench = NodeBench::new(Depth::open(params, &cx()).unwrap());
    let sent = bench.call(Depth::IMAGES, Timestamp::ZERO, image()).unwrap();
    let map = sent[0].1.get::<vision::Depth>().unwrap();
    assert_eq!((map.width(), map.height(), map.kind), (24, 16, DepthKind::AffineInverse));
    for (found, expected) in map.values.data::<f32>().unwrap().iter().zip(expected().depth) {
        assert!((found - expected).abs() < 0.03, "{found} {expected}");
    }
    // The middle of the map is that of the image.
    let [x, y] = map.to_source.apply([12.0, 8.0]);
    assert!((x - 75.0).abs() < 1e-9 && (y - 45.0).abs() < 1e-9, "{x} {y}");
    // At 30 images per second, every second one is used.
    let at = |image: i64| Timestamp(image * 33_333_333);
    let sent = (1..=60).map(|number| bench.call(Depth::IMAGES, at(number), image()).unwrap().len());
    assert_eq!(sent.sum::<usize>(), 30);
}

fn embed_image(connected: &[&str], normalize: bool) -> NodeBench<EmbedImage> {
    let model = format!("{DATA}/classes.pte");
    let normalize = ("normalize", ParamValue::Bool(normalize));
    let params = EmbedImageParams::from_values(&values(&model, &[normalize])).unwrap();
    let mut cx = cx();
    cx.connected = connected.iter().map(|name| (*name).into()).collect();
    NodeBench::new(EmbedImage::open(params, &cx).unwrap())
}

fn vectors(bench: &mut NodeBench<EmbedImage>) -> (Vec<usize>, Vec<f32>) {
    let sent = bench.call(EmbedImage::IMAGES, Timestamp::ZERO, image()).unwrap();
    let found = sent[0].1.get::<Embedding>().unwrap();
    (found.vectors.sizes().to_vec(), found.vectors.data::<f32>().unwrap().to_vec())
}

#[test]
fn objects_have_vectors_of_the_regions_around_their_boxes() {
    let boxes = [[20.0, 10.0, 60.0, 80.0], [-30.0, 0.0, -10.0, 10.0], [90.0, 50.0, 130.0, 70.0]];
    let detection = |[left, top, right, bottom]: [f32; 4]| {
        let bounds = Box2d::from_corners([left, top], [right, bottom]);
        Detection { label: "cup".into(), score: 0.5, bounds, track: None }
    };
    let detections = boxes.into_iter().map(detection).collect();
    let detections = Detections { frame_id: String::new(), detections };
    let mut bench = embed_image(&["images", "detections"], false);
    bench.join(EmbedImage::DETECTIONS, Timestamp::ZERO, detections.clone());
    let (sizes, values) = vectors(&mut bench);
    assert_eq!(sizes, [3, 6]);
    assert_eq!(values[6..12], [0.0; 6], "outside of the image");
    let [first, second] = &expected().regions[..] else { panic!("two boxes") };
    for (found, expected) in values[..6].iter().chain(&values[12..]).zip(first.iter().chain(second))
    {
        // Pillow rounds the resized pixels.
        assert!((found - expected).abs() < 0.03, "{found} {expected}");
    }
    bench.join(EmbedImage::DETECTIONS, Timestamp::ZERO, Detections::default());
    assert_eq!(vectors(&mut bench), (vec![0, 6], Vec::new()));
    let sent = bench.call(EmbedImage::IMAGES, Timestamp::ZERO, image()).unwrap();
    assert!(sent.is_empty(), "the objects of this image are not known");
    let error = bench.call(EmbedImage::DETECTIONS, Timestamp::ZERO, detections.clone());
    assert!(error.unwrap_err().to_string().contains("sync: exact"));

    let mut bench = embed_image(&["images", "detections"], true);
    bench.join(EmbedImage::DETECTIONS, Timestamp::ZERO, detections);
    let (_, values) = vectors(&mut bench);
    let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    let lengths: Vec<f32> = values.chunks_exact(6).map(length).collect();
    assert!((lengths[0] - 1.0).abs() < 1e-6 && lengths[1] == 0.0, "{lengths:?}");
    assert_eq!(vectors(&mut embed_image(&["images"], true)).0, [1, 6]);
}

#[test]
fn other_models_are_refused_with_what_was_expected() {
    let params = DepthParams::from_values(&values(&format!("{DATA}/classes.pte"), &[])).unwrap();
    let error = Depth::open(params, &cx()).err().unwrap().to_string();
    assert!(error.contains("[1, 6] is not [1, height, width]"), "{error}");
    let params = ClassifyParams::from_values(&values(&format!("{DATA}/split.pte"), &[])).unwrap();
    let error = Classify::open(params, &cx()).err().unwrap().to_string();
    assert!(error.contains("3 outputs"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    fs::copy(format!("{DATA}/classes.pte"), folder.path().join("a.pte")).unwrap();
    let manifest = "afferent_model: 1\nname: a\ntask: classification\ncontract: classes\n\
                    license: CC0-1.0\nprovenance: test\nlabels: [cat, dog]\n\
                    variants: [{file: a.pte, backend: portable, precision: fp32}]\n";
    fs::write(folder.path().join("model.yaml"), manifest).unwrap();
    let path = folder.path().display().to_string();
    let params = ClassifyParams::from_values(&values(&path, &[])).unwrap();
    let error = Classify::open(params, &cx()).err().unwrap().to_string();
    assert!(error.contains("6 classes, but 2 labels"), "{error}");
}
