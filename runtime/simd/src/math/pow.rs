//! Power of `f32` numbers, computed in `f64`.

use crate::Isa;

/// Numbers computed at a time.
const BLOCK: usize = 32;

/// Writes `base[i]` to the power of `exponent[i]` to `out[i]`, up to the length of the shortest
/// slice. The maximum error is 0.51 ulp; zeros, infinities and NaN give the results of C's `powf`.
pub fn pow(isa: Isa, base: &[f32], exponent: &[f32], out: &mut [f32]) {
    isa.call(
        #[inline(always)]
        || {
            let inputs = base.chunks(BLOCK).zip(exponent.chunks(BLOCK));
            for ((base, exponent), out) in inputs.zip(out.chunks_mut(BLOCK)) {
                pow_block(base, exponent, out);
            }
        },
    );
}

#[inline(always)]
fn pow_block(base: &[f32], exponent: &[f32], out: &mut [f32]) {
    let mut has_special = false;
    for ((&x, &y), out) in base.iter().zip(exponent).zip(&mut *out) {
        *out = finite_pow(x, y);
        has_special |= is_special(x, y);
    }
    if has_special {
        for ((&x, &y), out) in base.iter().zip(exponent).zip(out) {
            if is_special(x, y) {
                *out = libm::powf(x, y);
            }
        }
    }
}

/// Returns true if [`finite_pow`] does not support an argument.
#[inline(always)]
fn is_special(x: f32, y: f32) -> bool {
    !(x.is_finite() & y.is_finite())
}

/// `x` to the power of `y`, both finite, without branches: 2^(y · log₂ |x|) with the sign of an odd
/// power.
#[inline(always)]
fn finite_pow(x: f32, y: f32) -> f32 {
    /// Adding this number rounds to an integer, which is then in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
    const MAX_ODD: f64 = 16_777_216.0; // 2²⁴; greater `f32` numbers are even
    const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;
    let (base, y) = (f64::from(x.abs()), f64::from(y));
    // Results of greater exponents are zero or infinity.
    let exponent = y * log2(base);
    let exponent = if exponent > 200.0 { 200.0 } else { exponent };
    let exponent = if exponent < -200.0 { -200.0 } else { exponent };
    let rounded = exponent + ROUND;
    let scale = f64::from_bits((rounded.to_bits() << 52).wrapping_add(ONE_BITS));
    let magnitude = exp2_fraction(exponent - (rounded - ROUND)) * scale;
    let of_zero = if y > 0.0 { 0.0 } else { f64::INFINITY };
    let of_zero = if y == 0.0 { 1.0 } else { of_zero };
    let magnitude = if base == 0.0 { of_zero } else { magnitude };
    let small = if y.abs() < MAX_ODD { y } else { 0.0 };
    let is_odd = (small + ROUND).to_bits() & 1 == 1;
    let is_integer = (small + ROUND) - ROUND == small;
    let magnitude = if x < 0.0 && !is_integer { f64::NAN } else { magnitude };
    let is_negative = x.is_sign_negative() & is_integer & is_odd;
    (if is_negative { -magnitude } else { magnitude }) as f32
}

/// log₂ of a positive normal number: e + log₂ m, where x = m · 2ᵉ and m is between √½ and √2.
#[inline(always)]
fn log2(x: f64) -> f64 {
    const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
    const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;
    const TWO_TO_52_BITS: u64 = 0x4330_0000_0000_0000;
    const TWO_TO_52: f64 = 4_503_599_627_370_496.0;
    // 2 / ln 2 · artanh(s) / s, in powers of s².
    const C: [f64; 8] = [
        2.885_390_081_777_926_8,
        0.961_796_693_925_975_6,
        0.577_078_016_355_585_4,
        0.412_198_583_111_132_4,
        0.320_598_897_975_325_2,
        0.262_308_189_252_538_8,
        0.221_953_083_213_686_67,
        0.192_359_338_785_195_1,
    ];
    let bits = x.to_bits();
    let m = f64::from_bits((bits & MANTISSA) | ONE_BITS);
    let e = f64::from_bits((bits >> 52) | TWO_TO_52_BITS) - (TWO_TO_52 + 1023.0);
    let is_large = m > core::f64::consts::SQRT_2;
    let (m, e) = (if is_large { 0.5 * m } else { m }, if is_large { e + 1.0 } else { e });
    let s = (m - 1.0) / (m + 1.0);
    e + s * polynomial(s * s, C)
}

/// 2ʳ for `r` from -½ to ½.
#[inline(always)]
fn exp2_fraction(r: f64) -> f64 {
    // ln(2)ᵏ / k!
    const C: [f64; 10] = [
        1.0,
        core::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        1.540_353_039_338_161e-4,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_97e-7,
    ];
    polynomial(r, C)
}

/// `c[0] + c[1] · x + c[2] · x² + …`, by Horner's method.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for degree in (0..N - 1).rev() {
        sum = sum * x + c[degree];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_below_an_ulp() {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for isa in Isa::available() {
            let base: Vec<f32> = (0..40_001).map(|_| f32::from_bits(next() << 7)).collect();
            let exponent: Vec<f32> = (0..base.len()).map(|_| next() as f32 / 4e5 - 20.0).collect();
            let mut out = vec![0.0; base.len()];
            pow(isa, &base, &exponent, &mut out);
            for ((&x, &y), &found) in base.iter().zip(&exponent).zip(&out) {
                let exact = f64::from(x).powf(f64::from(y));
                let rounded = exact as f32;
                if !rounded.is_finite() || !found.is_finite() {
                    let is_equal = found == rounded || (found.is_nan() && rounded.is_nan());
                    assert!(is_equal, "{isa:?}: {x:e} ^ {y}: {found:e}");
                    continue;
                }
                let ulp = f64::from(rounded.next_up() - rounded);
                let error = (f64::from(found) - exact).abs() / ulp;
                assert!(error <= 0.51, "{isa:?}: {x:e} ^ {y}: {found:e}, {error} ulp");
            }
        }
    }

    #[test]
    fn special_values() {
        let numbers = [
            0.0_f32,
            1.0,
            2.0,
            3.0,
            0.5,
            1.5,
            f32::MIN_POSITIVE / 4.0,
            f32::MAX,
            16_777_215.0,
            16_777_217.0,
            f32::INFINITY,
            f32::NAN,
        ];
        let numbers: Vec<f32> = numbers.iter().flat_map(|&x| [x, -x]).collect();
        for isa in Isa::available() {
            for &y in &numbers {
                let mut out = vec![0.0; numbers.len()];
                pow(isa, &numbers, &vec![y; numbers.len()], &mut out);
                for (&x, &found) in numbers.iter().zip(&out) {
                    let expected = x.powf(y);
                    let is_equal = found == expected
                        && found.is_sign_negative() == expected.is_sign_negative();
                    assert!(
                        is_equal || (found.is_nan() && expected.is_nan()),
                        "{isa:?}: {x:e} ^ {y:e}: {found:e}, not {expected:e}"
                    );
                }
            }
        }
    }
}
