//! Model that finds the lines of text in an image.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{Affine, Image};
use afferent_package::{Color, ImageInput, Pad, Resize};

use super::{
    craft::{CraftSettings, find_lines},
    regions::{Quad, RegionSettings, find_regions},
};
use crate::{
    contracts::is_craft,
    vision_model::{VisionModel, all_values},
};

/// Method of CRAFT that is taken if there is one, by its size.
const CRAFT_SIZE: usize = 800;

/// Settings of a detector that the graph gives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DetectorSettings {
    /// Value above which a pixel is text.
    pub(crate) threshold: Option<f32>,
    /// Least score of a line.
    pub(crate) score: Option<f32>,
    /// Growth of boxes, for DBNet.
    pub(crate) unclip: Option<f64>,
}

/// A text detector.
pub(crate) struct TextDetector {
    model: VisionModel,
    /// Width and height of the output.
    size: [usize; 2],
    form: Form,
}

/// Form of the output.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Probabilities of text.
    Probability(RegionSettings),
    /// Values of text and link of each pixel.
    Craft(CraftSettings),
}

impl TextDetector {
    /// Loads the package or program at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`]; [`NodeError::InvalidParam`] for a setting that the form of the model does not
    /// have.
    pub(crate) fn open(
        path: &Path,
        settings: &DetectorSettings,
        cx: &OpenCx,
    ) -> Result<Self, NodeError> {
        let sizes = VisionModel::method_sizes(path, cx)?;
        let medium = sizes.iter().copied().find(|size| *size == CRAFT_SIZE);
        match medium.or(sizes.last().copied()) {
            Some(size) => Self::open_craft(path, size, settings, cx),
            None => Self::open_probability(path, settings, cx),
        }
    }

    fn open_probability(
        path: &Path,
        settings: &DetectorSettings,
        cx: &OpenCx,
    ) -> Result<Self, NodeError> {
        let defaults = |_: &[Vec<usize>]| ImageInput {
            resize: Some(Resize::Letterbox),
            pad: Some(Pad::Value(0.0)),
            color: Some(Color::Bgr),
            mean: Some([0.5; 3]),
            std: Some([0.5; 3]),
            ..ImageInput::default()
        };
        let model = VisionModel::open(path, "text_detection", cx, defaults)?;
        let size = match model.outputs() {
            [sizes] => match *sizes.as_slice() {
                [1, 1, height, width] | [1, height, width] if height > 0 && width > 0 => {
                    Some([width, height])
                }
                _ => None,
            },
            _ => None,
        };
        let size = size.ok_or_else(|| {
            let found = model.outputs();
            model.error(format!(
                "its outputs {found:?} are not those of a text detector: [1, 1, height, width], \
                 the probability of text"
            ))
        })?;
        let form = Form::Probability(RegionSettings {
            threshold: settings.threshold.unwrap_or(0.3),
            score: settings.score.unwrap_or(0.5),
            unclip: settings.unclip.unwrap_or(1.6),
        });
        Ok(Self { model, size, form })
    }

    /// Opens the method `forward_SIZE` of CRAFT.
    fn open_craft(
        path: &Path,
        size: usize,
        settings: &DetectorSettings,
        cx: &OpenCx,
    ) -> Result<Self, NodeError> {
        if settings.unclip.is_some() {
            let reason = "requires a detector with one map of probabilities; this one is CRAFT";
            let (name, reason) = ("unclip".into(), reason.to_owned());
            return Err(NodeError::InvalidParam { name, reason });
        }
        // The source applies the mean of red to blue, and that of blue to red.
        let defaults = |_: &[Vec<usize>]| ImageInput {
            resize: Some(Resize::Letterbox),
            color: Some(Color::Bgr),
            mean: Some([0.485, 0.456, 0.406]),
            std: Some([0.229, 0.224, 0.225]),
            ..ImageInput::default()
        };
        let method = format!("forward_{size}");
        let model = VisionModel::open_method(path, &method, "text_detection", cx, defaults)?;
        let shape = *model.image().shape();
        if !is_craft([shape.width, shape.height], model.outputs()) {
            let found = model.outputs();
            return Err(model.error(format!(
                "the outputs {found:?} of {method} are not those of CRAFT: values of text and link for each \
                 second column and row of {} x {} pixels",
                shape.width, shape.height
            )));
        }
        let form = Form::Craft(CraftSettings {
            text: settings.threshold.unwrap_or(0.4),
            link: 0.4,
            peak: settings.score.unwrap_or(0.7),
        });
        Ok(Self { model, size: [shape.width / 2, shape.height / 2], form })
    }

    /// Boxes of lines in `image`, in its pixels.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn find(&mut self, image: &Image) -> Result<Vec<Quad>, NodeError> {
        let ([width, height], form) = (self.size, self.form);
        self.model.run(image, |input, outputs| {
            let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
            let shape = input.shape();
            let scale = [shape.width as f64 / width as f64, shape.height as f64 / height as f64];
            let to_image = input.to_image().after(&Affine::scale_and_shift(scale, [0.0; 2]));
            let mut regions = match form {
                Form::Probability(settings) => {
                    find_regions(all_values(&tensor, width * height)?, width, &settings)
                }
                Form::Craft(settings) => {
                    find_lines(all_values(&tensor, width * height * 2)?, width, &settings)
                }
            };
            for corner in regions.iter_mut().flat_map(|region| &mut region.corners) {
                *corner = to_image.apply(*corner);
            }
            Ok(regions)
        })
    }
}
