//! AVX2 with FMA: 8 lanes.

#![expect(unsafe_code, reason = "calls instructions that only some processors have")]

use core::{
    arch::x86_64::*,
    ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub},
};

use crate::{Float, Int, Mask, Routine, Simd};

/// Token: the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

/// Eight `f32` lanes.
#[derive(Clone, Copy)]
pub struct F32s(__m256);

/// Eight `i32` lanes.
#[derive(Clone, Copy)]
pub struct I32s(__m256i);

/// Eight booleans, each all ones or all zeros.
#[derive(Clone, Copy)]
pub struct Bools(__m256);

impl Avx2 {
    /// Returns the token if the processor has the instructions and the operating system saves the
    /// registers.
    pub fn detect() -> Option<Self> {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        all.then_some(Self(()))
    }

    #[inline]
    pub(crate) fn run<R: Routine>(self, routine: R) -> R::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<R: Routine>(token: Avx2, routine: R) -> R::Output {
            routine.run(token)
        }
        // SAFETY: the token exists only if the processor has these features.
        unsafe { run(self, routine) }
    }
}

/// Calls an intrinsic that accesses only registers.
macro_rules! op {
    ($call:expr) => {
        // SAFETY: tokens, and the vectors created from them, exist only if the processor has the
        // features that `Avx2::detect` asks for.
        unsafe { $call }
    };
}

/// Sliding masks: the eight values from index `8 - n` on have `n` lanes set.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Transposes blocks of 4 × 4: element `j` of each 128-bit block of row `i` becomes element `i` of
/// the block of row `j`.
#[inline(always)]
fn transpose_blocks([a, b, c, d]: [F32s; 4]) -> [F32s; 4] {
    op!({
        // Pairs of rows by 32 bits, then by 64 bits.
        let ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a.0, b.0));
        let ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a.0, b.0));
        let cd_low = _mm256_castps_pd(_mm256_unpacklo_ps(c.0, d.0));
        let cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c.0, d.0));
        [
            F32s(_mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, cd_low))),
            F32s(_mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, cd_low))),
            F32s(_mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high))),
            F32s(_mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high))),
        ]
    })
}

/// Mask of the lanes below `len`.
#[inline(always)]
fn lane_mask(len: usize) -> __m256i {
    let window = &MASKS[8 - len.min(8)..][..8];
    // SAFETY: the window holds eight values, and the caller has the instruction.
    unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
}

/// Loads 16 bytes at each of two offsets.
///
/// # Safety
/// Both are valid for reads, and the processor has AVX2.
#[inline(always)]
pub(super) unsafe fn load_windows(ptr: *const u8, [a, b]: [u32; 2]) -> __m256i {
    let (a, b) = (ptr.wrapping_add(a as usize), ptr.wrapping_add(b as usize));
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_loadu2_m128i(b.cast(), a.cast()) }
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    const HAS_DOT4: bool = false;
    type F32 = F32s;
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn splat(self, value: f32) -> F32s {
        F32s(op!(_mm256_set1_ps(value)))
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> I32s {
        I32s(op!(_mm256_set1_epi32(value)))
    }
    #[inline(always)]
    unsafe fn load_ptr(self, ptr: *const f32) -> F32s {
        // SAFETY: the caller guarantees eight values, the token the instruction.
        F32s(unsafe { _mm256_loadu_ps(ptr) })
    }
    #[inline(always)]
    unsafe fn load_partial_ptr(self, ptr: *const f32, len: usize) -> F32s {
        // SAFETY: the caller guarantees `len` values, the token the instruction.
        F32s(unsafe { _mm256_maskload_ps(ptr, lane_mask(len)) })
    }
    #[inline(always)]
    unsafe fn store_ptr(self, value: F32s, ptr: *mut f32) {
        // SAFETY: the caller guarantees eight elements, the token the instruction.
        unsafe { _mm256_storeu_ps(ptr, value.0) }
    }
    #[inline(always)]
    unsafe fn store_partial_ptr(self, value: F32s, ptr: *mut f32, len: usize) {
        // SAFETY: the caller guarantees `len` elements, the token the instruction.
        unsafe { _mm256_maskstore_ps(ptr, lane_mask(len), value.0) }
    }
    #[inline(always)]
    unsafe fn store_i8_ptr(self, value: I32s, ptr: *mut i8, len: usize) {
        let (low, high) =
            op!((_mm256_castsi256_si128(value.0), _mm256_extracti128_si256::<1>(value.0)));
        let words = op!(_mm_packs_epi32(low, high));
        let bytes = op!(_mm_cvtsi128_si64(_mm_packs_epi16(words, words))).to_le_bytes();
        if len >= 8 {
            // SAFETY: the caller guarantees eight elements.
            return unsafe { ptr.cast::<[u8; 8]>().write_unaligned(bytes) };
        }
        for (lane, byte) in bytes.into_iter().enumerate().take(len) {
            // SAFETY: the caller guarantees `len` elements.
            unsafe { ptr.wrapping_add(lane).write(byte.cast_signed()) }
        }
    }
    #[inline(always)]
    unsafe fn load_windows_ptr(
        self,
        ptr: *const u8,
        offsets: *const u32,
        indices: *const u8,
    ) -> I32s {
        // SAFETY: the caller guarantees an offset for each window.
        let offsets = unsafe { offsets.cast::<[u32; 2]>().read_unaligned() };
        // SAFETY: the caller guarantees both windows.
        let windows = unsafe { load_windows(ptr, offsets) };
        // SAFETY: the caller guarantees 32 indices, the token the instruction.
        let indices = unsafe { _mm256_loadu_si256(indices.cast()) };
        I32s(op!(_mm256_shuffle_epi8(windows, indices)))
    }
    #[inline(always)]
    unsafe fn load_widened_i8_ptr(self, ptr: *const i8) -> I32s {
        // SAFETY: the caller guarantees 16 values, the token the instruction.
        let bytes = unsafe { _mm_loadu_si128(ptr.cast()) };
        I32s(op!(_mm256_cvtepi8_epi16(bytes)))
    }
    #[inline(always)]
    unsafe fn store_interleaved_i8_ptr(
        self,
        values: [F32s; 2],
        zero_point: i32,
        (low, high): (f32, f32),
        ptr: *mut i8,
        len: usize,
    ) {
        let high = op!(_mm256_set1_ps(high));
        let round = |x: F32s| op!(_mm256_cvtps_epi32(_mm256_min_ps(x.0, high)));
        let words = op!(_mm256_packs_epi32(round(values[0]), round(values[1])));
        let words = op!(_mm256_adds_epi16(words, _mm256_set1_epi16(zero_point as i16)));
        let low = (low.max(-512.0) as i32 + zero_point).clamp(-128, 127) as i8;
        // The packs saturate values below 16 bits, so the lower bound is applied to the bytes.
        let bytes = op!({
            let halves = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_max_epi8(_mm_packs_epi16(halves.0, halves.1), _mm_set1_epi8(low))
        });
        if len >= 16 {
            // SAFETY: the caller guarantees 16 elements.
            return unsafe { _mm_storeu_si128(ptr.cast(), bytes) };
        }
        let mut all = [0_i8; 16];
        // SAFETY: the array holds 16 values.
        unsafe { _mm_storeu_si128(all.as_mut_ptr().cast(), bytes) };
        // SAFETY: the caller guarantees `len` elements, at most the length of the array.
        unsafe { core::ptr::copy_nonoverlapping(all.as_ptr(), ptr, len) }
    }
    #[inline(always)]
    fn add_dot4(self, sum: I32s, a: I32s, b: I32s) -> I32s {
        let (even, odd) =
            op!((_mm256_and_si256(a.0, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(a.0)));
        let b =
            op!([_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b.0)), _mm256_srai_epi16::<8>(b.0)]);
        sum.add_dot2(I32s(even), I32s(b[0])).add_dot2(I32s(odd), I32s(b[1]))
    }
    #[inline(always)]
    fn add_dot4_u4(self, sum: I32s, nibbles: I32s, x: I32s) -> I32s {
        I32s(op!(_mm256_add_epi16(sum.0, _mm256_maddubs_epi16(nibbles.0, x.0))))
    }
    #[inline(always)]
    fn reduce_dot4_u4(self, sum: I32s) -> I32s {
        I32s(op!(_mm256_madd_epi16(sum.0, _mm256_set1_epi16(1))))
    }
    #[inline(always)]
    fn transpose(self, tile: &mut [F32s]) {
        let Some(tile) = tile.first_chunk_mut::<8>() else { return };
        let [a, b, c, d, e, f, g, h] = *tile;
        let (top, bottom) = (transpose_blocks([a, b, c, d]), transpose_blocks([e, f, g, h]));
        for j in 0..4 {
            tile[j] = F32s(op!(_mm256_permute2f128_ps::<0x20>(top[j].0, bottom[j].0)));
            tile[4 + j] = F32s(op!(_mm256_permute2f128_ps::<0x31>(top[j].0, bottom[j].0)));
        }
    }
    #[inline(always)]
    fn deinterleave(self, [a, b]: [F32s; 2]) -> [F32s; 2] {
        op!([
            F32s(_mm256_permute2f128_ps::<0x20>(a.0, b.0)),
            F32s(_mm256_permute2f128_ps::<0x31>(a.0, b.0))
        ])
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

operator!(F32s, Add, add, _mm256_add_ps);
operator!(F32s, Sub, sub, _mm256_sub_ps);
operator!(F32s, Mul, mul, _mm256_mul_ps);
operator!(F32s, Div, div, _mm256_div_ps);
operator!(I32s, Add, add, _mm256_add_epi32);
operator!(I32s, Sub, sub, _mm256_sub_epi32);
operator!(I32s, Mul, mul, _mm256_mullo_epi32);
operator!(I32s, BitAnd, bitand, _mm256_and_si256);
operator!(I32s, BitOr, bitor, _mm256_or_si256);
operator!(Bools, BitAnd, bitand, _mm256_and_ps);
operator!(Bools, BitOr, bitor, _mm256_or_ps);

impl Not for Bools {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(op!(_mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))))
    }
}

impl Neg for F32s {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(op!(_mm256_xor_ps(self.0, _mm256_set1_ps(-0.0))))
    }
}

/// Reduces a vector to one value: combines its halves by `$four`, then by `$one`.
macro_rules! reduce {
    ($all:expr, $four:ident, $one:ident) => {{
        let all = $all;
        let four = op!($four(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all)));
        let two = op!($four(four, _mm_movehl_ps(four, four)));
        op!(_mm_cvtss_f32($one(two, _mm_shuffle_ps::<1>(two, two))))
    }};
}

impl Float for F32s {
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(op!(_mm256_fmadd_ps(self.0, factor.0, addend.0)))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(op!(_mm256_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(op!(_mm256_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(op!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(op!(_mm256_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Bools {
        Bools(op!(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn round_to_i32(self) -> I32s {
        I32s(op!(_mm256_cvtps_epi32(self.0)))
    }
    #[inline(always)]
    fn to_bits(self) -> I32s {
        I32s(op!(_mm256_castps_si256(self.0)))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        reduce!(self.0, _mm_add_ps, _mm_add_ss)
    }
    #[inline(always)]
    fn min_lane(self) -> f32 {
        reduce!(self.0, _mm_min_ps, _mm_min_ss)
    }
    #[inline(always)]
    fn max_lane(self) -> f32 {
        reduce!(self.0, _mm_max_ps, _mm_max_ss)
    }
}

impl Int for I32s {
    type F32 = F32s;
    type Mask = Bools;

    #[inline(always)]
    fn to_f32(self) -> F32s {
        F32s(op!(_mm256_cvtepi32_ps(self.0)))
    }
    #[inline(always)]
    fn bitcast(self) -> F32s {
        F32s(op!(_mm256_castsi256_ps(self.0)))
    }
    #[inline(always)]
    fn power_of_2(self) -> F32s {
        (self + I32s(op!(_mm256_set1_epi32(127)))).shl::<23>().bitcast()
    }
    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        let count = op!(_mm_cvtsi32_si128(N.cast_signed()));
        Self(op!(_mm256_sll_epi32(self.0, count)))
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        let count = op!(_mm_cvtsi32_si128(N.cast_signed()));
        Self(op!(_mm256_sra_epi32(self.0, count)))
    }
    #[inline(always)]
    fn add_dot2(self, a: Self, b: Self) -> Self {
        Self(op!(_mm256_add_epi32(self.0, _mm256_madd_epi16(a.0, b.0))))
    }
    #[inline(always)]
    fn add_i16(self, other: Self) -> Self {
        Self(op!(_mm256_add_epi16(self.0, other.0)))
    }
    #[inline(always)]
    fn sub_i16(self, other: Self) -> Self {
        Self(op!(_mm256_sub_epi16(self.0, other.0)))
    }
    #[inline(always)]
    fn widen_bytes(self) -> [Self; 2] {
        op!([
            Self(_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(self.0))),
            Self(_mm256_srai_epi16::<8>(self.0))
        ])
    }
    #[inline(always)]
    fn join_halves(self, other: Self) -> Self {
        Self(op!(_mm256_permute2x128_si256::<0x20>(self.0, other.0)))
    }
    #[inline(always)]
    fn split_halves(self) -> [Self; 2] {
        [self, Self(op!(_mm256_permute2x128_si256::<0x11>(self.0, self.0)))]
    }
    #[inline(always)]
    fn interleave_i16(self, other: Self) -> [Self; 2] {
        op!([
            Self(_mm256_unpacklo_epi16(self.0, other.0)),
            Self(_mm256_unpackhi_epi16(self.0, other.0))
        ])
    }
    #[inline(always)]
    fn join_low_bytes(self, b: Self, c: Self) -> Self {
        let byte = op!(_mm256_set1_epi32(0xff));
        let b = op!(_mm256_slli_epi32::<16>(_mm256_and_si256(b.0, byte)));
        let c = op!(_mm256_slli_epi32::<8>(_mm256_and_si256(c.0, byte)));
        self.shl::<24>() | Self(b) | Self(c)
    }
    #[inline(always)]
    fn split_nibbles(self) -> [Self; 2] {
        let low = op!(_mm256_set1_epi8(15));
        op!([
            Self(_mm256_and_si256(self.0, low)),
            Self(_mm256_and_si256(_mm256_srli_epi16::<4>(self.0), low))
        ])
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(_mm256_castsi256_ps(_mm256_cmpgt_epi32(other.0, self.0))))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(_mm256_castsi256_ps(_mm256_cmpeq_epi32(self.0, other.0))))
    }
}

impl Mask for Bools {
    type F32 = F32s;

    #[inline(always)]
    fn select(self, yes: F32s, no: F32s) -> F32s {
        F32s(op!(_mm256_blendv_ps(no.0, yes.0, self.0)))
    }
    #[inline(always)]
    fn any(self) -> bool {
        op!(_mm256_movemask_ps(self.0)) != 0
    }
}
