//! Boxes in the outputs of Ultralytics models, with their index: more values may follow each.

use crate::boxes::{Candidate, Edges};

/// Boxes of an output `[4 + classes + more, boxes]`, whose rows are center, size, scores of the classes
/// and more values; with their column. Those whose best score is not above `least` are left out.
pub(crate) fn dense(
    rows: &[f32],
    classes: usize,
    boxes: usize,
    least: f32,
) -> Vec<(usize, Candidate)> {
    // The best class of each box, row by row as the values lie.
    let mut best = vec![(f32::NEG_INFINITY, 0); boxes];
    for class in 0..classes {
        let scores = &rows[(4 + class) * boxes..][..boxes];
        for (best, score) in best.iter_mut().zip(scores) {
            if *score > best.0 {
                *best = (*score, class);
            }
        }
    }
    let found = best.into_iter().enumerate().filter(|(_, (score, _))| *score > least);
    let candidates = found.map(|(index, (score, class))| {
        let [x, y, width, height] = [0, 1, 2, 3].map(|row| rows[row * boxes + index]);
        (index, Candidate { edges: Edges::from_center([x, y], [width, height]), score, class })
    });
    candidates.filter(|(_, candidate)| candidate.edges.is_finite()).collect()
}

/// Boxes of an output `[boxes, values]`, whose first values are corners, score and class; with their
/// row. Those whose score is not above `least` are left out.
pub(crate) fn selected(rows: &[f32], values: usize, least: f32) -> Vec<(usize, Candidate)> {
    let rows = rows.chunks_exact(values.max(6)).enumerate();
    let candidates = rows.map(|(index, row)| {
        let edges = Edges([row[0], row[1], row[2], row[3]]);
        (index, Candidate { edges, score: row[4], class: row[5] as usize })
    });
    candidates.filter(|(_, one)| one.score > least && one.edges.is_finite()).collect()
}
