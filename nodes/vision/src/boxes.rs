//! Boxes with sides parallel to those of the image, their overlap, and non-maximum suppression.

use std::cmp::Ordering;

use afferent_messages::vision::Box2d;

/// Left, top, right and bottom edge.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Edges(pub [f32; 4]);

impl Edges {
    /// The box with this center and size.
    pub fn from_center([x, y]: [f32; 2], [width, height]: [f32; 2]) -> Self {
        Self([x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0])
    }

    /// The smallest such box around `bounds`.
    pub fn around(bounds: &Box2d) -> Self {
        Self::of_points(bounds.corners())
    }

    /// The smallest such box around points.
    pub fn of_points(points: [[f32; 2]; 4]) -> Self {
        let axis = |axis: usize| points.map(|point| point[axis]).into_iter();
        let least = |at: usize| axis(at).fold(f32::INFINITY, f32::min);
        let most = |at: usize| axis(at).fold(f32::NEG_INFINITY, f32::max);
        Self([least(0), least(1), most(0), most(1)])
    }

    /// The box as a payload.
    pub fn to_box(self) -> Box2d {
        let [left, top, right, bottom] = self.0;
        Box2d::from_corners([left, top], [right, bottom])
    }

    /// Width and height.
    pub fn size(self) -> [f32; 2] {
        let [left, top, right, bottom] = self.0;
        [right - left, bottom - top]
    }

    /// True if every edge is a number.
    pub fn is_finite(self) -> bool {
        self.0.iter().all(|edge| edge.is_finite())
    }

    fn area(self) -> f32 {
        let [width, height] = self.size();
        width * height
    }

    /// Intersection over union of two boxes; 0 if neither has an area.
    pub fn overlap(self, other: Self) -> f32 {
        let ([l, t, r, b], [ol, ot, or, ob]) = (self.0, other.0);
        let (width, height) = (r.min(or) - l.max(ol), b.min(ob) - t.max(ot));
        let common = width.max(0.0) * height.max(0.0);
        let all = self.area() + other.area() - common;
        if all > 0.0 { common / all } else { 0.0 }
    }
}

/// A box that a model found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The box.
    pub edges: Edges,
    /// Score of the class.
    pub score: f32,
    /// Index of the class.
    pub class: usize,
}

/// Settings of [`suppress`].
#[derive(Debug, Clone, Copy)]
pub struct Suppression {
    /// Overlap above which the box with the lower score is dropped.
    pub overlap: f32,
    /// True to compare boxes of different classes, too.
    pub is_agnostic: bool,
    /// Largest number of boxes that are kept.
    pub most: usize,
}

/// Most boxes that are compared: those with the highest scores.
const MOST_COMPARED: usize = 30_000;

/// Non-maximum suppression: keeps the boxes with the highest scores, and drops those that overlap one
/// of them. The result is in descending order of the scores; of equal ones, the first comes first, so
/// that a replay gives the same boxes.
pub fn suppress(candidates: &mut Vec<Candidate>, settings: &Suppression) {
    let kept = select(candidates, settings);
    *candidates = kept.into_iter().map(|index| candidates[index]).collect();
}

/// Indices of the boxes that [`suppress`] keeps, in its order.
pub fn select(candidates: &[Candidate], settings: &Suppression) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // Stable: of equal scores, the first one stays first.
    order.sort_by(|one, other| {
        let (one, other) = (candidates[*one].score, candidates[*other].score);
        other.partial_cmp(&one).unwrap_or(Ordering::Equal)
    });
    order.truncate(MOST_COMPARED);
    let mut kept: Vec<usize> = Vec::new();
    for index in order {
        if kept.len() == settings.most {
            break;
        }
        let candidate = &candidates[index];
        let hides = |kept: &usize| {
            let one = &candidates[*kept];
            (settings.is_agnostic || one.class == candidate.class)
                && one.edges.overlap(candidate.edges) > settings.overlap
        };
        if !kept.iter().any(hides) {
            kept.push(index);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boxes, scores and classes, and what torchvision keeps of them (`tests/data/make.py`).
    #[derive(serde::Deserialize)]
    struct Case {
        boxes: Vec<[f32; 4]>,
        scores: Vec<f32>,
        classes: Vec<usize>,
        overlap: f32,
        kept: Vec<usize>,
        kept_agnostic: Vec<usize>,
    }

    #[test]
    fn suppression_keeps_what_torchvision_keeps() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../tests/data/suppression.json")).unwrap();
        assert!(cases.len() > 5);
        for case in cases {
            let candidate = |index: usize| Candidate {
                edges: Edges(case.boxes[index]),
                score: case.scores[index],
                class: case.classes[index],
            };
            let all: Vec<_> = (0..case.boxes.len()).map(candidate).collect();
            for (is_agnostic, kept) in [(false, &case.kept), (true, &case.kept_agnostic)] {
                let mut found = all.clone();
                let overlap = case.overlap;
                suppress(&mut found, &Suppression { overlap, is_agnostic, most: 1000 });
                let expected: Vec<_> = kept.iter().map(|index| candidate(*index)).collect();
                assert_eq!(found, expected, "{overlap} {is_agnostic}");
                suppress(&mut found, &Suppression { overlap, is_agnostic, most: 2 });
                assert_eq!(found, expected[..expected.len().min(2)]);
            }
        }
    }

    #[test]
    fn overlap_of_boxes() {
        let one = Edges([0.0, 0.0, 4.0, 2.0]);
        assert_eq!(one.overlap(one), 1.0);
        assert_eq!(one.overlap(Edges([2.0, 0.0, 6.0, 2.0])), 1.0 / 3.0);
        assert_eq!(one.overlap(Edges([4.0, 0.0, 6.0, 2.0])), 0.0, "they touch");
        assert_eq!(Edges::default().overlap(Edges::default()), 0.0);
        let turned = Box2d { angle_rad: std::f32::consts::FRAC_PI_2, ..one.to_box() };
        let around = Edges::around(&turned);
        assert!(around.0.iter().zip([1.0, -1.0, 3.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
