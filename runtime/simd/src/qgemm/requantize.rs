//! Epilogues of int8 kernels: int32 accumulators to int8 or `f32`.

#![expect(unsafe_code, reason = "stores through pointers that the kernel has bounds-checked")]

use crate::{
    Float, Int, Simd, SizeError,
    epilogue::{Epilogue, Origin, OutputTile, clamp},
};

/// Loads two vectors of 32-bit words. No alignment is required.
///
/// # Safety
/// `ptr` is valid for reads of `2 * LANES` words.
#[inline(always)]
pub(crate) unsafe fn load_pair_ptr<S: Simd>(simd: S, ptr: *const f32) -> [S::I32; 2] {
    // SAFETY: guaranteed by the caller.
    let first = unsafe { simd.load_ptr(ptr) };
    // SAFETY: as above.
    let second = unsafe { simd.load_ptr(ptr.wrapping_add(S::LANES)) };
    [first.to_bits(), second.to_bits()]
}

/// Loads two vectors of `values` from `index` on.
#[inline(always)]
fn load_pair<S: Simd>(simd: S, values: &[f32], index: usize) -> [S::F32; 2] {
    let values = &values[index..][..2 * S::LANES];
    [simd.load(values), simd.load(&values[S::LANES..])]
}

/// Loads two vectors of `values` from `index` on.
#[inline(always)]
fn load_pair_i32<S: Simd>(simd: S, values: &[i32], index: usize) -> [S::I32; 2] {
    load_pair(simd, bytemuck::cast_slice(values), index).map(Float::to_bits)
}

/// Requantizes to int8: `clamp(round(acc * scale[col]), min, max) + zero_point`.
#[derive(Debug, Clone, Copy)]
pub struct RequantizeInt8<'d> {
    /// Bias per column, lanes interleaved.
    pub bias: &'d [i32],
    /// Scale per column, lanes interleaved.
    pub scale: &'d [f32],
    /// Bounds before the zero point is added.
    pub clamp: (f32, f32),
    /// Zero point of the output.
    pub zero_point: i32,
}

impl Epilogue for RequantizeInt8<'_> {
    type Out = i8;

    fn check(&self, _: usize, cols: usize) -> Result<(), SizeError> {
        SizeError::check_min("bias", self.bias.len(), Some(cols))?;
        SizeError::check_min("scale", self.scale.len(), Some(cols))
    }

    #[inline(always)]
    fn initial_accumulators<S: Simd>(&self, simd: S, col: usize) -> [S::I32; 2] {
        load_pair_i32(simd, self.bias, col)
    }

    #[inline(always)]
    unsafe fn store_row<S: Simd>(
        &self,
        simd: S,
        [a, b]: [S::I32; 2],
        origin: Origin,
        OutputTile { ptr, cols, .. }: OutputTile<i8>,
    ) {
        let scale = load_pair(simd, self.scale, origin.col);
        let values = [a.to_f32() * scale[0], b.to_f32() * scale[1]];
        // SAFETY: guaranteed by the caller.
        unsafe { simd.store_interleaved_i8_ptr(values, self.zero_point, self.clamp, ptr, cols) };
    }

    #[inline(always)]
    unsafe fn store_tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        accumulators: [[S::I32; 2]; R],
        origin: Origin,
        OutputTile { ptr, row_stride, cols }: OutputTile<i8>,
    ) {
        // Few instructions per row, so that the compiler unrolls the loop and keeps the
        // accumulators in registers.
        let scale = load_pair(simd, self.scale, origin.col);
        macro_rules! store {
            ($cols:expr) => {
                for (r, [a, b]) in accumulators.into_iter().enumerate() {
                    let values = [a.to_f32() * scale[0], b.to_f32() * scale[1]];
                    let ptr = ptr.wrapping_add(r * row_stride);
                    let Self { zero_point, clamp, .. } = *self;
                    // SAFETY: guaranteed by the caller.
                    unsafe { simd.store_interleaved_i8_ptr(values, zero_point, clamp, ptr, $cols) };
                }
            };
        }
        // Full panels, also narrow ones, get a constant width.
        if cols >= 2 * S::LANES {
            store!(2 * S::LANES)
        } else if cols == S::LANES {
            store!(S::LANES)
        } else {
            store!(cols)
        }
    }
}

/// Dequantizes to `f32`: `clamp(acc * row_scale[row] * scale[col] + bias[col], min, max)`.
#[derive(Debug, Clone, Copy)]
pub struct DequantizeF32<'d> {
    /// Scale per row.
    pub row_scale: &'d [f32],
    /// Scale per column, lanes interleaved.
    pub scale: &'d [f32],
    /// Bias per column, lanes interleaved.
    pub bias: &'d [f32],
    /// Bounds of the output; NaN passes through.
    pub clamp: (f32, f32),
}

impl Epilogue for DequantizeF32<'_> {
    type Out = f32;

    fn check(&self, rows: usize, cols: usize) -> Result<(), SizeError> {
        SizeError::check_min("row_scale", self.row_scale.len(), Some(rows))?;
        SizeError::check_min("scale", self.scale.len(), Some(cols))?;
        SizeError::check_min("bias", self.bias.len(), Some(cols))
    }

    #[inline(always)]
    fn initial_accumulators<S: Simd>(&self, simd: S, _: usize) -> [S::I32; 2] {
        [simd.splat_i32(0); 2]
    }

    #[inline(always)]
    unsafe fn store_row<S: Simd>(
        &self,
        simd: S,
        [a, b]: [S::I32; 2],
        Origin { row, col }: Origin,
        OutputTile { ptr, cols, .. }: OutputTile<f32>,
    ) {
        let (scale, bias) = (load_pair(simd, self.scale, col), load_pair(simd, self.bias, col));
        let row_scale = simd.splat(self.row_scale[row]);
        let dequantize = |acc: S::I32, half: usize| {
            clamp(simd, acc.to_f32() * row_scale * scale[half] + bias[half], self.clamp)
        };
        let values = simd.deinterleave([dequantize(a, 0), dequantize(b, 1)]);
        for (half, value) in values.into_iter().enumerate() {
            let start = half * S::LANES;
            let len = cols.saturating_sub(start);
            // SAFETY: guaranteed by the caller.
            unsafe { simd.store_partial_ptr(value, ptr.wrapping_add(start), len) };
        }
    }
}
