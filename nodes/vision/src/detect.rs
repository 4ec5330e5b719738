//! Object detection.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Image,
    vision::{Detection, Detections},
};

use crate::{
    boxes::{Suppression, suppress},
    vision_model::{ModelVariant, VisionModel},
};

pub(crate) mod layout;

use layout::Layout;

params! {
    /// Settings of [`Detect`].
    pub struct DetectParams {
        /// Path of the model package, program, or folder of an Ultralytics export.
        pub model: PathBuf;
        /// Backend of the variant of the package, such as `VulkanBackend`. Empty: the first that is
        /// available, or the fastest if `afferent model bench` has measured it.
        pub backend: String = "";
        /// Score above which an object is reported.
        pub score: f32 = "0.25", range 0.0..=1.0;
        /// Overlap (intersection over union) above which two boxes are the same object.
        pub iou: f32 = "0.7", range 0.0..=1.0;
        /// Largest number of objects in an image.
        pub max: usize = "100", range 1.0..=30000.0;
        /// Names of the classes that are reported, with commas between them; `all` for every class.
        pub classes: String = "all";
        /// True if boxes of different classes may be the same object.
        pub agnostic: bool = "false";
    }
}

/// Finds objects in images with a model.
///
/// The image is resized as the model expects it, and boxes are in pixels of the source image, clipped
/// to the part of it that the image shows. The layout of the outputs is recognized by their shapes:
///
/// | outputs of `forward` | models | image, unless `model.yaml` says it |
/// |---|---|---|
/// | `[1, 4 + classes, boxes]`: center, size, scores | Ultralytics YOLOv8 to YOLO12 | letterbox, 0 to 1 |
/// | `[1, boxes, 6]`: corners, score, class | YOLOv10, YOLO26 | letterbox, 0 to 1 |
/// | `[boxes, 4]`, `[boxes]`, `[boxes]`: corners, scores, classes | react-native-executorch | stretched, 0 to 1 |
/// | `[1, queries, classes + 1]`, `[1, queries, 4]` | DETR, YOLOS | stretched, mean and deviation of ImageNet |
/// | `[1, queries, classes]`, `[1, queries, 4]`, with labels | RT-DETR | stretched, 0 to 1 |
///
/// The model is a package with the task `detection`, a program, or the folder that Ultralytics exports
/// with `format=executorch`. Overlapping boxes are merged where the model leaves them (non-maximum
/// suppression); results of a replay are the same, also for equal scores.
///
/// An image on the GPU ([`GpuImage`](crate::GpuImage)) is prepared there, and a model for the GPU reads
/// it there; only the outputs come back.
///
/// Latency: a run of the model.
///
/// ```
/// use afferent_graph::{Node, OpenCx, ParamValue, Params};
/// use afferent_nodes_vision::{Detect, DetectParams};
///
/// // A voice activity detector.
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = DetectParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let error = Detect::open(params, &cx).err().unwrap().to_string();
/// assert!(error.contains("detection"), "{error}");
/// ```
pub struct Detect {
    params: DetectParams,
    model: VisionModel,
    layout: Layout,
    labels: Vec<Arc<str>>,
    /// Indices of the classes that are reported; `None` for all.
    classes: Option<BTreeSet<usize>>,
}

ports! {
    impl Detect {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Objects of each image, the most probable first.
        out DETECTIONS: Detections, in_step;
    }
}

/// Indices of the classes that `names` lists.
fn classes_of(names: &str, labels: &[String]) -> Result<Option<BTreeSet<usize>>, NodeError> {
    if names.trim() == "all" {
        return Ok(None);
    }
    let index = |name: &str| {
        let name = name.trim();
        let by_name = labels.iter().position(|label| label == name);
        by_name.or_else(|| name.parse().ok().filter(|_| labels.is_empty())).ok_or_else(|| {
            let known = match labels {
                [] => "the model has no names; use the numbers of the classes".to_owned(),
                labels => {
                    let first: Vec<&str> = labels.iter().take(20).map(String::as_str).collect();
                    let more = if labels.len() > first.len() { ", ..." } else { "" };
                    format!("known are {}{more}", first.join(", "))
                }
            };
            let reason = format!("there is no class {name:?}; {known}");
            NodeError::InvalidParam { name: "classes".into(), reason }
        })
    };
    names.split(',').map(index).collect::<Result<_, _>>().map(Some)
}

impl Detect {
    fn label(&mut self, class: usize) -> Arc<str> {
        // A model without names has those of the numbers.
        while self.labels.len() <= class.min(1 << 16) {
            self.labels.push(self.labels.len().to_string().into());
        }
        self.labels.get(class).cloned().unwrap_or_else(|| class.to_string().into())
    }
}

impl Node for Detect {
    type Params = DetectParams;

    const NAME: &'static str = "detect";
    const SUMMARY: &'static str = "Finds objects in images with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model";

    fn open(params: DetectParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let default = |outputs: &[Vec<usize>]| {
            Layout::find(outputs, 0).map(|layout| layout.image()).unwrap_or_default()
        };
        let variant = ModelVariant { path: &params.model, backend: &params.backend };
        let model = VisionModel::open_variant(variant, "detection", cx, default)?;
        let layout = Layout::find(model.outputs(), model.labels().len());
        let layout = layout.map_err(|reason| model.error(reason))?;
        let classes = classes_of(&params.classes, model.labels())?;
        let labels = model.labels().iter().map(|label| label.as_str().into()).collect();
        Ok(Self { params, model, layout, labels, classes })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder of the image: it is not copied.
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let (layout, params) = (self.layout, &self.params);
        let (model, classes) = (&mut self.model, &self.classes);
        let found = cx.time_model(|| {
            model.run(image, |input, outputs| {
                let mut found = layout.read(outputs, input.shape(), params.score)?;
                if let Some(classes) = classes {
                    found.retain(|candidate| classes.contains(&candidate.class));
                }
                let settings = Suppression {
                    // Without overlaps, this only sorts.
                    overlap: if layout.overlaps() { params.iou } else { f32::INFINITY },
                    is_agnostic: params.agnostic,
                    most: params.max,
                };
                suppress(&mut found, &settings);
                Ok(found)
            })
        })?;
        let mut detections = Vec::with_capacity(found.len());
        for candidate in found {
            if let Some(bounds) = self.model.image().box_in_source(candidate.edges) {
                let (label, score) = (self.label(candidate.class), candidate.score);
                detections.push(Detection { label, score, bounds, track: None });
            }
        }
        let frame_id = image.frame_id.clone();
        cx.send(Self::DETECTIONS, Detections { frame_id, detections });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_chosen_by_name() {
        let labels = ["cat", "dog", "cow"].map(str::to_owned);
        let find = |names: &str| classes_of(names, &labels);
        assert_eq!(find("all").unwrap(), None);
        assert_eq!(find("dog, cow").unwrap(), Some([1, 2].into()));
        let error = find("horse").unwrap_err().to_string();
        assert!(error.contains("\"horse\"") && error.contains("cat, dog, cow"), "{error}");
        assert_eq!(classes_of("3,5", &[]).unwrap(), Some([3, 5].into()));
        assert!(classes_of("cat", &[]).is_err());
    }
}
