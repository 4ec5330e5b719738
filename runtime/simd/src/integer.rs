//! Products of integers of 8 bits, summed up exactly: packed weights with rows that are found by
//! their places, weights of 4 bits, and depthwise convolutions.
//!
//! | module     | holds                                                                  |
//! |------------|------------------------------------------------------------------------|
//! | `channels` | depthwise convolutions                                                 |
//! | `end`      | what becomes of sums                                                   |
//! | `nibbles`  | products with weights of 4 bits                                        |
//! | `table`    | functions of integers of 8 bits, as tables of their results            |
//! | `tile`     | tiles of a product with weights of 8 bits                              |
//!
//! Numbers are multiplied in groups, whose products one instruction adds. Where groups are pairs, a
//! block of rows is widened to 16 bits, less what zero is stored as, and weights are widened when
//! they are read. Where they are quads ([`Simd::QUADS`](crate::Simd::QUADS)), rows stay in 8 bits,
//! without a sign; what that adds to the sums is known from the sums of the weights, which stand
//! before each panel. Columns of a panel are in zipped order
//! ([`Int::zip_halves`](crate::Int::zip_halves)), in which results of 8 bits are written fastest.

pub mod channels;
mod end;
pub mod nibbles;
pub mod table;
mod tile;

use afferent_core::Workers;

pub use self::end::{Bytes, End, Scaled};
pub(crate) use self::tile::{group, sum_bytes};
use crate::{
    Isa,
    indirect::{Place, Places},
    parallel::{self, Shared},
};

/// The least multiplications that are worth another thread.
const WORTH: usize = 1 << 18;

/// What zero is stored as.
#[derive(Debug, Clone, Copy)]
pub enum Zero<'d> {
    /// The same in all rows.
    All(i8),
    /// In each row.
    Rows(&'d [i8]),
}

/// A product of rows with packed weights.
#[derive(Debug, Clone, Copy)]
pub struct Product<'d> {
    /// The input.
    pub x: &'d [i8],
    /// What zero is stored as; taps of zeros are zero whatever it is.
    pub zero: Zero<'d>,
    /// Where the taps are.
    pub places: Places<'d>,
    /// Rows of the product.
    pub rows: usize,
    /// Numbers of a tap.
    pub channels: usize,
    /// Weights that [`pack`] made for as many numbers a column as a row has.
    pub weights: &'d [i8],
    /// Columns of the product.
    pub cols: usize,
}

/// Columns of a panel.
pub fn width(isa: Isa) -> usize {
    2 * isa.lanes()
}

/// The column of a panel of `width` columns that is at place `at` in memory.
fn column(width: usize, at: usize) -> usize {
    let lanes = width / 2;
    let (half, lane) = (at / lanes, at % lanes);
    lane / 4 * 8 + half * lanes.min(4) + lane % 4
}

/// Values of the columns in the order of packed weights, with zeros up to whole panels.
///
/// # Panics
/// When `to` is shorter than whole panels.
pub fn zip<T: Copy + Default>(isa: Isa, columns: &[T], to: &mut [T]) {
    let width = width(isa);
    for (columns, to) in columns.chunks(width).zip(to.chunks_exact_mut(width)) {
        for (at, to) in to.iter_mut().enumerate() {
            *to = columns.get(column(width, at)).copied().unwrap_or_default();
        }
    }
}

/// Integers that packed weights take; `None` when that overflows.
pub fn packed_len(isa: Isa, inner: usize, cols: usize) -> Option<usize> {
    let of_column = inner.checked_next_multiple_of(group(isa))?;
    let of_column = of_column.checked_add(tile::sum_len(isa))?;
    cols.checked_next_multiple_of(width(isa))?.checked_mul(of_column)
}

/// Packs weights: `column(col, k, to)` writes numbers of a column, from that for number `k` of a row
/// on.
///
/// # Panics
/// When `to` is shorter than [`packed_len`].
pub fn pack(
    isa: Isa,
    (inner, cols): (usize, usize),
    mut column: impl FnMut(usize, usize, &mut [i8]),
    to: &mut [i8],
) {
    let (width, group, sum_len) = (width(isa), group(isa), tile::sum_len(isa));
    let size = width * (sum_len + inner.next_multiple_of(group));
    for (panel, to) in to.chunks_mut(size.max(1)).enumerate().take(cols.div_ceil(width)) {
        let (sums, to) = to.split_at_mut(width * sum_len);
        for at in 0..width {
            let (col, mut sum) = (panel * width + self::column(width, at), 0_i32);
            for (first, to) in (0..inner).step_by(PART).zip(to.chunks_mut(PART * width)) {
                let mut part = [0; PART];
                let len = PART.min(inner - first);
                if col < cols {
                    column(col, first, &mut part[..len]);
                }
                sum += part.iter().copied().map(i32::from).sum::<i32>();
                match group {
                    4 => spread::<4>(&part, to, (at, width)),
                    _ => spread::<2>(&part, to, (at, width)),
                }
            }
            if sum_len > 0 {
                let sum = sum.to_ne_bytes().map(u8::cast_signed);
                sums[sum_len * at..][..sum_len].copy_from_slice(&sum);
            }
        }
    }
}

/// Numbers of a column that are packed at a time: whole groups.
const PART: usize = 256;

/// Writes groups of numbers to each `width`th place, from place `at` on.
fn spread<const G: usize>(numbers: &[i8], to: &mut [i8], (at, width): (usize, usize)) {
    let places = to.as_chunks_mut::<G>().0.iter_mut().skip(at).step_by(width);
    numbers.as_chunks::<G>().0.iter().zip(places).for_each(|(group, to)| *to = *group);
}

/// Words of memory that a product needs while it runs on so many threads.
pub fn scratch_len(isa: Isa, inner: usize, cols: usize, rows: usize, threads: usize) -> usize {
    tile::block_rows(isa, inner, cols, rows) * inner.div_ceil(group(isa)) * threads.max(1)
}

impl Product<'_> {
    /// Writes the product as `end` says; `None` when something does not fit its slice, and nothing
    /// is written then. `scratch` has [`scratch_len`] words.
    pub fn write<E: End>(
        &self,
        isa: Isa,
        end: &E,
        out: Place<'_, E::Out>,
        scratch: &mut [i32],
        workers: Option<&dyn Workers>,
    ) -> Option<()> {
        if self.rows == 0 || self.cols == 0 {
            return Some(());
        }
        let inner = self.fits(isa)?;
        let width = width(isa);
        (packed_len(isa, inner, self.cols)? <= self.weights.len()).then_some(())?;
        let last = (self.rows - 1).checked_mul(out.step)?.checked_add(out.at)?;
        (out.step >= self.cols || self.rows == 1).then_some(())?;
        (last.checked_add(self.cols)? <= out.data.len()).then_some(())?;
        end.fits(self.rows, self.cols.next_multiple_of(width)).then_some(())?;
        let panels = self.cols.div_ceil(width);
        let block = tile::block_rows(isa, inner, self.cols, self.rows);
        let words = block.checked_mul(inner.div_ceil(group(isa)))?;
        let work = self.rows.saturating_mul(self.cols).saturating_mul(inner);
        let pieces = workers.map_or(1, Workers::threads).min(work / WORTH).max(1);
        (words.checked_mul(pieces)? <= scratch.len()).then_some(())?;
        let target = Shared::new(out.data);
        let scratch = Shared::new(scratch);
        // Rows when there are enough, else panels.
        let (mut share, mut unit, mut all) =
            (self.rows.div_ceil(pieces), tile::rows(isa), self.rows);
        let by_rows = share >= 4 * unit || panels < pieces;
        if !by_rows {
            (share, unit, all) = (panels.div_ceil(pieces), 1, panels);
        }
        let share = share.next_multiple_of(unit);
        parallel::for_each(workers, pieces, |piece| {
            let part = (all.min(piece * share), all.min((piece + 1) * share));
            let (rows, panels) = if by_rows { (part, (0, panels)) } else { ((0, self.rows), part) };
            tile::run(
                isa,
                tile::Area {
                    product: *self,
                    inner,
                    width,
                    rows,
                    block,
                    panels,
                    scratch: (&scratch, piece * words),
                    out: &target,
                    at: out.at,
                    step: out.step,
                    end,
                },
            );
        });
        Some(())
    }

    /// Numbers of a row, if all of them are inside the input.
    fn fits(&self, isa: Isa) -> Option<usize> {
        if let Zero::Rows(all) = self.zero {
            (all.len() >= self.rows).then_some(())?;
        }
        self.places.numbers(isa, self.rows, self.channels, self.x.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_a_panel_has_one_place() {
        for lanes in [1, 4, 8, 16] {
            let mut columns: Vec<usize> = (0..2 * lanes).map(|at| column(2 * lanes, at)).collect();
            columns.sort_unstable();
            assert!(columns.into_iter().eq(0..2 * lanes), "{lanes} lanes");
        }
    }
}
