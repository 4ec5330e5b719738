//! GEMM of int8 rows with int4 weights, which stay packed in memory (blockwise quantization).
//!
//! A column is cut into chunks of [`CHUNK_LEN`] weights, each with a factor. Dot products of a
//! chunk are integers; the sum over chunks is `f32`. Weights are stored unsigned, with 8 as zero
//! point.
//!
//! A panel is one vector of columns wide. Per pair of chunks it stores the chunks of all columns,
//! and then a vector of their factors: `bf16`, in the upper half of each lane for the first chunk
//! and in the lower half for the second.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use core::array;

use afferent_core::Workers;

use crate::{
    Float, Int, Isa, Routine, Simd, SizeError,
    epilogue::clamp,
    parallel::{self, Grain, SharedSlice},
};

/// Weights per chunk.
pub const CHUNK_LEN: usize = 32;

/// Words per lane that hold a chunk.
const CHUNK_WORDS: usize = CHUNK_LEN / 8;

/// Words per lane that hold two chunks and their factors.
const PAIR_WORDS: usize = 2 * CHUNK_WORDS + 1;

/// Maximum lanes of a vector.
const MAX_LANES: usize = 16;

/// Maximum rows that share the unpacked weights of a chunk.
const BLOCK_ROWS: usize = 64;

/// Minimum rows for which weights are unpacked once for all rows.
const UNPACK_MIN_ROWS: usize = 4;

/// Panels that are read at once for a single row. More streams lower the memory bandwidth.
const STREAM_PANELS: usize = 2;

/// Rows with independent accumulators: they hide the latency of the additions.
const TILE_ROWS: usize = 4;

/// GEMM of quantized rows with packed int4 weights:
/// `clamp(row_scale · Σ (x - zero_point) · weight + bias)`.
#[derive(Debug, Clone, Copy)]
pub struct Q4Gemm<'d> {
    /// Input: the first chunk of all rows, then the second chunk of all rows, and so on.
    pub x: &'d [i8],
    /// Compensates the zero point of the weights: -8 times the sum of each chunk of `x`.
    pub chunk_offsets: &'d [i32],
    /// Zero point of each row.
    pub zero_points: &'d [f32],
    /// Scale of each row.
    pub row_scale: &'d [f32],
    /// Chunks per row.
    pub chunks: usize,
    /// Columns of the output.
    pub cols: usize,
    /// Weights, packed by [`pack`].
    pub weights: &'d [i32],
    /// Factor of all chunks of a column, padded to whole panels.
    pub scale: &'d [f32],
    /// Sum of the scaled weights of each column, padded to whole panels.
    pub column_sums: &'d [f32],
    /// Bias of each column, padded to whole panels.
    pub bias: &'d [f32],
    /// Bounds of the output; NaN passes through.
    pub clamp: (f32, f32),
}

/// Dimensions of a weight matrix in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkedShape {
    /// Chunks per column.
    pub chunks: usize,
    /// Columns of the output.
    pub cols: usize,
}

/// Length of packed weights in words; `None` if it overflows.
pub fn packed_len(isa: Isa, ChunkedShape { chunks, cols }: ChunkedShape) -> Option<usize> {
    let padded_cols = cols.checked_next_multiple_of(isa.lanes())?;
    padded_cols.checked_mul(chunks.div_ceil(2))?.checked_mul(PAIR_WORDS)
}

/// A chunk of weights as stored in files: two per byte, the first in the lower half, with zero
/// point 8.
pub type RawChunk = [u8; CHUNK_LEN / 2];

/// Packs weights into zeros. `chunk(chunk, col)` returns a chunk of a column and its factor, which
/// is truncated to `bf16`. The sum of the weights of each column, including the factors, is written
/// to `sums`.
///
/// # Panics
/// If `to` is shorter than [`packed_len`], or `sums` has fewer elements than columns.
pub fn pack(
    isa: Isa,
    ChunkedShape { chunks, cols }: ChunkedShape,
    chunk: impl Fn(usize, usize) -> (RawChunk, f32),
    to: &mut [i32],
    sums: &mut [f32],
) {
    let (lanes, pairs) = (isa.lanes(), chunks.div_ceil(2));
    let panels = to.chunks_exact_mut((pairs * PAIR_WORDS * lanes).max(1));
    for ((panel, to), sums) in panels.enumerate().zip(sums[..cols].chunks_mut(lanes)) {
        let mut exact_sums = [0.0; MAX_LANES];
        for (pair, to) in to.chunks_exact_mut(PAIR_WORDS * lanes).enumerate() {
            for (lane, exact_sum) in exact_sums.iter_mut().enumerate().take(sums.len()) {
                let mut factors = 0;
                for half in 0..2.min(chunks - 2 * pair) {
                    let (raw, factor) = chunk(2 * pair + half, panel * lanes + lane);
                    let (words, sum) = pack_chunk(raw);
                    let column = to[half * CHUNK_WORDS * lanes + lane..].iter_mut().step_by(lanes);
                    words.iter().zip(column).for_each(|(word, to)| *to = *word);
                    let bits = factor.to_bits() & 0xffff_0000;
                    factors |= bits >> (16 * half);
                    *exact_sum += f64::from(f32::from_bits(bits)) * f64::from(sum);
                }
                to[2 * CHUNK_WORDS * lanes + lane] = factors.cast_signed();
            }
        }
        sums.iter_mut().zip(exact_sums).for_each(|(to, sum)| *to = sum as f32);
    }
}

/// Packs a chunk: each byte holds a weight of the first half of the chunk in its lower four bits
/// and a weight of the second half in its upper four bits. Also returns the sum of the weights.
#[inline(always)]
fn pack_chunk(raw: RawChunk) -> ([i32; CHUNK_WORDS], i32) {
    let (first, second) = raw.split_at(CHUNK_LEN / 4);
    let (mut pairs, mut sum) = ([0_u16; CHUNK_LEN / 4], 0);
    for (pair, (a, b)) in pairs.iter_mut().zip(first.iter().zip(second)) {
        let (a, b) = (u16::from(*a), u16::from(*b));
        *pair = a & 0x0f | (a & 0xf0) << 4 | (b & 0x0f) << 4 | (b & 0xf0) << 8;
        sum += (a & 0x0f) + (a >> 4) + (b & 0x0f) + (b >> 4);
    }
    let word = |at: usize| u32::from(pairs[2 * at]) | u32::from(pairs[2 * at + 1]) << 16;
    let words = array::from_fn(|at| word(at).cast_signed());
    (words, i32::from(sum) - 8 * CHUNK_LEN as i32)
}

impl Q4Gemm<'_> {
    /// Computes the product and writes it to `out`, row after row.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run(
        &self,
        isa: Isa,
        out: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let Self { chunks, cols, .. } = *self;
        if out.is_empty() {
            return Ok(());
        }
        let padded_cols = self.check(isa, out.len())?;
        let rows = out.len() / cols;
        let panels = padded_cols / isa.lanes();
        let macs = out.len().saturating_mul(chunks * CHUNK_LEN);
        let tasks = Grain::PACKED_GEMM.tasks(macs, parallel::threads(workers));
        let share = panels.div_ceil(tasks).next_multiple_of(STREAM_PANELS);
        let out = SharedSlice::new(out);
        parallel::for_each(workers, tasks, |task| {
            let panels = (panels.min(task * share), panels.min((task + 1) * share));
            run(isa, Block { of: *self, rows, panels, out: &out });
        });
        Ok(())
    }

    /// Checks all slices for an output of `out_len` elements, and returns the columns of whole
    /// panels.
    fn check(&self, isa: Isa, out_len: usize) -> Result<usize, SizeError> {
        let Self { chunks, cols, .. } = *self;
        SizeError::check_parameter("cols", "greater than zero", cols > 0)?;
        let rows = out_len / cols;
        let row_chunks = rows.checked_mul(chunks);
        let x_len = row_chunks.and_then(|chunks| chunks.checked_mul(CHUNK_LEN));
        SizeError::check_exact("out", out_len, Some(rows * cols))?;
        SizeError::check_min("x", self.x.len(), x_len)?;
        SizeError::check_min("chunk_offsets", self.chunk_offsets.len(), row_chunks)?;
        SizeError::check_min("zero_points", self.zero_points.len(), Some(rows))?;
        SizeError::check_min("row_scale", self.row_scale.len(), Some(rows))?;
        let packed_len = packed_len(isa, ChunkedShape { chunks, cols });
        SizeError::check_min("weights", self.weights.len(), packed_len)?;
        let padded_cols = cols.next_multiple_of(isa.lanes());
        SizeError::check_min("scale", self.scale.len(), Some(padded_cols))?;
        SizeError::check_min("column_sums", self.column_sums.len(), Some(padded_cols))?;
        SizeError::check_min("bias", self.bias.len(), Some(padded_cols))?;
        Ok(padded_cols)
    }
}

/// Panels that one task computes.
struct Block<'p, 'd> {
    of: Q4Gemm<'d>,
    rows: usize,
    /// First panel and end.
    panels: (usize, usize),
    out: &'p SharedSlice<'p, f32>,
}

/// Panels `first + i * distance` that are streamed at once.
#[derive(Clone, Copy)]
struct PanelStreams {
    first: usize,
    distance: usize,
}

/// Unpacked weights of a chunk: for each word those of the first half and of the second half, and
/// the factors of the columns.
struct UnpackedChunk<S: Simd> {
    nibbles: [[S::I32; 2]; CHUNK_WORDS],
    scale: S::F32,
}

#[inline(never)]
fn run(isa: Isa, block: Block<'_, '_>) {
    isa.run(block);
}

impl Routine for Block<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.rows < UNPACK_MIN_ROWS {
            let (start, end) = self.panels;
            let distance = (end - start) / STREAM_PANELS;
            for row in 0..self.rows {
                for first in start..start + distance {
                    self.single_row::<S, STREAM_PANELS>(
                        simd,
                        PanelStreams { first, distance },
                        row,
                    );
                }
                for first in start + STREAM_PANELS * distance..end {
                    self.single_row::<S, 1>(simd, PanelStreams { first, distance: 1 }, row);
                }
            }
            return;
        }
        for first in (0..self.rows).step_by(BLOCK_ROWS) {
            for panel in self.panels.0..self.panels.1 {
                self.block_rows(simd, panel, first, self.rows.min(first + BLOCK_ROWS));
            }
        }
    }
}

impl Block<'_, '_> {
    /// Computes one row of `P` panels. Each panel of a stream continues in memory where the
    /// previous panel of the stream ended.
    #[inline(always)]
    fn single_row<S: Simd, const P: usize>(
        &self,
        simd: S,
        PanelStreams { first, distance }: PanelStreams,
        row: usize,
    ) {
        let chunks = self.of.chunks;
        let panel_len = chunks.div_ceil(2) * PAIR_WORDS * S::LANES;
        let weights_len = ((P - 1) * distance + 1) * panel_len;
        let weights = self.of.weights[first * panel_len..][..weights_len].as_ptr();
        let x = self.of.x[..self.rows * chunks * CHUNK_LEN].as_ptr();
        let offsets = &self.of.chunk_offsets[..self.rows * chunks];
        let mut accumulators = [simd.zero(); P];
        for chunk in (0..chunks).step_by(2) {
            let weights = weights.wrapping_add(chunk / 2 * PAIR_WORDS * S::LANES);
            for half in 0..2 {
                if chunk + half == chunks {
                    break;
                }
                let index = (chunk + half) * self.rows + row;
                let x = x.wrapping_add(index * CHUNK_LEN).cast::<i32>();
                let mut sums = [simd.splat_i32(0); P];
                for word in 0..CHUNK_WORDS {
                    let [low, high] = [word, CHUNK_WORDS + word].map(|word| {
                        // SAFETY: a chunk of the input has `2 * CHUNK_WORDS` words.
                        simd.splat_i32(unsafe { x.wrapping_add(word).read_unaligned() })
                    });
                    for (p, sum) in sums.iter_mut().enumerate() {
                        let from = (half * CHUNK_WORDS + word) * S::LANES;
                        let from = weights.wrapping_add(p * distance * panel_len + from);
                        // SAFETY: a panel has `PAIR_WORDS` vectors per pair of chunks.
                        let packed = unsafe { simd.load_ptr(from.cast()) };
                        let [a, b] = packed.to_bits().split_nibbles();
                        *sum = simd.add_dot4_u4(simd.add_dot4_u4(*sum, a, low), b, high);
                    }
                }
                for (p, (acc, sum)) in accumulators.iter_mut().zip(sums).enumerate() {
                    let sum = (simd.reduce_dot4_u4(sum) + simd.splat_i32(offsets[index])).to_f32();
                    let weights = weights.wrapping_add(p * distance * panel_len);
                    // SAFETY: as above.
                    let scale = unsafe { load_factors(simd, weights, half) };
                    *acc = sum.mul_add(scale, *acc);
                }
            }
        }
        for (p, acc) in accumulators.into_iter().enumerate() {
            self.store(simd, acc, first + p * distance, row);
        }
    }

    /// Computes rows `first..end` of a panel.
    #[inline(always)]
    fn block_rows<S: Simd>(&self, simd: S, panel: usize, first: usize, end: usize) {
        let chunks = self.of.chunks;
        let panel_len = chunks.div_ceil(2) * PAIR_WORDS * S::LANES;
        let weights = self.of.weights[panel * panel_len..][..panel_len].as_ptr();
        let x = self.of.x[..self.rows * chunks * CHUNK_LEN].as_ptr();
        let offsets = self.of.chunk_offsets[..self.rows * chunks].as_ptr();
        let mut accumulators = [simd.zero(); BLOCK_ROWS];
        for chunk in 0..chunks {
            let weights = weights.wrapping_add(chunk / 2 * PAIR_WORDS * S::LANES);
            let mut nibbles = [[simd.splat_i32(0); 2]; CHUNK_WORDS];
            for (word, nibbles) in nibbles.iter_mut().enumerate() {
                let from = weights.wrapping_add((chunk % 2 * CHUNK_WORDS + word) * S::LANES);
                // SAFETY: a panel has `PAIR_WORDS` vectors per pair of chunks.
                *nibbles = unsafe { simd.load_ptr(from.cast()) }.to_bits().split_nibbles();
            }
            // SAFETY: as above.
            let scale = unsafe { load_factors(simd, weights, chunk % 2) };
            let unpacked = UnpackedChunk::<S> { nibbles, scale };
            let index = chunk * self.rows + first;
            let mut x = x.wrapping_add(index * CHUNK_LEN);
            let mut offsets = offsets.wrapping_add(index);
            let (tiles, rest) = accumulators[..end - first].as_chunks_mut::<TILE_ROWS>();
            for tile in tiles {
                // SAFETY: each row has a chunk and an offset.
                unsafe { add_chunk(simd, &unpacked, x, offsets, tile) };
                x = x.wrapping_add(TILE_ROWS * CHUNK_LEN);
                offsets = offsets.wrapping_add(TILE_ROWS);
            }
            for acc in rest {
                // SAFETY: as above.
                unsafe { add_chunk(simd, &unpacked, x, offsets, array::from_mut(acc)) };
                (x, offsets) = (x.wrapping_add(CHUNK_LEN), offsets.wrapping_add(1));
            }
        }
        for (row, acc) in (first..end).zip(&accumulators) {
            self.store(simd, *acc, panel, row);
        }
    }

    /// Applies scales, zero point, bias and clamp to the accumulators of a row and stores them.
    #[inline(always)]
    fn store<S: Simd>(&self, simd: S, acc: S::F32, panel: usize, row: usize) {
        let Q4Gemm { cols, clamp: bounds, .. } = self.of;
        let col = panel * S::LANES;
        let column_sums = simd.load(&self.of.column_sums[col..]);
        let bias = simd.load(&self.of.bias[col..]);
        let scale = simd.load(&self.of.scale[col..]);
        let value = acc * scale - column_sums * simd.splat(self.of.zero_points[row]);
        let value = value * simd.splat(self.of.row_scale[row]) + bias;
        let value = clamp(simd, value, bounds);
        // SAFETY: `check` verified that the row is inside the output; threads have panels of their
        // own.
        let to = unsafe { self.out.ptr_at(row * cols + col) };
        // SAFETY: as above.
        unsafe { simd.store_partial_ptr(value, to, cols - col) };
    }
}

/// Adds the scaled dot products of one chunk to the accumulators of `R` rows.
///
/// # Safety
/// `x` is valid for reads of `R` chunks, and `offsets` of `R` values.
#[inline(always)]
unsafe fn add_chunk<S: Simd, const R: usize>(
    simd: S,
    UnpackedChunk { nibbles, scale }: &UnpackedChunk<S>,
    x: *const i8,
    offsets: *const i32,
    accumulators: &mut [S::F32; R],
) {
    let mut initial = [simd.splat_i32(0); R];
    for (row, initial) in initial.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        *initial = simd.splat_i32(unsafe { *offsets.wrapping_add(row) });
    }
    // Sums that need no reduction may start at any value.
    let mut sums = if const { S::HAS_DOT4 } { initial } else { [simd.splat_i32(0); R] };
    for word in 0..2 * CHUNK_WORDS {
        for (row, sum) in sums.iter_mut().enumerate() {
            let from = x.wrapping_add(row * CHUNK_LEN).cast::<i32>().wrapping_add(word);
            // SAFETY: as above; a chunk has `2 * CHUNK_WORDS` words.
            let x = simd.splat_i32(unsafe { from.read_unaligned() });
            *sum = simd.add_dot4_u4(*sum, nibbles[word % CHUNK_WORDS][word / CHUNK_WORDS], x);
        }
    }
    for ((acc, sum), initial) in accumulators.iter_mut().zip(sums).zip(initial) {
        let sum = if const { S::HAS_DOT4 } { sum } else { simd.reduce_dot4_u4(sum) + initial };
        *acc = sum.to_f32().mul_add(*scale, *acc);
    }
}

/// Loads the factors of the first (`half` is 0) or second of a pair of chunks.
///
/// # Safety
/// `weights` is valid for reads of a pair of chunks and their factors.
#[inline(always)]
unsafe fn load_factors<S: Simd>(simd: S, weights: *const i32, half: usize) -> S::F32 {
    let from = weights.wrapping_add(2 * CHUNK_WORDS * S::LANES);
    // SAFETY: guaranteed by the caller.
    let both = unsafe { simd.load_ptr(from.cast()) }.to_bits();
    let bits = if half == 0 { both & simd.splat_i32(-1 << 16) } else { both.shl::<16>() };
    bits.bitcast()
}
