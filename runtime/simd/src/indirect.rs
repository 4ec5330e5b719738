//! Products of packed weights with rows of numbers that are found by their places, as convolutions
//! over channels that lie together need them.
//!
//! A row of the product is a sum over taps; a tap is a run of `channels` numbers of the input, or
//! of zeros. Weights are packed once, in panels as wide as a tile.

mod fixed;
mod halves;
mod stored;
mod tile;

use afferent_core::Workers;

use crate::{Isa, parallel};
pub use fixed::Fixed;
pub use halves::Half;
pub use tile::Biased;

/// The place of a tap that is all zeros.
pub const ZEROS: u32 = u32::MAX;

/// The least multiplications that are worth another thread.
const WORTH: usize = 1 << 18;

/// The same of a single row, which takes as long as its weights take to be read.
const WORTH_SINGLE: usize = 1 << 15;

/// From so many rows on, weights of 24 bits are unpacked once for all of them, not for each tile.
const MANY: usize = 15;

/// Rows of the input so many numbers apart, or a multiple, lie in the same lines of the first-level
/// cache.
const CROWDED: usize = 1024;

/// More rows than a line of the first-level cache has ways.
const MORE_THAN_WAYS: usize = 9;

/// The least columns that are worth a copy of the rows.
const WORTH_COPY: usize = 64;

/// Where the taps of each row are.
#[derive(Debug, Clone, Copy)]
pub enum Places<'d> {
    /// One tap a row, rows so far apart.
    Rows {
        /// From the first number of a row to that of the next.
        step: usize,
    },
    /// The first number of each tap of each row, or [`ZEROS`].
    Taps {
        /// Places, `taps` for each row.
        at: &'d [u32],
        /// Taps of a row.
        taps: usize,
    },
}

/// A product of rows with packed weights.
#[derive(Debug, Clone, Copy)]
pub struct Indirect<'d> {
    /// The input.
    pub x: &'d [f32],
    /// At least as many zeros as a tap is long.
    pub zeros: &'d [f32],
    /// Where the taps are.
    pub places: Places<'d>,
    /// Rows of the product.
    pub rows: usize,
    /// Numbers of a tap.
    pub channels: usize,
    /// Packed for as many products a column as a row has numbers.
    pub weights: Weights<'d>,
    /// Columns of the product.
    pub cols: usize,
    /// Whether a single row begins with the last weights, which may still be in the cache since the
    /// last product.
    pub from_end: bool,
}

/// Packed weights.
#[derive(Debug, Clone, Copy)]
pub enum Weights<'d> {
    /// Numbers, by [`pack`].
    Numbers(&'d [f32]),
    /// Numbers that 16 bits can hold, by [`Half::pack`]: a single row takes as long as its weights
    /// take to be read.
    Halves(Half, &'d [u32]),
    /// Numbers rounded to 24 bits, by [`Fixed::pack`].
    Fixed(Fixed<'d>),
}

/// Where a product goes: row `i` to `data[at + i * step..]`.
#[derive(Debug)]
pub struct Place<'o, T> {
    /// The elements.
    pub data: &'o mut [T],
    /// The first element.
    pub at: usize,
    /// Step between rows.
    pub step: usize,
}

/// Columns of a panel.
pub fn panel(isa: Isa, cols: usize) -> usize {
    let lanes = isa.lanes();
    if cols <= lanes { lanes } else { 2 * lanes }
}

/// Numbers that packed weights take; `None` when that overflows.
pub fn packed_len(isa: Isa, inner: usize, cols: usize) -> Option<usize> {
    cols.checked_next_multiple_of(panel(isa, cols))?.checked_mul(inner)
}

/// Packs weights: `weight(k, col)` for each number `k` of a row and each column.
///
/// # Panics
/// When `to` is shorter than [`packed_len`].
pub fn pack(
    isa: Isa,
    (inner, cols): (usize, usize),
    weight: impl Fn(usize, usize) -> f32,
    to: &mut [f32],
) {
    let width = panel(isa, cols);
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

/// As [`pack`], of columns whose weights lie one after the other.
///
/// # Panics
/// When a column is shorter than `inner`, or `to` than [`packed_len`].
pub fn pack_columns<'w>(
    isa: Isa,
    sizes: (usize, usize),
    column: impl Fn(usize) -> &'w [f32],
    to: &mut [f32],
) {
    match panel(isa, sizes.1) {
        32 => pack_panels::<32>(sizes, column, to),
        16 => pack_panels::<16>(sizes, column, to),
        8 => pack_panels::<8>(sizes, column, to),
        4 => pack_panels::<4>(sizes, column, to),
        _ => pack(isa, sizes, |k, col| column(col)[k], to),
    }
}

/// [`pack_columns`] in panels of `W` columns.
fn pack_panels<'w, const W: usize>(
    (inner, cols): (usize, usize),
    column: impl Fn(usize) -> &'w [f32],
    to: &mut [f32],
) {
    /// Numbers of a column that are written at a time, so that both sides stay in the cache.
    const TILE: usize = 16;
    for (panel, to) in to.chunks_mut((W * inner).max(1)).enumerate().take(cols.div_ceil(W)) {
        let count = W.min(cols - panel * W);
        let (tiles, rest) = to.as_chunks_mut::<W>().0.as_chunks_mut::<TILE>();
        for col in 0..count {
            let last = column(panel * W + col)[..inner].as_chunks::<TILE>().1;
            last.iter().zip(&mut *rest).for_each(|(from, to)| to[col] = *from);
        }
        for (tile, to) in tiles.iter_mut().enumerate() {
            for col in 0..count {
                let from = &column(panel * W + col)[..inner].as_chunks::<TILE>().0[tile];
                from.iter().zip(&mut *to).for_each(|(from, to)| to[col] = *from);
            }
        }
    }
}

impl Indirect<'_> {
    /// Numbers of scratch memory that [`Indirect::write`] takes on `threads` threads.
    pub fn scratch_len(&self, isa: Isa, threads: usize) -> usize {
        let taps = if let Places::Taps { taps, .. } = self.places { taps } else { 1 };
        let inner = self.channels.saturating_mul(taps);
        let unpacked = self.unpacked_len(isa, inner).saturating_mul(self.pieces(inner, threads));
        let copy = self.copy_step().map_or(0, |step| self.rows.saturating_mul(step));
        unpacked.saturating_add(copy)
    }

    /// From a row to the next of a copy whose rows do not crowd the same lines of the cache; `None`
    /// where none is needed.
    fn copy_step(&self) -> Option<usize> {
        let Places::Rows { step } = self.places else { return None };
        let worth = self.rows >= MORE_THAN_WAYS && self.cols >= WORTH_COPY;
        // An odd multiple of a line.
        (worth && step > 0 && step.is_multiple_of(CROWDED))
            .then(|| self.channels.next_multiple_of(32).saturating_add(16))
    }

    /// Numbers of a panel of weights of 24 bits, which many rows have unpacked for them.
    fn unpacked_len(&self, isa: Isa, inner: usize) -> usize {
        let unpacks = matches!(self.weights, Weights::Fixed(_)) && self.rows >= MANY;
        if unpacks { inner.saturating_mul(panel(isa, self.cols)) } else { 0 }
    }

    fn pieces(&self, inner: usize, threads: usize) -> usize {
        let work = self.rows.saturating_mul(self.cols).saturating_mul(inner);
        let worth = if self.rows == 1 { WORTH_SINGLE } else { WORTH };
        threads.min(work / worth).max(1)
    }

    /// Writes the product as `end` says; `None` when something does not fit its slice, or the
    /// scratch memory is too little for weights that have to be unpacked; nothing is written then.
    /// With less than [`Indirect::scratch_len`], rows that crowd the cache are read where they lie.
    pub fn write(
        &self,
        isa: Isa,
        end: Biased<'_>,
        out: Place<'_, f32>,
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Option<()> {
        if self.rows == 0 || self.cols == 0 {
            return Some(());
        }
        let inner = self.fits(isa)?;
        let are_there = match self.weights {
            Weights::Numbers(all) => packed_len(isa, inner, self.cols)? <= all.len(),
            Weights::Halves(_, all) => Half::packed_len(isa, inner, self.cols)? <= all.len(),
            Weights::Fixed(all) => all.fits(isa, inner, self.cols),
        };
        are_there.then_some(())?;
        let last = (self.rows - 1).checked_mul(out.step)?.checked_add(out.at)?;
        (out.step >= self.cols || self.rows == 1).then_some(())?;
        (last.checked_add(self.cols)? <= out.data.len()).then_some(())?;
        let width = panel(isa, self.cols);
        (end.bias.len() >= self.cols.next_multiple_of(width)).then_some(())?;
        let panels = self.cols.div_ceil(width);
        let pieces = self.pieces(inner, workers.map_or(1, Workers::threads));
        let unpacked = self.unpacked_len(isa, inner);
        let (scratch, copy) = scratch.split_at_mut_checked(unpacked.checked_mul(pieces)?)?;
        let product = self.copied(copy, pieces, workers).unwrap_or(*self);
        let target = parallel::Shared::new(out.data);
        let part = |rows: (usize, usize), panels: (usize, usize)| tile::Area {
            product,
            inner,
            width,
            rows,
            panels,
            out: &target,
            at: out.at,
            step: out.step,
            end,
        };
        let is_single = self.rows == 1 && width > isa.lanes();
        let area = |piece: usize| {
            // Panels when there are enough, since each is read once then; else rows, if there are.
            if panels >= 4 * pieces || self.rows < pieces.min(panels) {
                let share = panels.div_ceil(pieces);
                let from = panels.min(piece * share);
                part((0, self.rows), (from, panels.min(from + share)))
            } else {
                let share = self.rows.div_ceil(pieces);
                let from = self.rows.min(piece * share);
                part((from, self.rows.min(from + share)), (0, panels))
            }
        };
        if unpacked > 0 {
            parallel::for_each_chunk(workers, scratch, unpacked, |piece, numbers| {
                tile::run_unpacked(isa, area(piece), numbers);
            });
        } else {
            let run = if is_single { tile::run_single } else { tile::run };
            parallel::for_each(workers, pieces, |piece| run(isa, area(piece)));
        }
        Some(())
    }

    /// The same of rows that were copied, where they are to be and the copy has room.
    fn copied<'c>(
        &self,
        copy: &'c mut [f32],
        pieces: usize,
        workers: Option<&dyn Workers>,
    ) -> Option<Indirect<'c>>
    where
        Self: 'c,
    {
        let Self { x, channels, rows, .. } = *self;
        let (Places::Rows { step: apart }, step) = (self.places, self.copy_step()?) else {
            return None;
        };
        let copy = copy.get_mut(..rows.checked_mul(step)?)?;
        let share = rows.div_ceil(pieces);
        parallel::for_each_chunk(workers, copy, share * step, |piece, copy| {
            for (row, to) in copy.chunks_exact_mut(step).enumerate() {
                let from = (piece * share + row) * apart;
                to[..channels].copy_from_slice(&x[from..from + channels]);
            }
        });
        Some(Indirect { x: copy, places: Places::Rows { step }, ..*self })
    }

    /// Numbers of a row, if all of them are inside the input.
    fn fits(&self, isa: Isa) -> Option<usize> {
        if let Places::Taps { .. } = self.places {
            (self.zeros.len() >= self.channels).then_some(())?;
        }
        self.places.numbers(isa, self.rows, self.channels, self.x.len())
    }
}

/// The last of the places that are not [`ZEROS`]; the first number when there are none.
pub(crate) fn last(isa: Isa, places: &[u32]) -> Option<usize> {
    // That of zeros wraps.
    let later = |last: u32, place: &u32| last.max(place.wrapping_add(1));
    let end = isa.call(|| places.iter().fold(0, later));
    Some(usize::try_from(end).ok()?.saturating_sub(1))
}

impl Places<'_> {
    /// Numbers of each of so many rows, whose taps are so many channels, if all of them are among
    /// the first `len` of the input.
    pub(crate) fn numbers(
        &self,
        isa: Isa,
        rows: usize,
        channels: usize,
        len: usize,
    ) -> Option<usize> {
        let (last, taps) = match *self {
            Self::Rows { step } => (rows.checked_sub(1)?.checked_mul(step)?, 1),
            Self::Taps { at, taps } => {
                (at.len() == rows.checked_mul(taps)?).then_some(())?;
                (last(isa, at)?, taps)
            }
        };
        (last.checked_add(channels)? <= len).then_some(())?;
        channels.checked_mul(taps)
    }
}
