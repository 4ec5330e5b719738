//! Fixed-point multiplication of accumulators, as in CMSIS-NN.

use afferent_core::{Args, Error};

use super::arguments::{int32, invalid};

/// Ratio of two scales: `multiplier · 2^(shift - 31)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requantizer {
    pub(crate) multiplier: i32,
    /// Left shift before the product, or negative right shift after it.
    pub(crate) shift: i32,
}

impl Requantizer {
    #[inline]
    pub(crate) fn new(multiplier: i32, shift: i32) -> Self {
        Self { multiplier, shift }
    }

    /// Multiplier and shift from the arguments at `index` and `index + 1`.
    pub(crate) fn from_args(args: &Args<'_>, index: usize) -> Result<Self, Error> {
        Ok(Self::new(int32(args, index)?, int32(args, index + 1)?))
    }

    /// `value · multiplier · 2^(shift - 31)`. Rounds twice: the product half up, the right shift
    /// half away from zero. `arm_nn_requantize`.
    #[inline]
    pub(crate) fn apply(self, value: i32) -> i32 {
        #[cfg(afferent_dsp)]
        return super::dsp::requantize(value, self.multiplier, self.shift);
        #[cfg(not(afferent_dsp))]
        {
            let value = value.checked_shl(self.shift.max(0).unsigned_abs()).unwrap_or(0);
            let product = i64::from(value) * i64::from(self.multiplier);
            let right = self.shift.min(0).unsigned_abs();
            let high = (product.wrapping_add(1 << 30) >> 31) as i32;
            if right < 32 { divide_by_power_of_two(high, right) } else { 0 }
        }
    }
}

/// `dividend / 2^exponent`, rounded half away from zero. The exponent is at most 31.
#[inline]
pub(crate) fn divide_by_power_of_two(dividend: i32, exponent: u32) -> i32 {
    if exponent == 0 {
        return dividend;
    }
    let half = (1_i32 << (exponent - 1)).wrapping_add(dividend >> 31);
    // One bit more than 32 is needed only next to the largest numbers.
    match dividend.checked_add(half) {
        Some(sum) => sum >> exponent,
        None => ((i64::from(dividend) + i64::from(half)) >> exponent) as i32,
    }
}

/// Range and zero point of quantized results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputRange {
    pub(crate) zero_point: i32,
    pub(crate) min: i32,
    pub(crate) max: i32,
}

impl OutputRange {
    /// All of i8.
    pub(crate) fn full(zero_point: i32) -> Self {
        Self { zero_point, min: -128, max: 127 }
    }

    /// Range from the arguments `min` and `max`, which are i8 numbers.
    pub(crate) fn from_args(
        args: &Args<'_>,
        zero_point: i32,
        min: usize,
        max: usize,
    ) -> Result<Self, Error> {
        let bound = |index| match i8::try_from(args.int(index)?) {
            Ok(bound) => Ok(i32::from(bound)),
            Err(_) => Err(invalid(index, "an 8-bit int")),
        };
        Ok(Self { zero_point, min: bound(min)?, max: bound(max)? })
    }

    /// Adds the zero point and clamps.
    #[inline(always)]
    pub(crate) fn quantize(self, value: i32) -> i8 {
        value.wrapping_add(self.zero_point).max(self.min).min(self.max) as i8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_like_cmsis_nn() {
        let check = |value, multiplier, shift, expected| {
            assert_eq!(
                Requantizer::new(multiplier, shift).apply(value),
                expected,
                "{value} {shift}"
            );
        };
        let half = 1 << 30;
        check(5, half, 1, 5);
        check(5, half, 0, 3); // 2.5
        check(-5, half, 0, -2); // -2.5, half up
        check(6, half, -1, 2); // 3 / 2 = 1.5
        check(-6, half, -1, -2); // -1.5, away from zero
        check(i32::MAX, i32::MAX, -31, 1);
        check(i32::MIN, i32::MAX, -31, -1);
        check(1 << 20, half, -40, 0);
    }

    #[test]
    fn divides_like_wide_integers() {
        for dividend in [0, 1, -1, 7, -7, 1 << 30, -(1 << 30), i32::MAX, i32::MIN] {
            for exponent in 0..32 {
                let wide = i64::from(dividend);
                let half = if exponent == 0 { 0 } else { (1_i64 << exponent) / 2 };
                let rounded = (wide.abs() + half) >> exponent;
                let expected = if wide < 0 { -rounded } else { rounded };
                let found = divide_by_power_of_two(dividend, exponent);
                assert_eq!(i64::from(found), expected, "{dividend} {exponent}");
            }
        }
    }
}
