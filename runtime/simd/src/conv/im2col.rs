//! Patches of an input, as the lines of a product.

use super::{Geometry, Strides};
use crate::{
    Isa, Routine, Simd,
    gemm::{Operand, PanelRange, StridedOperand},
};

/// The most lines of a part.
const MOST: usize = 32;

/// The patches of the outputs of one group of one image: line `i` belongs to output position `i`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Im2col<'d> {
    /// The input from the first channel of the group on.
    pub(super) x: &'d [f32],
    pub(super) strides: Strides,
    pub(super) geometry: &'d Geometry,
    /// Step in a line between neighbouring channels.
    pub(super) channel: usize,
    /// Step in a line between neighbouring elements of the kernel.
    pub(super) tap: usize,
}

impl Operand for Im2col<'_> {
    fn extent(&self) -> (usize, usize) {
        (self.geometry.positions(), self.geometry.in_channels * self.geometry.taps())
    }

    fn strided(&self) -> Option<StridedOperand<'_>> {
        None
    }

    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]) {
        isa.run(Pack { patches: self, part, to });
    }
}

struct Pack<'p, 'd> {
    patches: &'p Im2col<'d>,
    part: PanelRange,
    to: &'p mut [f32],
}

/// Outputs that are neighbours along the last dimension.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The first line of the part that belongs to them.
    line: usize,
    len: usize,
    place: [usize; 3],
}

/// Lines whose element for some tap is in the input.
#[derive(Clone, Copy, Default)]
struct Piece {
    line: usize,
    len: usize,
    from: usize,
}

impl Routine for Pack<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { patches, part, to } = self;
        let Im2col { x, strides, geometry: g, .. } = *patches;
        if part.count < part.width || g.padding != [0; 3] {
            to.fill(0.0);
        }
        let (runs, count) = patches.runs(part);
        let by_rows = strides.spatial[2] == 1;
        // Where an output has no neighbour, the step may be of any size.
        let step = g.stride[2].saturating_mul(strides.spatial[2]);
        let mut at = 0;
        for depth in 0..g.kernel[0] {
            for height in 0..g.kernel[1] {
                for width in 0..g.kernel[2] {
                    let tap = at * patches.tap;
                    at += 1;
                    // Channels whose element for this tap is in the part.
                    let end = (part.k + part.depth).saturating_sub(tap);
                    let end = end.div_ceil(patches.channel).min(g.in_channels);
                    let first = part.k.saturating_sub(tap).div_ceil(patches.channel);
                    if first >= end {
                        continue;
                    }
                    let (pieces, count) = patches.pieces(&runs[..count], [depth, height, width]);
                    for piece in &pieces[..count] {
                        let mut place =
                            (first * patches.channel + tap - part.k) * part.width + piece.line;
                        let row = patches.channel * part.width;
                        if !by_rows && strides.channel == 1 {
                            for i in 0..piece.len {
                                let from = &x[piece.from + i * step..][first..end];
                                let to = to[place + i..].iter_mut().step_by(row);
                                to.zip(from).for_each(|(to, from)| *to = *from);
                            }
                            continue;
                        }
                        for channel in first..end {
                            let from = &x[piece.from + channel * strides.channel..];
                            copy(simd, from, step, &mut to[place..][..piece.len]);
                            place += row;
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn copy<S: Simd>(simd: S, from: &[f32], step: usize, to: &mut [f32]) {
    if step == 1 {
        let from = &from[..to.len()];
        for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
            simd.store_partial(simd.load_partial(from), to);
        }
    } else {
        to.iter_mut().zip(from.iter().step_by(step.max(1))).for_each(|(to, from)| *to = *from);
    }
}

impl Im2col<'_> {
    /// The rows of outputs that the lines of `part` belong to.
    #[inline(always)]
    fn runs(&self, part: PanelRange) -> ([Run; MOST], usize) {
        let [_, height, width] = self.geometry.output;
        let mut runs = [Run::default(); MOST];
        let mut count = 0;
        let mut line = 0;
        while line < part.count.min(MOST) {
            let at = part.start + line;
            let place = [at / width / height, at / width % height, at % width];
            let len = (width - place[2]).min(part.count - line);
            runs[count] = Run { line, len, place };
            count += 1;
            line += len;
        }
        (runs, count)
    }

    /// The parts of `runs` that meet the input with the kernel element `tap`.
    #[inline(always)]
    fn pieces(&self, runs: &[Run], tap: [usize; 3]) -> ([Piece; MOST], usize) {
        let g = self.geometry;
        let (stride, padding, offset) = (g.stride[2], g.padding[2], tap[2] * g.dilation[2]);
        let before = padding.saturating_sub(offset).div_ceil(stride);
        let end = (g.input[2] + padding).saturating_sub(offset).div_ceil(stride);
        let mut pieces = [Piece::default(); MOST];
        let mut count = 0;
        for run in runs {
            let depth = g.source(0, tap[0], run.place[0]);
            let Some((depth, height)) = depth.zip(g.source(1, tap[1], run.place[1])) else {
                continue;
            };
            let first = before.max(run.place[2]);
            let last = end.min(run.place[2] + run.len);
            if first >= last {
                continue;
            }
            let width = first * stride + offset - padding;
            let from = depth * self.strides.spatial[0]
                + height * self.strides.spatial[1]
                + width * self.strides.spatial[2];
            pieces[count] =
                Piece { line: run.line + first - run.place[2], len: last - first, from };
            count += 1;
        }
        (pieces, count)
    }
}
