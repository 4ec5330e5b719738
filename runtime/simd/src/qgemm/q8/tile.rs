//! int8 GEMM microkernel: preparation of input rows, and register tiles.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use core::marker::PhantomData;

use super::{Q8Gemm, ZeroPoint};
use crate::{
    Float, Int, Isa, Routine, Simd,
    epilogue::{Epilogue, Origin, OutputTile},
    igemm::{InputRows, PADDING_OFFSET, WeightShape},
    parallel::SharedSlice,
};

/// Bytes of prepared rows that stay in the first-level cache beside a panel of weights.
const L1_ROW_BYTES: usize = 16 << 10;

/// Bytes of prepared rows that stay in the second-level cache; also bytes of weights that do.
const L2_BYTES: usize = 128 << 10;

/// Maximum strips per block of rows.
const MAX_BLOCK_STRIPS: usize = 64;

/// Independent accumulators per output of a single row: they hide the latency of the additions.
const ACCUMULATOR_CHAINS: usize = 4;

/// Rows for which two vectors of accumulators each, and the operands, fill the registers.
const fn max_tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (_, 32) if S::HAS_DOT4 => 12,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

/// Bytes that one instruction multiplies and sums.
const fn dot_len<S: Simd>() -> usize {
    if S::HAS_DOT4 { 4 } else { 2 }
}

/// Bytes of the sum of a weight column; zero if panels have none.
pub(crate) const fn column_sum_bytes<S: Simd>() -> usize {
    if S::HAS_DOT4 { size_of::<i32>() } else { 0 }
}

/// Constants of an instruction set.
#[derive(Clone, Copy)]
struct Constants {
    max_rows: usize,
    group_len: usize,
    column_sum_len: usize,
    dot4_offset: u8,
}

/// Returns the constants of an instruction set.
struct GetConstants;

impl Routine for GetConstants {
    type Output = Constants;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Constants {
        Constants {
            max_rows: const { max_tile_rows::<S>() },
            group_len: const { dot_len::<S>() },
            column_sum_len: const { column_sum_bytes::<S>() },
            dot4_offset: S::DOT4_OFFSET,
        }
    }
}

/// Maximum rows of a tile.
pub(super) fn max_rows(isa: Isa) -> usize {
    isa.run(GetConstants).max_rows
}

/// Elements of a row that one instruction multiplies and sums.
pub(crate) fn group_len(isa: Isa) -> usize {
    isa.run(GetConstants).group_len
}

/// Bytes of the sum of a weight column; zero if panels have none.
pub(super) fn column_sum_len(isa: Isa) -> usize {
    isa.run(GetConstants).column_sum_len
}

/// See [`Simd::DOT4_OFFSET`].
pub(crate) fn dot4_offset(isa: Isa) -> u8 {
    isa.run(GetConstants).dot4_offset
}

/// Rows that are prepared together: few if all weights stay in the cache, more if the weights are
/// read again for each block.
pub(super) fn block_rows(isa: Isa, shape: WeightShape, rows: usize) -> usize {
    let WeightShape { inner, cols } = shape;
    let bytes = if inner.saturating_mul(cols) <= L2_BYTES { L1_ROW_BYTES } else { L2_BYTES };
    let unit = max_rows(isa);
    let row_bytes = 4 * inner.div_ceil(group_len(isa));
    let max = bytes / row_bytes.max(1) / unit * unit;
    max.clamp(unit, MAX_BLOCK_STRIPS * unit).min(rows)
}

/// Loads the weights of a panel of `V` vectors for one word of a row.
///
/// # Safety
/// `ptr` is valid for reads of `V` vectors of groups.
#[inline(always)]
unsafe fn load_columns<S: Simd, const V: usize>(simd: S, ptr: *const i8) -> [S::I32; V] {
    let mut columns = [simd.splat_i32(0); V];
    for (v, column) in columns.iter_mut().enumerate() {
        let ptr = ptr.wrapping_add(v * const { dot_len::<S>() * S::LANES });
        *column = if const { S::HAS_DOT4 } {
            // SAFETY: guaranteed by the caller.
            unsafe { simd.load_ptr(ptr.cast()) }.to_bits()
        } else {
            // SAFETY: as above.
            unsafe { simd.load_widened_i8_ptr(ptr) }
        };
    }
    columns
}

/// The vectors of a panel that stand for a pair of interleaved vectors.
#[inline(always)]
fn join<I: Int, const V: usize>([low, high]: [I; 2]) -> [I; V] {
    let joined = if V == 1 { low.join_halves(high) } else { low };
    core::array::from_fn(|v| if v == 0 { joined } else { high })
}

/// The pair of interleaved vectors of [`join`].
#[inline(always)]
fn split<I: Int, const V: usize>(vectors: [I; V]) -> [I; 2] {
    if V == 1 { vectors[0].split_halves() } else { [vectors[0], vectors[V - 1]] }
}

/// Adds the dot products of the groups of a word and of a column.
#[inline(always)]
fn add_dot<S: Simd>(simd: S, acc: S::I32, word: S::I32, column: S::I32) -> S::I32 {
    if const { S::HAS_DOT4 } {
        simd.add_dot4(acc, word, column)
    } else {
        acc.add_dot2(word, column)
    }
}

/// Adds [`Simd::DOT4_OFFSET`]: flips the sign bit if that is 128.
#[inline(always)]
fn add_offset<S: Simd>(x: i8) -> u8 {
    x.cast_unsigned() ^ S::DOT4_OFFSET
}

/// Bytes of a piece: short runs are written in whole pieces.
const PIECE: usize = 32;

/// Most bytes of a short run.
const MAX_SHORT_RUN: usize = 3 * PIECE;

/// Conversion of input bytes to prepared rows. A trait, not a closure, which might be compiled
/// without the instruction set of the calling function.
trait Prepare {
    type To: Copy;

    /// Converts the first `len` elements of `x`. May write more elements after them.
    fn write(&self, x: &[i8], to: &mut [Self::To], len: usize);
}

/// Adds [`Simd::DOT4_OFFSET`].
struct AddOffset<S>(PhantomData<S>);

impl<S: Simd> Prepare for AddOffset<S> {
    type To = u8;

    #[inline(always)]
    fn write(&self, x: &[i8], to: &mut [u8], len: usize) {
        // Short runs are written in pieces, as words that the compiler joins to vectors.
        let is_written = match len {
            0..=32 => write_pieces::<S, 1>(x, to),
            33..=64 => write_pieces::<S, 2>(x, to),
            65..=96 => write_pieces::<S, 3>(x, to),
            _ => false,
        };
        if !is_written {
            x[..len].iter().zip(to).for_each(|(x, to)| *to = add_offset::<S>(*x));
        }
    }
}

/// Adds [`Simd::DOT4_OFFSET`] to the first `P` pieces. Returns false if there are fewer.
#[inline(always)]
fn write_pieces<S: Simd, const P: usize>(x: &[i8], to: &mut [u8]) -> bool {
    let offsets = const { u64::from_ne_bytes([S::DOT4_OFFSET; 8]) };
    let pieces = x.as_chunks::<PIECE>().0.first_chunk::<P>();
    let to = to.as_chunks_mut::<PIECE>().0.first_chunk_mut::<P>();
    let (Some(pieces), Some(to)) = (pieces, to) else { return false };
    for (piece, to) in pieces.iter().zip(to) {
        let words: [u64; 4] = bytemuck::cast(*piece);
        *to = bytemuck::cast(words.map(|word| word ^ offsets));
    }
    true
}

/// Widens to 16 bits and subtracts the zero point.
struct WidenCentered {
    zero_point: i16,
}

impl Prepare for WidenCentered {
    type To = i16;

    #[inline(always)]
    fn write(&self, x: &[i8], to: &mut [i16], len: usize) {
        x[..len].iter().zip(to).for_each(|(x, to)| *to = i16::from(*x) - self.zero_point);
    }
}

/// Rows and panels of a product that one task computes.
pub(super) struct Block<'p, 'd, E: Epilogue> {
    pub(super) product: Q8Gemm<'d>,
    /// Inner dimension.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// First row and end.
    pub(super) rows: (usize, usize),
    /// Rows that are prepared together.
    pub(super) block_rows: usize,
    /// First panel and end.
    pub(super) panels: (usize, usize),
    /// Buffer of all tasks for prepared rows.
    pub(super) scratch: &'p SharedSlice<'p, i32>,
    /// First word of this task.
    pub(super) scratch_start: usize,
    pub(super) out: &'p SharedSlice<'p, E::Out>,
    /// Index of the first element of the output.
    pub(super) offset: usize,
    pub(super) row_stride: usize,
    pub(super) epilogue: &'p E,
}

/// Computes `block`, which has been checked.
#[inline(never)]
pub(super) fn run<E: Epilogue>(isa: Isa, block: Block<'_, '_, E>) {
    let words = if block.product.is_prepared { 0 } else { block.inner.div_ceil(group_len(isa)) };
    for first_row in (block.rows.0..block.rows.1).step_by(block.block_rows) {
        let count = block.block_rows.min(block.rows.1 - first_row);
        // SAFETY: each task has a part of its own.
        let prepared = unsafe { block.scratch.slice_mut(block.scratch_start, count * words) };
        if !block.product.is_prepared {
            isa.run(PrepareRows { block: &block, first_row, count, prepared });
        }
        isa.run(MultiplyRows { block: &block, first_row, count, prepared });
    }
}

/// Prepares rows. Compiled separately from [`MultiplyRows`], so that it does not take registers
/// from it.
struct PrepareRows<'a, 'p, 'd, E: Epilogue> {
    block: &'a Block<'p, 'd, E>,
    first_row: usize,
    count: usize,
    prepared: &'a mut [i32],
}

impl<E: Epilogue> Routine for PrepareRows<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { block, first_row, count, prepared } = self;
        if let Some(x) = block.contiguous_rows::<S>(first_row, count) {
            let prepared: &mut [u8] = bytemuck::cast_slice_mut(prepared);
            x.iter().zip(prepared).for_each(|(x, to)| *to = add_offset::<S>(*x));
            return;
        }
        let words = block.inner.div_ceil(dot_len::<S>());
        for index in 0..count {
            let (to, row) = (&mut prepared[index * words..], first_row + index);
            let zero_point = block.zero_point(row);
            if const { S::HAS_DOT4 } {
                let (to, padding) = (bytemuck::cast_slice_mut(to), add_offset::<S>(zero_point));
                block.prepare_row(row, to, padding, &AddOffset::<S>(PhantomData));
            } else {
                let prepare = WidenCentered { zero_point: i16::from(zero_point) };
                block.prepare_row(row, bytemuck::cast_slice_mut(to), 0, &prepare);
            }
        }
    }
}

/// Multiplies prepared rows with all panels.
struct MultiplyRows<'a, 'p, 'd, E: Epilogue> {
    block: &'a Block<'p, 'd, E>,
    first_row: usize,
    count: usize,
    prepared: &'a [i32],
}

impl<E: Epilogue> Routine for MultiplyRows<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { block, first_row, count, prepared } = self;
        for panel in block.panels.0..block.panels.1 {
            let is_narrow = block.product.cols - panel * block.width <= S::LANES;
            let mut index = 0;
            while index < count {
                let rows = PreparedRows { data: prepared, first_row, index };
                index += if is_narrow {
                    block.strip::<S, 1>(simd, panel, rows, count - index)
                } else {
                    block.strip::<S, 2>(simd, panel, rows, count - index)
                };
            }
        }
    }
}

/// Position in a block of prepared rows.
#[derive(Clone, Copy)]
struct PreparedRows<'a> {
    data: &'a [i32],
    /// Row of the product of the first prepared row.
    first_row: usize,
    /// Prepared row at this position.
    index: usize,
}

impl<E: Epilogue> Block<'_, '_, E> {
    /// Rows of the input that have the layout of prepared rows; `None` if they do not.
    #[inline(always)]
    fn contiguous_rows<S: Simd>(&self, first_row: usize, count: usize) -> Option<&[i8]> {
        let InputRows::Strided { stride } = self.product.input_rows else { return None };
        let is_contiguous = S::HAS_DOT4 && stride == self.inner && self.inner.is_multiple_of(4);
        is_contiguous.then(|| &self.product.x[first_row * stride..][..count * stride])
    }

    /// Writes a prepared row to the start of `to`, with `padding` for padding. The elements after
    /// the row may be overwritten.
    #[inline(always)]
    fn prepare_row<P: Prepare>(&self, row: usize, to: &mut [P::To], padding: P::To, prepare: &P) {
        let Q8Gemm { x, input_rows, channels, .. } = self.product;
        match input_rows {
            InputRows::Strided { stride } => prepare.write(&x[row * stride..], to, channels),
            InputRows::Indirect { offsets, taps } if channels <= MAX_SHORT_RUN => {
                let offsets = &offsets[row * taps..][..taps];
                for (&offset, start) in offsets.iter().zip((0..).step_by(channels.max(1))) {
                    let to = &mut to[start..];
                    if offset == PADDING_OFFSET {
                        to[..channels].fill(padding);
                    } else {
                        prepare.write(&x[offset as usize..], to, channels);
                    }
                }
            }
            InputRows::Indirect { offsets, taps } => {
                let mut offsets = &offsets[row * taps..][..taps];
                let mut to = &mut *to;
                while let Some(&first) = offsets.first() {
                    // Adjacent runs are converted together.
                    let next = |at: usize| first.wrapping_add((at * channels) as u32);
                    let is_adjacent =
                        |at: &usize| first != PADDING_OFFSET && offsets[*at] == next(*at);
                    let count = 1 + (1..offsets.len()).take_while(is_adjacent).count();
                    let len = count * channels;
                    if first == PADDING_OFFSET {
                        to[..len].fill(padding);
                    } else {
                        prepare.write(&x[first as usize..], to, len);
                    }
                    (offsets, to) = (&offsets[count..], &mut to[len..]);
                }
            }
        }
        // The elements between the row and its last whole group meet weights of zero.
    }

    /// Zero point of a row.
    #[inline(always)]
    fn zero_point(&self, row: usize) -> i8 {
        match self.product.zero_point {
            ZeroPoint::PerTensor(zero_point) => zero_point,
            ZeroPoint::PerRow(zero_points) => zero_points[row],
        }
    }

    /// Initial accumulators of a tile: the bias, minus the contribution of the zero point and the
    /// offset, which is proportional to the column sums at the start of the panel.
    #[inline(always)]
    fn initial_accumulators<S: Simd, const R: usize, const V: usize>(
        &self,
        simd: S,
        panel: *const i8,
        origin: Origin,
    ) -> [[S::I32; V]; R] {
        let initial = join::<_, V>(self.epilogue.initial_accumulators(simd, origin.col));
        let mut all = [initial; R];
        if const { S::HAS_DOT4 } {
            // SAFETY: a panel starts with the vectors of column sums.
            let sums = unsafe { load_columns::<S, V>(simd, panel) };
            let subtract = |row: &mut [S::I32; V], zero_point: i8| {
                let zero = i32::from(zero_point) + i32::from(S::DOT4_OFFSET);
                let zero = simd.splat_i32(zero);
                for (acc, sum) in row.iter_mut().zip(sums) {
                    *acc = *acc - sum * zero;
                }
            };
            match self.product.zero_point {
                ZeroPoint::PerTensor(zero_point) => {
                    let mut row = initial;
                    subtract(&mut row, zero_point);
                    all = [row; R];
                }
                ZeroPoint::PerRow(zero_points) => {
                    for (row, zero_point) in all.iter_mut().zip(&zero_points[origin.row..][..R]) {
                        subtract(row, *zero_point);
                    }
                }
            }
        }
        all
    }

    /// Computes the tallest tile with at most `left` rows, and returns its height.
    #[inline(always)]
    fn strip<S: Simd, const V: usize>(
        &self,
        simd: S,
        panel: usize,
        rows: PreparedRows<'_>,
        left: usize,
    ) -> usize {
        macro_rules! tallest {
            ($($height:literal)*) => {
                $(if const { $height <= max_tile_rows::<S>() } && left >= $height {
                    self.tile::<S, $height, V>(simd, panel, rows);
                    return $height;
                })*
            };
        }
        tallest!(12 8 6 4 3 2);
        self.tile::<S, 1, V>(simd, panel, rows);
        1
    }

    /// Computes a tile of `R` rows and `V` vectors of columns.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &self,
        simd: S,
        panel: usize,
        PreparedRows { data, first_row, index }: PreparedRows<'_>,
    ) {
        let group = const { dot_len::<S>() };
        let words = self.inner.div_ceil(group);
        let width = const { V * S::LANES };
        let sums_len = width * const { column_sum_bytes::<S>() };
        let column_len = const { column_sum_bytes::<S>() } + group * words;
        let weights = &self.product.weights[panel * self.width * column_len..];
        let weights = &weights[..width * column_len];
        let origin = Origin { row: first_row + index, col: panel * self.width };
        let mut accumulators = self.initial_accumulators::<S, R, V>(simd, weights.as_ptr(), origin);
        let mut b = weights[sums_len..].as_ptr();
        let (runs, words) = self.runs(words);
        for run in 0..runs {
            let a = self.run_ptrs::<R>(data, index, origin.row, (run, runs, words));
            // SAFETY: prepared rows have `words` words, and `Q8Gemm::run` has checked the offsets; the
            // panel has `V` vectors for each word of all runs.
            b = unsafe { self.add_run(simd, &mut accumulators, a, b, words) };
        }
        let cols = (self.product.cols - origin.col).min(self.width);
        let start = self.offset + origin.row * self.row_stride + origin.col;
        // SAFETY: `Q8Gemm::run` checked that the rows are inside the output; threads have rows or
        // panels of their own.
        let ptr = unsafe { self.out.ptr_at(start) };
        let tile = OutputTile { ptr, row_stride: self.row_stride, cols };
        let mut pairs = [[simd.splat_i32(0); 2]; R];
        for (pair, row) in pairs.iter_mut().zip(accumulators) {
            *pair = split(row);
        }
        // SAFETY: as above; `Q8Gemm::run` has checked the epilogue.
        unsafe { self.epilogue.store_tile(simd, pairs, origin, tile) };
    }

    /// Number of contiguous runs of a row, and words of one: `words` are those of the row.
    #[inline(always)]
    fn runs(&self, words: usize) -> (usize, usize) {
        match self.product.input_rows {
            InputRows::Indirect { taps, .. } if self.product.is_prepared => {
                (taps, self.product.channels / 4)
            }
            _ => (1, words),
        }
    }

    /// Pointers to `words` words of run `run` of `runs` of the rows of a tile.
    #[inline(always)]
    fn run_ptrs<const R: usize>(
        &self,
        data: &[i32],
        index: usize,
        row: usize,
        (run, runs, words): (usize, usize, usize),
    ) -> [*const i32; R] {
        match self.product.input_rows {
            InputRows::Indirect { offsets, .. } if self.product.is_prepared => {
                let offsets = &offsets[row * runs..][..R * runs];
                core::array::from_fn(|r| {
                    let offset = offsets[r * runs + run] as usize;
                    self.product.x.as_ptr().wrapping_add(offset).cast()
                })
            }
            _ => {
                let rows = data[index * words..][..R * words].as_ptr();
                core::array::from_fn(|r| rows.wrapping_add(r * words))
            }
        }
    }

    /// Adds the products of a run of `words` words, and returns the pointer to the next weights.
    ///
    /// # Safety
    /// The pointers in `a` are valid for reads of `words` words, and `b` of `V` vectors for each.
    #[inline(always)]
    unsafe fn add_run<S: Simd, const R: usize, const V: usize>(
        &self,
        simd: S,
        accumulators: &mut [[S::I32; V]; R],
        a: [*const i32; R],
        mut b: *const i8,
        words: usize,
    ) -> *const i8 {
        let group = const { dot_len::<S>() };
        let width = const { V * S::LANES };
        let start = if R == 1 { words - words % ACCUMULATOR_CHAINS } else { 0 };
        if R == 1 {
            let mut chains = [[simd.splat_i32(0); V]; ACCUMULATOR_CHAINS];
            for k in (0..start).step_by(ACCUMULATOR_CHAINS) {
                for (u, chain) in chains.iter_mut().enumerate() {
                    // SAFETY: guaranteed by the caller.
                    let word = simd.splat_i32(unsafe { a[0].wrapping_add(k + u).read_unaligned() });
                    // SAFETY: as above.
                    let columns = unsafe { load_columns::<S, V>(simd, b) };
                    for (acc, column) in chain.iter_mut().zip(columns) {
                        *acc = add_dot(simd, *acc, word, column);
                    }
                    b = b.wrapping_add(group * width);
                }
            }
            for chain in chains {
                for (acc, sum) in accumulators[0].iter_mut().zip(chain) {
                    *acc = *acc + sum;
                }
            }
        }
        for k in start..words {
            // SAFETY: guaranteed by the caller.
            let columns = unsafe { load_columns::<S, V>(simd, b) };
            for (accumulators, a) in accumulators.iter_mut().zip(a) {
                // SAFETY: as above.
                let word = simd.splat_i32(unsafe { a.wrapping_add(k).read_unaligned() });
                for (acc, column) in accumulators.iter_mut().zip(columns) {
                    *acc = add_dot(simd, *acc, word, column);
                }
            }
            b = b.wrapping_add(group * width);
        }
        b
    }
}
