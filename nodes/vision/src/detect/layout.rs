//! Outputs of detectors, by their shapes.

use afferent_core::ScalarType;
use afferent_package::{ImageInput, Resize};
use afferent_runtime::ModelOutputs;

use crate::{
    boxes::{Candidate, Edges},
    model_image::InputShape,
    vision_model::{all_values, values},
    yolo_rows,
};

/// Layout of the outputs of a detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[1, 4 + classes, boxes]`: center, size and scores of the classes (Ultralytics). Boxes
    /// overlap.
    Dense { classes: usize, boxes: usize },
    /// `[1, boxes, 6]`: corners, score and class (end-to-end models such as YOLO26). Nothing overlaps.
    Selected { boxes: usize },
    /// Three outputs: corners `[boxes, 4]`, scores `[boxes]` and classes `[boxes]`, with or without a
    /// leading 1 (react-native-executorch). Boxes overlap.
    Split { boxes: usize },
    /// Two outputs: logits `[1, queries, classes]` and `[1, queries, 4]`, center and size as parts of
    /// the image (DETR, RT-DETR). With `background`, the last class is none, and the scores are a
    /// softmax; otherwise each is a sigmoid. Nothing overlaps.
    Queries { logits: usize, queries: usize, classes: usize, background: bool },
}

/// Layouts, for messages.
const ACCEPTED: &str = "[1, 4 + classes, boxes] (Ultralytics), [1, boxes, 6] (end-to-end), \
                        [boxes, 4], [boxes], [boxes] (corners, scores, classes), or logits [1, \
                        queries, classes] with boxes [1, queries, 4] (DETR)";

impl Layout {
    /// The layout of outputs with these sizes, for a model with `labels` names of classes.
    ///
    /// # Errors
    /// The sizes, and the layouts that are accepted.
    pub(crate) fn find(outputs: &[Vec<usize>], labels: usize) -> Result<Self, String> {
        let unbatched = |sizes: &Vec<usize>| match sizes.as_slice() {
            [1, rest @ ..] if !rest.is_empty() => rest.to_vec(),
            sizes => sizes.to_vec(),
        };
        let found = match outputs {
            [only] => match only.as_slice() {
                // A dense model has more boxes than rows.
                [1, boxes, 6] if *boxes > 6 => Some(Self::Selected { boxes: *boxes }),
                [1, rows, boxes] if *rows > 4 && boxes > rows => {
                    Some(Self::Dense { classes: rows - 4, boxes: *boxes })
                }
                _ => None,
            },
            [one, other] => match (one.as_slice(), other.as_slice()) {
                ([1, q, classes], [1, same, 4]) if q == same => Some((0, *q, *classes)),
                ([1, same, 4], [1, q, classes]) if q == same => Some((1, *q, *classes)),
                _ => None,
            }
            .map(|(logits, queries, classes)| {
                let background = labels == 0 || labels + 1 == classes;
                Self::Queries { logits, queries, classes, background }
            }),
            [corners, scores, classes] => {
                let [corners, scores, classes] = [corners, scores, classes].map(unbatched);
                match (corners.as_slice(), scores.as_slice(), classes.as_slice()) {
                    ([boxes, 4], [a], [b]) if a == boxes && b == boxes => {
                        Some(Self::Split { boxes: *boxes })
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        let layout = found.ok_or_else(|| {
            format!("its outputs {outputs:?} are not those of a detector: {ACCEPTED}")
        })?;
        match layout.classes() {
            Some(classes) if labels > 0 && classes != labels => {
                Err(format!("it has {classes} classes, but {labels} labels are given"))
            }
            _ => Ok(layout),
        }
    }

    /// Number of classes, if the outputs tell it.
    fn classes(&self) -> Option<usize> {
        match self {
            Self::Dense { classes, .. } => Some(*classes),
            Self::Queries { classes, background, .. } => Some(classes - usize::from(*background)),
            Self::Selected { .. } | Self::Split { .. } => None,
        }
    }

    /// True if several boxes may stand for one object.
    pub(super) fn overlaps(&self) -> bool {
        matches!(self, Self::Dense { .. } | Self::Split { .. })
    }

    /// Settings of the image that models with these outputs have.
    pub(super) fn image(&self) -> ImageInput {
        let stretch = ImageInput { resize: Some(Resize::Stretch), ..ImageInput::default() };
        match self {
            Self::Dense { .. } | Self::Selected { .. } => ImageInput::default(),
            Self::Split { .. } => stretch,
            // The processors of these models.
            Self::Queries { background: true, .. } => ImageInput {
                mean: Some([0.485, 0.456, 0.406]),
                std: Some([0.229, 0.224, 0.225]),
                ..stretch
            },
            Self::Queries { .. } => stretch,
        }
    }

    /// Boxes whose score is above `least`, in pixels of the model.
    ///
    /// # Errors
    /// The type of an output that is not supported.
    pub(super) fn read(
        &self,
        outputs: &ModelOutputs<'_>,
        shape: &InputShape,
        least: f32,
    ) -> Result<Vec<Candidate>, String> {
        let tensor = |at: usize| outputs.tensor(at).map_err(|error| error.to_string());
        Ok(match *self {
            Self::Dense { classes, boxes } => {
                let rows = tensor(0)?;
                let rows = all_values(&rows, (4 + classes) * boxes)?;
                let found = yolo_rows::dense(rows, classes, boxes, least);
                found.into_iter().map(|(_, candidate)| candidate).collect()
            }
            Self::Selected { .. } => {
                let found = yolo_rows::selected(values(&tensor(0)?)?, 6, least);
                found.into_iter().map(|(_, candidate)| candidate).collect()
            }
            Self::Split { boxes } => {
                let (corners, scores, classes) = (tensor(0)?, tensor(1)?, tensor(2)?);
                let classes: Vec<f32> = match classes.dtype() {
                    ScalarType::Long => {
                        let classes = classes.data::<i64>().map_err(|error| error.to_string())?;
                        classes.iter().map(|class| *class as f32).collect()
                    }
                    _ => values(&classes)?.to_vec(),
                };
                split((values(&corners)?, values(&scores)?, &classes), boxes, least)
            }
            Self::Queries { logits, queries, classes, background } => {
                let (scores, boxes) = (tensor(logits)?, tensor(1 - logits)?);
                let size = [shape.width as f32, shape.height as f32];
                let counts = (queries, classes, background);
                from_queries((values(&scores)?, values(&boxes)?), counts, size, least)
            }
        })
    }
}

fn split(
    (corners, scores, classes): (&[f32], &[f32], &[f32]),
    boxes: usize,
    least: f32,
) -> Vec<Candidate> {
    let corners = corners.as_chunks::<4>().0.iter().take(boxes);
    let candidates = corners.zip(scores).zip(classes).map(|((corners, score), class)| Candidate {
        edges: Edges(*corners),
        score: *score,
        class: *class as usize,
    });
    candidates.filter(|one| one.score > least && one.edges.is_finite()).collect()
}

fn from_queries(
    (logits, boxes): (&[f32], &[f32]),
    (queries, classes, background): (usize, usize, bool),
    [width, height]: [f32; 2],
    least: f32,
) -> Vec<Candidate> {
    let rows = logits.chunks_exact(classes.max(1)).zip(boxes.as_chunks::<4>().0).take(queries);
    let candidate = |(logits, [x, y, w, h]): (&[f32], &[f32; 4])| {
        let known = &logits[..classes - usize::from(background)];
        let best = known.iter().copied().enumerate();
        // Of equal ones, the first.
        let (class, logit) = best.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let score = match background {
            true => {
                let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let sum: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
                (logit - most).exp() / sum
            }
            false => 1.0 / (1.0 + (-logit).exp()),
        };
        let (center, size) = ([x * width, y * height], [w * width, h * height]);
        Some(Candidate { edges: Edges::from_center(center, size), score, class })
    };
    rows.filter_map(candidate).filter(|one| one.score > least && one.edges.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_found_by_their_shapes() {
        let find = |outputs: &[&[usize]], labels| {
            Layout::find(&outputs.iter().map(|sizes| sizes.to_vec()).collect::<Vec<_>>(), labels)
        };
        let dense = Layout::Dense { classes: 80, boxes: 8400 };
        assert_eq!(find(&[&[1, 84, 8400]], 80), Ok(dense));
        assert_eq!(find(&[&[1, 6, 8400]], 2), Ok(Layout::Dense { classes: 2, boxes: 8400 }));
        assert_eq!(find(&[&[1, 300, 6]], 80), Ok(Layout::Selected { boxes: 300 }));
        assert_eq!(find(&[&[100, 4], &[100], &[100]], 0), Ok(Layout::Split { boxes: 100 }));
        assert_eq!(
            find(&[&[1, 100, 4], &[1, 100], &[1, 100]], 0),
            Ok(Layout::Split { boxes: 100 })
        );
        let queries =
            |logits, background| Layout::Queries { logits, queries: 100, classes: 92, background };
        assert_eq!(find(&[&[1, 100, 92], &[1, 100, 4]], 91), Ok(queries(0, true)));
        assert_eq!(find(&[&[1, 100, 4], &[1, 100, 92]], 92), Ok(queries(1, false)));
        let told = find(&[&[1, 84, 8400]], 7).unwrap_err();
        assert!(told.contains("80 classes, but 7 labels"), "{told}");
        for wrong in [&[&[1, 1000][..]][..], &[&[1, 3, 8400]], &[&[1, 100, 92], &[1, 99, 4]], &[]] {
            assert!(find(wrong, 0).unwrap_err().contains("Ultralytics"));
        }
    }
}
