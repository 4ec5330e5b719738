//! IGEMM of a single row: several panels are streamed from memory at once.

#![expect(unsafe_code, reason = "loads operands through checked pointers")]

use super::{
    Igemm, InputRows, PADDING_OFFSET,
    tile::Block,
    weights::{PanelRow, WeightFormat},
};
use crate::{Float, Routine, Simd};

/// The only row of a block, and the first row of its weights. Compiled separately from tiles, so
/// that it does not take registers from them.
pub(super) struct SingleRow<'p, 'd, W: WeightFormat>(
    pub(super) PanelRow<W>,
    pub(super) Block<'p, 'd>,
);

impl<W: WeightFormat> Routine for SingleRow<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(weights, block) = self;
        // A task without a row.
        if block.rows.0 == block.rows.1 {
            return;
        }
        let (mut panel, end) = block.panels;
        // Streams start at the first panel of a pair.
        if const { W::PAIRED } && panel % 2 == 1 && panel < end {
            block.single_row_panel(simd, weights, panel);
            panel += 1;
        }
        if const { W::PAIRED && S::REGISTERS == 32 } {
            panel = block.stream_panels::<S, W, 8>(simd, weights, panel);
        }
        panel = block.stream_panels::<S, W, 4>(simd, weights, panel);
        for panel in panel..end {
            block.single_row_panel(simd, weights, panel);
        }
    }
}

impl Block<'_, '_> {
    /// Computes groups of `N` panels from `panel` on, and returns the first panel that is left.
    #[inline(always)]
    fn stream_panels<S: Simd, W: WeightFormat, const N: usize>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
    ) -> usize {
        let groups = (self.panels.1 - panel) / N;
        for group in 0..groups {
            let group = if self.product.reverse_panels { groups - 1 - group } else { group };
            self.stream_group::<S, W, N>(simd, weights, panel + group * N);
        }
        panel + groups * N
    }

    /// Computes `N` panels from `panel` on at once.
    #[inline(always)]
    fn stream_group<S: Simd, W: WeightFormat, const N: usize>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
    ) {
        let Igemm { x, zeros, input_rows, channels, .. } = self.product;
        let row = self.rows.0;
        let mut accumulators = [[simd.zero(); 2]; N];
        for (stream, accumulators) in accumulators.iter_mut().enumerate() {
            *accumulators = self.initial_accumulators::<S, W, 2>(simd, panel + stream);
        }
        let mut b = weights.next_panel(panel).assume_first_of_pair();
        let taps = if let InputRows::Indirect { taps, .. } = input_rows { taps } else { 1 };
        for tap in 0..taps {
            let a = match input_rows {
                InputRows::Strided { stride } => x.as_ptr().wrapping_add(row * stride),
                InputRows::Indirect { offsets, taps } => match offsets[row * taps + tap] {
                    PADDING_OFFSET => zeros.as_ptr(),
                    offset => x.as_ptr().wrapping_add(offset as usize),
                },
            };
            // A copy that is used only in this loop stays in registers.
            let mut running = accumulators;
            for k in 0..channels {
                // SAFETY: `check` verified that each run is inside the input or the zeros.
                let factor = W::scale_input(simd, unsafe { *a.wrapping_add(k) });
                for (stream, accumulators) in running.iter_mut().enumerate() {
                    // SAFETY: `check` verified the length of the weights: each panel has `inner`
                    // rows of two vectors.
                    let columns = unsafe { b.next_panel(stream).load::<S, 2>(simd) };
                    for (acc, column) in accumulators.iter_mut().zip(columns) {
                        *acc = factor.mul_add(column, *acc);
                    }
                }
                b = b.next_row(1);
            }
            accumulators = running;
        }
        for (stream, accumulators) in accumulators.into_iter().enumerate() {
            self.store::<S, W, 1, 2>(simd, [accumulators], panel + stream, row);
        }
    }
}
