//! Model that finds the lines of text in an image.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{Affine, Image};
use afferent_package::{Color, ImageInput, Pad, Resize};

use super::regions::{Quad, RegionSettings, find_regions};
use crate::vision_model::{VisionModel, all_values};

/// A text detector.
pub(crate) struct TextDetector {
    model: VisionModel,
    /// Width and height of the output.
    size: [usize; 2],
}

impl TextDetector {
    /// Loads the package or program at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open(path: &Path, cx: &OpenCx) -> Result<Self, NodeError> {
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
        Ok(Self { model, size })
    }

    /// Boxes of lines in `image`, in its pixels.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn find(
        &mut self,
        image: &Image,
        settings: &RegionSettings,
    ) -> Result<Vec<Quad>, NodeError> {
        let [width, height] = self.size;
        self.model.run(image, |input, outputs| {
            let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
            let shape = input.shape();
            let scale = [shape.width as f64 / width as f64, shape.height as f64 / height as f64];
            let to_image = input.to_image().after(&Affine::scale_and_shift(scale, [0.0; 2]));
            let mut regions = find_regions(all_values(&tensor, width * height)?, width, settings);
            for corner in regions.iter_mut().flat_map(|region| &mut region.corners) {
                *corner = to_image.apply(*corner);
            }
            Ok(regions)
        })
    }
}
