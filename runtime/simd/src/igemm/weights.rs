//! Packed weights as tiles read them.

#![expect(unsafe_code, reason = "loads weights through checked pointers")]

use super::{
    fixed24,
    half::{bf16s, f16s},
};
use crate::{Float, Simd};

/// What packed weights are stored as.
pub(super) trait Stored: Copy {
    /// Of what slices are made.
    type Word: Copy;

    /// Words that hold two weights, or of panels in pairs those that hold four.
    const WORDS: usize;

    /// Whether panels lie in pairs, row by row.
    const PAIRED: bool = false;

    /// Whether tiles write down the vectors that [`Stored::column`] gives.
    const WRITTEN: bool = false;

    /// Whether sums of products with what [`Stored::load`] gives are multiplied with the units of
    /// their columns.
    const SCALED: bool = false;

    /// The first vectors of weights of a row that lies at `at`, of a pair those of the first panel
    /// or of the second one.
    ///
    /// # Safety
    /// So many can be read there.
    unsafe fn load<S: Simd, const C: usize>(
        simd: S,
        at: *const Self::Word,
        second: bool,
    ) -> [S::F32; C];

    /// What the vectors that [`Stored::load`] gives are multiplied with for a number of the input.
    #[inline(always)]
    fn factor<S: Simd>(simd: S, x: f32) -> S::F32 {
        simd.splat(x)
    }

    /// A vector that [`Stored::load`] gives, for a number of the input as it is: of several rows,
    /// where that is less work.
    #[inline(always)]
    fn column<S: Simd>(_simd: S, column: S::F32) -> S::F32 {
        column
    }
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

/// Weights of 24 bits, which tiles perhaps write down as [`Unpacked`].
#[derive(Clone, Copy)]
pub(super) struct Fixed<const WRITTEN: bool>;

/// Weights of 24 bits as numbers, without the units of their columns.
#[derive(Clone, Copy)]
pub(super) struct Unpacked;

impl Stored for Numbers {
    type Word = f32;

    const WORDS: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const f32, _: bool) -> [S::F32; C] {
        let mut row = [simd.zero(); C];
        for (c, column) in row.iter_mut().enumerate() {
            // SAFETY: demanded of the caller.
            *column = unsafe { simd.load_ptr(at.wrapping_add(c * S::LANES)) };
        }
        row
    }
}

impl Stored for Bf16s {
    type Word = u32;

    const WORDS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const u32, _: bool) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        first(simd, bf16s(simd, unsafe { words(simd, at) }))
    }
}

impl Stored for F16s {
    type Word = u32;

    const WORDS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const u32, _: bool) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        first(simd, f16s(simd, unsafe { words(simd, at) }))
    }
}

impl Stored for Unpacked {
    type Word = f32;

    const WORDS: usize = Numbers::WORDS;
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const f32, _: bool) -> [S::F32; C] {
        // SAFETY: demanded of the caller.
        unsafe { Numbers::load(simd, at, false) }
    }
}

impl<const WRITTEN: bool> Stored for Fixed<WRITTEN> {
    type Word = u32;

    const WORDS: usize = fixed24::VECTORS;
    const PAIRED: bool = true;
    const WRITTEN: bool = WRITTEN;
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, at: *const u32, second: bool) -> [S::F32; C] {
        let mut vectors = [simd.splat_i32(0); fixed24::VECTORS];
        for (at_vector, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: demanded of the caller: of a pair, all words of a row are there.
            *vector = unsafe { words(simd, at.wrapping_add(at_vector * S::LANES)) };
        }
        first(simd, fixed24::numbers(vectors, second))
    }

    /// Not more than the number, so that its products with integers do not overflow.
    #[inline(always)]
    fn factor<S: Simd>(simd: S, x: f32) -> S::F32 {
        simd.splat(x) * simd.splat(fixed24::ONE)
    }

    #[inline(always)]
    fn column<S: Simd>(simd: S, column: S::F32) -> S::F32 {
        column * simd.splat(fixed24::ONE)
    }
}

/// A vector of words.
///
/// # Safety
/// So many can be read at `at`.
#[inline(always)]
unsafe fn words<S: Simd>(simd: S, at: *const u32) -> S::I32 {
    // SAFETY: demanded of the caller.
    unsafe { simd.load_ptr(at.cast()) }.to_bits()
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

/// Words of weights, wherever they are.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) at: *const u32,
    pub(super) len: usize,
}

impl Words {
    /// The first half and the rest.
    pub(super) fn halves(self) -> [Self; 2] {
        let len = self.len / 2;
        [Self { len, ..self }, Self { at: self.at.wrapping_add(len), len: self.len - len }]
    }
}

/// A row of a panel.
#[derive(Clone, Copy)]
pub(super) struct Row<W: Stored> {
    at: *const W::Word,
    /// Words of a row, of a panel or of a pair.
    row: usize,
    /// Words of a panel or of a pair.
    panel: usize,
    /// Whether the panel is the second one of a pair.
    second: bool,
}

impl<W: Stored> Row<W> {
    /// The first one of panels of so many columns and rows.
    pub(super) fn new(all: &[W::Word], cols: usize, rows: usize) -> Self {
        let row = cols * W::WORDS / 2;
        Self { at: all.as_ptr(), row, panel: row * rows, second: false }
    }

    /// The same row of a panel so far before this one, which need not be there.
    pub(super) fn before(self, panels: usize) -> Self {
        Self { at: self.at.wrapping_sub(panels * self.panel), ..self }
    }

    /// The same row of a panel so far behind this one.
    #[inline(always)]
    pub(super) fn beside(self, panels: usize) -> Self {
        if !const { W::PAIRED } {
            return Self { at: self.at.wrapping_add(panels * self.panel), ..self };
        }
        let panels = panels + usize::from(self.second);
        let at = self.at.wrapping_add(panels / 2 * self.panel);
        Self { at, second: panels % 2 == 1, ..self }
    }

    /// The same, of a panel that is not the second one of a pair.
    #[inline(always)]
    pub(super) fn first(self) -> Self {
        Self { second: false, ..self }
    }

    /// The row so far behind this one.
    #[inline(always)]
    pub(super) fn below(self, rows: usize) -> Self {
        Self { at: self.at.wrapping_add(rows * self.row), ..self }
    }

    /// The words of so many rows of the panel or pair from this one on, which need not be there.
    #[inline(always)]
    pub(super) fn words(self, rows: usize) -> Words {
        Words { at: self.at.cast(), len: rows * self.row }
    }

    /// Says that the row, wherever it is, is read soon.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd, const C: usize>(self, simd: S) {
        for vector in 0..C.min(W::WORDS) {
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
        unsafe { W::load(simd, self.at, self.second) }
    }
}
