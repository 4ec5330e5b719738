//! Sums of quantized tensors.

use super::{
    broadcast::each,
    requantize::{OutputRange, Requantizer},
};

#[cfg(afferent_mve)]
mod mve;

/// Fraction bits of an operand.
const FRACTION_BITS: u32 = 20;

/// Parameters of a sum.
pub(crate) struct Sum {
    pub(crate) zero_points: [i32; 2],
    pub(crate) scales: [Requantizer; 2],
    pub(crate) scale: Requantizer,
    pub(crate) range: OutputRange,
}

impl Sum {
    /// Adds `a` and `b`, which have as many elements as `out`.
    pub(crate) fn run(&self, a: &[i8], b: &[i8], out: &mut [i8]) {
        #[cfg(afferent_mve)]
        if self.scale.shift <= 0 {
            mve::add(self, a, b, out);
            return;
        }
        each(a, b, out, |a, b| {
            let operand = |at: usize, x: i8| {
                let x = i32::from(x).wrapping_sub(self.zero_points[at]);
                self.scales[at].apply(x.wrapping_shl(FRACTION_BITS))
            };
            self.range.quantize(self.scale.apply(operand(0, a).wrapping_add(operand(1, b))))
        });
    }
}
