//! Antialiased sampling: each output pixel is a weighted mean of all source pixels under its filter.
//!
//! The filters and their limits are those of Pillow (`Resample.c`), without its rounding to
//! integers between the two passes.

use std::ops::Range;

use super::{Plane, Source, Target, position::Line};
use crate::Isa;

/// Weights of the columns and rows of each component.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    columns: Range<usize>,
    rows: Range<usize>,
    horizontal: Vec<Weights>,
    vertical: Vec<Weights>,
    /// Weighted mean of the rows of each plane.
    means: [Vec<f32>; 3],
}

/// Weights of consecutive source values, for each output pixel in the source.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Index of the first value.
    starts: Vec<usize>,
    /// End of the weights of the pixel.
    ends: Vec<usize>,
    weights: Vec<f32>,
}

impl Weights {
    /// Weights of the filter around `centers`, in a source of `size` pixels; each `1 << shift` pixels
    /// share a value.
    pub(super) fn new(
        centers: impl Iterator<Item = f64>,
        scale: f64,
        size: usize,
        shift: u32,
        cubic: bool,
    ) -> Self {
        let scale = scale.abs().max(1.0);
        let support = if cubic { 2.0 * scale } else { scale };
        let curve = if cubic { cubic_curve } else { triangle };
        let mut all = Self { starts: Vec::new(), ends: Vec::new(), weights: Vec::new() };
        let mut sums = Vec::new();
        for center in centers {
            let limit = |at: f64| (at + 0.5).floor().clamp(0.0, size as f64) as usize;
            // A center in the source is at most half a pixel from that of the nearest one.
            let first = limit(center - support).min(size - 1);
            let end = limit(center + support).max(first + 1);
            let start = first >> shift;
            sums.clear();
            sums.resize(((end - 1) >> shift) + 1 - start, 0.0);
            for at in first..end {
                sums[(at >> shift) - start] += curve((at as f64 + 0.5 - center) / scale);
            }
            let total: f64 = sums.iter().sum();
            all.starts.push(start);
            all.weights.extend(sums.iter().map(|sum| (sum / total) as f32));
            all.ends.push(all.weights.len());
        }
        all
    }

    pub(super) fn into_taps(self) -> super::tables::Taps {
        let Self { starts, ends, weights } = self;
        super::tables::Taps { starts, ends, weights }
    }

    /// Index of the first value of pixel `at`, and the weights.
    fn get(&self, at: usize) -> (usize, &[f32]) {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.starts[at], &self.weights[begin..self.ends[at]])
    }
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Cubic convolution with a = -0.5.
fn cubic_curve(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

impl Filter {
    /// Prepares a transform without rotation, with the positions `x` and `y`.
    pub(super) fn new(
        source: &Source,
        target: &Target,
        to_source: [[f64; 3]; 2],
        cubic: bool,
        (x, y): (Line, Line),
    ) -> Self {
        let columns = x.inside(source.width, target.width);
        let rows = y.inside(source.height, target.height);
        let [[scale_x, _, shift_x], [_, scale_y, shift_y]] = to_source;
        let centers = |pixels: &Range<usize>, scale: f64, shift: f64| {
            pixels.clone().map(move |at| (at as f64 + 0.5) * scale + shift)
        };
        let parts = source.format.components();
        let horizontal = parts.iter().map(|part| {
            let centers = centers(&columns, scale_x, shift_x);
            Weights::new(centers, scale_x, source.width, part.shift[0], cubic)
        });
        let vertical = parts.iter().map(|part| {
            let centers = centers(&rows, scale_y, shift_y);
            Weights::new(centers, scale_y, source.height, part.shift[1], cubic)
        });
        let (horizontal, vertical) = (horizontal.collect(), vertical.collect());
        let means = std::array::from_fn(|plane| vec![0.0; source.plane_size(plane)[0]]);
        Self { columns, rows, horizontal, vertical, means }
    }

    /// Interpolates the components of row `row`. Returns the columns that lie in the source.
    pub(super) fn sample(
        &mut self,
        isa: Isa,
        source: &Source,
        planes: &[Plane<'_>],
        row: usize,
        out: &mut [Vec<f32>; 3],
    ) -> Range<usize> {
        if !self.rows.contains(&row) {
            return 0..0;
        }
        let parts = source.format.components();
        let mut done = 0;
        for (part, vertical) in parts.iter().zip(&self.vertical) {
            if part.plane < done {
                continue;
            }
            done = part.plane + 1;
            let (start, weights) = vertical.get(row - self.rows.start);
            let Plane { bytes, row_stride } = planes[part.plane];
            let mean = &mut self.means[part.plane];
            let len = mean.len();
            let lines = weights
                .iter()
                .enumerate()
                .map(|(at, weight)| (&bytes[(start + at) * row_stride..][..len], *weight));
            mean_of_rows(isa, lines, mean);
        }
        for ((part, horizontal), out) in parts.iter().zip(&self.horizontal).zip(out) {
            let mean = &self.means[part.plane][part.offset..];
            for (at, out) in out.iter_mut().enumerate().take(self.columns.len()) {
                let (start, weights) = horizontal.get(at);
                let values = mean[start * part.step..].iter().step_by(part.step);
                *out = values.zip(weights).fold(0.0, |sum, (value, weight)| sum + value * weight);
            }
        }
        self.columns.clone()
    }
}

/// Writes the weighted sum of `rows` to `mean`, in their order.
fn mean_of_rows<'a>(isa: Isa, rows: impl Iterator<Item = (&'a [u8], f32)>, mean: &mut [f32]) {
    mean.fill(0.0);
    for (row, weight) in rows {
        isa.call(|| add_row(row, weight, mean));
    }
}

#[inline(always)]
fn add_row(row: &[u8], weight: f32, sums: &mut [f32]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += f32::from(*value) * weight;
    }
}
