//! Sampling by transforms with rotation or shear, and of images with very short rows.

use std::ops::Range;

use super::{Plane, Source, gather::Gather, position::Positions};
use crate::Isa;

/// Positions, and memory for those of a row.
#[derive(Debug, Clone)]
pub(super) struct Rotated {
    positions: [Positions; 2],
    /// Width of the output.
    width: usize,
    is_nearest: bool,
    /// Fixed-point positions of the pixels of a row: x and y.
    row: Vec<[i32; 2]>,
    gather: Gather,
}

impl Rotated {
    pub(super) fn new(
        source: &Source,
        positions: [Positions; 2],
        width: usize,
        is_nearest: bool,
    ) -> Self {
        let (row, gather) = (Vec::with_capacity(width), Gather::new(source));
        Self { positions, width, is_nearest, row, gather }
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
        let [x, y] = self.positions.map(|positions| positions.columns(row));
        let inside = [x.inside(source.width, self.width), y.inside(source.height, self.width)];
        let start = inside[0].start.max(inside[1].start);
        let columns = start..inside[0].end.min(inside[1].end).max(start);
        let is_nearest = self.is_nearest;
        self.row.clear();
        self.row.extend(
            columns
                .clone()
                .map(|at| [x.position(at).fixed(is_nearest), y.position(at).fixed(is_nearest)]),
        );
        self.gather.interpolate(isa, source, planes, &self.row, out);
        columns
    }
}
