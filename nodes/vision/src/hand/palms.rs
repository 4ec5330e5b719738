//! Palm detector with the anchors of MediaPipe.

use std::cmp::Ordering;

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::Image;
use afferent_package::{ImageInput, Pad, Resize};

use super::region::{Region, angle_from_up};
use crate::{
    boxes::Edges,
    model_image::{InputShape, ModelImage},
    vision_model::{ModelVariant, VisionModel, all_values},
};

/// Values of a box: center, size, and seven points.
const VALUES: usize = 18;

/// Pixels of a cell of each level, and the number of its anchors.
const LEVELS: [(usize, usize); 2] = [(8, 2), (16, 6)];

/// Indices of two points among the seven: the wrist, and the knuckle of the middle finger.
const WRIST: usize = 0;
const MIDDLE_KNUCKLE: usize = 2;

/// Limit of the scores before the sigmoid.
const MAX_LOGIT: f32 = 100.0;

/// A palm that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Palm {
    pub(crate) score: f32,
    /// Region in pixels of the source image. Its upper side is that of the fingers.
    pub(crate) region: Region,
}

/// A palm detector.
pub(crate) struct PalmModel {
    model: VisionModel,
    /// Centers of the anchors in pixels of the input.
    anchors: Vec<[f32; 2]>,
    /// Indices of the outputs: boxes, scores.
    outputs: [usize; 2],
}

/// Centers of the anchors of an input of this size.
fn anchors(width: usize, height: usize) -> Vec<[f32; 2]> {
    let mut anchors = Vec::new();
    for (stride, count) in LEVELS {
        for row in 0..height.div_ceil(stride) {
            for column in 0..width.div_ceil(stride) {
                let center = [column, row].map(|cell| (cell as f32 + 0.5) * stride as f32);
                anchors.extend([center].repeat(count));
            }
        }
    }
    anchors
}

/// A candidate in pixels of the input.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    score: f32,
    values: [f32; VALUES],
}

impl Candidate {
    fn edges(&self) -> Edges {
        let [x, y, width, height, ..] = self.values;
        Edges::from_center([x, y], [width, height])
    }

    fn point(&self, index: usize) -> [f64; 2] {
        [0, 1].map(|axis| f64::from(self.values[4 + 2 * index + axis]))
    }

    fn region(&self) -> Region {
        let (wrist, knuckle) = (self.point(WRIST), self.point(MIDDLE_KNUCKLE));
        let [x, y, width, height, ..] = self.values.map(f64::from);
        Region {
            center: [x, y],
            side: width.max(height),
            angle: angle_from_up([knuckle[0] - wrist[0], knuckle[1] - wrist[1]]),
        }
    }
}

/// Weighted non-maximum suppression: each result is the mean, weighted by score, of the candidates
/// that overlap the best one of them by more than `overlap`.
fn merge(mut candidates: Vec<Candidate>, overlap: f32) -> Vec<Candidate> {
    // Stable: of equal scores, the first one stays first.
    candidates.sort_by(|one, other| other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal));
    let mut merged = Vec::new();
    while let Some(best) = candidates.first().copied() {
        let edges = best.edges();
        let (mut sum, mut total) = (best.values.map(|value| value * best.score), best.score);
        let mut is_best = true;
        candidates.retain(|candidate| {
            if std::mem::take(&mut is_best) {
                return false;
            }
            let is_other = edges.overlap(candidate.edges()) <= overlap;
            if !is_other {
                total += candidate.score;
                for (sum, value) in sum.iter_mut().zip(candidate.values) {
                    *sum += value * candidate.score;
                }
            }
            is_other
        });
        merged.push(Candidate { score: best.score, values: sum.map(|sum| sum / total) });
    }
    merged
}

impl PalmModel {
    /// Loads the package or program.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open(variant: ModelVariant<'_>, cx: &OpenCx) -> Result<Self, NodeError> {
        let defaults = |_: &[Vec<usize>]| ImageInput {
            resize: Some(Resize::Letterbox),
            pad: Some(Pad::Value(0.0)),
            ..ImageInput::default()
        };
        let model = VisionModel::open_variant(variant, "palm_detection", cx, defaults)?;
        if !matches!(model.contract(), "" | "mediapipe_palm") {
            let found = model.contract();
            let reason = format!("its contract is {found:?}; a palm detector has mediapipe_palm");
            return Err(model.error(reason));
        }
        let InputShape { width, height, .. } = *model.image().shape();
        let anchors = anchors(width, height);
        let count = anchors.len();
        let is = |index: usize, last: usize| matches!(model.outputs()[index].as_slice(), [1, n, k] if *n == count && *k == last);
        let outputs = match model.outputs().len() {
            2 if is(0, VALUES) && is(1, 1) => Some([0, 1]),
            2 if is(1, VALUES) && is(0, 1) => Some([1, 0]),
            _ => None,
        };
        let outputs = outputs.ok_or_else(|| {
            model.error(format!(
                "its outputs {:?} are not those of a palm detector for {width} x {height} pixels: \
                 [1, {count}, {VALUES}] and [1, {count}, 1]",
                model.outputs()
            ))
        })?;
        Ok(Self { model, anchors, outputs })
    }

    /// Palms in `image`, the most probable first.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn find(
        &mut self,
        image: &Image,
        least_score: f32,
        overlap: f32,
    ) -> Result<Vec<Palm>, NodeError> {
        let (anchors, [boxes, scores]) = (&self.anchors, self.outputs);
        self.model.run(image, |input: &ModelImage, outputs| {
            let tensor = |index| outputs.tensor(index).map_err(|error| error.to_string());
            let (boxes, scores) = (tensor(boxes)?, tensor(scores)?);
            let boxes = all_values(&boxes, VALUES * anchors.len())?;
            let scores = all_values(&scores, anchors.len())?;
            let mut candidates = Vec::new();
            for ((center, raw), logit) in
                anchors.iter().zip(boxes.as_chunks::<VALUES>().0).zip(scores)
            {
                let score = 1.0 / (1.0 + (-logit.clamp(-MAX_LOGIT, MAX_LOGIT)).exp());
                // False for NaN.
                if score >= least_score && raw.iter().all(|value| value.is_finite()) {
                    let mut values = *raw;
                    // All but the size are relative to the anchor.
                    for index in (0..VALUES).filter(|index| !matches!(index, 2 | 3)) {
                        values[index] += center[index % 2];
                    }
                    candidates.push(Candidate { score, values });
                }
            }
            let palms = merge(candidates, overlap).into_iter().map(|found| {
                let region = found.region().mapped(&input.to_source());
                Palm { score: found.score, region }
            });
            Ok(palms.filter(|palm| palm.region.is_valid()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_mediapipe() {
        let found = anchors(192, 192);
        assert_eq!(found.len(), 2016);
        assert_eq!((found[0], found[1], found[2]), ([4.0, 4.0], [4.0, 4.0], [12.0, 4.0]));
        assert_eq!(
            (found[48], found[1152], found[2015]),
            ([4.0, 12.0], [8.0, 8.0], [184.0, 184.0])
        );
        assert_eq!(anchors(128, 128).len(), 896);
    }

    #[test]
    fn overlapping_candidates_are_averaged_by_score() {
        let candidate = |x: f32, score: f32| {
            let mut values = [0.0; VALUES];
            values[..4].copy_from_slice(&[x, 10.0, 10.0, 10.0]);
            Candidate { score, values }
        };
        let all = vec![candidate(12.0, 0.5), candidate(10.0, 0.75), candidate(40.0, 0.6)];
        let merged = merge(all, 0.3);
        assert_eq!(merged.len(), 2);
        assert_eq!((merged[0].score, merged[1].score), (0.75, 0.6));
        assert!((merged[0].values[0] - 10.8).abs() < 1e-5, "{:?}", merged[0].values);
        assert_eq!(merged[1].values[0], 40.0);
    }
}
