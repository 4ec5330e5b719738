//! Convolutions of `f32`.
//!
//! Errors are within 1e-5 of the largest output. An infinite input makes NaN of its whole tile.

#![expect(unsafe_code, reason = "reads and writes tiles through checked pointers")]

use afferent_core::Workers;

use super::{
    ConvShape, IN, Kind, TAPS,
    strip::{Lens, Lines, Numbers, Tile, collect, scatter},
    transform,
};
use crate::{
    Isa, Simd, SizeError,
    epilogue::BiasActivation,
    gemm::tile,
    igemm::{WeightShape, packed_len, panel_cols},
    parallel::SharedSlice,
};

/// Pictures of `f32`, and what they are convolved with.
#[derive(Debug, Clone, Copy)]
pub struct WinogradF32<'d> {
    /// The pictures, one after the other.
    pub x: &'d [f32],
    /// At least as many zeros as there are channels.
    pub zeros: &'d [f32],
    /// Weights that [`igemm::pack`](crate::igemm::pack) made: for each column those of the
    /// channels of the first element of the kernel, then those of the second, and so on.
    pub weights: &'d [f32],
    /// Epilogue.
    pub epilogue: BiasActivation<'d>,
}

impl WinogradF32<'_> {
    /// Computes the convolution and writes it to `out`: batch, rows, columns, channels.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run(
        &self,
        shape: &ConvShape,
        isa: Isa,
        out: &mut [f32],
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let ConvShape { in_channels, out_channels: cols, .. } = *shape;
        shape.check(self.x.len(), out.len())?;
        SizeError::check_min("zeros", self.zeros.len(), Some(in_channels))?;
        let inner = in_channels.checked_mul(TAPS);
        let packed_len = inner.and_then(|inner| packed_len(isa, WeightShape { inner, cols }));
        SizeError::check_min("weights", self.weights.len(), packed_len)?;
        let padded_cols = cols.next_multiple_of(panel_cols(isa, cols));
        SizeError::check_min("bias", self.epilogue.bias.len(), Some(padded_cols))?;
        shape.run(self, isa, out, scratch, workers)
    }
}

impl Numbers for WinogradF32<'_> {
    const KIND: Kind = Kind::F32;
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
                        *x = unsafe { simd.load_ptr(line.wrapping_add(channel)) };
                    }
                }
            } else {
                for (tile, lines) in tile.iter_mut().zip(lines) {
                    for (x, line) in tile.iter_mut().zip(lines) {
                        let line = line.wrapping_add(channel);
                        // SAFETY: demanded of the caller.
                        *x = unsafe { simd.load_partial_ptr(line, last - channel) };
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
                        *weight = unsafe { simd.load_ptr(from) };
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
        out: &SharedSlice<'_, f32>,
    ) {
        for c in 0..C {
            let col = tile.col + c * S::LANES;
            let Some(len) = tile.cols.checked_sub(col).filter(|len| *len > 0) else { return };
            let len = len.min(S::LANES);
            let bias = simd.load(&self.epilogue.bias[col..]);
            let products = products.wrapping_add(c * S::LANES);
            // SAFETY: demanded of the caller.
            let square = unsafe { collect(simd, products, lens.width) };
            let square = transform::outputs(simd, square);
            for (row, values) in square.iter().enumerate().take(tile.rows) {
                let at = (tile.pixel + row * tile.step) * tile.cols + col;
                for (column, value) in values.iter().enumerate().take(tile.columns) {
                    let value = self.epilogue.activation.apply(simd, *value + bias);
                    // SAFETY: demanded of the caller.
                    let to = unsafe { out.ptr_at(at + column * tile.cols) };
                    if len == S::LANES {
                        // SAFETY: as above.
                        unsafe { simd.store_ptr(value, to) };
                    } else {
                        // SAFETY: as above.
                        unsafe { simd.store_partial_ptr(value, to, len) };
                    }
                }
            }
        }
    }
}
