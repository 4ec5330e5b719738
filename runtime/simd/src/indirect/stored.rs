//! Packed weights as tiles read them.

#![expect(unsafe_code, reason = "reads weights through checked pointers")]

use super::halves::{bf16s, f16s};
use crate::{Float, Simd};

/// What packed weights are stored as.
pub(super) trait Stored: Copy {
    /// Of what slices are made.
    type Word: Copy;

    /// Vectors of words that hold two of weights.
    const VECTORS: usize;

    /// The first vectors of weights of a row that lies at `at`.
    ///
    /// # Safety
    /// So many can be read there.
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const Self::Word) -> [S::F32; C];
}

/// Weights that are numbers.
#[derive(Clone, Copy)]
pub(super) struct Numbers;

/// Weights of format `bf16`, two in a word.
#[derive(Clone, Copy)]
pub(super) struct Bf16s;

/// Weights of format `f16`, two in a word.
#[derive(Clone, Copy)]
pub(super) struct F16s;

impl Stored for Numbers {
    type Word = f32;

    const VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const f32) -> [S::F32; C] {
        let mut row = [simd.zero(); C];
        for (c, column) in row.iter_mut().enumerate() {
            // SAFETY: demanded of the caller.
            *column = unsafe { simd.load_at(at.wrapping_add(c * S::LANES)) };
        }
        row
    }
}

impl Stored for Bf16s {
    type Word = u32;

    const VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const u32) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        first(simd, bf16s(simd, unsafe { words(simd, at) }))
    }
}

impl Stored for F16s {
    type Word = u32;

    const VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const u32) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        first(simd, f16s(simd, unsafe { words(simd, at) }))
    }
}

/// A vector of words.
///
/// # Safety
/// So many can be read at `at`.
#[inline(always)]
unsafe fn words<S: Simd>(simd: S, at: *const u32) -> S::I32 {
    // SAFETY: demanded of the caller.
    unsafe { simd.load_at(at.cast()) }.to_bits()
}

/// The first of two vectors, or both.
#[inline(always)]
fn first<S: Simd, const C: usize>(simd: S, both: [S::F32; 2]) -> [S::F32; C] {
    let mut row = [simd.zero(); C];
    for (column, widened) in row.iter_mut().zip(both) {
        *column = widened;
    }
    row
}

/// A row of a panel.
#[derive(Clone, Copy)]
pub(super) struct Row<W: Stored> {
    at: *const W::Word,
    /// Words of a row.
    row: usize,
    /// Words of a panel.
    panel: usize,
}

impl<W: Stored> Row<W> {
    /// The first one of panels of so many columns and rows.
    pub(super) fn new(all: &[W::Word], cols: usize, rows: usize) -> Self {
        let row = cols * W::VECTORS / 2;
        Self { at: all.as_ptr(), row, panel: row * rows }
    }

    /// The same row of a panel so far behind this one.
    #[inline(always)]
    pub(super) fn beside(self, panels: usize) -> Self {
        Self { at: self.at.wrapping_add(panels * self.panel), ..self }
    }

    /// The row so far behind this one.
    #[inline(always)]
    pub(super) fn below(self, rows: usize) -> Self {
        Self { at: self.at.wrapping_add(rows * self.row), ..self }
    }

    /// Says that the row, wherever it is, is read soon.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd, const C: usize>(self, simd: S) {
        for vector in 0..C.min(W::VECTORS) {
            simd.prefetch(self.at.wrapping_add(vector * S::LANES));
        }
    }

    /// The first vectors of the row.
    ///
    /// # Safety
    /// The row is one of the weights, and has so many vectors.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simd, const C: usize>(self, simd: S) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        unsafe { W::load(simd, self.at) }
    }
}
