//! im2col: patches of the input as operand of a GEMM, packed on demand.

use super::{Geometry, InnerStrides, Strides};
use crate::{
    Isa, Routine, Simd,
    gemm::{Extent, Operand, PanelRange, StridedOperand},
};

/// Maximum vectors of a panel.
const MAX_PANEL_VECTORS: usize = 32;

/// Patches of one group of one image. Vector `i` of the operand is the patch of output position
/// `i`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Im2col<'d> {
    /// Input from the first channel of the group on.
    pub(super) x: &'d [f32],
    pub(super) strides: Strides,
    pub(super) geometry: &'d Geometry,
    /// Order of the elements of a patch.
    pub(super) inner_strides: InnerStrides,
}

impl Operand for Im2col<'_> {
    fn extent(&self) -> Extent {
        let depth = self.geometry.in_channels * self.geometry.taps();
        Extent { vectors: self.geometry.positions(), depth }
    }

    fn strided(&self) -> Option<StridedOperand<'_>> {
        None
    }

    fn pack(&self, isa: Isa, part: PanelRange, to: &mut [f32]) {
        isa.run(Pack { im2col: self, part, to });
    }
}

struct Pack<'p, 'd> {
    im2col: &'p Im2col<'d>,
    part: PanelRange,
    to: &'p mut [f32],
}

/// Output positions of a panel that are adjacent along the last dimension.
#[derive(Clone, Copy, Default)]
struct OutputRun {
    /// Vector of the panel that belongs to the first position.
    vector: usize,
    len: usize,
    position: [usize; 3],
}

/// Vectors of a panel whose element for some kernel element is inside the input.
#[derive(Clone, Copy, Default)]
struct InputRun {
    /// First vector.
    vector: usize,
    len: usize,
    /// Index of the first element in the input, for channel 0.
    start: usize,
}

impl Routine for Pack<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { im2col, part, to } = self;
        let Im2col { x, strides, geometry: g, inner_strides } = *im2col;
        if part.count < part.width || g.padding != [0; 3] {
            to.fill(0.0);
        }
        let (runs, count) = im2col.output_runs(part);
        let has_contiguous_rows = strides.spatial[2] == 1;
        // An output position without a neighbor may have any stride.
        let step = g.stride[2].saturating_mul(strides.spatial[2]);
        let mut tap_index = 0;
        for depth in 0..g.kernel[0] {
            for height in 0..g.kernel[1] {
                for width in 0..g.kernel[2] {
                    let tap = tap_index * inner_strides.tap;
                    tap_index += 1;
                    // Channels whose element for this kernel element is in the part.
                    let end = (part.k + part.depth).saturating_sub(tap);
                    let end = end.div_ceil(inner_strides.channel).min(g.in_channels);
                    let first = part.k.saturating_sub(tap).div_ceil(inner_strides.channel);
                    if first >= end {
                        continue;
                    }
                    let (runs, count) = im2col.input_runs(&runs[..count], [depth, height, width]);
                    for run in &runs[..count] {
                        let row = first * inner_strides.channel + tap - part.k;
                        let mut index = row * part.width + run.vector;
                        let channel_step = inner_strides.channel * part.width;
                        if !has_contiguous_rows && strides.channel == 1 {
                            for i in 0..run.len {
                                let from = &x[run.start + i * step..][first..end];
                                let to = to[index + i..].iter_mut().step_by(channel_step);
                                to.zip(from).for_each(|(to, from)| *to = *from);
                            }
                            continue;
                        }
                        for channel in first..end {
                            let from = &x[run.start + channel * strides.channel..];
                            copy(simd, from, step, &mut to[index..][..run.len]);
                            index += channel_step;
                        }
                    }
                }
            }
        }
    }
}

/// Copies every `step`-th element.
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
    /// Splits the output positions of `part` into runs; returns them and their number.
    #[inline(always)]
    fn output_runs(&self, part: PanelRange) -> ([OutputRun; MAX_PANEL_VECTORS], usize) {
        let [_, height, width] = self.geometry.output;
        let mut runs = [OutputRun::default(); MAX_PANEL_VECTORS];
        let mut count = 0;
        let mut vector = 0;
        while vector < part.count.min(MAX_PANEL_VECTORS) {
            let at = part.start + vector;
            let position = [at / width / height, at / width % height, at % width];
            let len = (width - position[2]).min(part.count - vector);
            runs[count] = OutputRun { vector, len, position };
            count += 1;
            vector += len;
        }
        (runs, count)
    }

    /// Parts of `runs` that are inside the input for kernel element `tap`; returns them and their
    /// number.
    #[inline(always)]
    fn input_runs(
        &self,
        runs: &[OutputRun],
        tap: [usize; 3],
    ) -> ([InputRun; MAX_PANEL_VECTORS], usize) {
        let g = self.geometry;
        let (stride, padding, offset) = (g.stride[2], g.padding[2], tap[2] * g.dilation[2]);
        let before = padding.saturating_sub(offset).div_ceil(stride);
        let end = (g.input[2] + padding).saturating_sub(offset).div_ceil(stride);
        let mut input_runs = [InputRun::default(); MAX_PANEL_VECTORS];
        let mut count = 0;
        for run in runs {
            let depth = g.source(0, tap[0], run.position[0]);
            let Some((depth, height)) = depth.zip(g.source(1, tap[1], run.position[1])) else {
                continue;
            };
            let first = before.max(run.position[2]);
            let last = end.min(run.position[2] + run.len);
            if first >= last {
                continue;
            }
            let width = first * stride + offset - padding;
            let start = depth * self.strides.spatial[0]
                + height * self.strides.spatial[1]
                + width * self.strides.spatial[2];
            let vector = run.vector + first - run.position[2];
            input_runs[count] = InputRun { vector, len: last - first, start };
            count += 1;
        }
        (input_runs, count)
    }
}
