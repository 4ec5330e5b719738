//! Sampling by transforms with rotation or shear, and of images with very short rows.

use std::ops::Range;

use super::{
    Plane, Source,
    position::{ONE, Positions, Tap},
};

/// Positions, and memory for those of a row.
#[derive(Debug, Clone)]
pub(super) struct Rotated {
    positions: [Positions; 2],
    /// Width of the output.
    width: usize,
    is_nearest: bool,
    /// Columns and rows that each pixel is interpolated between.
    taps: Vec<[Tap; 2]>,
}

impl Rotated {
    pub(super) fn new(positions: [Positions; 2], width: usize, is_nearest: bool) -> Self {
        Self { positions, width, is_nearest, taps: Vec::with_capacity(width) }
    }

    /// Interpolates the components of row `row`. Returns the columns that lie in the source.
    pub(super) fn sample(
        &mut self,
        source: &Source,
        planes: &[Plane<'_>],
        row: usize,
        out: &mut [Vec<f32>; 3],
    ) -> Range<usize> {
        let [x, y] = self.positions.map(|positions| positions.columns(row));
        let inside = [x.inside(source.width, self.width), y.inside(source.height, self.width)];
        let start = inside[0].start.max(inside[1].start);
        let columns = start..inside[0].end.min(inside[1].end).max(start);
        self.taps.clear();
        self.taps.extend(columns.clone().map(|at| {
            [
                x.position(at).tap(source.width, self.is_nearest),
                y.position(at).tap(source.height, self.is_nearest),
            ]
        }));
        interpolate(source, planes, &self.taps, out);
        columns
    }
}

/// Interpolates each component between the columns and rows of `taps`.
pub(super) fn interpolate(
    source: &Source,
    planes: &[Plane<'_>],
    taps: &[[Tap; 2]],
    out: &mut [Vec<f32>; 3],
) {
    for (part, out) in source.format.components().iter().zip(out) {
        let Plane { bytes, row_stride } = planes[part.plane];
        for ([x, y], out) in taps.iter().zip(out) {
            let [left, right] = [x.first, x.second].map(|column| part.byte(column));
            let line = |row: usize| {
                let line = &bytes[(row >> part.shift[1]) * row_stride..];
                let (left, right) = (i32::from(line[left]), i32::from(line[right]));
                (left * (ONE - x.weight) + right * x.weight) as f32
            };
            let (first, second) = (line(y.first), line(y.second));
            *out = (second - first) * y.share() + first;
        }
    }
}
