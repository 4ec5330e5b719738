//! Winograd convolution F(4×4, 3×3) of NHWC tensors with stride 1.
//!
//! A tile of 4 × 4 outputs takes 36 instead of 144 multiplications per pair of input and output
//! channels. Input tiles and kernels are transformed; each of the 36 elements of the transformed
//! tiles is a matrix product over the channels; the products are transformed to outputs. Weights are
//! in the packed format of the other convolutions and are transformed per strip of tiles, because
//! loading transformed weights from memory takes longer than computing them.
//!
//! Source: Lavin and Gray 2015, arXiv 1509.09308.
//!
//! | module      | contents                                              |
//! |-------------|-------------------------------------------------------|
//! | `conv_f32`  | `f32` convolution                                     |
//! | `conv_q8`   | int8 convolution with exact accumulation              |
//! | `strip`     | strips: the tiles that are computed together          |
//! | `transform` | input, weight and output transforms                   |

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
use strip::{BufferLayout, Buffers, Convolution};

/// Rows and columns of an output tile.
const OUT_TILE: usize = 4;

/// Rows and columns of an input tile.
const IN_TILE: usize = OUT_TILE + 2;

/// Elements of a transformed tile.
const TILE_ELEMENTS: usize = IN_TILE * IN_TILE;

/// Elements of a kernel.
const KERNEL_TAPS: usize = 9;

/// Words of input channels whose weights are transformed together.
const BLOCK_WORDS: usize = 64;

/// Words of transformed inputs per strip, unless that is less than [`MIN_STRIP_TILES`].
const STRIP_WORDS: usize = 128 * 1024;

/// Minimum tiles per strip that are worth another transform of the weights.
const MIN_STRIP_TILES: usize = 32;

/// Words per cache line.
const CACHE_LINE_WORDS: usize = 16;

/// Padding between tiles, in words, so that their elements do not map to the same cache sets.
const TILE_PADDING_WORDS: usize = CACHE_LINE_WORDS;

/// Data type of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`WinogradF32`].
    F32,
    /// [`WinogradQ8`].
    Q8,
}

/// Sizes of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// Images.
    pub batch: usize,
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Rows of zeros above the input, and columns of zeros to its left.
    pub padding: [usize; 2],
    /// Input channels.
    pub in_channels: usize,
    /// Output channels.
    pub out_channels: usize,
}

/// Blocking of a convolution.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Rows and columns of tiles per image.
    tile_grid: [usize; 2],
    /// Tiles of all images.
    tiles: usize,
    /// Tiles per strip.
    strip_tiles: usize,
    /// Parallel tasks.
    tasks: usize,
    /// True if each task has strips of its own. Otherwise all tasks share one strip at a time, and
    /// each has panels of output channels.
    splits_by_strips: bool,
    layout: BufferLayout,
}

/// Measured costs of a convolution, in cycles on a processor with fused multiply-add.
struct Costs {
    /// Input channels per multiply instruction of the direct convolution.
    direct_channels: usize,
    /// Input channels per multiply instruction of the Winograd convolution.
    word_channels: usize,
    /// Weight transform of one vector of input channels × output channels.
    weights: usize,
    /// Input transform of one tile of one vector of channels.
    input: usize,
    /// Output transform of one tile of one vector of channels.
    output: usize,
}

impl Kind {
    fn costs(self, isa: Isa) -> Costs {
        match self {
            Self::F32 => Costs {
                direct_channels: 1,
                word_channels: 1,
                weights: 210,
                input: 400,
                output: 400,
            },
            Self::Q8 => Costs {
                direct_channels: q8::group_len(isa),
                word_channels: 2,
                weights: 100,
                input: 200,
                output: 400,
            },
        }
    }

    /// Words of the channels of a pixel, padded to whole vectors.
    fn words(self, channels: usize, lanes: usize) -> Option<usize> {
        match self {
            Self::F32 => channels.checked_next_multiple_of(lanes),
            Self::Q8 => Some(channels.checked_next_multiple_of(4 * lanes)? / 2),
        }
    }

    /// Columns per panel of packed weights.
    fn panel_cols(self, isa: Isa, cols: usize) -> usize {
        match self {
            Self::F32 => igemm::panel_cols(isa, cols),
            Self::Q8 => q8::panel_cols(isa),
        }
    }
}

impl ConvShape {
    /// True if the Winograd convolution is estimated to be faster than the direct convolution.
    pub fn is_profitable(&self, kind: Kind, isa: Isa) -> bool {
        let Costs { direct_channels, word_channels, weights, input, output } = kind.costs(isa);
        let Some(Plan { tiles, strip_tiles, .. }) = self.plan(kind, isa, 1) else { return false };
        let Self { batch, in_channels, out_channels, .. } = *self;
        let pixels = batch * self.output[0] * self.output[1];
        let channel_pairs = in_channels * out_channels;
        let products =
            tiles * TILE_ELEMENTS / word_channels + tiles.div_ceil(strip_tiles) * weights;
        let transforms = tiles.saturating_mul(input * in_channels + output * out_channels);
        let winograd = products.saturating_mul(channel_pairs).saturating_add(transforms);
        winograd < (pixels * KERNEL_TAPS / direct_channels).saturating_mul(channel_pairs)
    }

    /// Scratch buffer of the convolution on `threads` threads, in elements; `None` if a size is
    /// zero or overflows.
    pub fn scratch_len(&self, kind: Kind, isa: Isa, threads: usize) -> Option<usize> {
        let Plan { layout, tasks, splits_by_strips, .. } = self.plan(kind, isa, threads)?;
        let private = layout.private_len()?.checked_mul(tasks)?;
        let strips = if splits_by_strips { tasks } else { 1 };
        let inputs = layout.inputs_len.checked_mul(strips)?;
        inputs.checked_add(private)?.checked_add(CACHE_LINE_WORDS)
    }

    fn plan(&self, kind: Kind, isa: Isa, threads: usize) -> Option<Plan> {
        let Self { batch, output, in_channels, out_channels, .. } = *self;
        let tile_grid = output.map(|len| len.div_ceil(OUT_TILE));
        let tiles = batch.checked_mul(tile_grid[0])?.checked_mul(tile_grid[1])?;
        let words = kind.words(in_channels, isa.lanes())?;
        if tiles == 0 || words == 0 || out_channels == 0 {
            return None;
        }
        let threads = threads.max(1);
        let splits_by_strips = tiles.div_ceil(threads) >= MIN_STRIP_TILES || threads == 1;
        let share = if splits_by_strips { tiles.div_ceil(threads) } else { tiles };
        let max_tiles = (STRIP_WORDS / TILE_ELEMENTS / words).max(MIN_STRIP_TILES);
        let strip_tiles = share.div_ceil(share.div_ceil(max_tiles));
        let panel_cols = kind.panel_cols(isa, out_channels);
        let units = if splits_by_strips {
            tiles.div_ceil(strip_tiles)
        } else {
            out_channels.div_ceil(panel_cols)
        };
        let layout = BufferLayout::new(words, strip_tiles, panel_cols)?;
        let tasks = units.min(threads);
        Some(Plan { tile_grid, tiles, strip_tiles, tasks, splits_by_strips, layout })
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

    /// Computes `conv`, whose slices have been checked.
    fn run<C: Convolution>(
        &self,
        conv: &C,
        isa: Isa,
        out: &mut [C::Out],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let threads = parallel::threads(workers);
        let overflow = SizeError::Overflow { slice: "scratch" };
        let plan = self.plan(C::KIND, isa, threads).ok_or(overflow)?;
        let required = self.scratch_len(C::KIND, isa, threads);
        SizeError::check_min("scratch", scratch.len(), required)?;
        let scratch = &mut scratch[..required.ok_or(overflow)?];
        let skip = scratch.as_ptr().align_offset(CACHE_LINE_WORDS * size_of::<f32>());
        let len = scratch.len() - CACHE_LINE_WORDS;
        let scratch = scratch.get_mut(skip..skip + len).ok_or(overflow)?;
        let private_len = plan.layout.private_len().ok_or(overflow)?;
        let (inputs, private) = scratch.split_at_mut(scratch.len() - private_len * plan.tasks);
        let out = SharedSlice::new(out);
        let call = strip::Call { conv, shape: self, plan: &plan };
        if plan.splits_by_strips {
            call.run_strips(isa, inputs, private, &out, workers);
        } else {
            call.run_panels(isa, inputs, private, &out, workers);
        }
        Ok(())
    }
}

impl<C: Convolution> strip::Call<'_, C> {
    fn strip(&self, index: usize) -> strip::Strip<'_, C> {
        let first_tile = index * self.plan.strip_tiles;
        let end_tile = self.plan.tiles.min(first_tile + self.plan.strip_tiles);
        let Self { conv, shape, plan } = *self;
        strip::Strip { conv, shape, plan, first_tile, end_tile }
    }

    /// Computes the convolution with strips of their own for each task.
    fn run_strips(
        &self,
        isa: Isa,
        inputs: &mut [f32],
        private: &mut [f32],
        out: &SharedSlice<'_, C::Out>,
        workers: Option<&dyn Workers>,
    ) {
        let Plan { layout, tasks, tiles, strip_tiles, .. } = *self.plan;
        let strips = tiles.div_ceil(strip_tiles);
        let panels = 0..self.shape.out_channels.div_ceil(layout.panel_cols);
        let private_len = private.len() / tasks;
        let inputs = Chunks { data: inputs, chunk_len: layout.inputs_len };
        let private = Chunks { data: private, chunk_len: private_len };
        parallel::for_each_chunk_pair(workers, inputs, private, |task, inputs, private| {
            for index in (task..strips).step_by(tasks) {
                for (block, to) in inputs.chunks_exact_mut(layout.block_len).enumerate() {
                    isa.run(strip::TransformInputs { strip: self.strip(index), block, to });
                }
                let buffers = Buffers { inputs, private };
                let (strip, panels) = (self.strip(index), panels.clone());
                isa.run(strip::MultiplyPanels { strip, panels, buffers, out });
            }
        });
    }

    /// Computes the convolution strip by strip, with panels of their own for each task.
    fn run_panels(
        &self,
        isa: Isa,
        inputs: &mut [f32],
        private: &mut [f32],
        out: &SharedSlice<'_, C::Out>,
        workers: Option<&dyn Workers>,
    ) {
        let Plan { layout, tasks, tiles, strip_tiles, .. } = *self.plan;
        let panels = self.shape.out_channels.div_ceil(layout.panel_cols);
        let private_len = private.len() / tasks;
        for index in 0..tiles.div_ceil(strip_tiles) {
            parallel::for_each_chunk(workers, inputs, layout.block_len, |block, to| {
                isa.run(strip::TransformInputs { strip: self.strip(index), block, to });
            });
            let inputs = &*inputs;
            parallel::for_each_chunk(workers, private, private_len, |task, private| {
                let panels = task * panels / tasks..(task + 1) * panels / tasks;
                let (strip, buffers) = (self.strip(index), Buffers { inputs, private });
                isa.run(strip::MultiplyPanels { strip, panels, buffers, out });
            });
        }
    }
}

#[cfg(test)]
mod tests;
