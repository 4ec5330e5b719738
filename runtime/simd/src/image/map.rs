//! Sampling at positions that are given for each pixel.

use std::ops::Range;

use super::{Plane, Source, Target, gather::Gather, position::limited};
use crate::Isa;

/// A position for each output pixel.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// Fixed-point positions, row after row: x and y.
    positions: Vec<[i32; 2]>,
    gather: Gather,
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
                [limited(x, source.width, is_nearest), limited(y, source.height, is_nearest)]
            }));
        }
        Self { positions, gather: Gather::new(source) }
    }

    /// Interpolates the components of row `row`. Returns the columns, which are all.
    pub(super) fn sample(
        &mut self,
        isa: Isa,
        source: &Source,
        target: &Target,
        planes: &[Plane<'_>],
        row: usize,
        out: &mut [Vec<f32>; 3],
    ) -> Range<usize> {
        let positions = &self.positions[row * target.width..][..target.width];
        self.gather.interpolate(isa, source, planes, positions, out);
        0..target.width
    }
}
