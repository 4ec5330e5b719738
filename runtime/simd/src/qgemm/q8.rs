//! GEMM of int8 rows with prepacked int8 weights, dense or through an indirection buffer.
//!
//! int32 accumulators are exact. Products are summed in groups that one instruction multiplies and
//! adds:
//!
//! - Pairs: input rows are widened to 16 bits, minus the zero point. Weights are widened when they
//!   are loaded.
//! - Quads ([`Simd::HAS_DOT4`](crate::Simd::HAS_DOT4)): input rows stay in 8 bits and become
//!   unsigned. The zero point and the offset are compensated through the sums of the weight
//!   columns, which precede each panel.
//!
//! Columns of a panel are interleaved ([`Int::interleave_i16`](crate::Int::interleave_i16)), the
//! order in which int8 results are stored fastest. A last panel of at most half the columns is narrow:
//! one vector of columns ([`Int::join_halves`](crate::Int::join_halves)) in place of two.

mod tile;

use afferent_core::Workers;

pub(crate) use self::tile::{column_sum_bytes, dot4_offset, group_len};
use crate::{
    Isa, SizeError,
    epilogue::Epilogue,
    igemm::{InputRows, OutputRows, PADDING_OFFSET, WeightShape},
    parallel::{self, Grain, SharedSlice},
};

/// Zero point of the input.
#[derive(Debug, Clone, Copy)]
pub enum ZeroPoint<'d> {
    /// One for all rows.
    PerTensor(i8),
    /// One per row (dynamic quantization per token).
    PerRow(&'d [i8]),
}

/// GEMM of int8 rows with packed int8 weights.
#[derive(Debug, Clone, Copy)]
pub struct Q8Gemm<'d> {
    /// Input.
    pub x: &'d [i8],
    /// True if `x` was written by [`prepare`]. Rows are then read where they are; they have no padding, and
    /// [`supports_prepared`] returns true.
    pub is_prepared: bool,
    /// Zero point of the input. Padding counts as the zero point.
    pub zero_point: ZeroPoint<'d>,
    /// Location of the rows in `x`.
    pub input_rows: InputRows<'d>,
    /// Rows of the output.
    pub rows: usize,
    /// Elements per run.
    pub channels: usize,
    /// Weights, packed by [`pack`] for an inner dimension of `taps * channels`.
    pub weights: &'d [i8],
    /// Columns of the output.
    pub cols: usize,
}

/// Columns per panel of packed weights, but for a narrow last one.
pub fn panel_cols(isa: Isa) -> usize {
    2 * isa.lanes()
}

/// Column of a panel of `width` columns that is stored at position `index`.
pub(crate) fn interleaved_column(width: usize, index: usize) -> usize {
    let lanes = width / 2;
    let (half, lane) = (index / lanes, index % lanes);
    lane / 4 * 8 + half * lanes.min(4) + lane % 4
}

/// Columns of a panel that stands for `left` columns of the output.
pub(crate) fn panel_width(isa: Isa, left: usize) -> usize {
    if left <= isa.lanes() { isa.lanes() } else { panel_cols(isa) }
}

/// Column of a panel of `width` columns that is stored at position `index`.
fn stored_column(isa: Isa, width: usize, index: usize) -> usize {
    let (lanes, half) = (isa.lanes(), isa.lanes() / 2);
    match width {
        _ if width > lanes => interleaved_column(width, index),
        // The first halves of two vectors, or one vector.
        _ if lanes <= 4 => index,
        _ if index < half => interleaved_column(2 * lanes, index),
        _ => interleaved_column(2 * lanes, lanes + index - half),
    }
}

/// Interleaves per-column parameters like the packed weights, with zeros up to whole panels.
///
/// # Panics
/// If `to` is shorter than whole panels.
pub fn interleave<T: Copy + Default>(isa: Isa, columns: &[T], to: &mut [T]) {
    let width = panel_cols(isa);
    for (columns, to) in columns.chunks(width).zip(to.chunks_exact_mut(width)) {
        for (index, to) in to.iter_mut().enumerate() {
            *to = columns.get(interleaved_column(width, index)).copied().unwrap_or_default();
        }
    }
}

/// Length of packed weights in bytes; `None` if it overflows.
pub fn packed_len(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<usize> {
    let column_len = inner.checked_next_multiple_of(group_len(isa))?;
    let column_len = column_len.checked_add(tile::column_sum_len(isa))?;
    let width = panel_cols(isa);
    let rest = cols % width;
    let last = if rest == 0 { 0 } else { panel_width(isa, rest) };
    (cols - rest).checked_add(last)?.checked_mul(column_len)
}

/// Packs weights into panels. `column(col, k, to)` writes weights of a column to `to`, from weight
/// `k` on.
///
/// # Panics
/// If `to` is shorter than [`packed_len`].
pub fn pack(
    isa: Isa,
    WeightShape { inner, cols }: WeightShape,
    mut column: impl FnMut(usize, usize, &mut [i8]),
    to: &mut [i8],
) {
    let (width, group_len, sum_len) = (panel_cols(isa), group_len(isa), tile::column_sum_len(isa));
    let size = width * (sum_len + inner.next_multiple_of(group_len));
    for (panel, to) in to.chunks_mut(size.max(1)).enumerate().take(cols.div_ceil(width)) {
        let first_col = panel * width;
        let width = panel_width(isa, cols - first_col);
        let (sums, to) = to.split_at_mut(width * sum_len);
        for index in 0..width {
            let (col, mut sum) = (first_col + stored_column(isa, width, index), 0_i32);
            for (first, to) in (0..inner).step_by(PACK_LEN).zip(to.chunks_mut(PACK_LEN * width)) {
                let mut part = [0; PACK_LEN];
                let len = PACK_LEN.min(inner - first);
                if col < cols {
                    column(col, first, &mut part[..len]);
                }
                sum += part.iter().copied().map(i32::from).sum::<i32>();
                match group_len {
                    4 => scatter_groups::<4>(&part, to, index, width),
                    _ => scatter_groups::<2>(&part, to, index, width),
                }
            }
            if sum_len > 0 {
                let sum = sum.to_ne_bytes().map(u8::cast_signed);
                sums[sum_len * index..][..sum_len].copy_from_slice(&sum);
            }
        }
    }
}

/// Weights of a column that are packed at a time: a multiple of the group length.
const PACK_LEN: usize = 256;

/// Writes groups of `G` weights to every `width`-th group of `to`, from group `index` on.
fn scatter_groups<const G: usize>(weights: &[i8], to: &mut [i8], index: usize, width: usize) {
    let groups = to.as_chunks_mut::<G>().0.iter_mut().skip(index).step_by(width);
    weights.as_chunks::<G>().0.iter().zip(groups).for_each(|(group, to)| *to = *group);
}

/// True if [`Q8Gemm`] can read runs of `channels` elements from a prepared input.
pub fn supports_prepared(isa: Isa, channels: usize) -> bool {
    group_len(isa) == 4 && channels.is_multiple_of(4)
}

/// Writes `x` to `to` as [`Q8Gemm`] multiplies it, if [`supports_prepared`] returns true.
pub fn prepare(isa: Isa, x: &[i8], to: &mut [i8]) {
    let offset = dot4_offset(isa).cast_signed();
    isa.call(|| x.iter().zip(to).for_each(|(x, to)| *to = x ^ offset));
}

/// Scratch buffer of [`Q8Gemm::run`] for `rows` rows on `threads` threads, in 32-bit words.
pub fn scratch_len(isa: Isa, shape: WeightShape, rows: usize, threads: usize) -> usize {
    tile::block_rows(isa, shape, rows) * shape.inner.div_ceil(group_len(isa)) * threads.max(1)
}

impl Q8Gemm<'_> {
    /// Computes the product and stores it through `epilogue`. `scratch` holds [`scratch_len`]
    /// words, or none for a prepared input.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run<E: Epilogue>(
        &self,
        isa: Isa,
        epilogue: &E,
        out: OutputRows<'_, E::Out>,
        scratch: &mut [i32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        if self.rows == 0 || self.cols == 0 {
            return Ok(());
        }
        let shape = WeightShape { inner: self.check(isa)?, cols: self.cols };
        let WeightShape { inner, .. } = shape;
        let width = panel_cols(isa);
        SizeError::check_min("weights", self.weights.len(), packed_len(isa, shape))?;
        out.check(self.rows, self.cols)?;
        epilogue.check(self.rows, self.cols.next_multiple_of(width))?;
        let panels = self.cols.div_ceil(width);
        let block_rows = tile::block_rows(isa, shape, self.rows);
        let macs = self.rows.saturating_mul(self.cols).saturating_mul(inner);
        let tasks = Grain::PACKED_GEMM.tasks(macs, parallel::threads(workers));
        let words = if self.is_prepared { 0 } else { inner.div_ceil(group_len(isa)) };
        let words = block_rows.checked_mul(words);
        let words = words.ok_or(SizeError::Overflow { slice: "scratch" })?;
        SizeError::check_min("scratch", scratch.len(), words.checked_mul(tasks))?;
        let shared_out = SharedSlice::new(out.data);
        let scratch = SharedSlice::new(scratch);
        // Splits by rows if there are enough, otherwise by panels.
        let (mut share, mut unit, mut all) =
            (self.rows.div_ceil(tasks), tile::max_rows(isa), self.rows);
        let by_rows = share >= 4 * unit || panels < tasks;
        if !by_rows {
            (share, unit, all) = (panels.div_ceil(tasks), 1, panels);
        }
        let share = share.next_multiple_of(unit);
        parallel::for_each(workers, tasks, |task| {
            let part = (all.min(task * share), all.min((task + 1) * share));
            let (rows, panels) = if by_rows { (part, (0, panels)) } else { ((0, self.rows), part) };
            tile::run(
                isa,
                tile::Block {
                    product: *self,
                    inner,
                    width,
                    rows,
                    block_rows,
                    panels,
                    scratch: &scratch,
                    scratch_start: task * words,
                    out: &shared_out,
                    offset: out.offset,
                    row_stride: out.row_stride,
                    epilogue,
                },
            );
        });
        Ok(())
    }

    /// Checks the input, and returns the inner dimension.
    fn check(&self, isa: Isa) -> Result<usize, SizeError> {
        if let ZeroPoint::PerRow(all) = self.zero_point {
            SizeError::check_min("zero_point", all.len(), Some(self.rows))?;
        }
        if self.is_prepared {
            let is_supported = supports_prepared(isa, self.channels)
                && matches!(self.input_rows, InputRows::Indirect { offsets, .. }
                    if !offsets.contains(&PADDING_OFFSET));
            SizeError::check_parameter("input_rows", "indirect, without padding", is_supported)?;
        }
        self.input_rows.check(isa, self.rows, self.channels, self.x.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_is_a_permutation() {
        for lanes in [1, 4, 8, 16] {
            let mut columns: Vec<usize> =
                (0..2 * lanes).map(|index| interleaved_column(2 * lanes, index)).collect();
            columns.sort_unstable();
            assert!(columns.into_iter().eq(0..2 * lanes), "{lanes} lanes");
        }
    }
}
