//! Contracts of the models that the nodes of this crate accept, by the tensors of a program.

use afferent_core::ScalarType;
use afferent_package::Contract;
use afferent_runtime::ModelFile;

use crate::{
    body_pose::layout::Layout as Pose,
    caption::files::Encoder,
    detect::layout::Layout as Objects,
    model_image::InputShape,
    segment::layout::{Boxes, Layout as Masks},
    vision_model::TensorType,
};

/// Type of an input or an output of `forward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Sizes, the largest ones if they are dynamic.
    pub sizes: Vec<usize>,
    /// Dimensions in the order of their strides.
    pub dim_order: Vec<u8>,
    /// Type of the elements.
    pub dtype: ScalarType,
}

/// Forms of `forward` that are recognized, for messages.
pub const ACCEPTED: &[&str] = &[
    "body_pose: image -> [1, keypoints, bins * width] and [1, keypoints, bins * height], [1, 5 + 3 * \
     keypoints, boxes], or [1, boxes, 6 + 3 * keypoints]",
    "caption: vision_encoder(image) -> [1, rows, width], token_embedding(i64[1, n]) -> [1, n, width], and \
     text_decoder([1, n, width], i64 positions)",
    "classify: image -> [1, classes]",
    "depth: image -> [1, height, width] or [1, 1, height, width]",
    "detect: image -> [1, 4 + classes, boxes], [1, boxes, 6], [boxes, 4] with [boxes] and [boxes], or [1, \
     queries, classes] with [1, queries, 4]",
    "embed_image: image -> [1, dimensions] or [1, vectors, dimensions]",
    "hand_detect: image -> [1, anchors, 18] and [1, anchors, 1]",
    "hand_track: image -> two of [1, 63] (landmarks, in meters) and two of [1, 1] (presence, handedness)",
    "ocr: image -> [1, 1, height, width] (text), and line -> [1, steps, characters + 1]; methods forward_SIZE: \
     image -> text and link of each second row and column, and forward_WIDTH: [1, 1, height, WIDTH] -> [1, \
     steps, characters + 1]",
    "segment: image -> [1, classes, height, width], [1, height, width], [1, 4 + classes + prototypes, \
     boxes] or [1, boxes, 6 + prototypes] with [1, prototypes, height, width], or EfficientSAM",
];

const fn contract(
    node: &'static str,
    task: &'static str,
    contract: &'static str,
    has_labels: bool,
) -> Contract {
    Contract { node, task, contract, has_labels }
}

/// Contracts that a program with this `forward` may have; several if its shapes are ambiguous. The model
/// has `labels` names of classes, 0 if they are not known.
pub fn recognize(inputs: &[TensorSpec], outputs: &[TensorSpec], labels: usize) -> Vec<Contract> {
    let Some((image, more)) = inputs.split_first() else { return Vec::new() };
    let Ok(shape) = InputShape::of(&image.sizes, &image.dim_order, image.dtype) else {
        return Vec::new();
    };
    let types = |specs: &[TensorSpec]| -> Vec<TensorType> {
        let of = |spec: &TensorSpec| TensorType { sizes: spec.sizes.clone(), dtype: spec.dtype };
        specs.iter().map(of).collect()
    };
    let sizes: Vec<Vec<usize>> = outputs.iter().map(|output| output.sizes.clone()).collect();
    let masks = Masks::find(&shape, &types(more), &types(outputs)).ok();
    let mut found = Vec::new();
    // A map could be rows of a detector, whose ratio is another one.
    let is_map = matches!(masks, Some(Masks::Matte { .. }));
    if more.is_empty() && !is_map {
        found.extend(Pose::find(&sizes, &shape).ok().map(|(layout, _)| pose(layout)));
        found.extend(Objects::find(&sizes, labels).ok().map(objects));
        found.extend(hands(&sizes));
    }
    match masks {
        // Depth has the shape of an opacity.
        Some(Masks::Matte { .. }) => found.extend([
            contract("depth", "depth", "inverse_depth", false),
            contract("depth", "depth", "metric_depth", false),
            contract("ocr", "text_detection", "db_probability", false),
            contract("segment", "segmentation", "matte", false),
            contract("segment", "segmentation", "matte_logits", false),
        ]),
        Some(masks) => found.push(segmentation(masks)),
        None => {}
    }
    let is_float = outputs.iter().all(|output| output.dtype == ScalarType::Float);
    match sizes.as_slice() {
        [one] if more.is_empty() && is_float => match *one.as_slice() {
            [1, classes] if classes > 0 && (labels == 0 || labels == classes) => {
                found.push(contract("classify", "classification", "classes", true));
                if labels == 0 {
                    found.push(contract("embed_image", "image_embedding", "embedding", false));
                }
            }
            // The blank has no name, and the last character, a space, may lack one.
            [1, _, characters]
                if labels > 0 && matches!(characters.checked_sub(labels), Some(1 | 2)) =>
            {
                found.push(contract("ocr", "text_recognition", "ctc_characters", true));
            }
            [1, vectors, dimensions] if found.is_empty() && vectors > 0 && dimensions > 0 => {
                found.push(contract("embed_image", "image_embedding", "embedding", false));
                if labels == 0 {
                    found.push(contract("ocr", "text_recognition", "ctc_characters", true));
                }
            }
            _ => {}
        },
        _ => {}
    }
    found
}

/// Contract of a program of a vision-language model, by its methods.
pub fn recognize_methods(file: &ModelFile) -> Option<Contract> {
    let is_found = Encoder::read(file, usize::MAX).is_ok_and(|encoder| encoder.fits(file));
    is_found.then_some(contract("caption", "image_text", "vlm", false))
}

/// Inputs and outputs of a method.
pub type MethodSpec = (Vec<TensorSpec>, Vec<TensorSpec>);

/// Contracts that a program with these methods `forward_N` may have.
pub fn recognize_sized(methods: &[MethodSpec]) -> Vec<Contract> {
    let mut forms = methods.iter().map(|(inputs, outputs)| {
        let [image] = inputs.as_slice() else { return None };
        let shape = InputShape::of(&image.sizes, &image.dim_order, image.dtype).ok()?;
        let sizes: Vec<Vec<usize>> = outputs.iter().map(|output| output.sizes.clone()).collect();
        let is_line = matches!(sizes.as_slice(), [one] if matches!(**one, [1, _, characters] if characters > 1));
        match shape.channels {
            3 if is_craft([shape.width, shape.height], &sizes) => {
                Some(contract("ocr", "text_detection", "craft-rne@0.9", false))
            }
            1 if is_line => Some(contract("ocr", "text_recognition", "crnn-rne@0.9", false)),
            _ => None,
        }
    });
    let Some(Some(first)) = forms.next() else { return Vec::new() };
    if forms.all(|form| form == Some(first)) { vec![first] } else { Vec::new() }
}

/// True if the only output has values of text and link for each second column and row of an image of `width`
/// and `height`.
pub(crate) fn is_craft([width, height]: [usize; 2], outputs: &[Vec<usize>]) -> bool {
    let needed = (width / 2) * (height / 2) * 2;
    matches!(outputs, [one] if one.iter().product::<usize>() == needed && needed > 0)
}

/// Contracts of palm detectors and of landmarks of a hand.
fn hands(outputs: &[Vec<usize>]) -> Vec<Contract> {
    let count = |sizes: &[usize]| outputs.iter().filter(|output| *output == sizes).count();
    match outputs {
        [one, other] => {
            let is_palm = |values: &[usize], score: &[usize]| matches!((values, score), ([1, n, 18], [1, same, 1]) if n == same);
            let is_found = is_palm(one, other) || is_palm(other, one);
            let palm = contract("hand_detect", "palm_detection", "mediapipe_palm", false);
            is_found.then_some(palm).into_iter().collect()
        }
        [_, _, _, _] if count(&[1, 63]) == 2 && count(&[1, 1]) == 2 => vec![
            contract("hand_track", "hand_landmarks", "mediapipe_hand", false),
            contract("hand_track", "hand_landmarks", "hand_landmarks", false),
        ],
        _ => Vec::new(),
    }
}

fn pose(layout: Pose) -> Contract {
    let name = match layout {
        Pose::SimCc { .. } => "simcc",
        Pose::Dense { .. } => "ultralytics",
        Pose::Selected { .. } => "end_to_end",
    };
    contract("body_pose", "body_pose", name, false)
}

fn objects(layout: Objects) -> Contract {
    let name = match layout {
        Objects::Dense { .. } => "ultralytics",
        Objects::Selected { .. } => "end_to_end",
        Objects::Split { .. } => "boxes_scores_classes",
        Objects::Queries { .. } => "detr",
    };
    contract("detect", "detection", name, true)
}

fn segmentation(layout: Masks) -> Contract {
    let (name, has_labels) = match layout {
        Masks::Classes { .. } => ("logits", true),
        Masks::Indices { .. } => ("indices", true),
        Masks::Matte { .. } => ("matte", false),
        Masks::Instances { boxes: Boxes::Dense { .. }, .. } => ("ultralytics", true),
        Masks::Instances { boxes: Boxes::Selected, .. } => ("end_to_end", true),
        Masks::Prompted { .. } => ("efficientsam", false),
    };
    contract("segment", "segmentation", name, has_labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(sizes: &[&[usize]]) -> Vec<TensorSpec> {
        let tensor = |sizes: &&[usize]| TensorSpec {
            sizes: sizes.to_vec(),
            dim_order: (0..sizes.len() as u8).collect(),
            dtype: ScalarType::Float,
        };
        sizes.iter().map(tensor).collect()
    }

    #[test]
    fn models_that_see_are_recognized_by_their_methods() {
        let found = |file: &str| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            recognize_methods(&ModelFile::open(format!("{root}/{file}"), &[]).unwrap())
        };
        for form in ["executorch", "optimum", "rne"] {
            let found = found(&format!("nodes/vision/tests/data/vlm/{form}/model.pte"));
            let found = found.map(|one| (one.node, one.task, one.contract));
            assert_eq!(found, Some(("caption", "image_text", "vlm")), "{form}");
        }
        let text = "runtime/text/tests/data";
        for program in ["embeddings_each", "embeddings_first", "embeddings_layers"] {
            assert!(found(&format!("{text}/{program}.pte")).is_some(), "{program}");
        }
        for other in ["contract_positions", "methods_pair", "cache_ring"] {
            assert_eq!(found(&format!("{text}/{other}.pte")), None, "{other}");
        }
        assert_eq!(found("nodes/vision/tests/data/dense.pte"), None);
        assert_eq!(found("nodes/speech/tests/data/voxtral/model.pte"), None);
    }

    #[test]
    fn contracts_follow_from_the_shapes() {
        let check = |outputs: &[&[usize]], labels: usize, expected: &[(&str, &str)]| {
            let found = recognize(&tensors(&[&[1, 3, 480, 640]]), &tensors(outputs), labels);
            let found: Vec<_> = found.iter().map(|one| (one.task, one.contract)).collect();
            assert_eq!(found, expected, "{outputs:?}");
        };
        check(&[&[1, 84, 8400]], 0, &[("detection", "ultralytics")]);
        check(&[&[1, 56, 8400]], 1, &[("body_pose", "ultralytics")]);
        let both = [("body_pose", "ultralytics"), ("detection", "ultralytics")];
        check(&[&[1, 56, 8400]], 0, &both);
        check(&[&[100, 4], &[100], &[100]], 0, &[("detection", "boxes_scores_classes")]);
        check(&[&[1, 116, 8400], &[1, 32, 120, 160]], 80, &[("segmentation", "ultralytics")]);
        check(&[&[1, 21, 480, 640]], 0, &[("segmentation", "logits")]);
        check(&[&[1, 1000]], 1000, &[("classification", "classes")]);
        let vector = [("classification", "classes"), ("image_embedding", "embedding")];
        check(&[&[1, 512]], 0, &vector);
        let line = ("text_recognition", "ctc_characters");
        check(&[&[1, 50, 40]], 0, &[("image_embedding", "embedding"), line]);
        check(&[&[1, 40, 97]], 96, &[line]);
        check(&[&[1, 40, 97]], 95, &[line]);
        let depth = ["inverse_depth", "metric_depth"].map(|contract| ("depth", contract));
        let matte = ["matte", "matte_logits"].map(|contract| ("segmentation", contract));
        let text = [("text_detection", "db_probability")];
        check(&[&[1, 480, 640]], 0, &[&depth[..], &text, &matte].concat());
        check(&[&[1, 2016, 18], &[1, 2016, 1]], 0, &[("palm_detection", "mediapipe_palm")]);
        let hands = ["mediapipe_hand", "hand_landmarks"].map(|name| ("hand_landmarks", name));
        check(&[&[1, 63], &[1, 1], &[1, 1], &[1, 63]], 0, &hands);
        check(&[&[1, 2, 3, 4, 5]], 0, &[]);
        assert_eq!(recognize(&tensors(&[&[1, 576]]), &tensors(&[&[1, 1]]), 0), []);
        assert_eq!(recognize(&[], &tensors(&[&[1, 1000]]), 0), []);
    }
}
