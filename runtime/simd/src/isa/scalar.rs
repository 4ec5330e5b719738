//! Scalar fallback: plain Rust, which the compiler may vectorize with the baseline features of the
//! target.

#![expect(unsafe_code, reason = "loads and stores through pointers")]

use core::{
    array,
    ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub},
};

use crate::{Float, Int, Mask, Simd};

/// Lanes of a vector: one on microcontrollers, which have no vector registers.
const LANES: usize = if cfg!(target_pointer_width = "64") { 4 } else { 1 };

/// Token: no instructions beyond the baseline of the target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Scalar;

/// `f32` lanes.
#[derive(Clone, Copy)]
pub struct F32s([f32; LANES]);

/// `i32` lanes.
#[derive(Clone, Copy)]
pub struct I32s([i32; LANES]);

/// Booleans.
#[derive(Clone, Copy)]
pub struct Bools([bool; LANES]);

impl Simd for Scalar {
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    const HAS_DOT4: bool = true;
    type F32 = F32s;
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn splat(self, value: f32) -> F32s {
        F32s([value; LANES])
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> I32s {
        I32s([value; LANES])
    }
    #[inline(always)]
    unsafe fn load_ptr(self, ptr: *const f32) -> F32s {
        // SAFETY: the caller guarantees `LANES` values.
        F32s(unsafe { ptr.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_partial_ptr(self, ptr: *const f32, len: usize) -> F32s {
        let mut all = [0.0; LANES];
        for (lane, to) in all.iter_mut().enumerate().take(len) {
            // SAFETY: the caller guarantees `len` values.
            *to = unsafe { ptr.wrapping_add(lane).read() };
        }
        F32s(all)
    }
    #[inline(always)]
    unsafe fn store_ptr(self, value: F32s, ptr: *mut f32) {
        // SAFETY: the caller guarantees `LANES` elements.
        unsafe { ptr.cast::<[f32; LANES]>().write_unaligned(value.0) }
    }
    #[inline(always)]
    unsafe fn store_partial_ptr(self, value: F32s, ptr: *mut f32, len: usize) {
        for (lane, value) in value.0.into_iter().enumerate().take(len) {
            // SAFETY: the caller guarantees `len` elements.
            unsafe { ptr.wrapping_add(lane).write(value) }
        }
    }
    #[inline(always)]
    unsafe fn store_i8_ptr(self, value: I32s, ptr: *mut i8, len: usize) {
        let all = value.0;
        for (lane, value) in all.into_iter().enumerate().take(len) {
            let value = value.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8;
            // SAFETY: the caller guarantees `len` elements.
            unsafe { ptr.wrapping_add(lane).write(value) }
        }
    }
    #[inline(always)]
    fn add_dot4(self, sum: I32s, a: I32s, b: I32s) -> I32s {
        let products = zip(a.0, b.0, |a, b| {
            let (a, b) = (a.to_ne_bytes(), b.to_ne_bytes().map(u8::cast_signed));
            a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(b)).sum()
        });
        I32s(zip(sum.0, products, i32::wrapping_add))
    }
    #[inline(always)]
    fn transpose(self, tile: &mut [F32s]) {
        let Some(tile) = tile.first_chunk_mut::<LANES>() else { return };
        let rows = *tile;
        for (i, to) in tile.iter_mut().enumerate() {
            to.0 = rows.map(|row| row.0[i]);
        }
    }
    #[inline(always)]
    fn deinterleave(self, values: [F32s; 2]) -> [F32s; 2] {
        values
    }
}

#[inline(always)]
fn zip<A: Copy, B>(a: [A; LANES], b: [A; LANES], f: impl Fn(A, A) -> B) -> [B; LANES] {
    array::from_fn(|lane| f(a[lane], b[lane]))
}

/// Joins the low 16 bits of both.
#[inline(always)]
fn halves(low: i32, high: i32) -> i32 {
    (low & 0xffff) | (high << 16)
}

macro_rules! operator {
    ($type:ident, $trait:ident, $name:ident, $f:expr) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(zip(self.0, other.0, $f))
            }
        }
    };
}

operator!(F32s, Add, add, |a, b| a + b);
operator!(F32s, Sub, sub, |a, b| a - b);
operator!(F32s, Mul, mul, |a, b| a * b);
operator!(F32s, Div, div, |a, b| a / b);
operator!(I32s, Add, add, |a, b| a.wrapping_add(b));
operator!(I32s, Sub, sub, |a, b| a.wrapping_sub(b));
operator!(I32s, Mul, mul, |a, b| a.wrapping_mul(b));
operator!(I32s, BitAnd, bitand, |a, b| a & b);
operator!(I32s, BitOr, bitor, |a, b| a | b);
operator!(Bools, BitAnd, bitand, |a, b| a & b);
operator!(Bools, BitOr, bitor, |a, b| a | b);

impl Neg for F32s {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0.map(|x| -x))
    }
}

impl Not for Bools {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(self.0.map(|x| !x))
    }
}

impl Float for F32s {
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self * factor + addend
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(zip(self.0, other.0, |a, b| if a < b { a } else { b }))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(zip(self.0, other.0, |a, b| if a > b { a } else { b }))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.map(|x| f32::from_bits(x.to_bits() & 0x7fff_ffff)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(libm::sqrtf))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(zip(self.0, other.0, |a, b| a < b))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Bools {
        Bools(zip(self.0, other.0, |a, b| a <= b))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(zip(self.0, other.0, |a, b| a == b))
    }
    #[inline(always)]
    fn round_to_i32(self) -> I32s {
        I32s(self.0.map(|x| libm::rintf(x) as i32))
    }
    #[inline(always)]
    fn to_bits(self) -> I32s {
        I32s(self.0.map(|x| x.to_bits().cast_signed()))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        self.0.into_iter().sum()
    }
    #[inline(always)]
    fn min_lane(self) -> f32 {
        self.0.into_iter().fold(f32::INFINITY, |a, b| if b < a { b } else { a })
    }
    #[inline(always)]
    fn max_lane(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }
}

impl Int for I32s {
    type F32 = F32s;
    type Mask = Bools;

    #[inline(always)]
    fn to_f32(self) -> F32s {
        F32s(self.0.map(|x| x as f32))
    }
    #[inline(always)]
    fn bitcast(self) -> F32s {
        F32s(self.0.map(|x| f32::from_bits(x.cast_unsigned())))
    }
    #[inline(always)]
    fn power_of_2(self) -> F32s {
        F32s(self.0.map(|n| f32::from_bits(n.wrapping_add(127).cast_unsigned() << 23)))
    }
    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(self.0.map(|x| x << N))
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(self.0.map(|x| x >> N))
    }
    #[inline(always)]
    fn add_dot2(self, a: Self, b: Self) -> Self {
        let low = |x: i32| i32::from(x as i16);
        let products = zip(a.0, b.0, |a, b| (low(a) * low(b)).wrapping_add((a >> 16) * (b >> 16)));
        Self(zip(self.0, products, i32::wrapping_add))
    }
    #[inline(always)]
    fn add_i16(self, other: Self) -> Self {
        Self(zip(self.0, other.0, |a, b| {
            halves(a.wrapping_add(b), (a >> 16).wrapping_add(b >> 16))
        }))
    }
    #[inline(always)]
    fn sub_i16(self, other: Self) -> Self {
        Self(zip(self.0, other.0, |a, b| {
            halves(a.wrapping_sub(b), (a >> 16).wrapping_sub(b >> 16))
        }))
    }
    #[inline(always)]
    fn widen_bytes(self) -> [Self; 2] {
        let low = |x: i32| halves((x << 24) >> 24, (x << 8) >> 24);
        let high = |x: i32| halves((x << 16) >> 24, x >> 24);
        [Self(self.0.map(low)), Self(self.0.map(high))]
    }
    #[inline(always)]
    fn join_halves(self, _: Self) -> Self {
        self
    }
    #[inline(always)]
    fn split_halves(self) -> [Self; 2] {
        [self; 2]
    }
    #[inline(always)]
    fn interleave_i16(self, other: Self) -> [Self; 2] {
        let half = |x: i32, lane: usize| (x >> (lane % 2 * 16)) & 0xffff;
        let lane = |at: usize| half(self.0[at / 2], at) | half(other.0[at / 2], at) << 16;
        [Self(array::from_fn(lane)), Self(array::from_fn(|at| lane(LANES + at)))]
    }
    #[inline(always)]
    fn join_low_bytes(self, b: Self, c: Self) -> Self {
        self.shl::<24>() | Self(zip(b.0, c.0, |b, c| (b & 0xff) << 16 | (c & 0xff) << 8))
    }
    #[inline(always)]
    fn split_nibbles(self) -> [Self; 2] {
        [Self(self.0.map(|x| x & 0x0f0f_0f0f)), Self(self.0.map(|x| (x >> 4) & 0x0f0f_0f0f))]
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(zip(self.0, other.0, |a, b| a < b))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(zip(self.0, other.0, |a, b| a == b))
    }
}

impl Mask for Bools {
    type F32 = F32s;

    #[inline(always)]
    fn select(self, yes: F32s, no: F32s) -> F32s {
        F32s(array::from_fn(|lane| if self.0[lane] { yes.0[lane] } else { no.0[lane] }))
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0.contains(&true)
    }
}
