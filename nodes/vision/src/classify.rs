//! Classification of images.

use std::{path::PathBuf, sync::Arc};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{
    Image,
    vision::{Class, Classes},
};
use afferent_package::{ImageInput, Resampling, Resize};

use crate::vision_model::{VisionModel, are_probabilities, values};

params! {
    /// Settings of [`Classify`].
    pub struct ClassifyParams {
        /// Path of the model package or program.
        pub model: PathBuf;
        /// Number of classes that are reported, the most probable ones.
        pub top: usize = "5", range 1.0..=10000.0;
        /// Score below which a class is not reported.
        pub score: f32 = "0", range 0.0..=1.0;
    }
}

/// Tells the classes of images with a model.
///
/// Contract of the model: `forward(image) -> f32[1, classes]`. Rows that are no probabilities, with
/// values outside of 0 to 1 or another sum than 1, go through a softmax. Unless `model.yaml` says
/// otherwise, the middle of the image is taken with 0.875 of its shorter side, resized with
/// antialiasing, and normalized with mean and deviation of ImageNet, as torchvision and timm do.
///
/// The model is a package with the task `classification`, or a program. Without labels, classes have
/// their numbers as names.
///
/// Latency: a run of the model.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, vision::Classes};
/// use afferent_nodes_vision::{Classify, ClassifyParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/classes.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = ClassifyParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(Classify::open(params, &cx)?);
/// let image = Image::new(PixelFormat::Rgb8, 64, 64, 192, &[128; 64 * 64 * 3])?;
/// let sent = bench.call(Classify::IMAGES, Timestamp::ZERO, image)?;
/// assert_eq!(sent[0].1.get::<Classes>().unwrap().classes.len(), 5);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Classify {
    params: ClassifyParams,
    model: VisionModel,
    labels: Vec<Arc<str>>,
}

ports! {
    impl Classify {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Classes of each image, the most probable first.
        out CLASSES: Classes, in_step;
    }
}

/// Preparation of torchvision and timm.
pub(crate) fn imagenet() -> ImageInput {
    ImageInput {
        resize: Some(Resize::Crop),
        crop_fraction: Some(0.875),
        mean: Some([0.485, 0.456, 0.406]),
        std: Some([0.229, 0.224, 0.225]),
        resampling: Some(Resampling::AntialiasBilinear),
        ..ImageInput::default()
    }
}

/// Makes probabilities of a row, unless it has some.
fn to_probabilities(row: &mut [f32]) {
    if are_probabilities(row) {
        return;
    }
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|value| *value = (*value - most).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|value| *value /= sum);
}

impl Node for Classify {
    type Params = ClassifyParams;

    const NAME: &'static str = "classify";
    const SUMMARY: &'static str = "Tells the classes of images with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the model";

    fn open(params: ClassifyParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let model = VisionModel::open(&params.model, "classification", cx, |_| imagenet())?;
        let classes = match model.outputs() {
            [sizes] => match sizes.as_slice() {
                [1, classes] if *classes > 0 => *classes,
                other => {
                    let reason = format!("its output {other:?} is not [1, classes]");
                    return Err(model.error(reason));
                }
            },
            others => {
                let reason =
                    format!("forward has {} outputs; it must have one, [1, classes]", others.len());
                return Err(model.error(reason));
            }
        };
        let labels: Vec<Arc<str>> = match model.labels() {
            [] => (0..classes).map(|class| class.to_string().into()).collect(),
            labels if labels.len() == classes => {
                labels.iter().map(|one| one.as_str().into()).collect()
            }
            labels => {
                let reason =
                    format!("it has {classes} classes, but {} labels are given", labels.len());
                return Err(model.error(reason));
            }
        };
        Ok(Self { params, model, labels })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let model = &mut self.model;
        let mut scores = cx.time_model(|| {
            model.run(image, |_, outputs| {
                let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
                Ok(values(&tensor)?.to_vec())
            })
        })?;
        to_probabilities(&mut scores);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // Stable: of equal scores, the first class comes first.
        order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        let best = order.into_iter().take(self.params.top);
        let best = best.filter(|class| scores[*class] >= self.params.score);
        let class =
            |class: usize| Class { label: self.labels[class].clone(), score: scores[class] };
        let classes = best.map(class).collect();
        cx.send(Self::CLASSES, Classes { frame_id: image.frame_id.clone(), classes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_probabilities_and_probabilities_stay() {
        let mut row = [1.0_f32, 3.0, -2.0];
        to_probabilities(&mut row);
        let sum: f32 = [1.0_f32, 3.0, -2.0].iter().map(|value| value.exp()).sum();
        assert!((row[1] - 3.0_f32.exp() / sum).abs() < 1e-6);
        let mut row = [0.25, 0.7, 0.05];
        to_probabilities(&mut row);
        assert_eq!(row, [0.25, 0.7, 0.05]);
        let mut large = [1e30, 0.0];
        to_probabilities(&mut large);
        assert_eq!(large, [1.0, 0.0]);
    }
}
