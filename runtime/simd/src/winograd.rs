//! Convolutions with kernels of 3 x 3 by Winograd's minimal filtering: tiles of 4 x 4 outputs take
//! 36 multiplications for each pair of channels instead of 144.
//!
//! Tiles of the input and kernels are transformed, each of the 36 places of the transformed tiles is
//! a product of matrices, and what that gives is transformed to outputs. Weights are those that
//! [`indirect::pack`](crate::indirect::pack) made, since memory takes longer to read transformed
//! ones than a processor to transform them; they are transformed for some tiles at a time.
//!
//! Errors are within 1e-5 of the largest output. An infinite input makes NaN of its whole tile.

mod strip;
mod transform;

use afferent_core::Workers;

use crate::{
    Activation, Isa,
    indirect::{packed_len, panel},
    parallel,
};
use strip::{Lens, Memory};

/// Rows and columns of the outputs of a tile.
const OUT: usize = 4;

/// Rows and columns of the inputs of a tile.
const IN: usize = OUT + 2;

/// Places of a transformed tile.
const PLACES: usize = IN * IN;

/// Elements of a kernel.
const TAPS: usize = 9;

/// Input channels whose weights are transformed at a time.
const BLOCK: usize = 64;

/// Transformed inputs that are multiplied at a time, when they are those of enough tiles.
const STRIP: usize = 128 * 1024;

/// Tiles for which it is worth transforming the weights once more.
const ENOUGH: usize = 32;

/// Numbers in a line of the cache.
const CACHE_LINE: usize = 16;

/// Numbers between places beyond what they hold, so that places do not meet in the cache.
const APART: usize = CACHE_LINE;

/// A convolution of pictures whose channels lie together, with a step of one.
#[derive(Debug, Clone, Copy)]
pub struct Winograd<'d> {
    /// The pictures, one after the other.
    pub x: &'d [f32],
    /// At least as many zeros as there are channels.
    pub zeros: &'d [f32],
    /// The sizes.
    pub sizes: Sizes,
    /// Weights that [`indirect::pack`](crate::indirect::pack) made: for each column those of the
    /// channels of the first element of the kernel, then those of the second, and so on.
    pub weights: &'d [f32],
    /// What is added to each column of whole panels.
    pub bias: &'d [f32],
    /// What follows.
    pub then: Activation,
}

/// Sizes of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Pictures.
    pub batch: usize,
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Rows of zeros above the input, and columns on its left.
    pub before: [usize; 2],
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub cols: usize,
}

/// How a convolution is cut up.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Rows and columns of tiles in a picture.
    grid: [usize; 2],
    /// Tiles of all pictures.
    all: usize,
    /// Tiles of a strip.
    tiles: usize,
    /// Threads.
    pieces: usize,
    /// Whether each thread has strips of its own; else all share one, and have panels.
    apart: bool,
    lens: Lens,
}

impl Sizes {
    /// Whether this way is faster than the plain one: it counts the cycles of both, as they
    /// were measured where a vector is multiplied and added in one.
    pub fn pays(&self) -> bool {
        /// Cycles for the weights of a vector of pairs of channels, in a strip.
        const WEIGHTS: usize = 300;
        /// Cycles for a tile of a vector of input channels, or of output channels.
        const TILE: usize = 900;
        let Some(Plan { all, tiles, .. }) = self.plan(1, 1) else { return false };
        let Self { batch, output, channels, cols, .. } = *self;
        let plain = batch * output[0] * output[1] * TAPS;
        let pairs = all * PLACES + all.div_ceil(tiles) * WEIGHTS;
        let single = (all * TILE).saturating_mul(channels + cols);
        let pairs = pairs.saturating_mul(channels * cols);
        pairs.saturating_add(single) < plain.saturating_mul(channels * cols)
    }

    /// Numbers of scratch memory that [`Winograd::write`] takes on `threads` threads; `None` when
    /// sizes are too large, or zero.
    pub fn scratch_len(&self, isa: Isa, threads: usize) -> Option<usize> {
        let Plan { lens, pieces, apart, .. } = self.plan(isa.lanes(), threads)?;
        let own = lens.own()?.checked_mul(pieces)?;
        let inputs = lens.inputs.checked_mul(if apart { pieces } else { 1 })?;
        inputs.checked_add(own)?.checked_add(CACHE_LINE)
    }

    fn plan(&self, lanes: usize, threads: usize) -> Option<Plan> {
        let Self { batch, output, channels, cols, .. } = *self;
        let grid = output.map(|len| len.div_ceil(OUT));
        let all = batch.checked_mul(grid[0])?.checked_mul(grid[1])?;
        let channels = channels.checked_next_multiple_of(lanes)?;
        (all > 0 && channels > 0 && cols > 0).then_some(())?;
        let apart = all.div_ceil(threads.max(1)) >= ENOUGH || threads <= 1;
        let share = if apart { all.div_ceil(threads.max(1)) } else { all };
        let most = (STRIP / PLACES / channels).max(ENOUGH);
        let tiles = share.div_ceil(share.div_ceil(most));
        let width = if cols <= lanes { lanes } else { 2 * lanes };
        let pieces = if apart { all.div_ceil(tiles) } else { cols.div_ceil(width) };
        let lens = Lens::new(channels, tiles, width)?;
        Some(Plan { grid, all, tiles, pieces: pieces.min(threads.max(1)), apart, lens })
    }
}

impl Winograd<'_> {
    /// Writes the convolution to `out`, pictures whose channels lie together. `None` when something
    /// does not fit its slice, or the scratch memory is less than [`Sizes::scratch_len`]; nothing is
    /// written then.
    pub fn write(
        &self,
        isa: Isa,
        out: &mut [f32],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Option<()> {
        let threads = workers.map_or(1, Workers::threads);
        let plan = self.sizes.plan(isa.lanes(), threads)?;
        let scratch = scratch.get_mut(..self.sizes.scratch_len(isa, threads)?)?;
        let skip = scratch.as_ptr().align_offset(CACHE_LINE * size_of::<f32>());
        let end = scratch.len() - CACHE_LINE;
        let scratch = scratch.get_mut(skip..skip + end)?;
        self.fits(isa, out)?;
        let out = parallel::Shared::new(out);
        let (lens, strips) = (plan.lens, plan.all.div_ceil(plan.tiles));
        let strip = |number: usize| {
            let from = number * plan.tiles;
            strip::Strip { conv: self, plan: &plan, from, to: plan.all.min(from + plan.tiles) }
        };
        let (inputs, own) = scratch.split_at_mut(scratch.len() - lens.own()? * plan.pieces);
        let panels = self.sizes.cols.div_ceil(lens.width);
        if plan.apart {
            let parts = ((inputs, lens.inputs), (own, lens.own()?));
            parallel::for_each_pair(workers, parts.0, parts.1, |piece, inputs, own| {
                for number in (piece..strips).step_by(plan.pieces) {
                    for (block, to) in inputs.chunks_exact_mut(lens.block).enumerate() {
                        isa.run(strip::Gather { strip: strip(number), block, to });
                    }
                    let memory = Memory { inputs, own };
                    isa.run(strip::Multiply {
                        strip: strip(number),
                        panels: (0, panels),
                        memory,
                        out: &out,
                    });
                }
            });
            return Some(());
        }
        for number in 0..strips {
            parallel::for_each_chunk(workers, inputs, lens.block, |block, to| {
                isa.run(strip::Gather { strip: strip(number), block, to });
            });
            let inputs = &*inputs;
            parallel::for_each_chunk(workers, own, lens.own()?, |piece, own| {
                let at = |piece: usize| piece * panels / plan.pieces;
                let memory = Memory { inputs, own };
                let panels = (at(piece), at(piece + 1));
                isa.run(strip::Multiply { strip: strip(number), panels, memory, out: &out });
            });
        }
        Some(())
    }

    /// Whether everything is inside its slice.
    fn fits(&self, isa: Isa, out: &[f32]) -> Option<()> {
        let Sizes { batch, input, output, channels, cols, .. } = self.sizes;
        let numbers = |size: [usize; 2], channels: usize| {
            batch.checked_mul(size[0])?.checked_mul(size[1])?.checked_mul(channels)
        };
        let all = numbers(input, channels)? <= self.x.len()
            && numbers(output, cols)? <= out.len()
            && channels <= self.zeros.len()
            && packed_len(isa, channels.checked_mul(TAPS)?, cols)? <= self.weights.len()
            && cols.next_multiple_of(panel(isa, cols)) <= self.bias.len();
        all.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{indirect::pack, pool};

    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        let mut state = seed as u32 * 2 + 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    /// The largest error on `isa`, relative to the largest output.
    fn error(isa: Isa, sizes: Sizes, threads: usize) -> f64 {
        let Sizes { batch, input, output, before, channels, cols } = sizes;
        let x = numbers(batch * input[0] * input[1] * channels, 1);
        let (kernels, mut bias) = (numbers(cols * TAPS * channels, 2), numbers(cols, 3));
        let mut weights = vec![0.0; packed_len(isa, TAPS * channels, cols).unwrap()];
        let weight = |k: usize, col: usize| kernels[col * TAPS * channels + k];
        pack(isa, (TAPS * channels, cols), weight, &mut weights);
        bias.resize(cols.next_multiple_of(panel(isa, cols)), 0.0);
        let (zeros, then) = (vec![0.0; channels], Activation::from((-1.0, f32::INFINITY)));
        let conv = Winograd { x: &x, zeros: &zeros, sizes, weights: &weights, bias: &bias, then };
        let mut out = vec![f32::NAN; batch * output[0] * output[1] * cols];
        let mut scratch = vec![f32::NAN; sizes.scratch_len(isa, threads).unwrap()];
        conv.write(isa, &mut out, &mut scratch, pool::workers(threads)).unwrap();
        let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
        for (at, found) in out.iter().enumerate() {
            let (pixel, col) = (at / cols, at % cols);
            let (row, column) = (pixel / output[1] % output[0], pixel % output[1]);
            let mut sum = f64::from(bias[col]);
            for tap in 0..TAPS {
                let place = [row + tap / 3, column + tap % 3];
                let [Some(i), Some(j)] = [0, 1]
                    .map(|dim| place[dim].checked_sub(before[dim]).filter(|at| *at < input[dim]))
                else {
                    continue;
                };
                let item = pixel / output[1] / output[0];
                let line = &x[((item * input[0] + i) * input[1] + j) * channels..][..channels];
                let kernel = &kernels[(col * TAPS + tap) * channels..];
                let products = line.iter().zip(kernel);
                sum += products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            }
            worst = worst.max((f64::from(*found) - sum.max(-1.0)).abs());
            largest = largest.max(sum.abs());
        }
        assert!(!worst.is_nan() && !out.iter().any(|x| x.is_nan()));
        worst / largest
    }

    #[test]
    fn outputs_are_those_of_the_definition() {
        // Batch, rows, columns, zeros above and on the left, below and on the right, channels.
        let cases = [
            (1, [8, 8], [1, 1], [1, 1], 16, 32),
            (2, [7, 7], [1, 1], [1, 1], 70, 40),
            (1, [5, 11], [0, 2], [2, 0], 3, 5),
            (3, [3, 3], [0, 0], [0, 0], 1, 1),
            (1, [1, 1], [1, 1], [1, 1], 9, 100),
            (1, [30, 29], [1, 1], [1, 1], 130, 17),
            (2, [37, 50], [1, 0], [0, 1], 20, 33),
            (1, [21, 24], [1, 1], [1, 1], 512, 20),
        ];
        for (batch, input, before, after, channels, cols) in cases {
            let output = [0, 1].map(|dim| input[dim] + before[dim] + after[dim] - 2);
            let sizes = Sizes { batch, input, output, before, channels, cols };
            for isa in Isa::available() {
                for threads in [1, 2, 3] {
                    let error = error(isa, sizes, threads);
                    assert!(error < 1e-5, "{isa:?} {sizes:?} {threads}: {error}");
                }
            }
        }
    }
}
