//! Segmentation models with random weights, one for each layout of the outputs, against reference code
//! (`data/make_masks.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{
    Affine, Image,
    vision::{Box2d, Detection, Detections, Mask, MaskKind},
};
use afferent_nodes_vision::{Segment, SegmentParams};

#[derive(serde::Deserialize)]
struct Expected {
    score: f64,
    iou: f64,
    classes: Values,
    matte: Values,
    dense: Values,
    selected: Values,
    prompts: Values,
}

#[derive(serde::Deserialize)]
struct Values {
    size: [usize; 2],
    /// -1 where the reference is close to another value.
    values: Vec<i32>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    boxes: Vec<[f32; 4]>,
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn expected() -> Expected {
    serde_json::from_str(include_str!("data/masks.json")).unwrap()
}

fn image() -> Image {
    let mut image = Image::default();
    image.read_file(include_bytes!("data/waves.png")).unwrap();
    image
}

fn open(
    model: &Path,
    settings: &[(&str, ParamValue)],
    connected: &[&str],
) -> Result<NodeBench<Segment>, String> {
    let mut values = ParamValues::default();
    values.insert("model".to_owned(), ParamValue::Path(model.to_owned()));
    values.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let params = SegmentParams::from_values(&values).unwrap();
    let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
    let mut cx = OpenCx::with_service(models);
    cx.connected = connected.iter().map(|name| (*name).into()).collect();
    Segment::open(params, &cx).map(NodeBench::new).map_err(|error| error.to_string())
}

fn program(name: &str) -> std::path::PathBuf {
    Path::new(DATA).join(format!("{name}.pte"))
}

fn mask(bench: &mut NodeBench<Segment>, image: Image) -> Mask {
    let sent = bench.call(Segment::IMAGES, Timestamp::ZERO, image).unwrap();
    sent[0].1.get::<Mask>().unwrap().clone()
}

fn check(mask: &Mask, expected: &Values, tolerance: i32) {
    assert_eq!([mask.width(), mask.height()], expected.size);
    let found = mask.values.data::<u8>().unwrap();
    let pairs = found.iter().zip(&expected.values).enumerate();
    let wrong: Vec<_> = pairs
        .filter(|(_, (found, expected))| {
            **expected >= 0 && (i32::from(**found) - **expected).abs() > tolerance
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let distinct: std::collections::BTreeSet<_> = expected.values.iter().collect();
    assert!(distinct.len() > 3, "{distinct:?}");
}

#[test]
fn classes_and_opacity_are_those_of_pytorch() {
    let Expected { classes, matte, .. } = expected();
    let found = mask(&mut open(&program("mask_classes"), &[], &[]).unwrap(), image());
    assert_eq!((found.kind, found.labels.len()), (MaskKind::Classes, 0));
    check(&found, &classes, 0);
    // 24 x 16 pixels for 150 x 90.
    assert_eq!(found.to_source.apply([24.0, 16.0]), [150.0, 90.0]);
    assert_eq!(found.to_source.apply([0.0, 0.0]), [0.0, 0.0]);
    let mut part = image();
    part.to_source = Affine::scale_and_shift([2.0; 2], [10.0, 20.0]);
    part.frame_id = "head".to_owned();
    let found = mask(&mut open(&program("mask_classes"), &[], &[]).unwrap(), part);
    assert_eq!(found.to_source.apply([24.0, 16.0]), [310.0, 200.0]);
    assert_eq!(found.frame_id, "head");

    let found = mask(&mut open(&program("mask_matte"), &[], &[]).unwrap(), image());
    assert_eq!(found.kind, MaskKind::Matte);
    check(&found, &matte, 1);
}

#[test]
fn objects_are_those_of_ultralytics() {
    let Expected { score, iou, dense, selected, .. } = expected();
    let settings = [
        ("score", ParamValue::Float(score)),
        ("iou", ParamValue::Float(iou)),
        ("max", ParamValue::Int(255)),
    ];
    assert!(dense.labels.len() < selected.labels.len(), "some boxes overlap");
    for (name, expected) in [("mask_dense", dense), ("mask_selected", selected)] {
        let mut bench = open(&program(name), &settings, &[]).unwrap();
        let found = mask(&mut bench, image());
        assert_eq!(found.kind, MaskKind::Instances);
        assert_eq!(found.labels[1..].iter().map(|one| &**one).collect::<Vec<_>>(), expected.labels);
        assert_eq!(&*found.labels[0], "");
        check(&found, &expected, 0);
        // The letterbox has a border of 3 of 64 rows.
        let [x, y] = found.to_source.apply([12.0, 0.0]);
        assert!((x - 75.0).abs() < 1e-9 && (y + 3.0 * 90.0 / 58.0).abs() < 1e-9, "{x} {y}");
    }
}

#[test]
fn each_box_of_the_prompts_has_a_mask() {
    let prompts = expected().prompts;
    let connected = ["images", "prompts"];
    let mut bench = open(&program("mask_prompts"), &[], &connected).unwrap();
    // In another order than their scores, with one outside of the image.
    let order = [1, 2, 0];
    let mut detections: Vec<Detection> = order
        .iter()
        .map(|index| {
            let [left, top, right, bottom] = prompts.boxes[*index];
            let bounds = Box2d::from_corners([left, top], [right, bottom]);
            let score = 0.9 - 0.1 * *index as f32;
            Detection { label: format!("object {index}").into(), score, bounds, track: None }
        })
        .collect();
    let outside = Box2d::from_corners([-20.0, 0.0], [-10.0, 10.0]);
    detections.push(Detection { bounds: outside, score: 1.0, ..detections[0].clone() });
    let detections = Detections { frame_id: String::new(), detections };
    bench.join(Segment::PROMPTS, Timestamp::ZERO, detections.clone());
    let found = mask(&mut bench, image());
    assert_eq!(found.kind, MaskKind::Instances);
    let labels: Vec<&str> = found.labels.iter().map(|label| &**label).collect();
    assert_eq!(labels, ["", "object 0", "object 1", "object 2"]);
    check(&found, &prompts, 0);
    assert_eq!(found.to_source.apply([24.0, 16.0]), [150.0, 90.0]);

    bench.join(Segment::PROMPTS, Timestamp::ZERO, Detections::default());
    let none = mask(&mut bench, image());
    assert!(none.values.data::<u8>().unwrap().iter().all(|value| *value == 0));
    assert_eq!((none.labels.len(), none.to_source), (1, found.to_source));
    let sent = bench.call(Segment::IMAGES, Timestamp::ZERO, image()).unwrap();
    assert!(sent.is_empty(), "the prompts of this image are not known");
    let error = bench.call(Segment::PROMPTS, Timestamp::ZERO, detections.clone()).unwrap_err();
    assert!(error.to_string().contains("input prompts: it must be joined"), "{error}");

    let settings = [("max", ParamValue::Int(1))];
    let mut bench = open(&program("mask_prompts"), &settings, &connected).unwrap();
    bench.join(Segment::PROMPTS, Timestamp::ZERO, detections);
    assert_eq!(mask(&mut bench, image()).labels.len(), 2);
}

#[test]
fn other_models_and_connections_are_refused() {
    let told =
        |model: &str, connected: &[&str]| open(&program(model), &[], connected).err().unwrap();
    for model in ["classes", "dense", "queries", "pose_simcc"] {
        let told = told(model, &[]);
        assert!(told.contains("not those of a segmentation model"), "{told}");
    }
    let needs = told("mask_prompts", &["images"]);
    assert!(needs.contains("it needs the input prompts, from detect"), "{needs}");
    let takes = told("mask_dense", &["images", "prompts"]);
    assert!(takes.contains("leave the input prompts unconnected"), "{takes}");
}

#[test]
fn the_package_names_classes_and_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let write = |program_name: &str, fields: &str| {
        fs::copy(program(program_name), folder.path().join("a.pte")).unwrap();
        let manifest = format!(
            "afferent_model: 1\nname: a\ntask: segmentation\nlicense: CC0-1.0\nprovenance: test\n\
             variants: [{{file: a.pte, backend: portable, precision: fp32}}]\n{fields}\n"
        );
        fs::write(folder.path().join("model.yaml"), manifest).unwrap();
        open(folder.path(), &[], &[])
    };
    let names = "contract: logits\nlabels: [sky, road, car, tree]";
    let found = mask(&mut write("mask_classes", names).unwrap(), image());
    assert_eq!(found.label(2).map(|label| &**label), Some("car"));
    let told = write("mask_classes", "contract: logits\nlabels: [sky]").err().unwrap();
    assert!(told.contains("it has 4 classes, but 1 labels"), "{told}");
    // The sigmoid of values that are no logits is close to 0.5.
    let found = mask(&mut write("mask_matte", "contract: matte_logits").unwrap(), image());
    let values = found.values.data::<u8>().unwrap();
    assert!(values.iter().all(|value| (127..=187).contains(value)), "{values:?}");
    let told = write("mask_matte", "contract: opacity").err().unwrap();
    assert!(told.contains("it must be matte or matte_logits"), "{told}");
}
