//! Depthwise int8 convolution of NHWC tensors through an indirection buffer.
//!
//! Kernel elements are widened to 16 bits and multiplied in pairs. With
//! [`Simd::HAS_DOT4`], 3×3 kernels are computed by columns: the three bytes
//! of a column share a word, and adjacent outputs reuse the columns that they have in common.

#![expect(unsafe_code, reason = "reads channels through checked offsets")]

use afferent_core::Workers;

use crate::{
    Int, Isa, Routine, Simd, SizeError,
    epilogue::{Epilogue, Origin, OutputTile},
    igemm::{PADDING_OFFSET, max_offset},
    parallel::{self, Grain},
    qgemm::{
        q8::{dot4_offset, group_len, interleaved_column, panel_cols},
        requantize::{RequantizeInt8, load_pair_ptr},
    },
};

/// Elements of a 3×3 kernel.
const TAPS_3X3: usize = 9;

/// Maximum output pixels that are computed block by block of their channels.
const MAX_RUN_PIXELS: usize = 64;

/// Output elements per run: they stay in the first-level cache together with their inputs.
const RUN_ELEMENTS: usize = 4096;

/// Depthwise convolution with one output channel per input channel.
#[derive(Debug, Clone, Copy)]
pub struct DepthwiseNhwcQ8<'d> {
    /// Input: pixels of `channels` elements.
    pub x: &'d [i8],
    /// Zero point of the input, which padding is read from: at least `channels` elements. Fewer
    /// than [`panel_cols`] channels are faster with [`panel_cols`] elements.
    pub zero_points: &'d [i8],
    /// Indirection buffer: offset of the first element of each pixel, `taps` entries per output
    /// pixel, or [`PADDING_OFFSET`].
    pub offsets: &'d [u32],
    /// Elements of the kernel.
    pub taps: usize,
    /// Channels.
    pub channels: usize,
    /// Weights, packed by [`pack`].
    pub weights: &'d [i32],
}

/// Dimensions of a depthwise kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelShape {
    /// Elements of the kernel.
    pub taps: usize,
    /// Channels.
    pub channels: usize,
}

/// First channels of all blocks. The last block overlaps the one before it if the channels do not
/// fill whole blocks.
fn blocks(width: usize, channels: usize) -> impl Iterator<Item = usize> {
    (0..channels.div_ceil(width)).map(move |block| first_channel(width, channels, block))
}

/// First channel of a block of `width` channels.
#[inline(always)]
fn first_channel(width: usize, channels: usize, block: usize) -> usize {
    (block * width).min(channels.saturating_sub(width))
}

/// Interleaves per-channel parameters like the packed weights; missing channels are zero.
pub fn interleave<T: Copy + Default>(isa: Isa, channels: &[T]) -> impl Iterator<Item = T> {
    let width = panel_cols(isa);
    let block = move |first: usize| {
        let value = move |index| {
            channels.get(first + interleaved_column(width, index)).copied().unwrap_or_default()
        };
        (0..width).map(value)
    };
    blocks(width, channels.len()).flat_map(block)
}

/// Length of packed weights in words; `None` if it overflows.
pub fn packed_len(isa: Isa, shape: KernelShape) -> Option<usize> {
    shape.channels.checked_next_multiple_of(panel_cols(isa))?.checked_mul(words(isa, shape))
}

/// Words per channel. By columns, the first word compensates the offset of the inputs.
fn words(isa: Isa, shape: KernelShape) -> usize {
    if by_columns(isa, shape) { 4 } else { shape.taps.div_ceil(2) }
}

/// True if the convolution is computed by kernel columns, and not by pairs of elements.
fn by_columns(isa: Isa, KernelShape { taps, channels }: KernelShape) -> bool {
    taps == TAPS_3X3 && channels >= panel_cols(isa) && group_len(isa) == 4
}

/// Packs weights. `weight(tap, channel)` returns the weight of a kernel element.
///
/// # Panics
/// If `to` is shorter than [`packed_len`].
pub fn pack(isa: Isa, shape: KernelShape, weight: impl Fn(usize, usize) -> i8, to: &mut [i32]) {
    let KernelShape { taps, channels } = shape;
    let (width, words) = (panel_cols(isa), words(isa, shape));
    let offset = i32::from(dot4_offset(isa));
    let weight = |tap: usize, channel: usize| {
        if tap < taps && channel < channels { i32::from(weight(tap, channel)) } else { 0 }
    };
    let pair = |word: usize, channel: usize| {
        (weight(2 * word, channel) & 0xffff) | weight(2 * word + 1, channel) << 16
    };
    let column = |word: usize, channel: usize| match word.checked_sub(1) {
        None => -offset * (0..TAPS_3X3).map(|tap| weight(tap, channel)).sum::<i32>(),
        Some(col) => {
            let byte = |row: usize| (weight(3 * row + col, channel) & 0xff) << (8 * row);
            byte(0) | byte(1) | byte(2)
        }
    };
    let by_columns = by_columns(isa, shape);
    let all = to.chunks_exact_mut((words * width).max(1));
    for (first, to) in blocks(width, channels).zip(all) {
        for (word, to) in to.chunks_exact_mut(width).enumerate() {
            for (index, to) in to.iter_mut().enumerate() {
                let channel = first + interleaved_column(width, index);
                *to = if by_columns { column(word, channel) } else { pair(word, channel) };
            }
        }
    }
}

impl DepthwiseNhwcQ8<'_> {
    /// Computes the convolution and stores it through `epilogue`, whose parameters are in the order
    /// of [`interleave`]. `out` holds `channels` elements per output pixel.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run(
        &self,
        isa: Isa,
        epilogue: &RequantizeInt8<'_>,
        out: &mut [i8],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let Self { taps, channels, .. } = *self;
        if channels == 0 || taps == 0 || out.is_empty() {
            return Ok(());
        }
        self.check(isa, epilogue, out.len())?;
        let pixels = out.len() / channels;
        let macs = out.len().saturating_mul(taps);
        let tasks = Grain::DEPTHWISE_NHWC.tasks(macs, parallel::threads(workers));
        let share = pixels.div_ceil(tasks);
        let by_columns = by_columns(isa, KernelShape { taps, channels });
        parallel::for_each_chunk(workers, out, share * channels, |task, out| {
            let first_pixel = task * share;
            run(isa, OutputPixels { of: *self, by_columns, first_pixel, epilogue, out });
        });
        Ok(())
    }

    /// Checks all slices for an output of `out_len` elements.
    fn check(
        &self,
        isa: Isa,
        epilogue: &RequantizeInt8<'_>,
        out_len: usize,
    ) -> Result<(), SizeError> {
        let Self { x, zero_points, offsets, taps, channels, weights } = *self;
        let pixels = out_len / channels;
        SizeError::check_exact("out", out_len, Some(pixels * channels))?;
        SizeError::check_exact("offsets", offsets.len(), pixels.checked_mul(taps))?;
        SizeError::check_min("x", x.len(), max_offset(isa, offsets).checked_add(channels))?;
        SizeError::check_min("zero_points", zero_points.len(), Some(channels))?;
        let packed_len = packed_len(isa, KernelShape { taps, channels });
        SizeError::check_min("weights", weights.len(), packed_len)?;
        epilogue.check(pixels, channels.next_multiple_of(panel_cols(isa)))
    }
}

/// Output pixels that one task computes.
struct OutputPixels<'p, 'd> {
    of: DepthwiseNhwcQ8<'d>,
    /// True if the weights are packed by kernel columns.
    by_columns: bool,
    first_pixel: usize,
    epilogue: &'p RequantizeInt8<'d>,
    out: &'p mut [i8],
}

/// Two vectors of channels.
#[derive(Clone, Copy)]
struct ChannelBlock {
    index: usize,
    first_channel: usize,
}

#[inline(never)]
fn run(isa: Isa, pixels: OutputPixels<'_, '_>) {
    isa.run(pixels);
}

impl Routine for OutputPixels<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.of.taps {
            // The constant leaves this arm out of code for other instruction sets.
            TAPS_3X3 if S::HAS_DOT4 && self.by_columns => self.columns_3x3(simd),
            TAPS_3X3 => self.pairs::<S, 5>(simd),
            25 => self.pairs::<S, 13>(simd),
            _ => self.any(simd),
        }
    }
}

impl OutputPixels<'_, '_> {
    /// Pointer to the pixel of kernel element `tap`. A tap beyond the last may point anywhere
    /// valid.
    #[inline(always)]
    fn tap_ptr(&self, offsets: &[u32], tap: usize) -> *const i8 {
        match offsets.get(tap) {
            None | Some(&PADDING_OFFSET) => self.of.zero_points.as_ptr(),
            Some(offset) => self.of.x.as_ptr().wrapping_add(*offset as usize),
        }
    }

    #[inline(always)]
    fn block<S: Simd>(&self, index: usize) -> ChannelBlock {
        let first_channel = first_channel(2 * S::LANES, self.of.channels, index);
        ChannelBlock { index, first_channel }
    }

    /// Computes 3×3 kernels by columns.
    #[inline(always)]
    fn columns_3x3<S: Simd>(mut self, simd: S) {
        let DepthwiseNhwcQ8 { offsets, channels, .. } = self.of;
        let pixels = self.out.len() / channels;
        // A copy, so that stores to the output cannot alias it.
        let epilogue = *self.epilogue;
        let run = (RUN_ELEMENTS / channels).clamp(8, MAX_RUN_PIXELS);
        for start in (0..pixels).step_by(run) {
            let run = run.min(pixels - start);
            let offsets = &offsets[(self.first_pixel + start) * TAPS_3X3..][..run * TAPS_3X3];
            let mut shared = [0; MAX_RUN_PIXELS];
            for (pair, shared) in
                offsets.windows(2 * TAPS_3X3).step_by(TAPS_3X3).zip(&mut shared[1..])
            {
                *shared = shared_columns(pair);
            }
            for block in 0..channels.div_ceil(2 * S::LANES) {
                let block = self.block::<S>(block);
                let size = 4 * 2 * S::LANES;
                let words = self.of.weights[block.index * size..][..size].as_ptr().cast::<f32>();
                let word = |index: usize| {
                    let from = words.wrapping_add(index * 2 * S::LANES);
                    // SAFETY: a block has four pairs of vectors.
                    unsafe { load_pair_ptr(simd, from) }
                };
                let (compensation, weights) = (word(0), [word(1), word(2), word(3)]);
                let bias = epilogue.initial_accumulators(simd, block.index * 2 * S::LANES);
                let initial = [bias[0] + compensation[0], bias[1] + compensation[1]];
                let mut columns = [[simd.splat_i32(0); 2]; 3];
                for (pixel, taps) in offsets.chunks_exact(TAPS_3X3).enumerate() {
                    let shared = shared[pixel];
                    columns = match shared {
                        2 => [columns[1], columns[2], columns[2]],
                        _ => [columns[2]; 3],
                    };
                    if shared < 1 {
                        columns[0] = self.load_column(simd, taps, 0, block.first_channel);
                    }
                    if shared < 2 {
                        columns[1] = self.load_column(simd, taps, 1, block.first_channel);
                    }
                    columns[2] = self.load_column(simd, taps, 2, block.first_channel);
                    let [mut low, mut high] = initial;
                    for (column, weight) in columns.iter().zip(weights) {
                        low = simd.add_dot4(low, column[0], weight[0]);
                        high = simd.add_dot4(high, column[1], weight[1]);
                    }
                    self.store(simd, &epilogue, [low, high], start + pixel, block);
                }
            }
        }
    }

    /// Loads column `col` of the 3×3 input pixels `taps`, from `channel` on: three rows per word.
    #[inline(always)]
    fn load_column<S: Simd>(
        &self,
        simd: S,
        taps: &[u32],
        col: usize,
        channel: usize,
    ) -> [S::I32; 2] {
        let rows = [
            self.tap_ptr(taps, col).wrapping_add(channel),
            self.tap_ptr(taps, 3 + col).wrapping_add(channel),
            self.tap_ptr(taps, 6 + col).wrapping_add(channel),
        ];
        // SAFETY: pixels are inside `x` or `zero_points`, which have all channels, and the block
        // ends before the last of them.
        unsafe { simd.load_three_rows_ptr(rows) }
    }

    /// Computes kernels of `PAIRS` pairs of elements. The last pair is incomplete.
    #[inline(always)]
    fn pairs<S: Simd, const PAIRS: usize>(mut self, simd: S) {
        let DepthwiseNhwcQ8 { x, zero_points, offsets, taps, channels, .. } = self.of;
        let pixels = self.out.len() / channels;
        // A copy, so that stores to the output cannot alias it.
        let epilogue = *self.epilogue;
        // Pixels from which two vectors can be read. What follows the channels is multiplied by
        // zero weights.
        let last = x.len().checked_sub(2 * S::LANES).filter(|_| zero_points.len() >= 2 * S::LANES);
        let is_wide = |offset: &u32| {
            last.is_some_and(|last| *offset == PADDING_OFFSET || *offset as usize <= last)
        };
        for pixel in 0..pixels {
            let offsets = &offsets[(self.first_pixel + pixel) * taps..][..taps];
            if channels < 2 * S::LANES && !offsets.iter().all(is_wide) {
                self.pixel(simd, &epilogue, pixel);
                continue;
            }
            let mut pointers = [[self.of.zero_points.as_ptr(); 2]; PAIRS];
            for (pair, to) in pointers.iter_mut().enumerate() {
                *to = [self.tap_ptr(offsets, 2 * pair), self.tap_ptr(offsets, 2 * pair + 1)];
            }
            for block in 0..channels.div_ceil(2 * S::LANES) {
                let block = self.block::<S>(block);
                let mut sums = epilogue.initial_accumulators(simd, block.index * 2 * S::LANES);
                let size = PAIRS * 2 * S::LANES;
                let weights = self.of.weights[block.index * size..][..size].as_ptr();
                for (pair, [a, b]) in pointers.iter().enumerate() {
                    let load = |pixel: *const i8| {
                        let from = pixel.wrapping_add(block.first_channel);
                        // SAFETY: pixels are inside `x` or `zero_points`, which have all channels,
                        // and the block ends before the last of them, or all pixels are wide.
                        unsafe { simd.load_widened_i8_ptr(from) }
                    };
                    let b = if pair + 1 == PAIRS { simd.splat_i32(0) } else { load(*b) };
                    let interleaved = load(*a).interleave_i16(b);
                    // SAFETY: the weights of a block have two vectors per pair.
                    sums = unsafe { add_pair(simd, sums, interleaved, weights, pair) };
                }
                self.store(simd, &epilogue, sums, pixel, block);
            }
        }
    }

    /// Computes kernels of any size.
    #[inline(always)]
    fn any<S: Simd>(mut self, simd: S) {
        let epilogue = *self.epilogue;
        for pixel in 0..self.out.len() / self.of.channels {
            self.pixel(simd, &epilogue, pixel);
        }
    }

    /// Computes one output pixel of a kernel of any size, or with few channels.
    #[inline(always)]
    fn pixel<S: Simd>(&mut self, simd: S, epilogue: &RequantizeInt8<'_>, pixel: usize) {
        /// Bytes of the widest pair of vectors.
        const MAX_BLOCK_BYTES: usize = 32;
        let DepthwiseNhwcQ8 { offsets, taps, channels, .. } = self.of;
        let pairs = taps.div_ceil(2);
        let offsets = &offsets[(self.first_pixel + pixel) * taps..][..taps];
        for block in 0..channels.div_ceil(2 * S::LANES) {
            let block = self.block::<S>(block);
            let len = channels.min(2 * S::LANES);
            let mut sums = epilogue.initial_accumulators(simd, block.index * 2 * S::LANES);
            let size = pairs * 2 * S::LANES;
            let weights = self.of.weights[block.index * size..][..size].as_ptr();
            for pair in 0..pairs {
                let load = |tap: usize| {
                    let from = self.tap_ptr(offsets, tap).wrapping_add(block.first_channel);
                    let mut copy = [0_i8; MAX_BLOCK_BYTES];
                    // SAFETY: the pixel has that many channels from there on.
                    unsafe { core::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), len) };
                    // SAFETY: the copy is as long as the widest pair of vectors.
                    unsafe { simd.load_widened_i8_ptr(copy.as_ptr()) }
                };
                let interleaved = load(2 * pair).interleave_i16(load(2 * pair + 1));
                // SAFETY: the weights of a block have two vectors per pair.
                sums = unsafe { add_pair(simd, sums, interleaved, weights, pair) };
            }
            self.store(simd, epilogue, sums, pixel, block);
        }
    }

    #[inline(always)]
    fn store<S: Simd>(
        &mut self,
        simd: S,
        epilogue: &RequantizeInt8<'_>,
        sums: [S::I32; 2],
        pixel: usize,
        block: ChannelBlock,
    ) {
        let channels = self.of.channels;
        let len = channels.min(2 * S::LANES);
        let to = &mut self.out[pixel * channels + block.first_channel..][..len];
        let origin = Origin { row: pixel, col: block.index * 2 * S::LANES };
        let tile = OutputTile { ptr: to.as_mut_ptr(), row_stride: channels, cols: len };
        // SAFETY: the slice has that many elements, and `check` has checked the epilogue.
        unsafe { epilogue.store_row(simd, sums, origin, tile) };
    }
}

/// Number of columns that the second of two outputs shares with the first: its first columns with
/// the last columns of the first output.
fn shared_columns(pair: &[u32]) -> usize {
    let (before, taps) = pair.split_at(TAPS_3X3);
    let same =
        |col: usize, other: usize| (0..3).all(|row| taps[3 * row + col] == before[3 * row + other]);
    match () {
        () if same(0, 1) && same(1, 2) => 2,
        () if same(0, 2) => 1,
        () => 0,
    }
}

/// Adds the products of two interleaved vectors with the weights of pair `pair`.
///
/// # Safety
/// `weights` is valid for reads of two vectors for that pair.
#[inline(always)]
unsafe fn add_pair<S: Simd>(
    simd: S,
    [low, high]: [S::I32; 2],
    interleaved: [S::I32; 2],
    weights: *const i32,
    pair: usize,
) -> [S::I32; 2] {
    let from = weights.wrapping_add(2 * pair * S::LANES).cast::<f32>();
    // SAFETY: guaranteed by the caller.
    let weights = unsafe { load_pair_ptr(simd, from) };
    [low.add_dot2(interleaved[0], weights[0]), high.add_dot2(interleaved[1], weights[1])]
}
