//! Epilogues: operations fused into the store of a GEMM or a convolution.
//!
//! `f32` kernels take a [`BiasActivation`]. Kernels with int32 accumulators are generic over
//! [`Epilogue`]; its implementations are in [`qgemm::requantize`](crate::qgemm::requantize).

#![expect(unsafe_code, reason = "stores through pointers that the kernel has bounds-checked")]

use crate::{Float, Simd, SizeError, math};

/// Row and column of the first element of a tile in the output matrix.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Row of the output matrix.
    pub row: usize,
    /// Column of the output matrix.
    pub col: usize,
}

/// Destination of a tile.
#[derive(Debug, Clone, Copy)]
pub struct OutputTile<T> {
    /// First element of the tile.
    pub ptr: *mut T,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Columns to store; at most two vectors.
    pub cols: usize,
}

/// Epilogue of a kernel with int32 accumulators.
///
/// Fuses bias, requantization or dequantization, and clamping into the store. Accumulators come in
/// pairs of vectors with interleaved lanes (see [`Int::interleave_i16`](crate::Int)).
pub trait Epilogue: Sync {
    /// Element type of the output.
    type Out: Send;

    /// Checks that the per-row and per-column parameters cover an output of `rows` × `cols`.
    /// `cols` is padded to whole panels.
    ///
    /// # Errors
    /// [`SizeError::Length`] for a parameter slice that is too short.
    fn check(&self, rows: usize, cols: usize) -> Result<(), SizeError>;

    /// Initial accumulators (bias) of the panel that starts at column `col`.
    fn initial_accumulators<S: Simd>(&self, simd: S, col: usize) -> [S::I32; 2];

    /// Stores one row of accumulators.
    ///
    /// # Safety
    /// `tile.ptr` is valid for `tile.cols` writes, and [`Epilogue::check`] accepted the row and the
    /// panel of `origin`.
    unsafe fn store_row<S: Simd>(
        &self,
        simd: S,
        accumulators: [S::I32; 2],
        origin: Origin,
        tile: OutputTile<Self::Out>,
    );

    /// Stores the `R` rows of a register tile.
    ///
    /// # Safety
    /// As [`Epilogue::store_row`], for each row.
    #[inline(always)]
    unsafe fn store_tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        accumulators: [[S::I32; 2]; R],
        origin: Origin,
        tile: OutputTile<Self::Out>,
    ) {
        for (r, row) in accumulators.into_iter().enumerate() {
            let origin = Origin { row: origin.row + r, ..origin };
            let tile = OutputTile { ptr: tile.ptr.wrapping_add(r * tile.row_stride), ..tile };
            // SAFETY: the caller guarantees every row of the tile.
            unsafe { self.store_row(simd, row, origin, tile) };
        }
    }
}

/// Activation of `f32` values: a clamp, optionally followed by hardswish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activation {
    /// Lower and upper bound; NaN passes through.
    pub clamp: (f32, f32),
    /// Applies [`hardswish`](math::hardswish) after the clamp.
    pub hardswish: bool,
}

impl Activation {
    /// Applies the activation to a vector.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(self, simd: S, x: S::F32) -> S::F32 {
        let x = clamp(simd, x, self.clamp);
        if self.hardswish { math::hardswish(simd, x) } else { x }
    }
}

impl From<(f32, f32)> for Activation {
    fn from(clamp: (f32, f32)) -> Self {
        Self { clamp, hardswish: false }
    }
}

/// Limits the lanes of `x` to `(low, high)`; NaN passes through.
#[inline(always)]
pub(crate) fn clamp<S: Simd>(simd: S, x: S::F32, (low, high): (f32, f32)) -> S::F32 {
    // `min` and `max` return their second operand if one is NaN.
    simd.splat(high).min(simd.splat(low).max(x))
}

/// Limits `x` to `(low, high)`; NaN passes through.
#[inline(always)]
pub(crate) fn clamp_scalar(x: f32, (low, high): (f32, f32)) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Epilogue of `f32` kernels: `activation(accumulator + bias[col])`.
#[derive(Debug, Clone, Copy)]
pub struct BiasActivation<'d> {
    /// Bias per output column or channel. GEMMs require it padded to whole panels.
    pub bias: &'d [f32],
    /// Activation of the sum.
    pub activation: Activation,
}

impl BiasActivation<'_> {
    /// Bias of the vector of columns that starts at `col`.
    #[inline(always)]
    pub(crate) fn bias<S: Simd>(self, simd: S, col: usize) -> S::F32 {
        simd.load(&self.bias[col..])
    }

    /// Applies the activation to a vector that includes the bias, and stores its first `len` lanes.
    ///
    /// # Safety
    /// `ptr` is valid for the smaller of `len` and `LANES` writes.
    #[inline(always)]
    pub(crate) unsafe fn store<S: Simd>(self, simd: S, value: S::F32, ptr: *mut f32, len: usize) {
        let value = self.activation.apply(simd, value);
        if len >= S::LANES {
            // SAFETY: guaranteed by the caller.
            unsafe { simd.store_ptr(value, ptr) };
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { simd.store_partial_ptr(value, ptr, len) };
        }
    }

    /// Applies the activation to a tile that includes the bias, and stores it.
    ///
    /// # Safety
    /// `ptr` is valid for writes of `R` rows of `C` vectors, `row_stride` elements apart.
    #[inline(always)]
    pub(crate) unsafe fn store_tile<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        accumulators: [[S::F32; C]; R],
        ptr: *mut f32,
        row_stride: usize,
    ) {
        if self.activation.hardswish {
            for (r, row) in accumulators.into_iter().enumerate() {
                for (c, value) in row.into_iter().enumerate() {
                    let ptr = ptr.wrapping_add(r * row_stride + c * S::LANES);
                    // SAFETY: guaranteed by the caller.
                    unsafe { self.store(simd, value, ptr, S::LANES) };
                }
            }
            return;
        }
        // Few instructions per vector, so that the compiler unrolls the loops and keeps the
        // accumulators in registers.
        let (low, high) = self.activation.clamp;
        let (low, high) = (simd.splat(low), simd.splat(high));
        for (r, row) in accumulators.into_iter().enumerate() {
            for (c, value) in row.into_iter().enumerate() {
                let value = high.min(low.max(value));
                // SAFETY: guaranteed by the caller.
                unsafe { simd.store_ptr(value, ptr.wrapping_add(r * row_stride + c * S::LANES)) };
            }
        }
    }
}
