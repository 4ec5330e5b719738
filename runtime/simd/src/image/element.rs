//! Element types of outputs.

use afferent_core::{bf16, f16};

/// Element of an output: `f32`, `f16`, `bf16` or `u8`.
pub trait Element: Copy + sealed::Sealed {
    /// Converts a normalized value to the nearest `f16` or `bf16`, or to the nearest integer from 0 to
    /// 255; ties are rounded to even.
    fn from_f32(value: f32) -> Self;

    /// The elements themselves, if they are `f32`.
    fn as_f32(_out: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    /// Converts as many values as there are elements.
    #[inline(always)]
    fn convert(values: &[f32], out: &mut [Self]) {
        for (value, out) in values.iter().zip(out) {
            *out = Self::from_f32(*value);
        }
    }

    /// Converts the values of three channels, pixel after pixel, until `out` is full.
    #[inline(always)]
    fn interleave([a, b, c]: [&[f32]; 3], out: &mut [Self]) {
        let pixels = out.as_chunks_mut::<3>().0;
        for (((a, b), c), out) in a.iter().zip(b).zip(c).zip(pixels) {
            *out = [*a, *b, *c].map(Self::from_f32);
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
    impl Sealed for u8 {}
}

impl Element for f32 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    fn as_f32(out: &mut [Self]) -> Option<&mut [f32]> {
        Some(out)
    }
}

impl Element for f16 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        // Without branches, so that loops are vectorized; `f16::from_f32` is not.
        let bits = value.to_bits();
        let (sign, size) = (bits & 0x8000_0000, bits & 0x7fff_ffff);
        // Subnormal: the sum has the value as its lowest bits.
        let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        // Normal: the exponent changes its bias, and half a unit less one bit rounds to even.
        let odd = (size >> 13) & 1;
        let normal = size.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
        let large = if size > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        let finite = if size < 0x3880_0000 { small } else { normal };
        let half = if size < 0x4780_0000 { finite } else { large };
        Self::from_bits((half | sign >> 16) as u16)
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        // Without branches, so that loops are vectorized. Half a unit less one bit rounds to even.
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let nan = bits >> 16 | 0x40;
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        Self::from_bits(if is_nan { nan } else { rounded } as u16)
    }
}

impl Element for u8 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        // From 2^23 on, the lowest bits of a number are the integer.
        const INTEGERS: f32 = 8_388_608.0;
        (value.clamp(0.0, 255.0) + INTEGERS).to_bits() as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_the_library() {
        let check = |value: f32| {
            let (found, wanted) = (<f16 as Element>::from_f32(value), f16::from_f32(value));
            let is_same = found.to_bits() == wanted.to_bits() || (found.is_nan() && value.is_nan());
            assert!(is_same, "{value}: {found} instead of {wanted}");
        };
        for half in 0..=u16::MAX {
            let value = f16::from_bits(half).to_f32();
            let next = f16::from_bits(half.wrapping_add(1)).to_f32();
            for value in [value, (value + next) / 2.0] {
                let bits = value.to_bits();
                for bits in [bits, bits.wrapping_add(1), bits.wrapping_sub(1)] {
                    check(f32::from_bits(bits));
                }
            }
        }
        for value in [65_504.0, 65_519.0, 65_520.0, 65_536.0, 1e30, 1e-30, f32::MIN_POSITIVE] {
            check(value);
            check(-value);
        }
    }

    #[test]
    fn brain_floats_are_those_of_the_library() {
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                let (found, wanted) = (<bf16 as Element>::from_f32(value), bf16::from_f32(value));
                let is_same =
                    found.to_bits() == wanted.to_bits() || (found.is_nan() && value.is_nan());
                assert!(is_same, "{value}: {found} instead of {wanted}");
            }
        }
    }

    #[test]
    fn integers_are_rounded_and_limited() {
        for (value, expected) in
            [(-1.0, 0), (0.49, 0), (0.5, 0), (1.5, 2), (254.5, 254), (254.51, 255), (1e9, 255)]
        {
            assert_eq!(<u8 as Element>::from_f32(value), expected, "{value}");
        }
    }
}
