//! Transposition of matrices of 32-bit elements, in tiles that stay in vector registers.

#![expect(unsafe_code, reason = "loads and stores through pointers checked per matrix")]

use crate::{Isa, Routine, Simd, SizeError};

/// Rows or columns of a block. Within it, tiles follow each other along the rows of the side with
/// the larger stride, and the cache lines that two tiles share are still in the cache.
const BLOCK_LEN: usize = 128;

/// Maximum lanes of a vector.
const MAX_LANES: usize = 16;

/// Transposes `rows` × `cols` elements: `to[col * to_stride + row] = from[row * from_stride + col]`.
///
/// The elements may be the bits of any 32-bit type.
///
/// # Errors
/// [`SizeError`] if a slice does not match the sizes, or a stride is less than the length of a row.
pub fn transpose(
    isa: Isa,
    [rows, cols]: [usize; 2],
    (from, from_stride): (&[f32], usize),
    (to, to_stride): (&mut [f32], usize),
) -> Result<(), SizeError> {
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let required =
        |rows: usize, len: usize, stride: usize| (rows - 1).checked_mul(stride)?.checked_add(len);
    SizeError::check_min("from", from.len(), required(rows, cols, from_stride))?;
    SizeError::check_min("to", to.len(), required(cols, rows, to_stride))?;
    SizeError::check_parameter("from_stride", "at least `cols`", from_stride >= cols)?;
    SizeError::check_parameter("to_stride", "at least `rows`", to_stride >= rows)?;
    isa.run(Transpose { sizes: [rows, cols], from, from_stride, to, to_stride });
    Ok(())
}

/// A transposition whose slices and strides have been checked.
struct Transpose<'a> {
    sizes: [usize; 2],
    from: &'a [f32],
    from_stride: usize,
    to: &'a mut [f32],
    to_stride: usize,
}

impl Routine for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let [rows, cols] = self.sizes;
        if self.to_stride > self.from_stride {
            for block in (0..rows).step_by(BLOCK_LEN) {
                let end = rows.min(block + BLOCK_LEN);
                for col in (0..cols).step_by(S::LANES) {
                    for row in (block..end).step_by(S::LANES) {
                        self.tile(simd, [row, col]);
                    }
                }
            }
        } else {
            for block in (0..cols).step_by(BLOCK_LEN) {
                let end = cols.min(block + BLOCK_LEN);
                for row in (0..rows).step_by(S::LANES) {
                    for col in (block..end).step_by(S::LANES) {
                        self.tile(simd, [row, col]);
                    }
                }
            }
        }
    }
}

impl Transpose<'_> {
    /// Transposes the tile at this row and column of the source, cut at the edges of the matrix.
    #[inline(always)]
    fn tile<S: Simd>(&mut self, simd: S, [row, col]: [usize; 2]) {
        let sizes = [self.sizes[0] - row, self.sizes[1] - col];
        if sizes.iter().all(|size| *size >= S::LANES) {
            // SAFETY: the source has a whole tile there.
            unsafe { self.whole_tile(simd, [row, col]) }
        } else {
            let sizes = sizes.map(|size| size.min(S::LANES));
            // SAFETY: the source has these rows and columns there.
            unsafe { self.partial_tile(simd, [row, col], sizes) }
        }
    }

    /// Transposes a whole tile.
    ///
    /// # Safety
    /// The source has `S::LANES` rows from `row` on, and as many columns from `col` on.
    #[inline(always)]
    unsafe fn whole_tile<S: Simd>(&mut self, simd: S, [row, col]: [usize; 2]) {
        let from = self.from.as_ptr().wrapping_add(row * self.from_stride + col);
        let to = self.to.as_mut_ptr().wrapping_add(col * self.to_stride + row);
        let mut tile = [simd.zero(); MAX_LANES];
        let tile = &mut tile[..S::LANES];
        for (i, vector) in tile.iter_mut().enumerate() {
            // SAFETY: the caller guarantees the row; `transpose` checked the slice.
            *vector = unsafe { simd.load_ptr(from.wrapping_add(i * self.from_stride)) };
        }
        simd.transpose(tile);
        for (j, vector) in tile.iter().enumerate() {
            // SAFETY: the caller guarantees the column; `transpose` checked the slice.
            unsafe { simd.store_ptr(*vector, to.wrapping_add(j * self.to_stride)) };
        }
    }

    /// Transposes a tile of fewer rows or columns.
    ///
    /// # Safety
    /// The source has `rows` rows from `row` on and `cols` columns from `col` on, both at most
    /// `S::LANES`.
    #[inline(always)]
    unsafe fn partial_tile<S: Simd>(
        &mut self,
        simd: S,
        [row, col]: [usize; 2],
        [rows, cols]: [usize; 2],
    ) {
        let from = self.from.as_ptr().wrapping_add(row * self.from_stride + col);
        let to = self.to.as_mut_ptr().wrapping_add(col * self.to_stride + row);
        let mut tile = [simd.zero(); MAX_LANES];
        let tile = &mut tile[..S::LANES];
        for (i, vector) in tile.iter_mut().enumerate().take(rows) {
            // SAFETY: as in `whole_tile`.
            *vector =
                unsafe { simd.load_partial_ptr(from.wrapping_add(i * self.from_stride), cols) };
        }
        simd.transpose(tile);
        for (j, vector) in tile.iter().enumerate().take(cols) {
            // SAFETY: as in `whole_tile`.
            unsafe { simd.store_partial_ptr(*vector, to.wrapping_add(j * self.to_stride), rows) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_moved_and_no_other_is_written() {
        let lens = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 130, 145];
        for isa in Isa::available() {
            for (rows, cols) in lens.iter().flat_map(|rows| lens.map(|cols| (*rows, cols))) {
                for gap in [0, 3] {
                    let (from_stride, to_stride) = (cols + gap, rows + gap);
                    let from: Vec<f32> = (0..rows * from_stride).map(|at| at as f32).collect();
                    let mut to = vec![-1.0; cols * to_stride];
                    let target = (&mut to[..], to_stride);
                    transpose(isa, [rows, cols], (&from, from_stride), target).unwrap();
                    for (at, found) in to.iter().enumerate() {
                        let (col, row) = (at / to_stride, at % to_stride);
                        let moved = (row * from_stride + col) as f32;
                        let wanted = if row < rows { moved } else { -1.0 };
                        assert_eq!(*found, wanted, "{isa:?}: {rows} × {cols}, gap {gap}");
                    }
                }
            }
        }
    }

    #[test]
    fn bits_are_preserved() {
        let from: Vec<f32> = (0..289_u32).map(|at| f32::from_bits(0x7f80_0000 + at)).collect();
        for isa in Isa::available() {
            let mut to = vec![0.0; 289];
            transpose(isa, [17, 17], (&from, 17), (&mut to, 17)).unwrap();
            for (at, found) in to.iter().enumerate() {
                assert_eq!(found.to_bits(), from[at % 17 * 17 + at / 17].to_bits(), "{isa:?}");
            }
        }
    }

    #[test]
    fn short_slices_and_strides_are_rejected() {
        let run = |from_len, from_stride, to_len, to_stride| {
            let (from, mut to) = (vec![0.0; from_len], vec![0.0; to_len]);
            transpose(Isa::SCALAR, [2, 3], (&from, from_stride), (&mut to, to_stride))
        };
        assert_eq!(run(6, 3, 6, 2), Ok(()));
        for (from_len, from_stride, to_len, to_stride) in [
            (5, 3, 6, 2),
            (6, 3, 5, 2),
            (6, 2, 6, 2),
            (6, 3, 6, 1),
            (6, usize::MAX, 6, 2),
            (6, 3, 6, usize::MAX),
        ] {
            assert!(run(from_len, from_stride, to_len, to_stride).is_err());
        }
    }
}
