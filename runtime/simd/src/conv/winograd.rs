//! Convolutions with kernels of 3 x 3 by Winograd's minimal filtering: tiles of 4 x 4 outputs take
//! 36 multiplications for each pair of channels instead of 144. Channels of a pixel lie together,
//! and the step is one.
//!
//! Tiles of the input and kernels are transformed, each of the 36 places of the transformed tiles
//! is a product of matrices, and what that gives is transformed to outputs. Weights are those that
//! plain convolutions have packed, since memory takes longer to read transformed ones than a
//! processor to transform them; they are transformed for some tiles at a time.
//!
//! | module      | holds                                                  |
//! |-------------|--------------------------------------------------------|
//! | `floats`    | convolutions of `f32`                                  |
//! | `integers`  | convolutions of integers of 8 bits, summed up exactly  |
//! | `strip`     | the tiles that are convolved together                  |
//! | `transform` | the transformations                                    |

mod conv_f32;
mod conv_q8;
mod strip;
mod transform;

use afferent_core::Workers;

use crate::{
    Isa, SizeError, igemm,
    parallel::{self, Chunks, SharedSlice},
    qgemm::q8,
};
pub use conv_f32::WinogradF32;
pub use conv_q8::{WinogradQ8, is_exact, supports_channels};
use strip::{Lens, Memory, Numbers};

/// Rows and columns of the outputs of a tile.
const OUT: usize = 4;

/// Rows and columns of the inputs of a tile.
const IN: usize = OUT + 2;

/// InputRows of a transformed tile.
const PLACES: usize = IN * IN;

/// Elements of a kernel.
const TAPS: usize = 9;

/// Words of input channels whose weights are transformed at a time.
const BLOCK: usize = 64;

/// Transformed inputs that are multiplied at a time, when they are those of enough tiles.
const STRIP: usize = 128 * 1024;

/// Tiles for which it is worth transforming the weights once more.
const ENOUGH: usize = 32;

/// Numbers in a line of the cache.
const CACHE_LINE: usize = 16;

/// Numbers between places beyond what they hold, so that places do not meet in the cache.
const APART: usize = CACHE_LINE;

/// What is convolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`WinogradF32`].
    F32,
    /// [`WinogradQ8`].
    Q8,
}

/// ConvShape of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// Pictures.
    pub batch: usize,
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Rows of zeros above the input, and columns on its left.
    pub padding: [usize; 2],
    /// Input channels.
    pub in_channels: usize,
    /// Output channels.
    pub out_channels: usize,
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

/// What a convolution takes.
struct Costs {
    /// Input channels that are multiplied in one, the plain way and this way.
    plain: usize,
    word: usize,
    /// Cycles for the weights of a vector of pairs of channels, in a strip.
    weights: usize,
    /// Cycles for a tile of a vector of input channels, and of output channels.
    input: usize,
    output: usize,
}

impl Kind {
    fn costs(self, isa: Isa) -> Costs {
        match self {
            Self::F32 => Costs { plain: 1, word: 1, weights: 210, input: 400, output: 400 },
            Self::Q8 => {
                let plain = q8::group_len(isa);
                Costs { plain, word: 2, weights: 100, input: 200, output: 400 }
            }
        }
    }

    /// Words of scratch memory that the channels of a pixel take, in whole vectors.
    fn words(self, channels: usize, lanes: usize) -> Option<usize> {
        match self {
            Self::F32 => channels.checked_next_multiple_of(lanes),
            Self::Q8 => Some(channels.checked_next_multiple_of(4 * lanes)? / 2),
        }
    }

    /// Columns of a panel of weights.
    fn panel(self, isa: Isa, cols: usize) -> usize {
        match self {
            Self::F32 => igemm::panel_cols(isa, cols),
            Self::Q8 => q8::panel_cols(isa),
        }
    }
}

impl ConvShape {
    /// Whether this way is faster than the plain one: it counts the cycles of both, as they were
    /// measured where a vector is multiplied and added in one.
    pub fn is_profitable(&self, kind: Kind, isa: Isa) -> bool {
        let Costs { plain, word, weights, input, output } = kind.costs(isa);
        let Some(Plan { all, tiles, .. }) = self.plan(kind, isa, 1) else { return false };
        let Self { batch, in_channels: channels, out_channels: cols, .. } = *self;
        let pixels = batch * self.output[0] * self.output[1];
        let pairs = all * PLACES / word + all.div_ceil(tiles) * weights;
        let single = all.saturating_mul(input * channels + output * cols);
        let pairs = pairs.saturating_mul(channels * cols);
        pairs.saturating_add(single) < (pixels * TAPS / plain).saturating_mul(channels * cols)
    }

    /// Numbers of scratch memory that the convolution takes on `threads` threads; `None` when sizes
    /// are too large, or zero.
    pub fn scratch_len(&self, kind: Kind, isa: Isa, threads: usize) -> Option<usize> {
        let Plan { lens, pieces, apart, .. } = self.plan(kind, isa, threads)?;
        let own = lens.own()?.checked_mul(pieces)?;
        let inputs = lens.inputs.checked_mul(if apart { pieces } else { 1 })?;
        inputs.checked_add(own)?.checked_add(CACHE_LINE)
    }

    fn plan(&self, kind: Kind, isa: Isa, threads: usize) -> Option<Plan> {
        let Self { batch, output, in_channels: channels, out_channels: cols, .. } = *self;
        let grid = output.map(|len| len.div_ceil(OUT));
        let all = batch.checked_mul(grid[0])?.checked_mul(grid[1])?;
        let words = kind.words(channels, isa.lanes())?;
        (all > 0 && words > 0 && cols > 0).then_some(())?;
        let apart = all.div_ceil(threads.max(1)) >= ENOUGH || threads <= 1;
        let share = if apart { all.div_ceil(threads.max(1)) } else { all };
        let most = (STRIP / PLACES / words).max(ENOUGH);
        let tiles = share.div_ceil(share.div_ceil(most));
        let width = kind.panel(isa, cols);
        let pieces = if apart { all.div_ceil(tiles) } else { cols.div_ceil(width) };
        let lens = Lens::new(words, tiles, width)?;
        Some(Plan { grid, all, tiles, pieces: pieces.min(threads.max(1)), apart, lens })
    }

    /// Checks the lengths of the input and the output.
    fn check(&self, x_len: usize, out_len: usize) -> Result<(), SizeError> {
        let Self { batch, input, output, in_channels, out_channels, .. } = *self;
        let elements = |size: [usize; 2], channels: usize| {
            batch.checked_mul(size[0])?.checked_mul(size[1])?.checked_mul(channels)
        };
        SizeError::check_min("x", x_len, elements(input, in_channels))?;
        SizeError::check_min("out", out_len, elements(output, out_channels))
    }

    /// Computes the convolution of `numbers`, which fit.
    fn run<N: Numbers>(
        &self,
        numbers: &N,
        isa: Isa,
        out: &mut [N::Out],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let threads = parallel::threads(workers);
        let overflow = SizeError::Overflow { slice: "scratch" };
        let plan = self.plan(N::KIND, isa, threads).ok_or(overflow)?;
        let required = self.scratch_len(N::KIND, isa, threads);
        SizeError::check_min("scratch", scratch.len(), required)?;
        let scratch = &mut scratch[..required.ok_or(overflow)?];
        let skip = scratch.as_ptr().align_offset(CACHE_LINE * size_of::<f32>());
        let len = scratch.len() - CACHE_LINE;
        let scratch = scratch.get_mut(skip..skip + len).ok_or(overflow)?;
        let own_len = plan.lens.own().ok_or(overflow)?;
        let out = SharedSlice::new(out);
        let (lens, strips) = (plan.lens, plan.all.div_ceil(plan.tiles));
        let strip = |number: usize| {
            let from = number * plan.tiles;
            let to = plan.all.min(from + plan.tiles);
            strip::Strip { numbers, sizes: self, plan: &plan, from, to }
        };
        let (inputs, own) = scratch.split_at_mut(scratch.len() - own_len * plan.pieces);
        let panels = self.out_channels.div_ceil(lens.width);
        if plan.apart {
            let inputs = Chunks { data: inputs, chunk_len: lens.inputs };
            let own = Chunks { data: own, chunk_len: own_len };
            parallel::for_each_chunk_pair(workers, inputs, own, |piece, inputs, own| {
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
            return Ok(());
        }
        for number in 0..strips {
            parallel::for_each_chunk(workers, inputs, lens.block, |block, to| {
                isa.run(strip::Gather { strip: strip(number), block, to });
            });
            let inputs = &*inputs;
            parallel::for_each_chunk(workers, own, own_len, |piece, own| {
                let at = |piece: usize| piece * panels / plan.pieces;
                let memory = Memory { inputs, own };
                let panels = (at(piece), at(piece + 1));
                isa.run(strip::Multiply { strip: strip(number), panels, memory, out: &out });
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qgemm::requantize::DequantizeF32;
    use crate::{
        Activation,
        epilogue::BiasActivation,
        igemm::{WeightShape, pack, packed_len, panel_cols},
        pool,
    };

    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        let mut state = seed as u32 * 2 + 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    /// The pixel of the input that a tap of a pixel of the output meets.
    fn inside(sizes: &ConvShape, pixel: usize, tap: usize) -> Option<usize> {
        let ConvShape { input, output, padding: before, .. } = *sizes;
        let place = [pixel / output[1] % output[0] + tap / 3, pixel % output[1] + tap % 3];
        let [i, j] =
            [0, 1].map(|dim| place[dim].checked_sub(before[dim]).filter(|at| *at < input[dim]));
        Some((pixel / output[1] / output[0] * input[0] + i?) * input[1] + j?)
    }

    /// The largest error on `isa`, relative to the largest output.
    fn error(isa: Isa, sizes: ConvShape, threads: usize) -> f64 {
        let ConvShape { batch, input, output, in_channels: channels, out_channels: cols, .. } =
            sizes;
        let x = numbers(batch * input[0] * input[1] * channels, 1);
        let (kernels, mut bias) = (numbers(cols * TAPS * channels, 2), numbers(cols, 3));
        let mut weights =
            vec![0.0; packed_len(isa, WeightShape { inner: TAPS * channels, cols }).unwrap()];
        let weight = |k: usize, col: usize| kernels[col * TAPS * channels + k];
        pack(isa, WeightShape { inner: TAPS * channels, cols }, weight, &mut weights);
        bias.resize(cols.next_multiple_of(panel_cols(isa, cols)), 0.0);
        let zeros = vec![0.0; channels];
        let activation = Activation::from((-1.0, f32::INFINITY));
        let epilogue = BiasActivation { bias: &bias, activation };
        let conv = WinogradF32 { x: &x, zeros: &zeros, weights: &weights, epilogue };
        let mut out = vec![f32::NAN; batch * output[0] * output[1] * cols];
        let mut scratch = vec![f32::NAN; sizes.scratch_len(Kind::F32, isa, threads).unwrap()];
        conv.run(&sizes, isa, &mut out, &mut scratch, pool::workers(threads)).unwrap();
        let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
        for (at, found) in out.iter().enumerate() {
            let (pixel, col) = (at / cols, at % cols);
            let mut sum = f64::from(bias[col]);
            for tap in 0..TAPS {
                let Some(place) = inside(&sizes, pixel, tap) else { continue };
                let line = &x[place * channels..][..channels];
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

    /// Whether outputs of integers are the sums of their definition on `isa`.
    fn sums_are_right(isa: Isa, sizes: ConvShape, zero: i8, threads: usize) -> bool {
        let ConvShape { batch, input, output, in_channels: channels, out_channels: cols, .. } =
            sizes;
        let bytes = |len: usize, seed: usize| -> Vec<i8> {
            numbers(len, seed).into_iter().map(|x| (x * 140.0) as i8).collect()
        };
        let inner = TAPS * channels;
        let (x, kernels) =
            (bytes(batch * input[0] * input[1] * channels, 1), bytes(cols * inner, 2));
        let mut weights = vec![0; q8::packed_len(isa, WeightShape { inner, cols }).unwrap()];
        let column = |col: usize, first: usize, to: &mut [i8]| {
            to.copy_from_slice(&kernels[col * inner + first..][..to.len()]);
        };
        q8::pack(isa, WeightShape { inner, cols }, column, &mut weights);
        let pixels = batch * output[0] * output[1];
        let whole = cols.next_multiple_of(q8::panel_cols(isa));
        let (rows, scale, bias) = (vec![1.0; pixels], vec![1.0; whole], vec![0.0; whole]);
        let clamp = (f32::NEG_INFINITY, f32::INFINITY);
        let epilogue = DequantizeF32 { row_scale: &rows, scale: &scale, bias: &bias, clamp };
        let zeros = vec![zero; channels];
        let conv =
            WinogradQ8 { x: &x, zero_points: &zeros, weights: &weights, epilogue: &epilogue };
        let mut out = vec![f32::NAN; pixels * cols];
        let mut scratch = vec![f32::NAN; sizes.scratch_len(Kind::Q8, isa, threads).unwrap()];
        conv.run(&sizes, isa, &mut out, &mut scratch, pool::workers(threads)).unwrap();
        out.iter().enumerate().all(|(at, found)| {
            let (pixel, col) = (at / cols, at % cols);
            let sum: i32 = (0..inner)
                .map(|k| {
                    let place = inside(&sizes, pixel, k / channels);
                    let x = place.map_or(zero, |place| x[place * channels + k % channels]);
                    (i32::from(x) - i32::from(zero)) * i32::from(kernels[col * inner + k])
                })
                .sum();
            *found == sum as f32
        })
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
            let sizes = ConvShape {
                batch,
                input,
                output,
                padding: before,
                in_channels: channels,
                out_channels: cols,
            };
            for isa in Isa::available() {
                for threads in [1, 2, 3] {
                    let error = error(isa, sizes, threads);
                    assert!(error < 1e-5, "{isa:?} {sizes:?} {threads}: {error}");
                }
            }
        }
    }

    #[test]
    fn sums_of_integers_are_those_of_the_definition() {
        // Batch, rows, columns, zeros above and on the left, below and on the right, channels, what
        // zero is stored as.
        let cases = [
            (1, [8, 8], [1, 1], [1, 1], 64, 64, 0),
            (2, [7, 7], [1, 1], [1, 1], 200, 40, -128),
            (1, [5, 11], [0, 2], [2, 0], 4, 5, 127),
            (3, [3, 3], [0, 0], [0, 0], 12, 1, 3),
            (1, [1, 1], [1, 1], [1, 1], 20, 100, -7),
            (2, [37, 50], [1, 0], [0, 1], 20, 33, 9),
            (1, [21, 24], [1, 1], [1, 1], 132, 20, -128),
        ];
        for (batch, input, before, after, channels, cols, zero) in cases {
            let output = [0, 1].map(|dim| input[dim] + before[dim] + after[dim] - 2);
            let sizes = ConvShape {
                batch,
                input,
                output,
                padding: before,
                in_channels: channels,
                out_channels: cols,
            };
            for isa in Isa::available() {
                for threads in [1, 2, 3] {
                    let right = sums_are_right(isa, sizes, zero, threads);
                    assert!(right, "{isa:?} {sizes:?} {threads}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_that_are_exact_are_right() {
        // All weights and inputs at their ends, with signs that alternate or not.
        let channels = 112;
        let sizes = ConvShape {
            batch: 1,
            input: [6, 6],
            output: [4, 4],
            padding: [0; 2],
            in_channels: channels,
            out_channels: 3,
        };
        let inner = TAPS * channels;
        let columns = [vec![-128; inner], vec![127; inner]];
        for isa in Isa::available() {
            assert!(columns.iter().all(|column| is_exact(isa, column)));
            assert!(!is_exact(isa, &vec![-128; 1029]));
            let mut weights = vec![0; q8::packed_len(isa, WeightShape { inner, cols: 3 }).unwrap()];
            let column = |col: usize, first: usize, to: &mut [i8]| {
                to.copy_from_slice(&columns[col % 2][first..][..to.len()]);
            };
            q8::pack(isa, WeightShape { inner, cols: 3 }, column, &mut weights);
            let whole = q8::panel_cols(isa);
            let (rows, scale, bias) = (vec![1.0; 16], vec![1.0; whole], vec![0.0; whole]);
            let clamp = (f32::NEG_INFINITY, f32::INFINITY);
            let epilogue = DequantizeF32 { row_scale: &rows, scale: &scale, bias: &bias, clamp };
            for (x, zero) in [(127, -128), (-128, 127)] {
                let (x, zeros) = (vec![x; 36 * channels], vec![zero; channels]);
                let conv = WinogradQ8 {
                    x: &x,
                    zero_points: &zeros,
                    weights: &weights,
                    epilogue: &epilogue,
                };
                let mut out = vec![f32::NAN; 48];
                let len = sizes.scratch_len(Kind::Q8, isa, 1).unwrap();
                conv.run(&sizes, isa, &mut out, &mut vec![f32::NAN; len], None).unwrap();
                let difference = f32::from(x[0]) - f32::from(zero);
                for (at, found) in out.into_iter().enumerate() {
                    let sum = f32::from(columns[at % 3 % 2][0]) * difference * inner as f32;
                    assert_eq!(found, sum, "{isa:?}");
                }
            }
        }
    }
}
