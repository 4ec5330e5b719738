//! Numbers that are quantised when they come: rows and pictures with a scale of their own.
//!
//! The scale is the range of the numbers and zero by 255; the zero point is nudged to an integer
//! so that the greater of the errors at both ends is the smaller one.

/// Quantises numbers to integers of 8 bits; returns what a step stands for and what zero is
/// stored as.
#[inline(always)]
pub(crate) fn quantise(x: &[f32], to: &mut [i8]) -> (f32, i32) {
    let (mut low, mut high) = ([0.0_f32; 16], [0.0_f32; 16]);
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            low[lane] = if chunk[lane] < low[lane] { chunk[lane] } else { low[lane] };
            high[lane] = if chunk[lane] > high[lane] { chunk[lane] } else { high[lane] };
        }
    }
    let low = low.into_iter().chain(rest.iter().copied()).fold(0.0, f32::min);
    let high = high.into_iter().chain(rest.iter().copied()).fold(0.0, f32::max);
    let scale = if low == high { 1.0 } else { 255.0 / (high - low) };
    let (low, high) = (low * scale, high * scale);
    let (least, most) = (-128.0, 127.0);
    let zero_point = if (least + low) + (most + high) > 0.0 { least - low } else { most - high };
    let zero_point = zero_point.clamp(least, most).round_ties_even();
    to_bytes(x, (scale, zero_point), (least, most), to);
    (1.0 / scale, zero_point as i32)
}

/// Numbers times `factor`, rounded, and `zero_point` added, as integers within bounds.
#[inline(always)]
pub(crate) fn to_bytes(
    x: &[f32],
    (factor, zero_point): (f32, f32),
    (least, most): (f32, f32),
    to: &mut [i8],
) {
    let (low, high) = (least - zero_point, most - zero_point);
    for (x, to) in x.iter().zip(to) {
        *to = rounded(within(x * factor, low, high), zero_point);
    }
}

/// `x` within bounds; NaN becomes the lower one.
#[inline(always)]
pub(crate) fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// The nearest integer, halves to the even one, and the integer `more`; all of them are small.
#[inline(always)]
pub(crate) fn rounded(x: f32, more: f32) -> i8 {
    /// Above it, numbers are integers whose last bits are those of what was added to it.
    const INTEGERS: f32 = 12_582_912.0;
    ((x + INTEGERS) + more).to_bits() as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_met() {
        let mut to = [0; 3];
        assert_eq!(quantise(&[-1.0, 0.0, 254.0], &mut to), (1.0, -127));
        assert_eq!(to, [-128, -127, 127]);
        assert_eq!(quantise(&[0.0; 3], &mut to), (1.0, 127));
        assert_eq!(to, [127; 3]);
    }
}
