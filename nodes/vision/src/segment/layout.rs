//! Outputs of segmentation models, by their shapes.

use afferent_core::ScalarType;
use afferent_package::{ImageInput, Resampling, Resize};

use crate::{classify::imagenet, model_image::InputShape, vision_model::TensorType};

/// Layout of a segmentation model. Sizes are width and height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Logits `[1, classes, height, width]` (torchvision), perhaps followed by auxiliary ones.
    Classes { classes: usize, size: [usize; 2] },
    /// Indices of classes `[1, height, width]` of an integer type.
    Indices { size: [usize; 2] },
    /// Opacity of the foreground `[1, height, width]` or `[1, 1, height, width]`.
    Matte { size: [usize; 2] },
    /// Boxes with coefficients, and prototypes `[1, prototypes, height, width]` of their masks
    /// (Ultralytics).
    Instances { boxes: Boxes, prototypes: usize, size: [usize; 2] },
    /// Logits of masks `[1, queries, masks, height, width]` and their quality `[1, queries, masks]`,
    /// for prompts (EfficientSAM).
    Prompted { queries: usize, points: usize, masks: usize, size: [usize; 2] },
}

/// Layout of the boxes of [`Layout::Instances`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boxes {
    /// `[1, 4 + classes + prototypes, boxes]`: center, size, scores, coefficients. They overlap.
    Dense { classes: usize, boxes: usize },
    /// `[1, boxes, 6 + prototypes]`: corners, score, class, coefficients (end-to-end models).
    Selected,
}

/// Layouts, for messages.
const ACCEPTED: &str = "logits [1, classes, height, width], indices [1, height, width] of integers, an \
                        opacity [1, height, width] or [1, 1, height, width] of f32 with the \
                        aspect ratio of the input, [1, 4 + classes + \
                        prototypes, boxes] or [1, boxes, 6 + prototypes] with [1, prototypes, height, \
                        width] (Ultralytics), or [1, queries, masks, height, width] with [1, queries, \
                        masks] for the inputs points [1, queries, points, 2] and labels [1, queries, \
                        points] (EfficientSAM)";

/// Most classes of a mask of 8 bits.
const MAX_CLASSES: usize = 256;

impl Layout {
    /// The layout of a model with an image of `shape`, these inputs after it, and these outputs.
    ///
    /// # Errors
    /// The sizes, and the layouts that are accepted.
    pub(crate) fn find(
        shape: &InputShape,
        more: &[TensorType],
        outputs: &[TensorType],
    ) -> Result<Self, String> {
        let sizes: Vec<&[usize]> = outputs.iter().map(|output| output.sizes.as_slice()).collect();
        let is_integer =
            |dtype| matches!(dtype, ScalarType::Byte | ScalarType::Int | ScalarType::Long);
        let found = match (more, sizes.as_slice()) {
            ([], [[1, classes, height, width], rest @ ..]) if *classes > 1 => {
                // Auxiliary logits of torchvision have the same sizes.
                let are_same = rest.iter().all(|other| *other == sizes[0]) && rest.len() < 2;
                let layout = Self::Classes { classes: *classes, size: [*width, *height] };
                are_same.then_some(layout)
            }
            ([], [[1, height, width] | [1, 1, height, width]])
                if is_map([*width, *height], shape) =>
            {
                let size = [*width, *height];
                Some(match is_integer(outputs[0].dtype) {
                    true => Self::Indices { size },
                    false => Self::Matte { size },
                })
            }
            ([], [[1, rows, boxes], [1, prototypes, height, width]]) => {
                let size = [*width, *height];
                let dense = rows.checked_sub(4 + prototypes).filter(|classes| *classes > 0);
                let dense = dense.map(|classes| Boxes::Dense { classes, boxes: *boxes });
                // A dense model has more boxes than rows.
                let dense = dense.filter(|_| boxes > rows);
                let selected = (*boxes == 6 + prototypes).then_some(Boxes::Selected);
                let boxes = dense.or(selected);
                boxes.map(|boxes| Self::Instances { boxes, prototypes: *prototypes, size })
            }
            ([points, labels], [[1, queries, masks, height, width], quality]) => {
                let size = [*width, *height];
                match (points.sizes.as_slice(), labels.sizes.as_slice()) {
                    ([1, q, points, 2], [1, same, count])
                        if [q, same] == [queries; 2]
                            && points == count
                            && *points >= 2
                            && *quality == [1, *queries, *masks] =>
                    {
                        let (queries, points, masks) = (*queries, *points, *masks);
                        Some(Self::Prompted { queries, points, masks, size })
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        let layout = found.filter(|_| sizes.iter().all(|sizes| !sizes.contains(&0)));
        let layout = layout.ok_or_else(|| {
            let inputs: Vec<&[usize]> = more.iter().map(|input| input.sizes.as_slice()).collect();
            let inputs = match inputs.is_empty() {
                true => String::new(),
                false => format!(" and its inputs {inputs:?} after the image"),
            };
            format!(
                "its outputs {sizes:?}{inputs} are not those of a segmentation model: {ACCEPTED}"
            )
        })?;
        match layout {
            Self::Classes { classes, .. } if classes > MAX_CLASSES => {
                Err(format!("it has {classes} classes; a mask has at most {MAX_CLASSES}"))
            }
            layout => Ok(layout),
        }
    }

    /// Number of classes, if the outputs show it.
    pub(super) fn classes(&self) -> Option<usize> {
        match self {
            Self::Classes { classes, .. }
            | Self::Instances { boxes: Boxes::Dense { classes, .. }, .. } => Some(*classes),
            _ => None,
        }
    }

    /// Width and height of the mask.
    pub(super) fn size(&self) -> [usize; 2] {
        match self {
            Self::Classes { size, .. }
            | Self::Indices { size }
            | Self::Matte { size }
            | Self::Instances { size, .. }
            | Self::Prompted { size, .. } => *size,
        }
    }

    /// Settings of the image that models of this layout have.
    pub(super) fn image(&self) -> ImageInput {
        let stretch = ImageInput { resize: Some(Resize::Stretch), ..ImageInput::default() };
        match self {
            Self::Classes { .. } | Self::Indices { .. } => ImageInput {
                resize: Some(Resize::Stretch),
                resampling: Some(Resampling::AntialiasBilinear),
                ..imagenet()
            },
            Self::Matte { .. } | Self::Prompted { .. } => stretch,
            Self::Instances { .. } => ImageInput::default(),
        }
    }
}

/// True if `size` has about the aspect ratio of an input: outputs of other models have three dimensions,
/// too.
fn is_map(size: [usize; 2], shape: &InputShape) -> bool {
    let [across, down] = scale(size, shape);
    (across / down - 1.0).abs() < 0.1
}

/// Scale from pixels of a mask of `size` to those of an input of `shape`.
pub(super) fn scale(size: [usize; 2], shape: &InputShape) -> [f64; 2] {
    [shape.width as f64 / size[0] as f64, shape.height as f64 / size[1] as f64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(sizes: &[&[usize]]) -> Vec<TensorType> {
        let tensor =
            |sizes: &&[usize]| TensorType { sizes: sizes.to_vec(), dtype: ScalarType::Float };
        sizes.iter().map(tensor).collect()
    }

    #[test]
    fn layouts_are_found_by_their_shapes() {
        let shape = InputShape::of(&[1, 3, 480, 640], &[0, 1, 2, 3], ScalarType::Float).unwrap();
        let find = |more: &[&[usize]], outputs: &[&[usize]]| {
            Layout::find(&shape, &tensors(more), &tensors(outputs))
        };
        let size = [320, 240];
        let classes = Layout::Classes { classes: 21, size };
        assert_eq!(find(&[], &[&[1, 21, 240, 320]]), Ok(classes));
        assert_eq!(find(&[], &[&[1, 21, 240, 320], &[1, 21, 240, 320]]), Ok(classes));
        assert_eq!(find(&[], &[&[1, 240, 320]]), Ok(Layout::Matte { size }));
        assert_eq!(find(&[], &[&[1, 1, 240, 320]]), Ok(Layout::Matte { size }));
        let mut indices = tensors(&[&[1, 240, 320]]);
        indices[0].dtype = ScalarType::Int;
        assert_eq!(Layout::find(&shape, &[], &indices), Ok(Layout::Indices { size }));
        let instances = |boxes| Layout::Instances { boxes, prototypes: 32, size: [160, 120] };
        let prototypes: &[usize] = &[1, 32, 120, 160];
        let dense = instances(Boxes::Dense { classes: 80, boxes: 8400 });
        assert_eq!(find(&[], &[&[1, 116, 8400], prototypes]), Ok(dense));
        assert_eq!(find(&[], &[&[1, 300, 38], prototypes]), Ok(instances(Boxes::Selected)));
        let prompts: [&[usize]; 2] = [&[1, 4, 2, 2], &[1, 4, 2]];
        let masks: &[usize] = &[1, 4, 3, 240, 320];
        let prompted = Layout::Prompted { queries: 4, points: 2, masks: 3, size };
        assert_eq!(find(&prompts, &[masks, &[1, 4, 3]]), Ok(prompted));
        type Sizes<'s> = &'s [&'s [usize]];
        let wrong: [(Sizes<'_>, Sizes<'_>); 8] = [
            (&[], &[&[1, 84, 8400]]),
            (&[], &[&[1, 1000]]),
            (&[], &[&[1, 0, 320]]),
            (&[], &[&[1, 21, 240, 320], &[1, 21, 120, 160]]),
            (&[], &[&[1, 36, 8400], prototypes]),
            (&prompts, &[masks, &[1, 4, 2]]),
            (&[&[1, 4, 1, 2], &[1, 4, 1]], &[masks, &[1, 4, 3]]),
            (&prompts[..1], &[masks, &[1, 4, 3]]),
        ];
        for (more, outputs) in wrong {
            let told = find(more, outputs).unwrap_err();
            assert!(told.contains("EfficientSAM"), "{told}");
        }
        assert!(find(&[], &[&[1, 300, 4, 4]]).unwrap_err().contains("at most 256"));
    }
}
