//! Depthwise convolutions of integers of 8 bits.
//!
//! Taps are widened and summed up in pairs. Where four bytes are multiplied at a time, a kernel of
//! three by three is summed up by its columns: results that follow each other share those that they
//! have in common, which are brought together once.

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

/// Taps of a kernel of three by three.
const NINE: usize = 9;

/// Results that are computed block after block of their channels.
const RUN: usize = 64;

/// Integers of results that stay in the first-level cache with what they are made of.
const NEAR: usize = 4096;

/// A convolution in which each channel has a kernel of its own.
#[derive(Debug, Clone, Copy)]
pub struct DepthwiseNhwcQ8<'d> {
    /// Pixels of `channels` integers.
    pub x: &'d [i8],
    /// What taps are that [`PADDING_OFFSET`] stands for: what zero is stored as, in each channel.
    /// Few channels are faster with as many as [`panel_cols`].
    pub zero_points: &'d [i8],
    /// The first integer of each tap of each result.
    pub offsets: &'d [u32],
    /// Taps of a result.
    pub taps: usize,
    /// Channels.
    pub channels: usize,
    /// Weights that [`pack`] made.
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

/// The first channels of the blocks that are computed together: the last one overlaps that before
/// where the channels are no whole number of blocks.
fn blocks(width: usize, channels: usize) -> impl Iterator<Item = usize> {
    (0..channels.div_ceil(width)).map(move |block| first(width, channels, block))
}

#[inline(always)]
fn first(width: usize, channels: usize, block: usize) -> usize {
    (block * width).min(channels.saturating_sub(width))
}

/// Values of the channels in the order of the blocks; missing ones are zero.
pub fn interleave<T: Copy + Default>(isa: Isa, channels: &[T]) -> impl Iterator<Item = T> {
    let width = panel_cols(isa);
    let of_block = move |first: usize| {
        let at = move |at| {
            channels.get(first + interleaved_column(width, at)).copied().unwrap_or_default()
        };
        (0..width).map(at)
    };
    blocks(width, channels.len()).flat_map(of_block)
}

/// Words that packed weights take; `None` when that overflows.
pub fn packed_len(isa: Isa, shape: KernelShape) -> Option<usize> {
    shape.channels.checked_next_multiple_of(panel_cols(isa))?.checked_mul(words(isa, shape))
}

/// Words of a channel: of columns what belongs to their sum, too.
fn words(isa: Isa, shape: KernelShape) -> usize {
    if by_columns(isa, shape) { 4 } else { shape.taps.div_ceil(2) }
}

/// Whether sums are of columns, not of pairs.
fn by_columns(isa: Isa, KernelShape { taps, channels }: KernelShape) -> bool {
    taps == NINE && channels >= panel_cols(isa) && group_len(isa) == 4
}

/// Packs weights: `weight(tap, channel)`.
///
/// # Panics
/// When `to` is shorter than [`packed_len`].
pub fn pack(isa: Isa, shape: KernelShape, weight: impl Fn(usize, usize) -> i8, to: &mut [i32]) {
    let KernelShape { taps, channels } = shape;
    let (width, words) = (panel_cols(isa), words(isa, shape));
    let offset = i32::from(dot4_offset(isa));
    let one = |tap: usize, channel: usize| {
        if tap < taps && channel < channels { i32::from(weight(tap, channel)) } else { 0 }
    };
    let pair = |pair: usize, channel: usize| {
        (one(2 * pair, channel) & 0xffff) | one(2 * pair + 1, channel) << 16
    };
    let of_column = |word: usize, channel: usize| match word.checked_sub(1) {
        None => -offset * (0..NINE).map(|tap| one(tap, channel)).sum::<i32>(),
        Some(col) => {
            let byte = |row: usize| (one(3 * row + col, channel) & 0xff) << (8 * row);
            byte(0) | byte(1) | byte(2)
        }
    };
    let by_columns = by_columns(isa, shape);
    let all = to.chunks_exact_mut((words * width).max(1));
    for (first, to) in blocks(width, channels).zip(all) {
        for (word, to) in to.chunks_exact_mut(width).enumerate() {
            for (at, to) in to.iter_mut().enumerate() {
                let channel = first + interleaved_column(width, at);
                *to = if by_columns { of_column(word, channel) } else { pair(word, channel) };
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
        let rows = out.len() / channels;
        let macs = out.len().saturating_mul(taps);
        let tasks = Grain::DEPTHWISE_NHWC.tasks(macs, parallel::threads(workers));
        let share = rows.div_ceil(tasks);
        let by_columns = by_columns(isa, KernelShape { taps, channels });
        parallel::for_each_chunk(workers, out, share * channels, |task, out| {
            run(isa, Part { of: *self, by_columns, first: task * share, end: epilogue, out });
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
        let rows = out_len / channels;
        SizeError::check_exact("out", out_len, Some(rows * channels))?;
        SizeError::check_exact("offsets", offsets.len(), rows.checked_mul(taps))?;
        SizeError::check_min("x", x.len(), max_offset(isa, offsets).checked_add(channels))?;
        SizeError::check_min("zero_points", zero_points.len(), Some(channels))?;
        let packed_len = packed_len(isa, KernelShape { taps, channels });
        SizeError::check_min("weights", weights.len(), packed_len)?;
        epilogue.check(rows, channels.next_multiple_of(panel_cols(isa)))
    }
}

/// Results that one thread computes.
struct Part<'p, 'd> {
    of: DepthwiseNhwcQ8<'d>,
    /// Whether weights are packed for sums of columns.
    by_columns: bool,
    /// The first of them.
    first: usize,
    end: &'p RequantizeInt8<'d>,
    out: &'p mut [i8],
}

#[inline(never)]
fn run(isa: Isa, part: Part<'_, '_>) {
    isa.run(part);
}

impl Routine for Part<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.of.taps {
            // What is known of the instructions leaves the other way out of the program.
            NINE if S::HAS_DOT4 && self.by_columns => self.columns(simd),
            NINE => self.pixels::<S, 5>(simd),
            25 => self.pixels::<S, 13>(simd),
            _ => self.any(simd),
        }
    }
}

impl Part<'_, '_> {
    /// Where tap `tap` of a result is; the one beyond the last is any.
    #[inline(always)]
    fn tap(&self, places: &[u32], tap: usize) -> *const i8 {
        match places.get(tap) {
            None | Some(&PADDING_OFFSET) => self.of.zero_points.as_ptr(),
            Some(place) => self.of.x.as_ptr().wrapping_add(*place as usize),
        }
    }

    /// Kernels of three by three where four bytes are multiplied at a time.
    #[inline(always)]
    fn columns<S: Simd>(mut self, simd: S) {
        let DepthwiseNhwcQ8 { offsets, channels, .. } = self.of;
        let rows = self.out.len() / channels;
        // A copy, which no result can overwrite.
        let end = *self.end;
        let run = (NEAR / channels).clamp(8, RUN);
        for start in (0..rows).step_by(run) {
            let run = run.min(rows - start);
            let places = &offsets[(self.first + start) * NINE..][..run * NINE];
            let mut shared = [0; RUN];
            for (pair, shared) in places.windows(2 * NINE).step_by(NINE).zip(&mut shared[1..]) {
                *shared = in_common(pair);
            }
            for block in 0..channels.div_ceil(2 * S::LANES) {
                let first = first(2 * S::LANES, channels, block);
                let size = 4 * 2 * S::LANES;
                let words = self.of.weights[block * size..][..size].as_ptr().cast::<f32>();
                // SAFETY: a block has four times two vectors.
                let word = |at: usize| unsafe {
                    load_pair_ptr(simd, words.wrapping_add(at * 2 * S::LANES))
                };
                let (rest, weights) = (word(0), [word(1), word(2), word(3)]);
                let bias = end.initial_accumulators(simd, block * 2 * S::LANES);
                let begin = [bias[0] + rest[0], bias[1] + rest[1]];
                let mut columns = [[simd.splat_i32(0); 2]; 3];
                for (row, taps) in places.chunks_exact(NINE).enumerate() {
                    let shared = shared[row];
                    columns = match shared {
                        2 => [columns[1], columns[2], columns[2]],
                        _ => [columns[2]; 3],
                    };
                    if shared < 1 {
                        columns[0] = self.column(simd, taps, 0, first);
                    }
                    if shared < 2 {
                        columns[1] = self.column(simd, taps, 1, first);
                    }
                    columns[2] = self.column(simd, taps, 2, first);
                    let [mut low, mut high] = begin;
                    for (column, weight) in columns.iter().zip(weights) {
                        low = simd.add_dot4(low, column[0], weight[0]);
                        high = simd.add_dot4(high, column[1], weight[1]);
                    }
                    self.store(simd, &end, [low, high], start + row, (block, first));
                }
            }
        }
    }

    /// Column `col` of the taps of a result, which lie below each other, from channel `first` on.
    #[inline(always)]
    fn column<S: Simd>(&self, simd: S, taps: &[u32], col: usize, first: usize) -> [S::I32; 2] {
        let rows = [
            self.tap(taps, col).wrapping_add(first),
            self.tap(taps, 3 + col).wrapping_add(first),
            self.tap(taps, 6 + col).wrapping_add(first),
        ];
        // SAFETY: taps are inside `x` or `zeros`, which have so many channels, and the block ends
        // before the last of them.
        unsafe { simd.load_three_rows_ptr(rows) }
    }

    /// Kernels of an odd number of taps, `PAIRS` pairs of them.
    #[inline(always)]
    fn pixels<S: Simd, const PAIRS: usize>(mut self, simd: S) {
        let DepthwiseNhwcQ8 { x, zero_points, offsets, taps, channels, .. } = self.of;
        let rows = self.out.len() / channels;
        // A copy, which no result can overwrite.
        let end = *self.end;
        // Taps from which two vectors can be read; what follows the channels is multiplied by
        // zeros.
        let enough =
            x.len().checked_sub(2 * S::LANES).filter(|_| zero_points.len() >= 2 * S::LANES);
        let is_wide = |place: &u32| {
            enough.is_some_and(|last| *place == PADDING_OFFSET || *place as usize <= last)
        };
        for row in 0..rows {
            let places = &offsets[(self.first + row) * taps..][..taps];
            if channels < 2 * S::LANES && !places.iter().all(is_wide) {
                self.pixel(simd, &end, row);
                continue;
            }
            let mut pointers = [[self.of.zero_points.as_ptr(); 2]; PAIRS];
            for (pair, to) in pointers.iter_mut().enumerate() {
                *to = [self.tap(places, 2 * pair), self.tap(places, 2 * pair + 1)];
            }
            for block in 0..channels.div_ceil(2 * S::LANES) {
                let first = first(2 * S::LANES, channels, block);
                let mut sums = end.initial_accumulators(simd, block * 2 * S::LANES);
                let size = PAIRS * 2 * S::LANES;
                let weights = self.of.weights[block * size..][..size].as_ptr();
                for (pair, [a, b]) in pointers.iter().enumerate() {
                    // SAFETY: taps are inside `x` or `zeros`, which have so many channels, and
                    // the block ends before the last of them, or all is wide.
                    let tap = |from: *const i8| unsafe {
                        simd.load_widened_i8_ptr(from.wrapping_add(first))
                    };
                    let b = if pair + 1 == PAIRS { simd.splat_i32(0) } else { tap(*b) };
                    let zipped = tap(*a).interleave_i16(b);
                    // SAFETY: the weights of a block have two vectors for each pair.
                    sums = unsafe { add(simd, sums, zipped, weights, pair) };
                }
                self.store(simd, &end, sums, row, (block, first));
            }
        }
    }

    /// Kernels of any size.
    #[inline(always)]
    fn any<S: Simd>(mut self, simd: S) {
        let end = *self.end;
        for row in 0..self.out.len() / self.of.channels {
            self.pixel(simd, &end, row);
        }
    }

    /// A result of a kernel of any size, and of few channels.
    #[inline(always)]
    fn pixel<S: Simd>(&mut self, simd: S, end: &RequantizeInt8<'_>, row: usize) {
        let DepthwiseNhwcQ8 { offsets, taps, channels, .. } = self.of;
        let pairs = taps.div_ceil(2);
        let places = &offsets[(self.first + row) * taps..][..taps];
        for block in 0..channels.div_ceil(2 * S::LANES) {
            let first = first(2 * S::LANES, channels, block);
            let len = channels.min(2 * S::LANES);
            let mut sums = end.initial_accumulators(simd, block * 2 * S::LANES);
            let size = pairs * 2 * S::LANES;
            let weights = self.of.weights[block * size..][..size].as_ptr();
            for pair in 0..pairs {
                let tap = |tap: usize| {
                    let from = self.tap(places, tap).wrapping_add(first);
                    let mut all = [0_i8; 32];
                    // SAFETY: the tap has so many channels from there on.
                    unsafe { core::ptr::copy_nonoverlapping(from, all.as_mut_ptr(), len) };
                    // SAFETY: the array is as long as the widest pairs.
                    unsafe { simd.load_widened_i8_ptr(all.as_ptr()) }
                };
                let zipped = tap(2 * pair).interleave_i16(tap(2 * pair + 1));
                // SAFETY: the weights of a block have two vectors for each pair.
                sums = unsafe { add(simd, sums, zipped, weights, pair) };
            }
            self.store(simd, end, sums, row, (block, first));
        }
    }

    #[inline(always)]
    fn store<S: Simd>(
        &mut self,
        simd: S,
        end: &RequantizeInt8<'_>,
        sums: [S::I32; 2],
        row: usize,
        (block, first): (usize, usize),
    ) {
        let channels = self.of.channels;
        let len = channels.min(2 * S::LANES);
        let to = &mut self.out[row * channels + first..][..len];
        let origin = Origin { row, col: block * 2 * S::LANES };
        let tile = OutputTile { ptr: to.as_mut_ptr(), row_stride: channels, cols: len };
        // SAFETY: the slice has so many places, and `write` asked `fits`.
        unsafe { end.store_row(simd, sums, origin, tile) };
    }
}

/// Of the taps of two results, how many columns the second has in common with the first: its first
/// ones with the last ones of that.
fn in_common(pair: &[u32]) -> usize {
    let (before, taps) = pair.split_at(NINE);
    let same =
        |col: usize, other: usize| (0..3).all(|row| taps[3 * row + col] == before[3 * row + other]);
    match () {
        () if same(0, 1) && same(1, 2) => 2,
        () if same(0, 2) => 1,
        () => 0,
    }
}

/// Adds the products of two zipped vectors with the weights of pair `pair`.
///
/// # Safety
/// Two vectors of weights can be read there.
#[inline(always)]
unsafe fn add<S: Simd>(
    simd: S,
    [low, high]: [S::I32; 2],
    zipped: [S::I32; 2],
    weights: *const i32,
    pair: usize,
) -> [S::I32; 2] {
    let from = weights.wrapping_add(2 * pair * S::LANES).cast::<f32>();
    // SAFETY: demanded of the caller.
    let weights = unsafe { load_pair_ptr(simd, from) };
    [low.add_dot2(zipped[0], weights[0]), high.add_dot2(zipped[1], weights[1])]
}
