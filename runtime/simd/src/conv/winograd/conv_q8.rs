//! Convolutions of integers of 8 bits, summed up exactly.
//!
//! Transformed inputs and weights are integers of 16 bits, two channels in a word. Products wrap at
//! 32 bits, and so does what becomes of them: outputs times 9 and a power of two of at most 64.
//! Their lower 26 bits are right, and that is all where [`is_exact`] says so.

#![expect(unsafe_code, reason = "reads and writes tiles through checked pointers")]

use afferent_core::Workers;

use super::{
    ConvShape, IN, Kind, OUT, TAPS,
    strip::{Lens, Lines, Numbers, Tile, collect, scatter},
    transform::{self, SHIFTS, Square},
};
use crate::{
    Float, Int, Isa, Simd, SizeError,
    epilogue::{Epilogue, Origin, OutputTile},
    gemm::tile,
    igemm::WeightShape,
    parallel::SharedSlice,
    qgemm::q8::{column_sum_bytes, packed_len, panel_cols},
};

/// Channels whose weights lie together.
const QUAD: usize = 4;

/// The number that a ninth is where numbers wrap at 32 bits.
const NINTH: i32 = 954_437_177;

/// The largest difference of an integer of 8 bits from what zero is stored as.
const MOST: u64 = 255;

/// Pictures of integers of 8 bits, and what they are convolved with.
#[derive(Debug, Clone, Copy)]
pub struct WinogradQ8<'d, E> {
    /// The pictures, one after the other.
    pub x: &'d [i8],
    /// What zero is stored as, at least as often as there are channels.
    pub zero_points: &'d [i8],
    /// Weights that [`q8::pack`](crate::qgemm::q8::pack) made: for each column those of the
    /// channels of the first element of the kernel, then those of the second, and so on.
    pub weights: &'d [i8],
    /// What becomes of sums; its rows are pixels.
    pub epilogue: &'d E,
}

/// Whether sums with the weights of a column fit into 26 bits, whatever the inputs are.
pub fn is_exact(isa: Isa, weights: &[i8]) -> bool {
    /// So many magnitudes add up to less than 32 bits, in which they are added fastest.
    const PART: usize = 1 << 16;
    let of_part = |part: &[i8]| part.iter().map(|x| u32::from(x.unsigned_abs())).sum::<u32>();
    let all = isa.call(|| weights.chunks(PART).map(|part| u64::from(of_part(part))).sum::<u64>());
    all * MOST < 1 << 25
}

/// Whether pictures of so many channels are what [`WinogradQ8`] convolves.
pub fn supports_channels(channels: usize) -> bool {
    channels.is_multiple_of(QUAD)
}

impl<E: Epilogue> WinogradQ8<'_, E> {
    /// Computes the convolution, stores it through the epilogue, and writes it to `out`: batch,
    /// rows, columns, channels. Results of columns whose weights are not [`is_exact`] may be wrong.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes, or the channels are not
    /// [`supports_channels`].
    pub fn run(
        &self,
        shape: &ConvShape,
        isa: Isa,
        out: &mut [E::Out],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let ConvShape { batch, output, in_channels, out_channels: cols, .. } = *shape;
        shape.check(self.x.len(), out.len())?;
        let supported = supports_channels(in_channels);
        SizeError::check_parameter("in_channels", "a multiple of 4", supported)?;
        SizeError::check_min("zero_points", self.zero_points.len(), Some(in_channels))?;
        let inner = in_channels.checked_mul(TAPS);
        let packed_len = inner.and_then(|inner| packed_len(isa, WeightShape { inner, cols }));
        SizeError::check_min("weights", self.weights.len(), packed_len)?;
        let padded_cols = cols.next_multiple_of(panel_cols(isa));
        self.epilogue.check(batch * output[0] * output[1], padded_cols)?;
        shape.run(self, isa, out, scratch, workers)
    }
}

/// Two vectors of words: where weights lie in quads, those of channels 0 and 2 of each quad from
/// `from` on, and those of channels 1 and 3; else pairs as they lie there, and from `next` on.
///
/// # Safety
/// `4 * LANES` bytes can be read at `from`, or half as many at both.
#[inline(always)]
unsafe fn widened<S: Simd>(simd: S, from: *const i8, next: *const i8) -> [S::I32; 2] {
    if const { S::HAS_DOT4 } {
        // SAFETY: demanded of the caller.
        return unsafe { simd.load_ptr(from.cast()) }.to_bits().widen_bytes();
    }
    // SAFETY: demanded of the caller.
    let first = unsafe { simd.load_widened_i8_ptr(from) };
    // SAFETY: as above.
    [first, unsafe { simd.load_widened_i8_ptr(next) }]
}

/// The words of a square as they are kept.
#[inline(always)]
fn kept<S: Simd>(simd: S, square: Square<S::I32, IN, IN>) -> Square<S::F32, IN, IN> {
    let mut all = [[simd.zero(); IN]; IN];
    for (to, row) in all.iter_mut().zip(square) {
        for (to, word) in to.iter_mut().zip(row) {
            *to = word.bitcast();
        }
    }
    all
}

/// Sums of a tile, from its products.
#[inline(always)]
fn sums<S: Simd>(simd: S, products: Square<S::F32, IN, IN>) -> Square<S::I32, OUT, OUT> {
    let mut square = [[simd.splat_i32(0); IN]; IN];
    for (to, row) in square.iter_mut().zip(products) {
        for (to, product) in to.iter_mut().zip(row) {
            *to = product.to_bits();
        }
    }
    let mut square = transform::whole_outputs(simd, square);
    let ninth = simd.splat_i32(NINTH);
    for (i, row) in square.iter_mut().enumerate() {
        for (j, sum) in row.iter_mut().enumerate() {
            let ninth = *sum * ninth;
            *sum = match SHIFTS[i] + SHIFTS[j] {
                2 => ninth.shr::<2>(),
                3 => ninth.shr::<3>(),
                4 => ninth.shr::<4>(),
                5 => ninth.shr::<5>(),
                _ => ninth.shr::<6>(),
            };
        }
    }
    square
}

impl<E: Epilogue> Numbers for WinogradQ8<'_, E> {
    const KIND: Kind = Kind::Q8;
    const IN_WORD: usize = 2;
    type In = i8;
    type Out = E::Out;
    type Product = tile::Pairs;

    fn input(&self) -> (&[i8], &[i8]) {
        (self.x, self.zero_points)
    }

    #[inline(always)]
    unsafe fn inputs<S: Simd>(
        &self,
        simd: S,
        lines: &Lines<i8>,
        (first, last): (usize, usize),
        to: *mut f32,
        step: usize,
    ) {
        /// Bytes of a vector of quads.
        const LONGEST: usize = 64;
        // What zero is stored as is in the way at one place alone: elsewhere it adds up to nothing.
        let zero = 36 * self.zero_points.first().map_or(0, |zero| i32::from(*zero));
        let zero = simd.splat_i32((zero << 16) | (zero & 0xffff));
        for channel in (first..last).step_by(QUAD * S::LANES) {
            let [mut tile, mut next] = [[[zero; IN]; IN]; 2];
            let count = last - channel;
            if count >= QUAD * S::LANES {
                for i in 0..IN {
                    for j in 0..IN {
                        let line = lines[i][j].wrapping_add(channel);
                        // SAFETY: demanded of the caller.
                        [tile[i][j], next[i][j]] =
                            unsafe { widened(simd, line, line.wrapping_add(2 * S::LANES)) };
                    }
                }
            } else {
                for i in 0..IN {
                    for j in 0..IN {
                        let (line, mut copy) = (lines[i][j].wrapping_add(channel), [0; LONGEST]);
                        for (at, to) in copy.iter_mut().enumerate().take(count) {
                            // SAFETY: demanded of the caller.
                            *to = unsafe { line.wrapping_add(at).read() };
                        }
                        let line = copy.as_ptr();
                        // SAFETY: the copy is as long as the longest vector.
                        [tile[i][j], next[i][j]] =
                            unsafe { widened(simd, line, line.wrapping_add(2 * S::LANES)) };
                    }
                }
            }
            let [mut tile, mut next] =
                [transform::whole_inputs(simd, tile), transform::whole_inputs(simd, next)];
            tile[1][1] = tile[1][1].sub_i16(zero);
            next[1][1] = next[1][1].sub_i16(zero);
            // Words of quads follow each other even where quads do not fill a vector.
            let second = if S::HAS_DOT4 { S::LANES.min(count / QUAD) } else { S::LANES };
            let to = to.wrapping_add((channel - first) / 2);
            // SAFETY: demanded of the caller.
            unsafe { scatter(simd, &kept(simd, tile), to, step) };
            // SAFETY: as above.
            unsafe { scatter(simd, &kept(simd, next), to.wrapping_add(second), step) };
        }
    }

    #[inline(always)]
    unsafe fn weights<S: Simd, const C: usize>(
        &self,
        simd: S,
        panel: usize,
        (first, last, channels): (usize, usize, usize),
        to: *mut f32,
        lens: &Lens,
    ) {
        let tap = lens.width * channels;
        let sums = lens.width * const { column_sum_bytes::<S>() };
        let size = sums + tap * TAPS;
        let from = &self.weights[panel * size..][sums..size];
        let quads = (last - first) / QUAD;
        let group = S::LANES * if S::HAS_DOT4 { QUAD } else { 2 };
        for quad in 0..quads {
            for c in 0..C {
                let [mut kernel, mut next] = [[[simd.splat_i32(0); 3]; 3]; 2];
                for i in 0..3 {
                    for j in 0..3 {
                        let from = from.as_ptr().wrapping_add((i * 3 + j) * tap);
                        let from =
                            from.wrapping_add((first + quad * QUAD) * lens.width + c * group);
                        let later = from.wrapping_add(2 * lens.width);
                        // SAFETY: the panel has `C` vectors of quads for each quad of each tap, or
                        // twice as many of pairs.
                        [kernel[i][j], next[i][j]] = unsafe { widened(simd, from, later) };
                    }
                }
                let words = if S::HAS_DOT4 {
                    let of_vector = S::LANES.min(quads - quad / S::LANES * S::LANES);
                    let even = quad / S::LANES * S::LANES + quad;
                    [even, even + of_vector]
                } else {
                    [2 * quad, 2 * quad + 1]
                };
                let at = |word: usize| to.wrapping_add(word * lens.row + c * S::LANES);
                let square = kept(simd, transform::whole_weights(simd, kernel));
                // SAFETY: demanded of the caller.
                unsafe { scatter(simd, &square, at(words[0]), lens.width) };
                let square = kept(simd, transform::whole_weights(simd, next));
                // SAFETY: as above.
                unsafe { scatter(simd, &square, at(words[1]), lens.width) };
            }
        }
    }

    #[inline(always)]
    unsafe fn outputs<S: Simd, const C: usize>(
        &self,
        simd: S,
        products: *const f32,
        lens: &Lens,
        tile: &Tile,
        out: &SharedSlice<'_, E::Out>,
    ) {
        let len = (tile.cols - tile.col).min(lens.width);
        let start = self.epilogue.initial_accumulators(simd, tile.col);
        let mut halves = [[[simd.splat_i32(0); OUT]; OUT]; 2];
        for (half, to) in halves.iter_mut().enumerate() {
            let from = products.wrapping_add(half * S::LANES);
            // SAFETY: demanded of the caller; panels have two vectors.
            let square = unsafe { collect(simd, from, lens.width) };
            *to = sums(simd, square);
        }
        let [low, high] = &halves;
        for row in 0..tile.rows {
            for column in 0..tile.columns {
                let pixel = tile.pixel + row * tile.step + column;
                let sums = [start[0] + low[row][column], start[1] + high[row][column]];
                // SAFETY: demanded of the caller.
                let to = unsafe { out.ptr_at(pixel * tile.cols + tile.col) };
                // SAFETY: demanded of the caller; `write` asked `fits`.
                unsafe {
                    let tile_out = OutputTile { ptr: to, row_stride: 0, cols: len };
                    let origin = Origin { row: pixel, col: tile.col };
                    self.epilogue.store_row(simd, sums, origin, tile_out);
                };
            }
        }
    }
}
