//! Outputs of pose models, by their shapes.

use afferent_graph::Choice;
use afferent_messages::vision::Skeleton;
use afferent_package::{ImageInput, Pad, Resampling};
use afferent_runtime::ModelOutputs;

use crate::{
    boxes::{Candidate, Suppression, select},
    model_image::InputShape,
    vision_model::{all_values, argmax, values},
    yolo_rows,
};

/// Layout of the outputs of a pose model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Two outputs: scores of columns `[1, keypoints, bins * width]` and of rows `[1, keypoints,
    /// bins * height]` (SimCC, RTMPose). The image shows one body.
    SimCc { keypoints: usize, bins: usize },
    /// `[1, 5 + 3 * keypoints, boxes]`: center, size, score, then x, y and visibility of each keypoint
    /// (Ultralytics). Boxes overlap.
    Dense { keypoints: usize, boxes: usize },
    /// `[1, boxes, 6 + 3 * keypoints]`: corners, score, class, then the keypoints (end-to-end models
    /// such as YOLO26). Nothing overlaps.
    Selected { keypoints: usize },
}

/// Layouts, for messages.
const ACCEPTED: &str = "[1, keypoints, bins * width] and [1, keypoints, bins * height] (SimCC), [1, 5 \
                        + 3 * keypoints, boxes] (Ultralytics), or [1, boxes, 6 + 3 * keypoints] \
                        (end-to-end)";

/// Skeletons by their number of keypoints.
const SKELETONS: [Skeleton; 4] =
    [Skeleton::Coco17, Skeleton::Halpe26, Skeleton::BlazePose33, Skeleton::WholeBody133];

/// Most bins of a pixel in a SimCC model.
const MAX_BINS: usize = 16;

/// Positions in pixels of the input, whose first pixel has the center (0.5, 0.5), and scores.
pub(super) type Keypoints = Vec<([f32; 2], f32)>;

fn skeleton_of(keypoints: usize) -> Option<Skeleton> {
    SKELETONS.into_iter().find(|skeleton| skeleton.keypoints() == keypoints)
}

/// Number of keypoints of `values` values, if there are `head` others.
fn keypoints_of(values: usize, head: usize) -> Option<usize> {
    let rest = values.checked_sub(head)?;
    rest.is_multiple_of(3).then_some(rest / 3)
}

impl Layout {
    /// The layout of outputs with these sizes, for an input of `shape`, and the skeleton.
    ///
    /// # Errors
    /// The sizes, and the layouts or skeletons that are accepted.
    pub(crate) fn find(
        outputs: &[Vec<usize>],
        shape: &InputShape,
    ) -> Result<(Self, Skeleton), String> {
        let mut found: Vec<(Self, usize)> = Vec::new();
        match outputs {
            [columns, rows] => {
                if let ([1, k, columns], [1, same, rows]) = (columns.as_slice(), rows.as_slice()) {
                    let bins = (1..=MAX_BINS).find(|bins| {
                        [*columns, *rows] == [shape.width * bins, shape.height * bins]
                    });
                    if let Some(bins) = bins.filter(|_| k == same) {
                        found.push((Self::SimCc { keypoints: *k, bins }, *k));
                    }
                }
            }
            [only] => {
                if let [1, rows, boxes] = *only.as_slice() {
                    let dense = keypoints_of(rows, 5).filter(|_| boxes > 0);
                    found.extend(dense.map(|k| (Self::Dense { keypoints: k, boxes }, k)));
                    let selected = keypoints_of(boxes, 6).filter(|_| rows > 0);
                    found.extend(selected.map(|k| (Self::Selected { keypoints: k }, k)));
                }
            }
            _ => {}
        }
        let known = found.into_iter().find_map(|(layout, k)| Some((layout, skeleton_of(k)?)));
        known.ok_or_else(|| {
            let known = SKELETONS.map(|one| format!("{} ({})", one.keypoints(), one.word()));
            format!(
                "its outputs {outputs:?} are not those of a pose model: {ACCEPTED}, with {} \
                 keypoints",
                known.join(", ")
            )
        })
    }

    /// True if the model sees one body in its input, and others find the bodies.
    pub(super) fn is_top_down(&self) -> bool {
        matches!(self, Self::SimCc { .. })
    }

    /// Settings of the image that models with `outputs` have.
    pub(super) fn image(outputs: &[Vec<usize>]) -> ImageInput {
        match outputs {
            // As mmpose.
            [_, _] => ImageInput {
                pad: Some(Pad::Value(0.0)),
                scale: Some(1.0),
                mean: Some([123.675, 116.28, 103.53]),
                std: Some([58.395, 57.12, 57.375]),
                resampling: Some(Resampling::Bilinear),
                ..ImageInput::default()
            },
            _ => ImageInput::default(),
        }
    }

    /// The bodies in the input. `settings` limits those of models that find bodies by themselves, to
    /// scores above `least`; a SimCC model gives one, without a box.
    ///
    /// # Errors
    /// The type of an output that is not supported.
    pub(super) fn read(
        &self,
        outputs: &ModelOutputs<'_>,
        shape: &InputShape,
        least: f32,
        settings: &Suppression,
    ) -> Result<Vec<(Option<Candidate>, Keypoints)>, String> {
        let tensor = |at: usize| outputs.tensor(at).map_err(|error| error.to_string());
        let size = [shape.width, shape.height];
        let first = tensor(0)?;
        Ok(match *self {
            Self::SimCc { keypoints, bins } => {
                let [columns, rows] = size.map(|side| keypoints * bins * side);
                let columns = all_values(&first, columns)?;
                let second = tensor(1)?;
                vec![(None, sim_cc(columns, all_values(&second, rows)?, keypoints, bins))]
            }
            Self::Dense { keypoints, boxes } => {
                let first = all_values(&first, (5 + 3 * keypoints) * boxes)?;
                let found = yolo_rows::dense(first, 1, boxes, least);
                let value = |index: usize, at: usize| first[(5 + at) * boxes + index];
                selection(&found, settings, |index| listed(keypoints, |at| value(index, at)))
            }
            Self::Selected { keypoints } => {
                let (width, first) = (6 + 3 * keypoints, values(&first)?);
                let found = yolo_rows::selected(first, width, least);
                let value = |index: usize, at: usize| first[index * width + 6 + at];
                let settings = Suppression { overlap: f32::INFINITY, ..*settings };
                selection(&found, &settings, |index| listed(keypoints, |at| value(index, at)))
            }
        })
    }
}

/// The boxes that are kept, with their keypoints.
fn selection(
    found: &[(usize, Candidate)],
    settings: &Suppression,
    keypoints: impl Fn(usize) -> Keypoints,
) -> Vec<(Option<Candidate>, Keypoints)> {
    let candidates: Vec<Candidate> = found.iter().map(|(_, candidate)| *candidate).collect();
    let kept = select(&candidates, settings).into_iter();
    kept.map(|at| (Some(found[at].1), keypoints(found[at].0))).collect()
}

/// Keypoints of a list of x, y and visibility.
fn listed(keypoints: usize, value: impl Fn(usize) -> f32) -> Keypoints {
    let keypoint = |at: usize| ([value(3 * at), value(3 * at + 1)], value(3 * at + 2));
    (0..keypoints).map(keypoint).collect()
}

/// Keypoints at the largest scores of the columns and of the rows. The score is the smaller of the two.
fn sim_cc(columns: &[f32], rows: &[f32], keypoints: usize, bins: usize) -> Keypoints {
    let (width, height) = (columns.len() / keypoints, rows.len() / keypoints);
    let lines = columns.chunks_exact(width.max(1)).zip(rows.chunks_exact(height.max(1)));
    let keypoint = |(columns, rows): (&[f32], &[f32])| {
        let (column, row) = (argmax(columns), argmax(rows));
        // Bin 0 is the center of the first pixel.
        let position = [column.0, row.0].map(|bin| bin as f32 / bins as f32 + 0.5);
        (position, column.1.min(row.1))
    };
    lines.map(keypoint).collect()
}

#[cfg(test)]
mod tests {
    use afferent_core::ScalarType;

    use super::*;

    #[test]
    fn layouts_are_found_by_their_shapes() {
        let shape = InputShape::of(&[1, 3, 256, 192], &[0, 1, 2, 3], ScalarType::Float).unwrap();
        let find = |outputs: &[&[usize]]| {
            Layout::find(&outputs.iter().map(|sizes| sizes.to_vec()).collect::<Vec<_>>(), &shape)
        };
        let sim_cc = |keypoints| Layout::SimCc { keypoints, bins: 2 };
        let halpe = find(&[&[1, 26, 384], &[1, 26, 512]]);
        assert_eq!(halpe, Ok((sim_cc(26), Skeleton::Halpe26)));
        let whole = find(&[&[1, 133, 384], &[1, 133, 512]]);
        assert_eq!(whole, Ok((sim_cc(133), Skeleton::WholeBody133)));
        let dense = Layout::Dense { keypoints: 17, boxes: 8400 };
        assert_eq!(find(&[&[1, 56, 8400]]), Ok((dense, Skeleton::Coco17)));
        // The number of boxes is one of a row, too.
        let few = Layout::Dense { keypoints: 17, boxes: 57 };
        assert_eq!(find(&[&[1, 56, 57]]), Ok((few, Skeleton::Coco17)));
        let selected = Layout::Selected { keypoints: 33 };
        assert_eq!(find(&[&[1, 300, 105]]), Ok((selected, Skeleton::BlazePose33)));
        let wrong: [&[&[usize]]; 7] = [
            // 21 keypoints.
            &[&[1, 21, 384], &[1, 21, 512]],
            &[&[1, 68, 8400]],
            &[&[1, 84, 8400]],
            &[&[1, 17, 512], &[1, 17, 384]],
            &[&[1, 17, 384], &[1, 26, 512]],
            &[&[1, 17, 64, 48]],
            &[],
        ];
        for wrong in wrong {
            let told = find(wrong).unwrap_err();
            assert!(told.contains("SimCC") && told.contains("Ultralytics"), "{told}");
            let known = "with 17 (coco17), 26 (halpe26), 33 (blazepose33), 133 (wholebody133) keyp";
            assert!(told.contains(known), "{told}");
        }
    }

    #[test]
    fn the_largest_scores_are_the_keypoint() {
        let columns = [0.1, 0.4, 0.4, 0.2, f32::NAN, -1.0, -2.0, -3.0];
        let rows = [0.0, 0.3, -1.0, -1.0];
        let found = sim_cc(&columns, &rows, 2, 2);
        assert_eq!(found, [([1.0, 1.0], 0.3), ([1.0, 0.5], -1.0)]);
    }
}
