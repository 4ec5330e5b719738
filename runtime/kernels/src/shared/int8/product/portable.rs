//! Products without special instructions.

use super::Filters;

pub(crate) const ROWS: usize = 2;

/// Rows are not packed.
pub(crate) fn packed_words(_len: usize) -> usize {
    0
}

/// As [`Filters::multiply`].
pub(crate) fn multiply(
    filters: &Filters<'_>,
    rows: [&[i8]; ROWS],
    targets: [usize; ROWS],
    out: &mut [i8],
    _packed: &mut [u32],
) {
    let row_bias = rows.map(|row| filters.row_bias(row));
    for (channel, weights) in filters.weights.chunks_exact(filters.len).enumerate() {
        let bias = filters.bias(channel);
        let mut sums = row_bias.map(|row_bias| row_bias.wrapping_add(bias));
        for (&weight, (&a, &b)) in weights.iter().zip(rows[0].iter().zip(rows[1])) {
            let product = |x: i8| (i32::from(x) + filters.input_offset) * i32::from(weight);
            sums = [sums[0].wrapping_add(product(a)), sums[1].wrapping_add(product(b))];
        }
        let requantizer = filters.requantizer(channel);
        for (sum, target) in sums.into_iter().zip(targets) {
            if let Some(out) = out.get_mut(target + channel) {
                *out = filters.output.quantize(requantizer.apply(sum));
            }
        }
    }
}
