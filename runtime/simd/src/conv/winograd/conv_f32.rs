//! `f32` convolution.
//!
//! Errors are within 1e-5 of the largest output. An infinite input makes all outputs of its tile
//! NaN.

#![expect(unsafe_code, reason = "reads and writes tiles through checked pointers")]

use core::ops::Range;

use afferent_core::Workers;

use super::{
    ConvShape, IN_TILE, KERNEL_TAPS, Kind,
    strip::{BufferLayout, Convolution, InputTile, OutputRegion, load_tile, store_tile},
    transform,
};
use crate::{
    Isa, Simd, SizeError,
    epilogue::BiasActivation,
    gemm::tile::MultiplyAddF32,
    igemm::{WeightShape, packed_len, panel_cols},
    parallel::SharedSlice,
};

/// `f32` convolution of NHWC images.
#[derive(Debug, Clone, Copy)]
pub struct WinogradF32<'d> {
    /// Input: batch, rows, columns, channels.
    pub x: &'d [f32],
    /// At least `in_channels` zeros.
    pub zeros: &'d [f32],
    /// Weights, packed by [`igemm::pack`](crate::igemm::pack): per output channel the weights of
    /// all input channels for the first kernel element, then for the second, and so on.
    pub weights: &'d [f32],
    /// Epilogue.
    pub epilogue: BiasActivation<'d>,
}

impl WinogradF32<'_> {
    /// Computes the convolution and writes it to `out`: batch, rows, columns, channels. `scratch`
    /// holds [`ConvShape::scratch_len`] elements.
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
        let inner = in_channels.checked_mul(KERNEL_TAPS);
        let packed_len = inner.and_then(|inner| packed_len(isa, WeightShape { inner, cols }));
        SizeError::check_min("weights", self.weights.len(), packed_len)?;
        let padded_cols = cols.next_multiple_of(panel_cols(isa, cols));
        SizeError::check_min("bias", self.epilogue.bias.len(), Some(padded_cols))?;
        shape.run(self, isa, out, scratch, workers)
    }
}

impl Convolution for WinogradF32<'_> {
    const KIND: Kind = Kind::F32;
    const CHANNELS_PER_WORD: usize = 1;
    type In = f32;
    type Out = f32;
    type MultiplyAdd = MultiplyAddF32;

    fn input(&self) -> (&[f32], &[f32]) {
        (self.x, self.zeros)
    }

    #[inline(always)]
    unsafe fn transform_inputs<S: Simd>(
        &self,
        simd: S,
        tile: &InputTile<f32>,
        channels: Range<usize>,
        to: *mut f32,
        stride: usize,
    ) {
        let Range { start: first, end } = channels;
        for channel in (first..end).step_by(S::LANES) {
            let mut values = [[simd.zero(); IN_TILE]; IN_TILE];
            if channel + S::LANES <= end {
                for (values, pixels) in values.iter_mut().zip(tile) {
                    for (x, pixel) in values.iter_mut().zip(pixels) {
                        // SAFETY: guaranteed by the caller.
                        *x = unsafe { simd.load_ptr(pixel.wrapping_add(channel)) };
                    }
                }
            } else {
                for (values, pixels) in values.iter_mut().zip(tile) {
                    for (x, pixel) in values.iter_mut().zip(pixels) {
                        let pixel = pixel.wrapping_add(channel);
                        // SAFETY: guaranteed by the caller.
                        *x = unsafe { simd.load_partial_ptr(pixel, end - channel) };
                    }
                }
            }
            let to = to.wrapping_add(channel - first);
            // SAFETY: guaranteed by the caller.
            unsafe { store_tile(simd, &transform::inputs(simd, values), to, stride) };
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
        let tap_len = layout.panel_cols * in_channels;
        let from = &self.weights[panel * tap_len * KERNEL_TAPS..][..tap_len * KERNEL_TAPS];
        for k in channels.start..channels.end {
            for c in 0..C {
                let start = k * layout.panel_cols + c * S::LANES;
                let mut kernel = [[simd.zero(); 3]; 3];
                for (i, kernel) in kernel.iter_mut().enumerate() {
                    for (j, weight) in kernel.iter_mut().enumerate() {
                        let from = from.as_ptr().wrapping_add((i * 3 + j) * tap_len + start);
                        // SAFETY: the panel has `C` vectors per channel and kernel element.
                        *weight = unsafe { simd.load_ptr(from) };
                    }
                }
                let row = (k - channels.start) * layout.panel_tile_stride;
                let to = to.wrapping_add(row + c * S::LANES);
                let transformed = transform::weights(simd, kernel);
                // SAFETY: guaranteed by the caller.
                unsafe { store_tile(simd, &transformed, to, layout.panel_cols) };
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
        out: &SharedSlice<'_, f32>,
    ) {
        for c in 0..C {
            let channel = region.channel + c * S::LANES;
            let len = region.channels.checked_sub(channel).filter(|len| *len > 0);
            let Some(len) = len else { return };
            let len = len.min(S::LANES);
            let bias = self.epilogue.bias(simd, channel);
            let products = products.wrapping_add(c * S::LANES);
            // SAFETY: guaranteed by the caller.
            let tile = unsafe { load_tile(simd, products, layout.panel_cols) };
            let tile = transform::outputs(simd, tile);
            for (i, values) in tile.iter().enumerate().take(region.rows) {
                let row_start = (region.pixel + i * region.row_stride) * region.channels + channel;
                for (j, value) in values.iter().enumerate().take(region.cols) {
                    // SAFETY: guaranteed by the caller.
                    let to = unsafe { out.ptr_at(row_start + j * region.channels) };
                    // SAFETY: as above.
                    unsafe { self.epilogue.store(simd, *value + bias, to, len) };
                }
            }
        }
    }
}
