//! Sampling at positions that are given for each pixel.

use std::ops::Range;

use super::{Plane, Source, Target, position::Tap, rotated::interpolate};

/// A position for each output pixel, and memory for the taps of a row.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// Fixed-point positions, row after row: x and y.
    positions: Vec<[i32; 2]>,
    is_nearest: bool,
    taps: Vec<[Tap; 2]>,
}

impl Map {
    pub(super) fn new(
        source: &Source,
        target: &Target,
        is_nearest: bool,
        mut position: impl FnMut([usize; 2]) -> [f64; 2],
    ) -> Self {
        let mut positions = Vec::with_capacity(target.width * target.height);
        for row in 0..target.height {
            positions.extend((0..target.width).map(|column| {
                let [x, y] = position([column, row]);
                [Tap::fixed(x, source.width), Tap::fixed(y, source.height)]
            }));
        }
        Self { positions, is_nearest, taps: Vec::with_capacity(target.width) }
    }

    /// Interpolates the components of row `row`. Returns the columns, which are all.
    pub(super) fn sample(
        &mut self,
        source: &Source,
        target: &Target,
        planes: &[Plane<'_>],
        row: usize,
        out: &mut [Vec<f32>; 3],
    ) -> Range<usize> {
        let positions = &self.positions[row * target.width..][..target.width];
        self.taps.clear();
        self.taps.extend(positions.iter().map(|[x, y]| {
            [
                Tap::at_fixed(*x, source.width, self.is_nearest),
                Tap::at_fixed(*y, source.height, self.is_nearest),
            ]
        }));
        interpolate(source, planes, &self.taps, out);
        0..target.width
    }
}
