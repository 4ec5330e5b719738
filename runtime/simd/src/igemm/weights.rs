//! Loads of packed weights, generic over their format.

#![expect(unsafe_code, reason = "loads weights through checked pointers")]

use super::{
    fixed24,
    half::{widen_bf16, widen_f16},
};
use crate::{Float, Simd};

/// Format of packed weights.
pub(super) trait WeightFormat: Copy {
    /// Element type of the packed slice.
    type Word: Copy;

    /// Vectors of words that hold a row of a panel two vectors wide, or of a pair of such panels.
    const ROW_VECTORS: usize;

    /// True if panels are stored in pairs, row by row.
    const PAIRED: bool = false;

    /// True if tiles store the vectors of [`WeightFormat::scale_weights`] to an unpacked panel.
    const STORES_UNPACKED: bool = false;

    /// True if accumulators are multiplied by the units of their columns.
    const SCALED: bool = false;

    /// Loads the first `C` vectors of the row at `ptr`. Of a pair, they belong to the first panel,
    /// or to the second if `second` is true.
    ///
    /// # Safety
    /// `ptr` is valid for reads of the row.
    unsafe fn load<S: Simd, const C: usize>(
        simd: S,
        ptr: *const Self::Word,
        second: bool,
    ) -> [S::F32; C];

    /// Broadcasts an input element as factor of the loaded vectors.
    #[inline(always)]
    fn scale_input<S: Simd>(simd: S, x: f32) -> S::F32 {
        simd.splat(x)
    }

    /// Converts a loaded vector for unscaled input elements: less work for tiles of several rows.
    #[inline(always)]
    fn scale_weights<S: Simd>(_simd: S, column: S::F32) -> S::F32 {
        column
    }
}

/// `f32` weights.
#[derive(Clone, Copy)]
pub(super) struct F32;

/// `bf16` weights, two per word.
#[derive(Clone, Copy)]
pub(super) struct Bf16;

/// `f16` weights, two per word.
#[derive(Clone, Copy)]
pub(super) struct F16;

/// 24-bit weights. If `STORES_UNPACKED`, tiles store them as [`Unpacked24`].
#[derive(Clone, Copy)]
pub(super) struct Packed24<const STORES_UNPACKED: bool>;

/// 24-bit weights converted to `f32`, without the units of their columns.
#[derive(Clone, Copy)]
pub(super) struct Unpacked24;

impl WeightFormat for F32 {
    type Word = f32;

    const ROW_VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, ptr: *const f32, _: bool) -> [S::F32; C] {
        let mut row = [simd.zero(); C];
        for (c, column) in row.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            *column = unsafe { simd.load_ptr(ptr.wrapping_add(c * S::LANES)) };
        }
        row
    }
}

impl WeightFormat for Bf16 {
    type Word = u32;

    const ROW_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, ptr: *const u32, _: bool) -> [S::F32; C] {
        // SAFETY: guaranteed by the caller.
        truncate(simd, widen_bf16(simd, unsafe { load_words(simd, ptr) }))
    }
}

impl WeightFormat for F16 {
    type Word = u32;

    const ROW_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, ptr: *const u32, _: bool) -> [S::F32; C] {
        // SAFETY: guaranteed by the caller.
        truncate(simd, widen_f16(simd, unsafe { load_words(simd, ptr) }))
    }
}

impl WeightFormat for Unpacked24 {
    type Word = f32;

    const ROW_VECTORS: usize = F32::ROW_VECTORS;
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, ptr: *const f32, _: bool) -> [S::F32; C] {
        // SAFETY: guaranteed by the caller.
        unsafe { F32::load(simd, ptr, false) }
    }
}

impl<const STORES_UNPACKED: bool> WeightFormat for Packed24<STORES_UNPACKED> {
    type Word = u32;

    const ROW_VECTORS: usize = fixed24::ROW_VECTORS;
    const PAIRED: bool = true;
    const STORES_UNPACKED: bool = STORES_UNPACKED;
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(simd: S, ptr: *const u32, second: bool) -> [S::F32; C] {
        let mut vectors = [simd.splat_i32(0); fixed24::ROW_VECTORS];
        for (index, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller: all words of a row of the pair are valid.
            *vector = unsafe { load_words(simd, ptr.wrapping_add(index * S::LANES)) };
        }
        truncate(simd, fixed24::unpack(vectors, second))
    }

    /// Scales the input down, so that its products with the integers do not overflow.
    #[inline(always)]
    fn scale_input<S: Simd>(simd: S, x: f32) -> S::F32 {
        simd.splat(x) * simd.splat(fixed24::INTEGER_SCALE)
    }

    #[inline(always)]
    fn scale_weights<S: Simd>(simd: S, column: S::F32) -> S::F32 {
        column * simd.splat(fixed24::INTEGER_SCALE)
    }
}

/// Loads a vector of words.
///
/// # Safety
/// `ptr` is valid for reads of `LANES` words.
#[inline(always)]
unsafe fn load_words<S: Simd>(simd: S, ptr: *const u32) -> S::I32 {
    // SAFETY: guaranteed by the caller.
    unsafe { simd.load_ptr(ptr.cast()) }.to_bits()
}

/// The first `C` of two vectors.
#[inline(always)]
fn truncate<S: Simd, const C: usize>(simd: S, pair: [S::F32; 2]) -> [S::F32; C] {
    let mut row = [simd.zero(); C];
    for (column, value) in row.iter_mut().zip(pair) {
        *column = value;
    }
    row
}

/// Words of packed weights of any format, to prefetch.
#[derive(Clone, Copy)]
pub(super) struct WordRange {
    pub(super) ptr: *const u32,
    pub(super) len: usize,
}

impl WordRange {
    /// Splits the range into its first half and the rest.
    pub(super) fn halves(self) -> [Self; 2] {
        let len = self.len / 2;
        [Self { len, ..self }, Self { ptr: self.ptr.wrapping_add(len), len: self.len - len }]
    }
}

/// Cursor to a row of a panel of packed weights.
#[derive(Clone, Copy)]
pub(super) struct PanelRow<W: WeightFormat> {
    ptr: *const W::Word,
    /// Words from one row to the next, of a panel or a pair of panels.
    row_stride: usize,
    /// Words from one panel or pair of panels to the next.
    panel_stride: usize,
    /// True if the panel is the second of a pair.
    second: bool,
}

impl<W: WeightFormat> PanelRow<W> {
    /// First row of the first panel of weights with `cols` columns and `rows` rows per panel.
    pub(super) fn first(weights: &[W::Word], cols: usize, rows: usize) -> Self {
        let row_stride = cols * W::ROW_VECTORS / 2;
        let panel_stride = row_stride * rows;
        Self { ptr: weights.as_ptr(), row_stride, panel_stride, second: false }
    }

    /// The same row `panels` panels back. It need not exist.
    pub(super) fn previous_panel(self, panels: usize) -> Self {
        Self { ptr: self.ptr.wrapping_sub(panels * self.panel_stride), ..self }
    }

    /// The same row `panels` panels ahead.
    #[inline(always)]
    pub(super) fn next_panel(self, panels: usize) -> Self {
        if !const { W::PAIRED } {
            return Self { ptr: self.ptr.wrapping_add(panels * self.panel_stride), ..self };
        }
        let panels = panels + usize::from(self.second);
        let ptr = self.ptr.wrapping_add(panels / 2 * self.panel_stride);
        Self { ptr, second: panels % 2 == 1, ..self }
    }

    /// The same row, known to the compiler to be of the first panel of a pair.
    #[inline(always)]
    pub(super) fn assume_first_of_pair(self) -> Self {
        Self { second: false, ..self }
    }

    /// The row `rows` rows ahead.
    #[inline(always)]
    pub(super) fn next_row(self, rows: usize) -> Self {
        Self { ptr: self.ptr.wrapping_add(rows * self.row_stride), ..self }
    }

    /// The words of `rows` rows of the panel or pair from this one on. They need not exist.
    #[inline(always)]
    pub(super) fn words(self, rows: usize) -> WordRange {
        WordRange { ptr: self.ptr.cast(), len: rows * self.row_stride }
    }

    /// Prefetches the row. It need not exist.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd, const C: usize>(self, simd: S) {
        for vector in 0..C.min(W::ROW_VECTORS) {
            simd.prefetch(self.ptr.wrapping_add(vector * S::LANES));
        }
    }

    /// Loads the first `C` vectors of the row.
    ///
    /// # Safety
    /// The row exists and has `C` vectors.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simd, const C: usize>(self, simd: S) -> [S::F32; C] {
        // SAFETY: guaranteed by the caller.
        unsafe { W::load(simd, self.ptr, self.second) }
    }
}
