//! Tiles of a product of integers, whose sums stay in registers.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use core::marker::PhantomData;

use super::{Q8Gemm, ZeroPoint};
use crate::{
    Int, Isa, Routine, Simd,
    epilogue::{Epilogue, Origin, OutputTile},
    igemm::{InputRows, PADDING_OFFSET, WeightShape},
    parallel::SharedSlice,
    qgemm::requantize::load_pair_ptr,
};

/// Bytes of prepared rows that stay in the nearest cache beside a panel of weights.
const NEAR: usize = 16 << 10;

/// Bytes of prepared rows that stay in the next one.
const FAR: usize = 128 << 10;

/// Rows such that two vectors of sums each, with those of the operands, fill the registers.
const fn tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (_, 32) if S::HAS_DOT4 => 12,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

/// Numbers of a row that are multiplied together.
const fn dot_len<S: Simd>() -> usize {
    if S::HAS_DOT4 { 4 } else { 2 }
}

/// Bytes of the sum of a column of weights, where there is one.
pub(crate) const fn column_sum_bytes<S: Simd>() -> usize {
    if S::HAS_DOT4 { size_of::<i32>() } else { 0 }
}

struct Sizes;

impl Routine for Sizes {
    type Output = [usize; 3];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [usize; 3] {
        const { [tile_rows::<S>(), dot_len::<S>(), column_sum_bytes::<S>()] }
    }
}

/// Rows of the tallest tile.
pub(super) fn max_rows(isa: Isa) -> usize {
    isa.run(Sizes)[0]
}

/// Numbers of a row that are multiplied together.
pub(crate) fn group_len(isa: Isa) -> usize {
    isa.run(Sizes)[1]
}

/// Bytes of the sum of a column of weights, where there is one.
pub(super) fn column_sum_len(isa: Isa) -> usize {
    isa.run(Sizes)[2]
}

/// See [`Simd::DOT4_OFFSET`].
struct Offset;

impl Routine for Offset {
    type Output = u8;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> u8 {
        S::DOT4_OFFSET
    }
}

/// What bytes have added where they are multiplied in quads.
pub(crate) fn dot4_offset(isa: Isa) -> u8 {
    isa.run(Offset)
}

/// Rows that are prepared at a time: few where all weights stay in the cache beside them, else
/// more, since weights are read again for each block.
pub(super) fn block_rows(isa: Isa, shape: WeightShape, all: usize) -> usize {
    let WeightShape { inner, cols } = shape;
    let bytes = if inner.saturating_mul(cols) <= FAR { NEAR } else { FAR };
    let unit = max_rows(isa);
    let most = bytes / (4 * inner.div_ceil(group_len(isa))).max(1) / unit * unit;
    most.clamp(unit, 64 * unit).min(all)
}

/// Products of one row that are added up apart from each other.
const CHAINS: usize = 4;

/// The weights of a panel for a word of a row.
///
/// # Safety
/// Two vectors of groups can be read there.
#[inline(always)]
unsafe fn columns<S: Simd>(simd: S, from: *const i8) -> [S::I32; 2] {
    if const { S::HAS_DOT4 } {
        // SAFETY: demanded of the caller.
        return unsafe { load_pair_ptr(simd, from.cast()) };
    }
    // SAFETY: demanded of the caller.
    let first = unsafe { simd.load_widened_i8_ptr(from) };
    let next = from.wrapping_add(const { dot_len::<S>() * S::LANES });
    // SAFETY: as above.
    [first, unsafe { simd.load_widened_i8_ptr(next) }]
}

/// Adds the products of the groups of a word with those of a column.
#[inline(always)]
fn add<S: Simd>(simd: S, sum: S::I32, word: S::I32, column: S::I32) -> S::I32 {
    if const { S::HAS_DOT4 } {
        simd.add_dot4(sum, word, column)
    } else {
        sum.add_dot2(word, column)
    }
}

/// An integer with [`Simd::DOT4_OFFSET`] added: the sign is flipped where that is 128.
#[inline(always)]
fn flipped<S: Simd>(x: i8) -> u8 {
    x.cast_unsigned() ^ S::DOT4_OFFSET
}

/// The most integers that are written in one piece.
const SHORT: usize = 32;

/// How rows are prepared. A trait and no closure, which might be compiled without the instructions
/// of the function around it.
trait Prepare {
    type To: Copy;

    /// Writes the first `len` integers of `x`, and perhaps some behind them.
    fn write(&self, x: &[i8], to: &mut [Self::To], len: usize);
}

/// Adds [`Simd::DOT4_OFFSET`].
struct Flip<S>(PhantomData<S>);

impl<S: Simd> Prepare for Flip<S> {
    type To = u8;

    #[inline(always)]
    fn write(&self, x: &[i8], to: &mut [u8], len: usize) {
        // Short runs are written in one piece, in words that the compiler joins.
        let signs = const { u64::from_ne_bytes([S::DOT4_OFFSET; 8]) };
        let pieces = x.first_chunk::<SHORT>().zip(to.first_chunk_mut::<SHORT>());
        match pieces {
            Some((x, to)) if len <= SHORT => {
                let words: [u64; 4] = bytemuck::cast(*x);
                *to = bytemuck::cast(words.map(|word| word ^ signs));
            }
            _ => x[..len].iter().zip(to).for_each(|(x, to)| *to = flipped::<S>(*x)),
        }
    }
}

/// Widens to 16 bits, less what zero is stored as.
struct Widen(i16);

impl Prepare for Widen {
    type To = i16;

    #[inline(always)]
    fn write(&self, x: &[i8], to: &mut [i16], len: usize) {
        x[..len].iter().zip(to).for_each(|(x, to)| *to = i16::from(*x) - self.0);
    }
}

/// Rows and panels of a product that one thread computes.
pub(super) struct Block<'p, 'd, E: Epilogue> {
    pub(super) product: Q8Gemm<'d>,
    /// Numbers of a row.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// From and to.
    pub(super) rows: (usize, usize),
    /// Rows that are prepared at a time.
    pub(super) block_rows: usize,
    /// From and to.
    pub(super) panels: (usize, usize),
    /// Where prepared rows go: a block of them, from a place on.
    pub(super) scratch: &'p SharedSlice<'p, i32>,
    pub(super) scratch_start: usize,
    pub(super) out: &'p SharedSlice<'p, E::Out>,
    pub(super) offset: usize,
    pub(super) row_stride: usize,
    pub(super) epilogue: &'p E,
}

/// Computes `area`, which was checked.
#[inline(never)]
pub(super) fn run<E: Epilogue>(isa: Isa, area: Block<'_, '_, E>) {
    let words = area.inner.div_ceil(group_len(isa));
    for from in (area.rows.0..area.rows.1).step_by(area.block_rows) {
        let count = area.block_rows.min(area.rows.1 - from);
        let start = area.scratch_start;
        // SAFETY: each thread has a part of its own.
        let block = unsafe { area.scratch.slice_mut(start, count * words) };
        isa.run(Rows { area: &area, from, count, block });
        isa.run(Tiles { area: &area, from, count, block });
    }
}

/// Prepares rows of a block. Apart from [`Tiles`], so that its registers are not in their way.
struct Rows<'a, 'p, 'd, E: Epilogue> {
    area: &'a Block<'p, 'd, E>,
    from: usize,
    count: usize,
    block: &'a mut [i32],
}

impl<E: Epilogue> Routine for Rows<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { area, from, count, block } = self;
        if let Some(x) = area.whole::<S>(from, count) {
            let block: &mut [u8] = bytemuck::cast_slice_mut(block);
            x.iter().zip(block).for_each(|(x, to)| *to = flipped::<S>(*x));
            return;
        }
        let words = area.inner.div_ceil(dot_len::<S>());
        for row in 0..count {
            let (to, row) = (&mut block[row * words..], from + row);
            let zero = area.zero(row);
            if const { S::HAS_DOT4 } {
                let (to, zero) = (bytemuck::cast_slice_mut(to), flipped::<S>(zero));
                area.prepare(row, to, zero, &Flip::<S>(PhantomData));
            } else {
                let (to, how) = (bytemuck::cast_slice_mut(to), Widen(i16::from(zero)));
                area.prepare(row, to, 0, &how);
            }
        }
    }
}

/// Multiplies the prepared rows of a block with all panels.
struct Tiles<'a, 'p, 'd, E: Epilogue> {
    area: &'a Block<'p, 'd, E>,
    from: usize,
    count: usize,
    block: &'a [i32],
}

impl<E: Epilogue> Routine for Tiles<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { area, from, count, block } = self;
        for panel in area.panels.0..area.panels.1 {
            let mut row = 0;
            while row < count {
                row += area.strip(simd, panel, (from, row), block, count - row);
            }
        }
    }
}

impl<E: Epilogue> Block<'_, '_, E> {
    /// Some rows that lie together as they do when they are prepared.
    #[inline(always)]
    fn whole<S: Simd>(&self, from: usize, count: usize) -> Option<&[i8]> {
        let InputRows::Strided { stride: step } = self.product.input_rows else { return None };
        let is_whole = S::HAS_DOT4 && step == self.inner && self.inner.is_multiple_of(4);
        is_whole.then(|| &self.product.x[from * step..][..count * step])
    }

    /// Writes a row to the beginning of `to`, and `zero` for taps of zeros. What comes behind the
    /// row may be written over.
    #[inline(always)]
    fn prepare<P: Prepare>(&self, row: usize, to: &mut [P::To], zero: P::To, how: &P) {
        let Q8Gemm { x, input_rows, channels, .. } = self.product;
        match input_rows {
            InputRows::Strided { stride } => how.write(&x[row * stride..], to, channels),
            InputRows::Indirect { offsets, taps } if channels <= SHORT => {
                let places = &offsets[row * taps..][..taps];
                for (&place, start) in places.iter().zip((0..).step_by(channels.max(1))) {
                    let to = &mut to[start..];
                    if place == PADDING_OFFSET {
                        to[..channels].fill(zero);
                    } else {
                        how.write(&x[place as usize..], to, channels);
                    }
                }
            }
            InputRows::Indirect { offsets, taps } => {
                let mut places = &offsets[row * taps..][..taps];
                let mut to = &mut *to;
                while let Some(&first) = places.first() {
                    // Taps that follow each other are copied together.
                    let next = |at: usize| first.wrapping_add((at * channels) as u32);
                    let follows = |at: &usize| first != PADDING_OFFSET && places[*at] == next(*at);
                    let count = 1 + (1..places.len()).take_while(follows).count();
                    let len = count * channels;
                    if first == PADDING_OFFSET {
                        to[..len].fill(zero);
                    } else {
                        how.write(&x[first as usize..], to, len);
                    }
                    (places, to) = (&places[count..], &mut to[len..]);
                }
            }
        }
        // What stands between the row and its last whole group meets weights of zero.
    }

    /// What zero is stored as.
    #[inline(always)]
    fn zero(&self, row: usize) -> i8 {
        match self.product.zero_point {
            ZeroPoint::PerTensor(zero) => zero,
            ZeroPoint::PerRow(all) => all[row],
        }
    }

    /// What the sums of a tile start with: what is added to them, less what the products of flipped
    /// rows have too much. The sums of the weights stand before the panel.
    #[inline(always)]
    fn starts<S: Simd, const R: usize>(
        &self,
        simd: S,
        panel: *const i8,
        row: usize,
        first: usize,
    ) -> [[S::I32; 2]; R] {
        let start = self.epilogue.initial_accumulators(simd, first);
        let mut all = [start; R];
        if const { S::HAS_DOT4 } {
            // SAFETY: a panel begins with two vectors of sums.
            let sums = unsafe { load_pair_ptr(simd, panel.cast()) };
            match self.product.zero_point {
                ZeroPoint::PerTensor(zero) => {
                    let more = simd.splat_i32(i32::from(zero) + i32::from(S::DOT4_OFFSET));
                    all = [[start[0] - sums[0] * more, start[1] - sums[1] * more]; R];
                }
                ZeroPoint::PerRow(zeros) => {
                    for (all, zero) in all.iter_mut().zip(&zeros[row..][..R]) {
                        let more = simd.splat_i32(i32::from(*zero) + i32::from(S::DOT4_OFFSET));
                        *all = [start[0] - sums[0] * more, start[1] - sums[1] * more];
                    }
                }
            }
        }
        all
    }

    /// Computes the tallest tile that fits into `left` rows, and returns its height.
    #[inline(always)]
    fn strip<S: Simd>(
        &self,
        simd: S,
        panel: usize,
        rows: (usize, usize),
        block: &[i32],
        left: usize,
    ) -> usize {
        macro_rules! tallest {
            ($($height:literal)*) => {
                $(if const { $height <= tile_rows::<S>() } && left >= $height {
                    self.tile::<S, $height>(simd, panel, rows, block);
                    return $height;
                })*
            };
        }
        tallest!(12 8 6 4 3 2);
        self.tile::<S, 1>(simd, panel, rows, block);
        1
    }

    /// A tile of `R` rows of the block from `row` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        panel: usize,
        (from, row): (usize, usize),
        block: &[i32],
    ) {
        let group = const { dot_len::<S>() };
        let words = self.inner.div_ceil(group);
        let rows = &block[row * words..][..R * words];
        let of_sums = self.width * const { column_sum_bytes::<S>() };
        let size = of_sums + group * self.width * words;
        let weights = &self.product.weights[panel * size..][..size];
        let first = panel * self.width;
        let mut sums = self.starts::<S, R>(simd, weights.as_ptr(), from + row, first);
        let mut a = [rows.as_ptr(); R];
        a.iter_mut().enumerate().for_each(|(r, a)| *a = a.wrapping_add(r * words));
        let mut b = weights[of_sums..].as_ptr();
        // Sums of one row are added up apart from each other, since each waits for the last.
        let start = if R == 1 { words - words % CHAINS } else { 0 };
        if R == 1 {
            let mut chains = [[simd.splat_i32(0); 2]; CHAINS];
            for k in (0..start).step_by(CHAINS) {
                for (more, chain) in chains.iter_mut().enumerate() {
                    // SAFETY: the row has so many words.
                    let word = simd.splat_i32(unsafe { *a[0].wrapping_add(k + more) });
                    // SAFETY: the panel has two vectors for each of them.
                    let columns = unsafe { columns(simd, b) };
                    *chain = [
                        add(simd, chain[0], word, columns[0]),
                        add(simd, chain[1], word, columns[1]),
                    ];
                    b = b.wrapping_add(2 * group * S::LANES);
                }
            }
            for [low, high] in chains {
                sums[0] = [sums[0][0] + low, sums[0][1] + high];
            }
        }
        for k in start..words {
            // SAFETY: the panel has two vectors for each word of a row.
            let columns = unsafe { columns(simd, b) };
            for (sums, a) in sums.iter_mut().zip(a) {
                // SAFETY: each row has so many words.
                let word = simd.splat_i32(unsafe { *a.wrapping_add(k) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = add(simd, *sum, word, column);
                }
            }
            b = b.wrapping_add(2 * group * S::LANES);
        }
        let len = (self.product.cols - first).min(self.width);
        let row = from + row;
        // SAFETY: `write` saw that the target holds the rows, and threads have rows or panels of
        // their own.
        let to = unsafe { self.out.ptr_at(self.offset + row * self.row_stride + first) };
        // SAFETY: as above; `write` asked `fits`.
        unsafe {
            let tile = OutputTile { ptr: to, row_stride: self.row_stride, cols: len };
            self.epilogue.store_tile(simd, sums, Origin { row, col: first }, tile);
        };
    }
}
