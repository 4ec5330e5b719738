//! `f32` GEMM with prepacked weights, dense or through an indirection buffer (IGEMM).
//!
//! Computes a convolution of NHWC tensors without im2col, or a fully connected layer. Row `i` of
//! the left operand is the concatenation of `taps` runs of `channels` elements of the input. An
//! *indirection buffer* holds the offset of each run, or [`PADDING_OFFSET`] for a run of zeros. A
//! dense operand has one run per row.
//!
//! Weights are packed once, in panels as wide as a tile: as `f32`, in 16 bits ([`HalfFormat`]) or
//! in 24 bits ([`Fixed24`]).
//!
//! | module    | contents                                              |
//! |-----------|-------------------------------------------------------|
//! | `fixed24` | 24-bit weights                                        |
//! | `gemv`    | products of a single row                              |
//! | `half`    | 16-bit weights                                        |
//! | `tile`    | microkernel, and the loops over panels and rows       |
//! | `weights` | loads of packed weights, generic over their format    |

mod fixed24;
mod gemv;
mod half;
mod tile;
mod weights;

use afferent_core::Workers;

use crate::{
    Isa, SizeError,
    epilogue::BiasActivation,
    parallel::{self, Grain, SharedSlice},
};
pub use fixed24::Fixed24;
pub use half::HalfFormat;

/// Entry of an indirection buffer that stands for padding: the run is all zeros.
pub const PADDING_OFFSET: u32 = u32::MAX;

/// Minimum rows for which a panel of 24-bit weights is unpacked once for all rows, instead of in
/// each tile.
const UNPACK_MIN_ROWS: usize = 15;

/// Elements. Rows whose stride is a multiple of this share the sets of the first-level cache.
const CACHE_ALIAS_STRIDE: usize = 1024;

/// Minimum rows to copy away from an aliasing stride: more than a set has ways.
const COPY_MIN_ROWS: usize = 9;

/// Minimum output columns to copy rows away from an aliasing stride.
const COPY_MIN_COLS: usize = 64;

/// Location of the rows of the left operand in the input.
#[derive(Debug, Clone, Copy)]
pub enum InputRows<'d> {
    /// One run of `channels` elements per row, at a fixed stride.
    Strided {
        /// Elements from one row to the next.
        stride: usize,
    },
    /// Runs found through an indirection buffer.
    Indirect {
        /// Indirection buffer: offset of the first element of each run, `taps` entries per row, or
        /// [`PADDING_OFFSET`].
        offsets: &'d [u32],
        /// Runs per row: elements of the convolution kernel.
        taps: usize,
    },
}

/// GEMM of rows of the input with packed weights.
#[derive(Debug, Clone, Copy)]
pub struct Igemm<'d> {
    /// Input.
    pub x: &'d [f32],
    /// At least `channels` zeros, which padding is read from. May be empty for strided rows.
    pub zeros: &'d [f32],
    /// Location of the rows in `x`.
    pub input_rows: InputRows<'d>,
    /// Rows of the output.
    pub rows: usize,
    /// Elements per run.
    pub channels: usize,
    /// Weights, packed for an inner dimension of `taps * channels`.
    pub weights: PackedWeights<'d>,
    /// Columns of the output.
    pub cols: usize,
    /// Visits the panels of a single row from last to first, because the last ones may still be in
    /// the cache from the previous call.
    pub reverse_panels: bool,
}

/// Packed weights.
#[derive(Debug, Clone, Copy)]
pub enum PackedWeights<'d> {
    /// `f32`, by [`pack`] or [`pack_columns`].
    F32(&'d [f32]),
    /// 16 bits, by [`HalfFormat::pack`]. Halves the memory traffic of a single row.
    Half(HalfFormat, &'d [u32]),
    /// Rounded to 24 bits, by [`Fixed24::pack`].
    Fixed24(Fixed24<'d>),
}

/// Dimensions of a weight matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightShape {
    /// Inner dimension of the product: weights per column.
    pub inner: usize,
    /// Columns of the output.
    pub cols: usize,
}

/// Output of a GEMM: row `i` is written to `data[offset + i * row_stride..]`.
#[derive(Debug)]
pub struct OutputRows<'o, T> {
    /// Elements.
    pub data: &'o mut [T],
    /// Index of the first element.
    pub offset: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
}

impl<T> OutputRows<'_, T> {
    /// Checks that `rows` × `cols` elements are inside `data` and do not overlap. Both are
    /// positive.
    pub(crate) fn check(&self, rows: usize, cols: usize) -> Result<(), SizeError> {
        let expected = "at least the number of columns";
        let is_disjoint = self.row_stride >= cols || rows == 1;
        let end = (rows - 1)
            .checked_mul(self.row_stride)
            .and_then(|last| last.checked_add(self.offset)?.checked_add(cols));
        SizeError::check_min("out", self.data.len(), end)?;
        SizeError::check_parameter("row_stride", expected, is_disjoint)
    }
}

/// Columns per panel of packed weights.
pub fn panel_cols(isa: Isa, cols: usize) -> usize {
    let lanes = isa.lanes();
    if cols <= lanes { lanes } else { 2 * lanes }
}

/// Length of weights packed as `f32`; `None` if it overflows.
pub fn packed_len(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<usize> {
    cols.checked_next_multiple_of(panel_cols(isa, cols))?.checked_mul(inner)
}

/// Packs weights into panels. `weight(k, col)` returns weight `k` of a column.
///
/// # Panics
/// If `to` is shorter than [`packed_len`].
pub fn pack(
    isa: Isa,
    WeightShape { inner, cols }: WeightShape,
    weight: impl Fn(usize, usize) -> f32,
    to: &mut [f32],
) {
    let width = panel_cols(isa, cols);
    for (panel, to) in to.chunks_mut((width * inner).max(1)).enumerate().take(cols.div_ceil(width))
    {
        let count = width.min(cols - panel * width);
        for (k, to) in to.chunks_exact_mut(width).enumerate() {
            for (col, to) in to.iter_mut().enumerate() {
                *to = if col < count { weight(k, panel * width + col) } else { 0.0 };
            }
        }
    }
}

/// As [`pack`], for columns whose weights are contiguous.
///
/// # Panics
/// If a column is shorter than `inner`, or `to` is shorter than [`packed_len`].
pub fn pack_columns<'w>(
    isa: Isa,
    shape: WeightShape,
    column: impl Fn(usize) -> &'w [f32],
    to: &mut [f32],
) {
    match panel_cols(isa, shape.cols) {
        32 => pack_column_panels::<32>(shape, column, to),
        16 => pack_column_panels::<16>(shape, column, to),
        8 => pack_column_panels::<8>(shape, column, to),
        4 => pack_column_panels::<4>(shape, column, to),
        _ => pack(isa, shape, |k, col| column(col)[k], to),
    }
}

/// [`pack_columns`] for panels of `W` columns.
fn pack_column_panels<'w, const W: usize>(
    WeightShape { inner, cols }: WeightShape,
    column: impl Fn(usize) -> &'w [f32],
    to: &mut [f32],
) {
    /// Weights per column that are transposed at a time, so that source and destination stay in the
    /// cache.
    const TILE_ROWS: usize = 16;
    for (panel, to) in to.chunks_mut((W * inner).max(1)).enumerate().take(cols.div_ceil(W)) {
        let count = W.min(cols - panel * W);
        let (tiles, rest) = to.as_chunks_mut::<W>().0.as_chunks_mut::<TILE_ROWS>();
        for col in 0..count {
            let last = column(panel * W + col)[..inner].as_chunks::<TILE_ROWS>().1;
            last.iter().zip(&mut *rest).for_each(|(from, to)| to[col] = *from);
        }
        for (tile, to) in tiles.iter_mut().enumerate() {
            for col in 0..count {
                let from = &column(panel * W + col)[..inner].as_chunks::<TILE_ROWS>().0[tile];
                from.iter().zip(&mut *to).for_each(|(from, to)| to[col] = *from);
            }
        }
    }
}

impl Igemm<'_> {
    /// Scratch buffer of [`Igemm::run`] on `threads` threads, in elements.
    pub fn scratch_len(&self, isa: Isa, threads: usize) -> usize {
        let taps = if let InputRows::Indirect { taps, .. } = self.input_rows { taps } else { 1 };
        let inner = self.channels.saturating_mul(taps);
        let unpacked = self.unpacked_len(isa, inner).saturating_mul(self.tasks(inner, threads));
        let copy = self.copy_stride().map_or(0, |stride| self.rows.saturating_mul(stride));
        unpacked.saturating_add(copy)
    }

    /// Row stride of a copy of the input whose rows do not share cache sets; `None` if no copy is
    /// needed.
    fn copy_stride(&self) -> Option<usize> {
        let InputRows::Strided { stride } = self.input_rows else { return None };
        let is_large = self.rows >= COPY_MIN_ROWS && self.cols >= COPY_MIN_COLS;
        // An odd number of cache lines.
        (is_large && stride > 0 && stride.is_multiple_of(CACHE_ALIAS_STRIDE))
            .then(|| self.channels.next_multiple_of(32).saturating_add(16))
    }

    /// Elements of the buffer for an unpacked panel of 24-bit weights; zero if tiles unpack them.
    fn unpacked_len(&self, isa: Isa, inner: usize) -> usize {
        let unpacks =
            matches!(self.weights, PackedWeights::Fixed24(_)) && self.rows >= UNPACK_MIN_ROWS;
        if unpacks { inner.saturating_mul(panel_cols(isa, self.cols)) } else { 0 }
    }

    fn tasks(&self, inner: usize, threads: usize) -> usize {
        let macs = self.rows.saturating_mul(self.cols).saturating_mul(inner);
        let grain = if self.rows == 1 { Grain::PACKED_GEMV } else { Grain::PACKED_GEMM };
        grain.tasks(macs, threads)
    }

    /// Computes the product and stores it through `epilogue`.
    ///
    /// If `scratch` is shorter than [`Igemm::scratch_len`] but holds the unpacked weights, rows
    /// with an aliasing stride are read in place, which is slower.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run(
        &self,
        isa: Isa,
        epilogue: BiasActivation<'_>,
        out: OutputRows<'_, f32>,
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        if self.rows == 0 || self.cols == 0 {
            return Ok(());
        }
        let inner = self.check(isa, &epilogue, &out)?;
        let width = panel_cols(isa, self.cols);
        let panels = self.cols.div_ceil(width);
        let tasks = self.tasks(inner, parallel::threads(workers));
        let unpacked = self.unpacked_len(isa, inner);
        let all_unpacked = unpacked.checked_mul(tasks);
        SizeError::check_min("scratch", scratch.len(), all_unpacked)?;
        let (scratch, copy) = scratch.split_at_mut(unpacked * tasks);
        let product = self.copy_rows(copy, tasks, workers).unwrap_or(*self);
        let shared_out = SharedSlice::new(out.data);
        let part = |rows: (usize, usize), panels: (usize, usize)| tile::Block {
            product,
            inner,
            width,
            rows,
            panels,
            out: &shared_out,
            offset: out.offset,
            row_stride: out.row_stride,
            epilogue,
        };
        let is_single = self.rows == 1 && width > isa.lanes();
        let block = |task: usize| {
            // Splits by panels if there are enough, since each is then read once; otherwise by
            // rows.
            if panels >= 4 * tasks || self.rows < tasks.min(panels) {
                let share = panels.div_ceil(tasks);
                let start = panels.min(task * share);
                part((0, self.rows), (start, panels.min(start + share)))
            } else {
                let share = self.rows.div_ceil(tasks);
                let start = self.rows.min(task * share);
                part((start, self.rows.min(start + share)), (0, panels))
            }
        };
        if unpacked > 0 {
            parallel::for_each_chunk(workers, scratch, unpacked, |task, unpacked| {
                tile::run_unpacked(isa, block(task), unpacked);
            });
        } else {
            let run = if is_single { tile::run_single_row } else { tile::run };
            parallel::for_each(workers, tasks, |task| run(isa, block(task)));
        }
        Ok(())
    }

    /// The same product with rows copied to a stride that does not alias in the cache; `None` if no
    /// copy is needed, or `copy` is too short for it.
    fn copy_rows<'c>(
        &self,
        copy: &'c mut [f32],
        tasks: usize,
        workers: Option<&dyn Workers>,
    ) -> Option<Igemm<'c>>
    where
        Self: 'c,
    {
        let Self { x, channels, rows, .. } = *self;
        let (InputRows::Strided { stride: x_stride }, stride) =
            (self.input_rows, self.copy_stride()?)
        else {
            return None;
        };
        let copy = copy.get_mut(..rows.checked_mul(stride)?)?;
        let share = rows.div_ceil(tasks);
        parallel::for_each_chunk(workers, copy, share * stride, |task, copy| {
            for (row, to) in copy.chunks_exact_mut(stride).enumerate() {
                let start = (task * share + row) * x_stride;
                to[..channels].copy_from_slice(&x[start..start + channels]);
            }
        });
        Some(Igemm { x: copy, input_rows: InputRows::Strided { stride }, ..*self })
    }

    /// Checks all slices but the scratch buffer, and returns the inner dimension.
    fn check(
        &self,
        isa: Isa,
        epilogue: &BiasActivation<'_>,
        out: &OutputRows<'_, f32>,
    ) -> Result<usize, SizeError> {
        if let InputRows::Indirect { .. } = self.input_rows {
            SizeError::check_min("zeros", self.zeros.len(), Some(self.channels))?;
        }
        let inner = self.input_rows.check(isa, self.rows, self.channels, self.x.len())?;
        let shape = WeightShape { inner, cols: self.cols };
        match self.weights {
            PackedWeights::F32(all) => {
                SizeError::check_min("weights", all.len(), packed_len(isa, shape))?;
            }
            PackedWeights::Half(_, all) => {
                SizeError::check_min("weights", all.len(), HalfFormat::packed_len(isa, shape))?;
            }
            PackedWeights::Fixed24(all) => all.check(isa, shape)?,
        }
        out.check(self.rows, self.cols)?;
        let padded_cols = self.cols.next_multiple_of(panel_cols(isa, self.cols));
        SizeError::check_min("bias", epilogue.bias.len(), Some(padded_cols))?;
        Ok(inner)
    }
}

/// Largest offset that is not [`PADDING_OFFSET`]; zero if there is none.
pub(crate) fn max_offset(isa: Isa, offsets: &[u32]) -> usize {
    // Padding wraps to zero.
    let max = |max: u32, offset: &u32| max.max(offset.wrapping_add(1));
    let end = isa.call(|| offsets.iter().fold(0, max));
    (end as usize).saturating_sub(1)
}

impl InputRows<'_> {
    /// Checks that every run is inside an input of `x_len` elements, and returns the inner
    /// dimension. `rows` is positive.
    pub(crate) fn check(
        &self,
        isa: Isa,
        rows: usize,
        channels: usize,
        x_len: usize,
    ) -> Result<usize, SizeError> {
        let (last, taps) = match *self {
            Self::Strided { stride } => ((rows - 1).checked_mul(stride), 1),
            Self::Indirect { offsets, taps } => {
                SizeError::check_exact("offsets", offsets.len(), rows.checked_mul(taps))?;
                (Some(max_offset(isa, offsets)), taps)
            }
        };
        let end = last.and_then(|last| last.checked_add(channels));
        SizeError::check_min("x", x_len, end)?;
        channels.checked_mul(taps).ok_or(SizeError::Overflow { slice: "weights" })
    }
}
