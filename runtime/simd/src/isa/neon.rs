//! NEON of 64-bit ARM: four lanes, with or without int8 dot products.

#![expect(unsafe_code, reason = "loads and stores through pointers")]

use core::{
    arch::{aarch64::*, asm},
    ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub},
};

use crate::{Float, Int, Mask, Routine, Simd};

/// Token: NEON, which every processor of the target has, and its int8 dot products if `DOT`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Neon<const DOT: bool>(());

/// Four `f32` lanes.
#[derive(Clone, Copy)]
pub struct F32s(float32x4_t);

/// Four `i32` lanes.
#[derive(Clone, Copy)]
pub struct I32s(int32x4_t);

/// Four booleans, each all ones or all zeros.
#[derive(Clone, Copy)]
pub struct Bools(uint32x4_t);

impl Neon<false> {
    pub(crate) const fn new() -> Self {
        Self(())
    }

    #[inline]
    pub(crate) fn run<R: Routine>(self, routine: R) -> R::Output {
        routine.run(self)
    }
}

impl Neon<true> {
    /// Returns the token if the processor has int8 dot products.
    pub(crate) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let has = std::arch::is_aarch64_feature_detected!("dotprod");
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = "dotprod");
        has.then_some(Self(()))
    }

    #[inline]
    pub(crate) fn run<R: Routine>(self, routine: R) -> R::Output {
        #[target_feature(enable = "dotprod")]
        fn run<R: Routine>(token: Neon<true>, routine: R) -> R::Output {
            routine.run(token)
        }
        // SAFETY: the token exists only if the processor has this feature.
        unsafe { run(self, routine) }
    }
}

/// Calls an intrinsic that accesses only registers.
macro_rules! op {
    ($call:expr) => {
        // SAFETY: this module is compiled only for targets that have NEON.
        unsafe { $call }
    };
}

impl<const DOT: bool> Simd for Neon<DOT> {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    const HAS_DOT4: bool = DOT;
    const DOT4_OFFSET: u8 = 0;
    type F32 = F32s;
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn splat(self, value: f32) -> F32s {
        F32s(op!(vdupq_n_f32(value)))
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> I32s {
        I32s(op!(vdupq_n_s32(value)))
    }
    #[inline(always)]
    unsafe fn load_ptr(self, ptr: *const f32) -> F32s {
        // SAFETY: the caller guarantees four values.
        F32s(unsafe { vld1q_f32(ptr) })
    }
    #[inline(always)]
    unsafe fn load_partial_ptr(self, ptr: *const f32, len: usize) -> F32s {
        let mut all = [0.0; 4];
        for (lane, to) in all.iter_mut().enumerate().take(len) {
            // SAFETY: the caller guarantees `len` values.
            *to = unsafe { ptr.add(lane).read() };
        }
        // SAFETY: the array holds four values.
        F32s(unsafe { vld1q_f32(all.as_ptr()) })
    }
    #[inline(always)]
    unsafe fn store_ptr(self, value: F32s, ptr: *mut f32) {
        // SAFETY: the caller guarantees four elements.
        unsafe { vst1q_f32(ptr, value.0) }
    }
    #[inline(always)]
    unsafe fn store_partial_ptr(self, value: F32s, ptr: *mut f32, len: usize) {
        let mut all = [0.0; 4];
        // SAFETY: the array holds four values.
        unsafe { vst1q_f32(all.as_mut_ptr(), value.0) };
        for (lane, value) in all.into_iter().enumerate().take(len) {
            // SAFETY: the caller guarantees `len` elements.
            unsafe { ptr.add(lane).write(value) }
        }
    }
    #[inline(always)]
    unsafe fn store_i8_ptr(self, value: I32s, ptr: *mut i8, len: usize) {
        let mut all = [0_i32; 4];
        // SAFETY: the array holds four values.
        unsafe { vst1q_s32(all.as_mut_ptr(), value.0) };
        for (lane, value) in all.into_iter().enumerate().take(len) {
            let value = value.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8;
            // SAFETY: the caller guarantees `len` elements.
            unsafe { ptr.wrapping_add(lane).write(value) }
        }
    }
    #[inline(always)]
    unsafe fn load_windows_ptr(
        self,
        ptr: *const u8,
        offsets: *const u32,
        indices: *const u8,
    ) -> I32s {
        // SAFETY: the caller guarantees an offset.
        let offset = unsafe { offsets.read() } as usize;
        // SAFETY: the caller guarantees the window.
        let window = unsafe { vld1q_u8(ptr.wrapping_add(offset)) };
        // SAFETY: the caller guarantees 16 indices.
        let indices = unsafe { vld1q_u8(indices) };
        I32s(op!(vreinterpretq_s32_u8(vqtbl1q_u8(window, indices))))
    }
    #[inline(always)]
    unsafe fn load_widened_i8_ptr(self, ptr: *const i8) -> I32s {
        // SAFETY: the caller guarantees eight values.
        I32s(unsafe { vreinterpretq_s32_s16(vmovl_s8(vld1_s8(ptr))) })
    }
    #[inline(always)]
    fn add_dot4(self, sum: I32s, a: I32s, b: I32s) -> I32s {
        if const { DOT } {
            // SAFETY: `DOT` is true.
            return unsafe { self.dot(sum, a, b) };
        }
        let (a, b) = op!((vreinterpretq_s8_s32(a.0), vreinterpretq_s8_s32(b.0)));
        // Products of two bytes fit 16 bits; their sums do not.
        let halves = op!([vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b)]);
        let pairs = halves.map(|half| op!(vpaddlq_s16(half)));
        I32s(op!(vaddq_s32(sum.0, vpaddq_s32(pairs[0], pairs[1]))))
    }
    #[inline(always)]
    fn add_dot4_u4(self, sum: I32s, nibbles: I32s, x: I32s) -> I32s {
        if const { DOT } {
            // SAFETY: `DOT` is true.
            return unsafe { self.dot(sum, nibbles, x) };
        }
        let (a, b) = op!((vreinterpretq_s8_s32(nibbles.0), vreinterpretq_s8_s32(x.0)));
        let low = op!(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        let pairs = op!(vpaddq_s16(low, vmull_high_s8(a, b)));
        let sums = op!(vreinterpretq_s16_s32(sum.0));
        I32s(op!(vreinterpretq_s32_s16(vaddq_s16(sums, pairs))))
    }
    #[inline(always)]
    fn reduce_dot4_u4(self, sum: I32s) -> I32s {
        if const { DOT } {
            return sum;
        }
        I32s(op!(vpaddlq_s16(vreinterpretq_s16_s32(sum.0))))
    }
    #[inline(always)]
    fn transpose(self, tile: &mut [F32s]) {
        let Some(tile) = tile.first_chunk_mut::<4>() else { return };
        let [a, b, c, d] = *tile;
        // Pairs of rows by 32 bits, then by 64 bits.
        *tile = op!({
            let ab_even = vreinterpretq_f64_f32(vtrn1q_f32(a.0, b.0));
            let ab_odd = vreinterpretq_f64_f32(vtrn2q_f32(a.0, b.0));
            let cd_even = vreinterpretq_f64_f32(vtrn1q_f32(c.0, d.0));
            let cd_odd = vreinterpretq_f64_f32(vtrn2q_f32(c.0, d.0));
            [
                F32s(vreinterpretq_f32_f64(vtrn1q_f64(ab_even, cd_even))),
                F32s(vreinterpretq_f32_f64(vtrn1q_f64(ab_odd, cd_odd))),
                F32s(vreinterpretq_f32_f64(vtrn2q_f64(ab_even, cd_even))),
                F32s(vreinterpretq_f32_f64(vtrn2q_f64(ab_odd, cd_odd))),
            ]
        });
    }
    #[inline(always)]
    fn deinterleave(self, values: [F32s; 2]) -> [F32s; 2] {
        values
    }
}

impl<const DOT: bool> Neon<DOT> {
    /// Adds the dot product of the four signed bytes of each lane. The intrinsic is not stable yet.
    ///
    /// # Safety
    /// `DOT` is true.
    #[inline(always)]
    unsafe fn dot(self, sum: I32s, a: I32s, b: I32s) -> I32s {
        let mut sum = sum.0;
        // SAFETY: a token with `DOT` exists only if the processor has the instruction.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
                sum = inout(vreg) sum,
                a = in(vreg) a.0,
                b = in(vreg) b.0,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        I32s(sum)
    }
}

macro_rules! operator {
    ($type:ident, $trait:ident, $name:ident, $instruction:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(op!($instruction(self.0, other.0)))
            }
        }
    };
}

operator!(F32s, Add, add, vaddq_f32);
operator!(F32s, Sub, sub, vsubq_f32);
operator!(F32s, Mul, mul, vmulq_f32);
operator!(F32s, Div, div, vdivq_f32);
operator!(I32s, Add, add, vaddq_s32);
operator!(I32s, Sub, sub, vsubq_s32);
operator!(I32s, Mul, mul, vmulq_s32);
operator!(I32s, BitAnd, bitand, vandq_s32);
operator!(I32s, BitOr, bitor, vorrq_s32);
operator!(Bools, BitAnd, bitand, vandq_u32);
operator!(Bools, BitOr, bitor, vorrq_u32);

impl Not for Bools {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(op!(vmvnq_u32(self.0)))
    }
}

impl Neg for F32s {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(op!(vnegq_f32(self.0)))
    }
}

impl Float for F32s {
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(op!(vfmaq_f32(addend.0, self.0, factor.0)))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.lt(other).select(self, other)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        other.lt(self).select(self, other)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(op!(vabsq_f32(self.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(op!(vsqrtq_f32(self.0)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(vcltq_f32(self.0, other.0)))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Bools {
        Bools(op!(vcleq_f32(self.0, other.0)))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(vceqq_f32(self.0, other.0)))
    }
    #[inline(always)]
    fn round_to_i32(self) -> I32s {
        I32s(op!(vcvtnq_s32_f32(self.0)))
    }
    #[inline(always)]
    fn to_bits(self) -> I32s {
        I32s(op!(vreinterpretq_s32_f32(self.0)))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        op!(vaddvq_f32(self.0))
    }
    #[inline(always)]
    fn min_lane(self) -> f32 {
        op!(vminvq_f32(self.0))
    }
    #[inline(always)]
    fn max_lane(self) -> f32 {
        op!(vmaxvq_f32(self.0))
    }
}

impl Int for I32s {
    type F32 = F32s;
    type Mask = Bools;

    #[inline(always)]
    fn to_f32(self) -> F32s {
        F32s(op!(vcvtq_f32_s32(self.0)))
    }
    #[inline(always)]
    fn bitcast(self) -> F32s {
        F32s(op!(vreinterpretq_f32_s32(self.0)))
    }
    #[inline(always)]
    fn power_of_2(self) -> F32s {
        (self + I32s(op!(vdupq_n_s32(127)))).shl::<23>().bitcast()
    }
    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(op!(vshlq_s32(self.0, vdupq_n_s32(N.cast_signed()))))
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(op!(vshlq_s32(self.0, vdupq_n_s32(-N.cast_signed()))))
    }
    #[inline(always)]
    fn add_dot2(self, a: Self, b: Self) -> Self {
        let (a, b) = op!((vreinterpretq_s16_s32(a.0), vreinterpretq_s16_s32(b.0)));
        let low = op!(vmull_s16(vget_low_s16(a), vget_low_s16(b)));
        Self(op!(vaddq_s32(self.0, vpaddq_s32(low, vmull_high_s16(a, b)))))
    }
    #[inline(always)]
    fn add_i16(self, other: Self) -> Self {
        let (a, b) = op!((vreinterpretq_s16_s32(self.0), vreinterpretq_s16_s32(other.0)));
        Self(op!(vreinterpretq_s32_s16(vaddq_s16(a, b))))
    }
    #[inline(always)]
    fn sub_i16(self, other: Self) -> Self {
        let (a, b) = op!((vreinterpretq_s16_s32(self.0), vreinterpretq_s16_s32(other.0)));
        Self(op!(vreinterpretq_s32_s16(vsubq_s16(a, b))))
    }
    #[inline(always)]
    fn widen_bytes(self) -> [Self; 2] {
        let halves = op!(vreinterpretq_s16_s32(self.0));
        let low = op!(vshrq_n_s16::<8>(vshlq_n_s16::<8>(halves)));
        let high = op!(vshrq_n_s16::<8>(halves));
        op!([Self(vreinterpretq_s32_s16(low)), Self(vreinterpretq_s32_s16(high))])
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
        let (a, b) = op!((vreinterpretq_s16_s32(self.0), vreinterpretq_s16_s32(other.0)));
        let (low, high) = op!((vzip1q_s16(a, b), vzip2q_s16(a, b)));
        op!([Self(vreinterpretq_s32_s16(low)), Self(vreinterpretq_s32_s16(high))])
    }
    #[inline(always)]
    fn join_low_bytes(self, b: Self, c: Self) -> Self {
        let bytes = op!(vsriq_n_s32::<8>(vshlq_n_s32::<24>(b.0), vshlq_n_s32::<24>(c.0)));
        Self(op!(vsriq_n_s32::<8>(vshlq_n_s32::<24>(self.0), bytes)))
    }
    #[inline(always)]
    fn split_nibbles(self) -> [Self; 2] {
        let bytes = op!(vreinterpretq_u8_s32(self.0));
        let (low, high) = op!((vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)));
        op!([Self(vreinterpretq_s32_u8(low)), Self(vreinterpretq_s32_u8(high))])
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(vcltq_s32(self.0, other.0)))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(vceqq_s32(self.0, other.0)))
    }
}

impl Mask for Bools {
    type F32 = F32s;

    #[inline(always)]
    fn select(self, yes: F32s, no: F32s) -> F32s {
        F32s(op!(vbslq_f32(self.0, yes.0, no.0)))
    }
    #[inline(always)]
    fn any(self) -> bool {
        op!(vmaxvq_u32(self.0)) != 0
    }
}
