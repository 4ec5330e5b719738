//! Convolutions of `f32`.
//!
//! Errors are within 1e-5 of the largest output. An infinite input makes NaN of its whole tile.

#![expect(unsafe_code, reason = "reads and writes tiles through checked pointers")]

use afferent_core::Workers;

use super::{
    IN, Kind, Sizes, TAPS,
    strip::{Lens, Lines, Numbers, Tile, collect, scatter},
    transform,
};
use crate::{
    Activation, Isa, Simd,
    gemm::tile,
    indirect::{packed_len, panel},
    parallel::Shared,
};

/// Pictures of `f32`, and what they are convolved with.
#[derive(Debug, Clone, Copy)]
pub struct Floats<'d> {
    /// The pictures, one after the other.
    pub x: &'d [f32],
    /// At least as many zeros as there are channels.
    pub zeros: &'d [f32],
    /// Weights that [`indirect::pack`](crate::indirect::pack) made: for each column those of the
    /// channels of the first element of the kernel, then those of the second, and so on.
    pub weights: &'d [f32],
    /// What is added to each column of whole panels.
    pub bias: &'d [f32],
    /// What follows.
    pub then: Activation,
}

impl Floats<'_> {
    /// Writes the convolution to `out`, pictures whose channels lie together. `None` when something
    /// does not fit its slice, or the scratch memory is less than [`Sizes::scratch_len`]; nothing is
    /// written then.
    pub fn write(
        &self,
        sizes: &Sizes,
        isa: Isa,
        out: &mut [f32],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Option<()> {
        let Sizes { channels, cols, .. } = *sizes;
        sizes.fits(self.x.len(), out.len())?;
        let all = channels <= self.zeros.len()
            && packed_len(isa, channels.checked_mul(TAPS)?, cols)? <= self.weights.len()
            && cols.next_multiple_of(panel(isa, cols)) <= self.bias.len();
        all.then_some(())?;
        sizes.write(self, isa, out, scratch, workers)
    }
}

impl Numbers for Floats<'_> {
    const KIND: Kind = Kind::Floats;
    const IN_WORD: usize = 1;
    type In = f32;
    type Out = f32;
    type Product = tile::Numbers;

    fn input(&self) -> (&[f32], &[f32]) {
        (self.x, self.zeros)
    }

    #[inline(always)]
    unsafe fn inputs<S: Simd>(
        &self,
        simd: S,
        lines: &Lines<f32>,
        (first, last): (usize, usize),
        to: *mut f32,
        step: usize,
    ) {
        for channel in (first..last).step_by(S::LANES) {
            let mut tile = [[simd.zero(); IN]; IN];
            if channel + S::LANES <= last {
                for (tile, lines) in tile.iter_mut().zip(lines) {
                    for (x, line) in tile.iter_mut().zip(lines) {
                        // SAFETY: demanded of the caller.
                        *x = unsafe { simd.load_at(line.wrapping_add(channel)) };
                    }
                }
            } else {
                for (tile, lines) in tile.iter_mut().zip(lines) {
                    for (x, line) in tile.iter_mut().zip(lines) {
                        let line = line.wrapping_add(channel);
                        // SAFETY: demanded of the caller.
                        *x = unsafe { simd.load_first_at(line, last - channel) };
                    }
                }
            }
            let to = to.wrapping_add(channel - first);
            // SAFETY: demanded of the caller.
            unsafe { scatter(simd, &transform::inputs(simd, tile), to, step) };
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
        let size = lens.width * channels;
        let from = &self.weights[panel * size * TAPS..][..size * TAPS];
        for k in first..last {
            for c in 0..C {
                let at = k * lens.width + c * S::LANES;
                let mut kernel = [[simd.zero(); 3]; 3];
                for (i, kernel) in kernel.iter_mut().enumerate() {
                    for (j, weight) in kernel.iter_mut().enumerate() {
                        let from = from.as_ptr().wrapping_add((i * 3 + j) * size + at);
                        // SAFETY: the panel has `C` vectors for each channel of each tap.
                        *weight = unsafe { simd.load_at(from) };
                    }
                }
                let to = to.wrapping_add((k - first) * lens.row + c * S::LANES);
                // SAFETY: demanded of the caller.
                unsafe { scatter(simd, &transform::weights(simd, kernel), to, lens.width) };
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
        out: &Shared<'_, f32>,
    ) {
        for c in 0..C {
            let col = tile.col + c * S::LANES;
            let Some(len) = tile.cols.checked_sub(col).filter(|len| *len > 0) else { return };
            let len = len.min(S::LANES);
            let bias = simd.load(&self.bias[col..]);
            let products = products.wrapping_add(c * S::LANES);
            // SAFETY: demanded of the caller.
            let square = unsafe { collect(simd, products, lens.width) };
            let square = transform::outputs(simd, square);
            for (row, values) in square.iter().enumerate().take(tile.rows) {
                let at = (tile.pixel + row * tile.step) * tile.cols + col;
                for (column, value) in values.iter().enumerate().take(tile.columns) {
                    let value = self.then.of(simd, *value + bias);
                    // SAFETY: demanded of the caller.
                    let to = unsafe { out.pointer(at + column * tile.cols) };
                    if len == S::LANES {
                        // SAFETY: as above.
                        unsafe { simd.store_at(value, to) };
                    } else {
                        // SAFETY: as above.
                        unsafe { simd.store_first_at(value, to, len) };
                    }
                }
            }
        }
    }
}
