//! int8 convolution with exact accumulation.
//!
//! Transformed inputs and weights are 16-bit integers, two channels per word. Products wrap at 32
//! bits, and so do the output transforms, which yield the outputs times 9 and a power of two of at
//! most 64. The lower 26 bits of the outputs are exact, which suffices if [`is_exact`] returns
//! true.

#![expect(unsafe_code, reason = "reads and writes tiles through checked pointers")]

use core::ops::Range;

use afferent_core::Workers;

use super::{
    ConvShape, IN_TILE, KERNEL_TAPS, Kind, OUT_TILE,
    strip::{BufferLayout, Convolution, InputTile, OutputRegion, load_tile, store_tile},
    transform::{self, OUTPUT_SHIFTS, Square},
};
use crate::{
    Float, Int, Isa, Simd, SizeError,
    epilogue::{Epilogue, Origin, OutputTile},
    gemm::tile::MultiplyAddI16Pairs,
    igemm::WeightShape,
    parallel::SharedSlice,
    qgemm::q8::{column_sum_bytes, packed_len, panel_cols},
};

/// Channels whose weights are adjacent.
const QUAD_CHANNELS: usize = 4;

/// Multiplicative inverse of 9 modulo 2³².
const INVERSE_OF_9: i32 = 954_437_177;

/// Largest difference of an int8 value from a zero point.
const MAX_DIFFERENCE: u64 = 255;

/// int8 convolution of NHWC images.
#[derive(Debug, Clone, Copy)]
pub struct WinogradQ8<'d, E> {
    /// Input: batch, rows, columns, channels.
    pub x: &'d [i8],
    /// Zero point of the input, repeated for at least `in_channels` elements.
    pub zero_points: &'d [i8],
    /// Weights, packed by [`q8::pack`](crate::qgemm::q8::pack): per output channel the weights of
    /// all input channels for the first kernel element, then for the second, and so on.
    pub weights: &'d [i8],
    /// Epilogue; its rows are output pixels.
    pub epilogue: &'d E,
}

/// True if the accumulators of an output channel with these weights fit 26 bits for any input.
pub fn is_exact(isa: Isa, weights: &[i8]) -> bool {
    /// Magnitudes whose sum fits 32 bits, which vectorizes best.
    const CHUNK_LEN: usize = 1 << 16;
    let chunk_sum = |chunk: &[i8]| chunk.iter().map(|x| u32::from(x.unsigned_abs())).sum::<u32>();
    let sum = isa
        .call(|| weights.chunks(CHUNK_LEN).map(|chunk| u64::from(chunk_sum(chunk))).sum::<u64>());
    sum * MAX_DIFFERENCE < 1 << 25
}

/// True if [`WinogradQ8`] supports this number of input channels: a multiple of 4.
pub fn supports_channels(in_channels: usize) -> bool {
    in_channels.is_multiple_of(QUAD_CHANNELS)
}

impl<E: Epilogue> WinogradQ8<'_, E> {
    /// Computes the convolution, applies the epilogue and writes to `out`: batch, rows, columns,
    /// channels. `scratch` holds [`ConvShape::scratch_len`] elements. An output channel may be
    /// wrong if [`is_exact`] returns false for its weights.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes, or [`supports_channels`] returns false.
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
        let is_supported = supports_channels(in_channels);
        SizeError::check_parameter("in_channels", "a multiple of 4", is_supported)?;
        SizeError::check_min("zero_points", self.zero_points.len(), Some(in_channels))?;
        let inner = in_channels.checked_mul(KERNEL_TAPS);
        let packed_len = inner.and_then(|inner| packed_len(isa, WeightShape { inner, cols }));
        SizeError::check_min("weights", self.weights.len(), packed_len)?;
        let weights = &self.weights[..packed_len.unwrap_or_default()];
        let padded_cols = cols.next_multiple_of(panel_cols(isa));
        self.epilogue.check(batch * output[0] * output[1], padded_cols)?;
        shape.run(&Self { weights, ..*self }, isa, out, scratch, workers)
    }
}

/// Loads and widens to 16 bits. With [`Simd::HAS_DOT4`], `first` points to quads of channels: the
/// first result holds channels 0 and 2 of each quad, the second channels 1 and 3. Otherwise the
/// results are the pairs at `first` and at `second`.
///
/// # Safety
/// `first` is valid for reads of `4 * LANES` bytes, or both are for `2 * LANES` bytes.
#[inline(always)]
unsafe fn load_widened<S: Simd>(simd: S, first: *const i8, second: *const i8) -> [S::I32; 2] {
    if const { S::HAS_DOT4 } {
        // SAFETY: guaranteed by the caller.
        return unsafe { simd.load_ptr(first.cast()) }.to_bits().widen_bytes();
    }
    // SAFETY: guaranteed by the caller.
    let first = unsafe { simd.load_widened_i8_ptr(first) };
    // SAFETY: as above.
    [first, unsafe { simd.load_widened_i8_ptr(second) }]
}

/// Reinterprets the words of a transformed tile as `f32`, the element type of the scratch buffer.
#[inline(always)]
fn bitcast<S: Simd>(
    simd: S,
    tile: Square<S::I32, IN_TILE, IN_TILE>,
) -> Square<S::F32, IN_TILE, IN_TILE> {
    let mut all = [[simd.zero(); IN_TILE]; IN_TILE];
    for (to, row) in all.iter_mut().zip(tile) {
        for (to, word) in to.iter_mut().zip(row) {
            *to = word.bitcast();
        }
    }
    all
}

/// Accumulators of an output tile, from its products.
#[inline(always)]
fn accumulators<S: Simd>(
    simd: S,
    products: Square<S::F32, IN_TILE, IN_TILE>,
) -> Square<S::I32, OUT_TILE, OUT_TILE> {
    let mut words = [[simd.splat_i32(0); IN_TILE]; IN_TILE];
    for (to, row) in words.iter_mut().zip(products) {
        for (to, product) in to.iter_mut().zip(row) {
            *to = product.to_bits();
        }
    }
    let mut tile = transform::outputs_i32(simd, words);
    let inverse_of_9 = simd.splat_i32(INVERSE_OF_9);
    for (i, row) in tile.iter_mut().enumerate() {
        for (j, acc) in row.iter_mut().enumerate() {
            let shifted = *acc * inverse_of_9;
            *acc = match OUTPUT_SHIFTS[i] + OUTPUT_SHIFTS[j] {
                2 => shifted.shr::<2>(),
                3 => shifted.shr::<3>(),
                4 => shifted.shr::<4>(),
                5 => shifted.shr::<5>(),
                _ => shifted.shr::<6>(),
            };
        }
    }
    tile
}

impl<E: Epilogue> Convolution for WinogradQ8<'_, E> {
    const KIND: Kind = Kind::Q8;
    const CHANNELS_PER_WORD: usize = 2;
    type In = i8;
    type Out = E::Out;
    type MultiplyAdd = MultiplyAddI16Pairs;

    fn input(&self) -> (&[i8], &[i8]) {
        (self.x, self.zero_points)
    }

    #[inline(always)]
    unsafe fn transform_inputs<S: Simd>(
        &self,
        simd: S,
        tile: &InputTile<i8>,
        channels: Range<usize>,
        to: *mut f32,
        stride: usize,
    ) {
        /// Bytes of the longest vector of quads.
        const MAX_VECTOR_BYTES: usize = 64;
        let Range { start: first_channel, end } = channels;
        // The transform cancels the zero point in all elements but one, which it multiplies by 36.
        let zero_point = 36 * self.zero_points.first().map_or(0, |zero| i32::from(*zero));
        let zero_point = simd.splat_i32((zero_point << 16) | (zero_point & 0xffff));
        for channel in (first_channel..end).step_by(QUAD_CHANNELS * S::LANES) {
            let [mut first, mut second] = [[[zero_point; IN_TILE]; IN_TILE]; 2];
            let count = end - channel;
            if count >= QUAD_CHANNELS * S::LANES {
                for i in 0..IN_TILE {
                    for j in 0..IN_TILE {
                        let pixel = tile[i][j].wrapping_add(channel);
                        // SAFETY: guaranteed by the caller.
                        [first[i][j], second[i][j]] =
                            unsafe { load_widened(simd, pixel, pixel.wrapping_add(2 * S::LANES)) };
                    }
                }
            } else {
                for i in 0..IN_TILE {
                    for j in 0..IN_TILE {
                        let pixel = tile[i][j].wrapping_add(channel);
                        let mut copy = [0; MAX_VECTOR_BYTES];
                        for (at, to) in copy.iter_mut().enumerate().take(count) {
                            // SAFETY: guaranteed by the caller.
                            *to = unsafe { pixel.wrapping_add(at).read() };
                        }
                        let pixel = copy.as_ptr();
                        // SAFETY: the copy is as long as the longest vector.
                        [first[i][j], second[i][j]] =
                            unsafe { load_widened(simd, pixel, pixel.wrapping_add(2 * S::LANES)) };
                    }
                }
            }
            let [mut first, mut second] =
                [transform::inputs_i16(simd, first), transform::inputs_i16(simd, second)];
            first[1][1] = first[1][1].sub_i16(zero_point);
            second[1][1] = second[1][1].sub_i16(zero_point);
            // The second words follow the first words directly, also if the quads do not fill a
            // vector.
            let words = if S::HAS_DOT4 { S::LANES.min(count / QUAD_CHANNELS) } else { S::LANES };
            let to = to.wrapping_add((channel - first_channel) / 2);
            // SAFETY: guaranteed by the caller.
            unsafe { store_tile(simd, &bitcast(simd, first), to, stride) };
            // SAFETY: as above.
            unsafe { store_tile(simd, &bitcast(simd, second), to.wrapping_add(words), stride) };
        }
    }

    #[inline(always)]
    unsafe fn transform_weights<S: Simd, const C: usize>(
        &self,
        simd: S,
        panel: usize,
        channels: Range<usize>,
        in_channels: usize,
        to: *mut f32,
        layout: &BufferLayout,
    ) {
        let column_len = const { column_sum_bytes::<S>() } + in_channels * KERNEL_TAPS;
        let from = &self.weights[panel * layout.panel_cols * column_len..];
        // A narrow panel has one vector for two.
        let is_narrow = from.len() <= S::LANES * column_len;
        let cols = if is_narrow { S::LANES } else { layout.panel_cols };
        let tap_len = cols * in_channels;
        let from = &from[cols * const { column_sum_bytes::<S>() }..cols * column_len];
        let quads = channels.len() / QUAD_CHANNELS;
        let vector_bytes = S::LANES * if S::HAS_DOT4 { QUAD_CHANNELS } else { 2 };
        for quad in 0..quads {
            for c in 0..C {
                let [mut first, mut second] = [[[simd.splat_i32(0); 3]; 3]; 2];
                for i in 0..3 {
                    for j in 0..3 {
                        let from = from.as_ptr().wrapping_add((i * 3 + j) * tap_len);
                        let row = (channels.start + quad * QUAD_CHANNELS) * cols;
                        let from = from.wrapping_add(row);
                        let from =
                            if is_narrow { from } else { from.wrapping_add(c * vector_bytes) };
                        let next = from.wrapping_add(2 * cols);
                        // SAFETY: the panel has `C` vectors of quads per quad and kernel element,
                        // or twice as many vectors of pairs; a narrow one has one or two.
                        let mut words = unsafe { load_widened(simd, from, next) };
                        if is_narrow {
                            words = words.map(|word| word.split_halves()[c]);
                        }
                        [first[i][j], second[i][j]] = words;
                    }
                }
                // The order of words in transformed inputs.
                let words = if S::HAS_DOT4 {
                    let vector_start = quad / S::LANES * S::LANES;
                    let first_word = vector_start + quad;
                    [first_word, first_word + S::LANES.min(quads - vector_start)]
                } else {
                    [2 * quad, 2 * quad + 1]
                };
                let word_ptr =
                    |word: usize| to.wrapping_add(word * layout.panel_tile_stride + c * S::LANES);
                let kernel = bitcast(simd, transform::weights_i16(simd, first));
                // SAFETY: guaranteed by the caller.
                unsafe { store_tile(simd, &kernel, word_ptr(words[0]), layout.panel_cols) };
                let kernel = bitcast(simd, transform::weights_i16(simd, second));
                // SAFETY: as above.
                unsafe { store_tile(simd, &kernel, word_ptr(words[1]), layout.panel_cols) };
            }
        }
    }

    #[inline(always)]
    unsafe fn store_outputs<S: Simd, const C: usize>(
        &self,
        simd: S,
        products: *const f32,
        layout: &BufferLayout,
        region: &OutputRegion,
        out: &SharedSlice<'_, E::Out>,
    ) {
        let OutputRegion { channel, channels, .. } = *region;
        let cols = (channels - channel).min(layout.panel_cols);
        let initial = self.epilogue.initial_accumulators(simd, channel);
        let mut halves = [[[simd.splat_i32(0); OUT_TILE]; OUT_TILE]; 2];
        for (half, to) in halves.iter_mut().enumerate() {
            let from = products.wrapping_add(half * S::LANES);
            // SAFETY: guaranteed by the caller; panels have two vectors.
            let tile = unsafe { load_tile(simd, from, layout.panel_cols) };
            *to = accumulators(simd, tile);
        }
        let [low, high] = &halves;
        for i in 0..region.rows {
            for j in 0..region.cols {
                let pixel = region.pixel + i * region.row_stride + j;
                let row = [initial[0] + low[i][j], initial[1] + high[i][j]];
                // SAFETY: guaranteed by the caller.
                let ptr = unsafe { out.ptr_at(pixel * channels + channel) };
                let origin = Origin { row: pixel, col: channel };
                let tile = OutputTile { ptr, row_stride: channels, cols };
                // SAFETY: guaranteed by the caller; `run` has checked the epilogue.
                unsafe { self.epilogue.store_row(simd, row, origin, tile) };
            }
        }
    }
}
