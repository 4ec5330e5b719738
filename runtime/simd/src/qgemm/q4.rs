//! Products of rows of integers of 8 bits with weights of 4 bits, which stay in 4 bits in memory.
//!
//! A panel is as many columns as a vector has lanes; of each column a chunk of [`CHUNK_LEN`]
//! weights lies together, with zero as 8. Two chunks are followed by a vector of their factors,
//! `bf16` in the upper and in the lower half of each lane. Sums of a chunk are integers, sums of
//! chunks are `f32`.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use afferent_core::Workers;

use crate::{
    Float, Int, Isa, Routine, Simd, SizeError,
    epilogue::clamp,
    parallel::{self, Grain, SharedSlice},
};

/// Weights of a column that are summed up as integers.
pub const CHUNK_LEN: usize = 32;

/// Words of a lane that hold a chunk.
const WORDS: usize = CHUNK_LEN / 8;

/// Words of a lane that hold two chunks and their factors.
const PAIR: usize = 2 * WORDS + 1;

/// Rows that share the unpacked weights of a chunk.
const ROWS: usize = 64;

/// Panels that are read at a time for a single row. Of four, memory is read at half the speed (on
/// an EPYC of the fourth generation).
const STREAMS: usize = 2;

/// Rows whose sums are added up next to each other, since each sum waits for the last.
const GROUP: usize = 4;

/// A product of quantised rows with packed weights.
#[derive(Debug, Clone, Copy)]
pub struct Q4Gemm<'d> {
    /// The first chunk of all rows, then the second of all rows, and so on.
    pub x: &'d [i8],
    /// For each of these chunks its sum, times -8.
    pub chunk_offsets: &'d [i32],
    /// Of each row what zero is stored as.
    pub zero_points: &'d [f32],
    /// Of each row what a step stands for.
    pub row_scale: &'d [f32],
    /// Chunks of a row.
    pub chunks: usize,
    /// Columns.
    pub cols: usize,
    /// Weights that [`pack`] made.
    pub weights: &'d [i32],
    /// For each column, up to whole panels, a factor of all its chunks.
    pub scale: &'d [f32],
    /// For each column, up to whole panels, the sum of its weights.
    pub column_sums: &'d [f32],
    /// For each column, up to whole panels, what is added in the end.
    pub bias: &'d [f32],
    /// The bounds; NaN stays.
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

/// Words that packed weights take; `None` when that overflows.
pub fn packed_len(isa: Isa, ChunkedShape { chunks, cols }: ChunkedShape) -> Option<usize> {
    let columns = cols.checked_next_multiple_of(isa.lanes())?;
    columns.checked_mul(chunks.div_ceil(2))?.checked_mul(PAIR)
}

/// A chunk of weights as files have them: two in a byte, the first in the lower half, zero as 8.
pub type RawChunk = [u8; CHUNK_LEN / 2];

/// Packs weights: `chunk(chunk, col)` and its factor, of which the upper half is kept, for each
/// chunk of each column, into zeros. The sums of the columns, chunks times their factors, go to
/// `sums`.
///
/// # Panics
/// When `to` is shorter than [`packed_len`], or `sums` than the columns.
pub fn pack(
    isa: Isa,
    ChunkedShape { chunks, cols }: ChunkedShape,
    chunk: impl Fn(usize, usize) -> (RawChunk, f32),
    to: &mut [i32],
    sums: &mut [f32],
) {
    let (lanes, pairs) = (isa.lanes(), chunks.div_ceil(2));
    let panels = to.chunks_exact_mut((pairs * PAIR * lanes).max(1));
    for ((panel, to), sums) in panels.enumerate().zip(sums[..cols].chunks_mut(lanes)) {
        let mut all = [0.0; MOST_LANES];
        for (pair, to) in to.chunks_exact_mut(PAIR * lanes).enumerate() {
            for (lane, all) in all.iter_mut().enumerate().take(sums.len()) {
                let mut factors = 0;
                for half in 0..2.min(chunks - 2 * pair) {
                    let (raw, factor) = chunk(2 * pair + half, panel * lanes + lane);
                    let (words, sum) = halves(raw);
                    for (word, to) in words
                        .iter()
                        .zip(to[half * WORDS * lanes + lane..].iter_mut().step_by(lanes))
                    {
                        *to = *word;
                    }
                    let bits = factor.to_bits() & 0xffff_0000;
                    factors |= bits >> (16 * half);
                    *all += f64::from(f32::from_bits(bits)) * f64::from(sum);
                }
                to[2 * WORDS * lanes + lane] = factors.cast_signed();
            }
        }
        sums.iter_mut().zip(all).for_each(|(to, sum)| *to = sum as f32);
    }
}

/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// A chunk with the number of its first half in the lower half of each byte and that of its second
/// in the upper, and the sum of its weights.
#[inline(always)]
fn halves(raw: RawChunk) -> ([i32; WORDS], i32) {
    let (first, second) = raw.split_at(CHUNK_LEN / 4);
    let (mut pairs, mut sum) = ([0_u16; CHUNK_LEN / 4], 0);
    for (pair, (a, b)) in pairs.iter_mut().zip(first.iter().zip(second)) {
        let (a, b) = (u16::from(*a), u16::from(*b));
        *pair = a & 0x0f | (a & 0xf0) << 4 | (b & 0x0f) << 4 | (b & 0xf0) << 8;
        sum += (a & 0x0f) + (a >> 4) + (b & 0x0f) + (b >> 4);
    }
    let word = |at: usize| u32::from(pairs[2 * at]) | u32::from(pairs[2 * at + 1]) << 16;
    let words = core::array::from_fn(|at| word(at).cast_signed());
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
        let share = panels.div_ceil(tasks).next_multiple_of(STREAMS);
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

/// Panels that one thread computes.
struct Block<'p, 'd> {
    of: Q4Gemm<'d>,
    rows: usize,
    /// From and to.
    panels: (usize, usize),
    out: &'p SharedSlice<'p, f32>,
}

#[inline(never)]
fn run(isa: Isa, block: Block<'_, '_>) {
    isa.run(block);
}

impl Routine for Block<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.rows < 4 {
            let (from, to) = self.panels;
            let apart = (to - from) / STREAMS;
            for row in 0..self.rows {
                (from..from + apart)
                    .for_each(|panel| self.row::<S, STREAMS>(simd, (panel, apart), row));
                (from + STREAMS * apart..to)
                    .for_each(|panel| self.row::<S, 1>(simd, (panel, 1), row));
            }
            return;
        }
        for from in (0..self.rows).step_by(ROWS) {
            for panel in self.panels.0..self.panels.1 {
                self.rows(simd, panel, (from, self.rows.min(from + ROWS)));
            }
        }
    }
}

impl Block<'_, '_> {
    /// One row of `P` panels that are `apart` from each other: each is read on from where the one
    /// before it in memory ended.
    #[inline(always)]
    fn row<S: Simd, const P: usize>(&self, simd: S, (panel, apart): (usize, usize), row: usize) {
        let chunks = self.of.chunks;
        let size = chunks.div_ceil(2) * PAIR * S::LANES;
        let weights = self.of.weights[panel * size..][..((P - 1) * apart + 1) * size].as_ptr();
        let x = self.of.x[..self.rows * chunks * CHUNK_LEN].as_ptr();
        let offsets = &self.of.chunk_offsets[..self.rows * chunks];
        let mut all = [simd.zero(); P];
        for chunk in (0..chunks).step_by(2) {
            let weights = weights.wrapping_add(chunk / 2 * PAIR * S::LANES);
            for half in 0..2 {
                if chunk + half == chunks {
                    break;
                }
                let at = (chunk + half) * self.rows + row;
                let x = x.wrapping_add(at * CHUNK_LEN).cast::<i32>();
                let mut sums = [simd.splat_i32(0); P];
                for word in 0..WORDS {
                    let [low, high] = [word, WORDS + word].map(|word| {
                        // SAFETY: the chunk has eight words.
                        simd.splat_i32(unsafe { x.wrapping_add(word).read_unaligned() })
                    });
                    for (p, sum) in sums.iter_mut().enumerate() {
                        let from = (half * WORDS + word) * S::LANES;
                        let from = weights.wrapping_add(p * apart * size + from);
                        // SAFETY: a panel has `PAIR` vectors for each two chunks.
                        let packed = unsafe { simd.load_ptr(from.cast()) };
                        let [a, b] = packed.to_bits().split_nibbles();
                        *sum = simd.add_dot4_u4(simd.add_dot4_u4(*sum, a, low), b, high);
                    }
                }
                for (p, (all, sum)) in all.iter_mut().zip(sums).enumerate() {
                    let sum = (simd.reduce_dot4_u4(sum) + simd.splat_i32(offsets[at])).to_f32();
                    let weights = weights.wrapping_add(p * apart * size);
                    // SAFETY: as above.
                    let scale = unsafe { factors(simd, weights, half) };
                    *all = sum.mul_add(scale, *all);
                }
            }
        }
        for (p, all) in all.into_iter().enumerate() {
            self.end(simd, all, panel + p * apart, row);
        }
    }

    /// Some rows of a panel.
    #[inline(always)]
    fn rows<S: Simd>(&self, simd: S, panel: usize, (from, to): (usize, usize)) {
        let chunks = self.of.chunks;
        let size = chunks.div_ceil(2) * PAIR * S::LANES;
        let weights = self.of.weights[panel * size..][..size].as_ptr();
        let x = self.of.x[..self.rows * chunks * CHUNK_LEN].as_ptr();
        let offsets = self.of.chunk_offsets[..self.rows * chunks].as_ptr();
        let mut all = [simd.zero(); ROWS];
        for chunk in 0..chunks {
            let weights = weights.wrapping_add(chunk / 2 * PAIR * S::LANES);
            let mut nibbles = [[simd.splat_i32(0); 2]; WORDS];
            for (word, nibbles) in nibbles.iter_mut().enumerate() {
                let from = weights.wrapping_add((chunk % 2 * WORDS + word) * S::LANES);
                // SAFETY: a panel has `PAIR` vectors for each two chunks.
                *nibbles = unsafe { simd.load_ptr(from.cast()) }.to_bits().split_nibbles();
            }
            // SAFETY: as above.
            let scale = unsafe { factors(simd, weights, chunk % 2) };
            let first = chunk * self.rows + from;
            let (mut x, mut offsets) =
                (x.wrapping_add(first * CHUNK_LEN), offsets.wrapping_add(first));
            let (groups, rest) = all[..to - from].as_chunks_mut::<GROUP>();
            for all in groups {
                // SAFETY: each row has a chunk and an offset.
                unsafe { add(simd, (&nibbles, scale), x, offsets, all) };
                (x, offsets) = (x.wrapping_add(GROUP * CHUNK_LEN), offsets.wrapping_add(GROUP));
            }
            for all in rest {
                // SAFETY: as above.
                unsafe { add(simd, (&nibbles, scale), x, offsets, core::array::from_mut(all)) };
                (x, offsets) = (x.wrapping_add(CHUNK_LEN), offsets.wrapping_add(1));
            }
        }
        for (row, all) in (from..to).zip(&all) {
            self.end(simd, *all, panel, row);
        }
    }

    /// Finishes the sums of a row and writes them.
    #[inline(always)]
    fn end<S: Simd>(&self, simd: S, all: S::F32, panel: usize, row: usize) {
        let Q4Gemm { cols, clamp: bounds, .. } = self.of;
        let col = panel * S::LANES;
        let sums = simd.load(&self.of.column_sums[col..]);
        let bias = simd.load(&self.of.bias[col..]);
        let scale = simd.load(&self.of.scale[col..]);
        let all = all * scale - sums * simd.splat(self.of.zero_points[row]);
        let all = all * simd.splat(self.of.row_scale[row]) + bias;
        let all = clamp(simd, all, bounds);
        // SAFETY: `write` saw that the target holds the row, and threads have panels of their own.
        let to = unsafe { self.out.ptr_at(row * cols + col) };
        // SAFETY: as above.
        unsafe { simd.store_partial_ptr(all, to, cols - col) };
    }
}

/// Adds to the sums of `R` rows those of a chunk, whose weights are `nibbles`.
///
/// # Safety
/// `R` chunks can be read at `x`, and `R` integers at `offsets`.
#[inline(always)]
unsafe fn add<S: Simd, const R: usize>(
    simd: S,
    (nibbles, scale): (&[[S::I32; 2]; WORDS], S::F32),
    x: *const i8,
    offsets: *const i32,
    all: &mut [S::F32; R],
) {
    let mut starts = [simd.splat_i32(0); R];
    for (row, start) in starts.iter_mut().enumerate() {
        // SAFETY: demanded of the caller.
        *start = simd.splat_i32(unsafe { *offsets.wrapping_add(row) });
    }
    // Where sums need not be gathered, they may begin anywhere.
    let mut sums = if const { S::HAS_DOT4 } { starts } else { [simd.splat_i32(0); R] };
    for word in 0..2 * WORDS {
        for (row, sum) in sums.iter_mut().enumerate() {
            let from = x.wrapping_add(row * CHUNK_LEN).cast::<i32>().wrapping_add(word);
            // SAFETY: as above; a chunk has eight words.
            let x = simd.splat_i32(unsafe { from.read_unaligned() });
            *sum = simd.add_dot4_u4(*sum, nibbles[word % WORDS][word / WORDS], x);
        }
    }
    for ((all, sum), start) in all.iter_mut().zip(sums).zip(starts) {
        let sum = if const { S::HAS_DOT4 } { sum } else { simd.reduce_dot4_u4(sum) + start };
        *all = sum.to_f32().mul_add(scale, *all);
    }
}

/// The factors of the first or the second of two chunks that begin at `weights`.
///
/// # Safety
/// So many words as two chunks take can be read there.
#[inline(always)]
unsafe fn factors<S: Simd>(simd: S, weights: *const i32, half: usize) -> S::F32 {
    // SAFETY: demanded of the caller.
    let both =
        unsafe { simd.load_ptr(weights.wrapping_add(2 * WORDS * S::LANES).cast()) }.to_bits();
    let bits = if half == 0 { both & simd.splat_i32(-1 << 16) } else { both.shl::<16>() };
    bits.bitcast()
}
