//! Products with the DSP extension of Armv7E-M: two multiplications in an instruction.

use super::super::{dsp, product::Filters};

pub(crate) const ROWS: usize = 2;

/// Two rows of 16-bit elements.
pub(crate) fn packed_words(len: usize) -> usize {
    len / 4 * 4
}

/// As [`Filters::multiply`]. Each packed group has four elements of the first row, then four of
/// the second. Weights are widened to the same order, 0, 2, 1, 3.
pub(crate) fn multiply(
    filters: &Filters<'_>,
    rows: [&[i8]; ROWS],
    targets: [usize; ROWS],
    out: &mut [i8],
    packed: &mut [u32],
) {
    let (groups, _) = packed.as_chunks_mut::<4>();
    let groups = groups.get_mut(..filters.len / 4).unwrap_or_default();
    let offset = dsp::both_halves(filters.input_offset);
    for (group, (a, b)) in groups.iter_mut().zip(words(rows[0]).zip(words(rows[1]))) {
        let [a, b] = [dsp::widen(offset, a), dsp::widen(offset, b)];
        *group = [a[0], a[1], b[0], b[1]];
    }
    // The last row of an odd number is its own partner.
    let is_repeated = targets[0] == targets[1];
    let row_bias = rows.map(|row| filters.row_bias(row));
    let (rest, channels) = (filters.len / 4 * 4, filters.channels());
    let tails = rows.map(|row| row.get(rest..).unwrap_or_default());
    for (pair, both) in filters.weights.chunks((2 * filters.len).max(1)).enumerate() {
        let (first, second) = both.split_at_checked(filters.len).unwrap_or((both, both));
        // The last filter of an odd number is its own partner.
        let second = if second.is_empty() { first } else { second };
        let sums = if is_repeated {
            [dsp::dot_1x2(groups, first, second); ROWS]
        } else {
            dsp::dot_2x2(groups, first, second)
        };
        for (part, weights) in [first, second].into_iter().enumerate() {
            let channel = 2 * pair + part;
            if channel >= channels {
                break;
            }
            let (bias, requantizer) = (filters.bias(channel), filters.requantizer(channel));
            for row in 0..if is_repeated { 1 } else { ROWS } {
                let mut sum = sums[row][part].wrapping_add(bias).wrapping_add(row_bias[row]);
                if rest < filters.len {
                    sum = sum.wrapping_add(filters.tail(tails[row], weights, rest));
                }
                if let Some(out) = out.get_mut(targets[row] + channel) {
                    *out = filters.output.quantize(requantizer.apply(sum));
                }
            }
        }
    }
}

impl Filters<'_> {
    /// Sum of the products after the elements of whole groups.
    #[inline(never)]
    fn tail(&self, row: &[i8], weights: &[i8], start: usize) -> i32 {
        let weights = weights.get(start..).unwrap_or_default();
        let product = |(&x, &w): (&i8, &i8)| (i32::from(x) + self.input_offset) * i32::from(w);
        row.iter().zip(weights).map(product).fold(0, i32::wrapping_add)
    }
}

/// Words of four elements. Elements after the last whole word are left out.
#[inline]
fn words(row: &[i8]) -> impl Iterator<Item = u32> {
    let (words, _) = row.as_chunks::<4>();
    words.iter().map(|&word| u32::from_le_bytes(word.map(|x| x as u8)))
}
