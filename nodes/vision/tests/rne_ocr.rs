//! The node `ocr` with programs in the form of react-native-executorch up to 0.9, against its post-processing in
//! Python; see `tools/stand_ins`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{Image, PixelFormat, vision::TextRegions};
use afferent_nodes_vision::{Ocr, OcrParams};
use afferent_runtime::ModelOptions;
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rne_ocr")).join(name)
}

fn open(more: &[(&str, ParamValue)]) -> Result<NodeBench<Ocr>, String> {
    let mut values: ParamValues = [
        ("detector".to_owned(), ParamValue::Path(data("detector.pte"))),
        ("recognizer".to_owned(), ParamValue::Path(data("recognizer.pte"))),
        ("max_rate".to_owned(), ParamValue::Float(1000.0)),
    ]
    .into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let models = ModelOptions::new(afferent_kernels::KERNELS);
    let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
    let opened = Ocr::open(OcrParams::from_values(&values).unwrap(), &cx);
    opened.map(NodeBench::new).map_err(|error| error.to_string())
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Image of rectangles `[x, y, width, height, color]`.
fn draw(case: &Value) -> Image {
    let (width, height) = (number(&case["size"][0]), number(&case["size"][1]));
    let mut bytes = vec![0; width * height * 3];
    for rectangle in case["rectangles"].as_array().unwrap() {
        let [x, y, w, h] = [0, 1, 2, 3].map(|index| number(&rectangle[index]));
        let color = [0, 1, 2].map(|index| u8::try_from(number(&rectangle[4][index])).unwrap());
        for row in y..y + h {
            let pixels = &mut bytes[(row * width + x) * 3..(row * width + x + w) * 3];
            pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&color));
        }
    }
    Image::new(PixelFormat::Rgb8, width, height, width * 3, &bytes).unwrap()
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(data("cases.json")).unwrap()).unwrap()
}

fn read(bench: &mut NodeBench<Ocr>, image: Image, at: i64) -> TextRegions {
    let sent = bench.call(Ocr::IMAGES, Timestamp(at * 1_000_000_000), image).unwrap();
    sent[0].1.get::<TextRegions>().unwrap().clone()
}

#[test]
fn lines_and_boxes_are_those_of_the_source() {
    let mut bench = open(&[]).unwrap();
    let mut count = 0;
    for (case, at) in cases().iter().zip(0..) {
        let found = read(&mut bench, draw(case), at);
        let lines: Vec<&str> = found.regions.iter().map(|region| &*region.text).collect();
        let expected: Vec<&str> =
            case["lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(lines, expected, "{found:?}");
        for (region, expected) in found.regions.iter().zip(case["boxes"].as_array().unwrap()) {
            let [left, top, right, bottom] =
                [0, 1, 2, 3].map(|index| expected[index].as_f64().unwrap() as f32);
            // The source has the last pixel of the map as the edge: ours is one further.
            let one = number(&case["size"][0]).max(number(&case["size"][1])) as f32 / 400.0;
            let wanted = [
                [left, top],
                [right + one, top],
                [right + one, bottom + one],
                [left, bottom + one],
            ];
            for (corner, wanted) in region.corners.iter().zip(wanted) {
                let far = (corner[0] - wanted[0]).abs().max((corner[1] - wanted[1]).abs());
                assert!(far < one / 2.0, "{region:?}: {expected}");
            }
            assert!(region.score > 0.7 && region.confidence > 0.3, "{region:?}");
            count += 1;
        }
    }
    assert!(count > 7, "{count} lines");
}

#[test]
fn rotated_lines_are_read() {
    let case = &cases()[0];
    let upright = draw(case);
    // A quarter of a turn clockwise: rows become columns.
    let (width, height) = (upright.width(), upright.height());
    let pixel = |index: usize| {
        let (x, y) = (index % height, index / height);
        let from = ((height - 1 - x) * width + y) * 3;
        [0, 1, 2].map(|channel| upright.bytes()[from + channel])
    };
    let bytes: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    let turned = Image::new(PixelFormat::Rgb8, height, width, height * 3, &bytes).unwrap();
    let found = read(&mut open(&[]).unwrap(), turned, 0);
    let mut lines: Vec<&str> = found.regions.iter().map(|region| &*region.text).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["cab", "facebead", "hag"]);
}

#[test]
fn settings_of_other_detectors_are_refused() {
    let error = open(&[("unclip", ParamValue::Float(1.5))]).err().unwrap();
    let expected =
        "parameter unclip: requires a detector with one map of probabilities; this one is CRAFT";
    assert_eq!(error, expected);
    let error = open(&[("recognizer", ParamValue::Path(data("detector.pte")))]).err().unwrap();
    assert!(error.contains("are not those of a text recognizer"), "{error}");
    let error = open(&[("detector", ParamValue::Path(data("recognizer.pte")))]).err().unwrap();
    assert!(error.contains("image.color has 3 channels, but the program takes 1"), "{error}");
}
