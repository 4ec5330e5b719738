//! What becomes of sums of integers.

#![expect(unsafe_code, reason = "writes results through pointers that products checked")]

use crate::{Float, Int, Simd};

/// What becomes of finished sums.
pub trait End: Sync {
    /// What is written.
    type Out: Send;

    /// Whether it has what it needs for so many rows and columns, those of whole panels.
    fn fits(&self, rows: usize, cols: usize) -> bool;

    /// What the sums of the panel start with whose first column is `col`.
    fn start<S: Simd>(&self, simd: S, col: usize) -> [S::I32; 2];

    /// Writes the first `len` sums of row `row` from column `col` on, which are zipped.
    ///
    /// # Safety
    /// So many elements can be written at `to`, and `fits` said yes to this row and panel.
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        sums: [S::I32; 2],
        place: (usize, usize),
        to: *mut Self::Out,
        len: usize,
    );

    /// Writes the first `len` sums of the rows of a tile, `step` apart, from row and column `place`
    /// on.
    ///
    /// # Safety
    /// The rows can be written at `to`, and `fits` said yes to them and this panel.
    #[inline(always)]
    unsafe fn write_tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        sums: [[S::I32; 2]; R],
        place: (usize, usize),
        (to, step): (*mut Self::Out, usize),
        len: usize,
    ) {
        for (r, sums) in sums.into_iter().enumerate() {
            let to = to.wrapping_add(r * step);
            // SAFETY: demanded of the caller.
            unsafe { self.write(simd, sums, (place.0 + r, place.1), to, len) };
        }
    }
}

/// Two vectors of words.
///
/// # Safety
/// Twice `LANES` words can be read there.
#[inline(always)]
pub(super) unsafe fn two_at<S: Simd>(simd: S, from: *const f32) -> [S::I32; 2] {
    // SAFETY: demanded of the caller.
    let first = unsafe { simd.load_at(from) };
    // SAFETY: as above.
    let second = unsafe { simd.load_at(from.wrapping_add(S::LANES)) };
    [first.to_bits(), second.to_bits()]
}

/// Two vectors of a slice.
#[inline(always)]
fn both<S: Simd>(simd: S, from: &[f32], at: usize) -> [S::F32; 2] {
    let from = &from[at..][..2 * S::LANES];
    [simd.load(from), simd.load(&from[S::LANES..])]
}

/// Two vectors of a slice.
#[inline(always)]
fn integers<S: Simd>(simd: S, from: &[i32], at: usize) -> [S::I32; 2] {
    both(simd, bytemuck::cast_slice(from), at).map(Float::to_bits)
}

/// Sums that become integers of 8 bits again: `round(sum · scale)` within bounds, and the zero
/// point.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'d> {
    /// What is added to the sums of each column, zipped.
    pub bias: &'d [i32],
    /// A factor for each column, zipped.
    pub scale: &'d [f32],
    /// The bounds, without the zero point.
    pub clamp: (f32, f32),
    /// What zero is stored as.
    pub zero_point: i32,
}

impl End for Bytes<'_> {
    type Out = i8;

    fn fits(&self, _: usize, cols: usize) -> bool {
        self.bias.len() >= cols && self.scale.len() >= cols
    }

    #[inline(always)]
    fn start<S: Simd>(&self, simd: S, col: usize) -> [S::I32; 2] {
        integers(simd, self.bias, col)
    }

    #[inline(always)]
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        [a, b]: [S::I32; 2],
        (_, col): (usize, usize),
        to: *mut i8,
        len: usize,
    ) {
        let scale = both(simd, self.scale, col);
        let values = [a.to_f32() * scale[0], b.to_f32() * scale[1]];
        // SAFETY: demanded of the caller.
        unsafe { simd.store_zipped_at(values, self.zero_point, self.clamp, to, len) };
    }

    #[inline(always)]
    unsafe fn write_tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        sums: [[S::I32; 2]; R],
        (_, col): (usize, usize),
        (to, step): (*mut i8, usize),
        len: usize,
    ) {
        // Few instructions a row, so that the loop is unrolled and sums stay in registers.
        let scale = both(simd, self.scale, col);
        macro_rules! write {
            ($len:expr) => {
                for (r, [a, b]) in sums.into_iter().enumerate() {
                    let values = [a.to_f32() * scale[0], b.to_f32() * scale[1]];
                    let to = to.wrapping_add(r * step);
                    // SAFETY: demanded of the caller.
                    unsafe { simd.store_zipped_at(values, self.zero_point, self.clamp, to, $len) };
                }
            };
        }
        // The length of most is known to the compiler.
        if len >= 2 * S::LANES { write!(2 * S::LANES) } else { write!(len) }
    }
}

/// Sums times a factor of the row and one of the column, with a bias, within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Scaled<'d> {
    /// A factor for each row.
    pub rows: &'d [f32],
    /// A factor for each column, zipped.
    pub scale: &'d [f32],
    /// What is added to each column, zipped.
    pub bias: &'d [f32],
    /// The bounds; NaN stays.
    pub clamp: (f32, f32),
}

impl End for Scaled<'_> {
    type Out = f32;

    fn fits(&self, rows: usize, cols: usize) -> bool {
        self.rows.len() >= rows && self.scale.len() >= cols && self.bias.len() >= cols
    }

    #[inline(always)]
    fn start<S: Simd>(&self, simd: S, _: usize) -> [S::I32; 2] {
        [simd.splat_i32(0); 2]
    }

    #[inline(always)]
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        [a, b]: [S::I32; 2],
        (row, col): (usize, usize),
        to: *mut f32,
        len: usize,
    ) {
        let (scale, bias) = (both(simd, self.scale, col), both(simd, self.bias, col));
        let of_row = simd.splat(self.rows[row]);
        let (low, high) = (simd.splat(self.clamp.0), simd.splat(self.clamp.1));
        let value = |sums: S::I32, half: usize| {
            let value = sums.to_f32() * of_row * scale[half] + bias[half];
            // The operand that is kept where one is NaN is the second.
            high.min(low.max(value))
        };
        for (half, value) in simd.unzip([value(a, 0), value(b, 1)]).into_iter().enumerate() {
            let at = half * S::LANES;
            // SAFETY: demanded of the caller.
            unsafe { simd.store_first_at(value, to.wrapping_add(at), len.saturating_sub(at)) };
        }
    }
}
