//! AVX-512 with F, BW, VL, DQ and VNNI: 16 lanes. Processors without VNNI use AVX2.

#![expect(unsafe_code, reason = "calls instructions that only some processors have")]

use core::{
    arch::{asm, x86_64::*},
    array,
    ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub},
};

use super::avx2::load_windows;
use crate::{Float, Int, Mask, Routine, Simd};

/// Token: the processor has AVX-512.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Avx512(());

/// 16 `f32` lanes.
#[derive(Clone, Copy)]
pub struct F32s(__m512);

/// 16 `i32` lanes.
#[derive(Clone, Copy)]
pub struct I32s(__m512i);

/// 16 booleans.
#[derive(Clone, Copy)]
pub struct Bools(__mmask16);

impl Avx512 {
    /// Returns the token if the processor has the instructions and the operating system saves the
    /// registers.
    pub fn detect() -> Option<Self> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        all.then_some(Self(()))
    }

    #[inline]
    pub(crate) fn run<R: Routine>(self, routine: R) -> R::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
        fn run<R: Routine>(token: Avx512, routine: R) -> R::Output {
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
        // features that `Avx512::detect` asks for.
        unsafe { $call }
    };
}

/// [`Simd::lookup_bytes`] with the byte permutes of VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn lookup_bytes(table: &[u8; 256], x: &[u8], out: &mut [u8]) -> usize {
    let mut parts = [_mm512_setzero_si512(); 4];
    for (part, bytes) in parts.iter_mut().zip(table.as_chunks::<64>().0) {
        // SAFETY: the chunk holds the 64 bytes of a vector.
        *part = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    }
    let pairs = x.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<64>().0);
    let done = 64 * pairs.len();
    for (x, out) in pairs {
        // SAFETY: as above.
        let x = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
        let low = _mm512_permutex2var_epi8(parts[0], x, parts[1]);
        let high = _mm512_permutex2var_epi8(parts[2], x, parts[3]);
        let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), found) };
    }
    done
}

/// [`Int::add_dot2`] as one instruction; the intrinsics compile to two.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_dot2(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller has the target features.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {a}, {b}",
            sum = inout(zmm_reg) sum,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// [`Int::join_low_bytes`] as four instructions; the intrinsics compile to five.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn join_low_bytes(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    // Shuffle indices: the lowest byte of each word, four times.
    let lowest = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    // A set high bit makes the shuffle write zero to that byte.
    let zero = |others: u32| _mm512_set1_epi32((0x8080_8080 & others).cast_signed());
    let third = _mm512_or_si512(lowest, zero(0xff00_ffff));
    let second = _mm512_or_si512(lowest, zero(0xffff_00ff));
    let bytes;
    // SAFETY: the caller has the target features.
    unsafe {
        asm!(
            "vpslld {bytes}, {a}, 24",
            "vpshufb {b}, {b}, {third}",
            "vpshufb {c}, {c}, {second}",
            "vpternlogd {bytes}, {b}, {c}, 0xfe",
            a = in(zmm_reg) a,
            b = inout(zmm_reg) b => _,
            c = inout(zmm_reg) c => _,
            third = in(zmm_reg) third,
            second = in(zmm_reg) second,
            bytes = out(zmm_reg) bytes,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    bytes
}

/// Transposes blocks of 4 × 4: element `j` of each 128-bit block of row `i` becomes element `i` of
/// the block of row `j`.
#[inline(always)]
fn transpose_blocks([a, b, c, d]: [F32s; 4]) -> [F32s; 4] {
    op!({
        // Pairs of rows by 32 bits, then by 64 bits.
        let ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a.0, b.0));
        let ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a.0, b.0));
        let cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c.0, d.0));
        let cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c.0, d.0));
        [
            F32s(_mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low))),
            F32s(_mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low))),
            F32s(_mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high))),
            F32s(_mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high))),
        ]
    })
}

/// Joins the first 128-bit blocks of four rows, then the second, third and fourth.
#[inline(always)]
fn join_blocks([a, b, c, d]: [F32s; 4]) -> [F32s; 4] {
    op!({
        let ab_even = _mm512_shuffle_f32x4::<0x88>(a.0, b.0);
        let ab_odd = _mm512_shuffle_f32x4::<0xdd>(a.0, b.0);
        let cd_even = _mm512_shuffle_f32x4::<0x88>(c.0, d.0);
        let cd_odd = _mm512_shuffle_f32x4::<0xdd>(c.0, d.0);
        [
            F32s(_mm512_shuffle_f32x4::<0x88>(ab_even, cd_even)),
            F32s(_mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd)),
            F32s(_mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even)),
            F32s(_mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd)),
        ]
    })
}

/// Mask of the lanes below `len`.
#[inline(always)]
fn lane_mask(len: usize) -> __mmask16 {
    if len >= 16 { u16::MAX } else { (1 << len) - 1 }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    const HAS_DOT4: bool = true;
    type F32 = F32s;
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn splat(self, value: f32) -> F32s {
        F32s(op!(_mm512_set1_ps(value)))
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> I32s {
        I32s(op!(_mm512_set1_epi32(value)))
    }
    #[inline(always)]
    unsafe fn load_ptr(self, ptr: *const f32) -> F32s {
        // SAFETY: the caller guarantees 16 values, the token the instruction.
        F32s(unsafe { _mm512_loadu_ps(ptr) })
    }
    #[inline(always)]
    unsafe fn load_partial_ptr(self, ptr: *const f32, len: usize) -> F32s {
        // SAFETY: the caller guarantees `len` values, the token the instruction.
        F32s(unsafe { _mm512_maskz_loadu_ps(lane_mask(len), ptr) })
    }
    #[inline(always)]
    fn prefetch<T>(self, ptr: *const T) {
        op!(_mm_prefetch::<_MM_HINT_T0>(ptr.cast()));
    }
    #[inline(always)]
    unsafe fn store_ptr(self, value: F32s, ptr: *mut f32) {
        // SAFETY: the caller guarantees 16 elements, the token the instruction.
        unsafe { _mm512_storeu_ps(ptr, value.0) }
    }
    #[inline(always)]
    unsafe fn store_partial_ptr(self, value: F32s, ptr: *mut f32, len: usize) {
        // SAFETY: the caller guarantees `len` elements, the token the instruction.
        unsafe { _mm512_mask_storeu_ps(ptr, lane_mask(len), value.0) }
    }
    #[inline(always)]
    unsafe fn store_i8_ptr(self, value: I32s, ptr: *mut i8, len: usize) {
        // SAFETY: the caller guarantees `len` elements, the token the instructions.
        op!(_mm_mask_storeu_epi8(ptr, lane_mask(len), _mm512_cvtsepi32_epi8(value.0)));
    }
    #[inline(always)]
    unsafe fn load_windows_ptr(
        self,
        ptr: *const u8,
        offsets: *const u32,
        indices: *const u8,
    ) -> I32s {
        // SAFETY: the caller guarantees an offset for each window.
        let [a, b, c, d] = unsafe { offsets.cast::<[u32; 4]>().read_unaligned() };
        // SAFETY: the caller guarantees the windows.
        let low = unsafe { load_windows(ptr, [a, b]) };
        // SAFETY: as above.
        let high = unsafe { load_windows(ptr, [c, d]) };
        // SAFETY: the caller guarantees 64 indices, the token the instruction.
        let indices = unsafe { _mm512_loadu_si512(indices.cast()) };
        let windows = op!(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high));
        I32s(op!(_mm512_shuffle_epi8(windows, indices)))
    }
    #[inline(always)]
    unsafe fn load_widened_i8_ptr(self, ptr: *const i8) -> I32s {
        // SAFETY: the caller guarantees 32 values, the token the instruction.
        let bytes = unsafe { _mm256_loadu_si256(ptr.cast()) };
        I32s(op!(_mm512_cvtepi8_epi16(bytes)))
    }
    #[inline(always)]
    unsafe fn load_three_rows_ptr(self, rows: [*const i8; 3]) -> [I32s; 2] {
        // SAFETY: the caller guarantees 32 bytes, the token the instruction.
        let a = unsafe { _mm256_loadu_si256(rows[0].cast()) };
        // SAFETY: as above.
        let b = unsafe { _mm256_loadu_si256(rows[1].cast()) };
        // SAFETY: as above.
        let c = unsafe { _mm256_loadu_si256(rows[2].cast()) };
        let (a, b, c) =
            op!((_mm512_cvtepu8_epi16(a), _mm512_cvtepu8_epi16(b), _mm512_cvtepu8_epi16(c)));
        op!({
            // Adds 128 to each byte by flipping its high bit: `(a | b) ^ c`.
            let (b, sign) = (_mm512_slli_epi16::<8>(b), _mm512_set1_epi8(-128));
            let ab = _mm512_ternarylogic_epi32::<0x56>(a, b, sign);
            let c = _mm512_xor_si512(c, _mm512_set1_epi16(128));
            [I32s(_mm512_unpacklo_epi16(ab, c)), I32s(_mm512_unpackhi_epi16(ab, c))]
        })
    }
    #[inline(always)]
    unsafe fn store_interleaved_i8_ptr(
        self,
        [a, b]: [F32s; 2],
        zero_point: i32,
        (low, high): (f32, f32),
        ptr: *mut i8,
        len: usize,
    ) {
        let zero = zero_point.clamp(-128, 127) as i16;
        let low = (low + f32::from(zero)) as i8;
        // The packs saturate values below 16 bits, so the lower bound is applied to the bytes.
        let bytes = op!({
            let high = _mm512_set1_ps(high);
            let [a, b] = [_mm512_min_ps(high, a.0), _mm512_min_ps(high, b.0)];
            let words = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
            let bytes = _mm512_cvtsepi16_epi8(_mm512_adds_epi16(words, _mm512_set1_epi16(zero)));
            _mm256_max_epi8(bytes, _mm256_set1_epi8(low))
        });
        if len >= 32 {
            // SAFETY: the caller guarantees 32 elements, the token the instruction.
            unsafe { _mm256_storeu_si256(ptr.cast(), bytes) }
        } else if len == 16 {
            let bytes = op!(_mm256_castsi256_si128(bytes));
            // SAFETY: the caller guarantees 16 elements, the token the instruction.
            unsafe { _mm_storeu_si128(ptr.cast(), bytes) }
        } else {
            // SAFETY: the caller guarantees `len` elements, the token the instruction.
            unsafe { _mm256_mask_storeu_epi8(ptr, (1 << len) - 1, bytes) }
        }
    }
    #[inline(always)]
    fn lookup_bytes(self, table: &[u8; 256], x: &[u8], out: &mut [u8]) -> usize {
        if !is_x86_feature_detected!("avx512vbmi") {
            return 0;
        }
        // SAFETY: the processor has VBMI, and the token the other features.
        unsafe { lookup_bytes(table, x, out) }
    }
    #[inline(always)]
    fn add_dot4(self, sum: I32s, a: I32s, b: I32s) -> I32s {
        I32s(op!(_mm512_dpbusd_epi32(sum.0, a.0, b.0)))
    }
    #[inline(always)]
    fn transpose(self, tile: &mut [F32s]) {
        let Some(tile) = tile.first_chunk_mut::<16>() else { return };
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *tile;
        let first = transpose_blocks([a, b, c, d]);
        let second = transpose_blocks([e, f, g, h]);
        let third = transpose_blocks([i, j, k, l]);
        let fourth = transpose_blocks([m, n, o, p]);
        let [a, e, i, m] = join_blocks([first[0], second[0], third[0], fourth[0]]);
        let [b, f, j, n] = join_blocks([first[1], second[1], third[1], fourth[1]]);
        let [c, g, k, o] = join_blocks([first[2], second[2], third[2], fourth[2]]);
        let [d, h, l, p] = join_blocks([first[3], second[3], third[3], fourth[3]]);
        *tile = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
    }
    #[inline(always)]
    fn deinterleave(self, [a, b]: [F32s; 2]) -> [F32s; 2] {
        // Lanes 0 to 3 of `a`, 0 to 3 of `b`, 4 to 7 of `a`, 4 to 7 of `b`; `first` is 0 or 8.
        let indices = |first: i32| {
            let lane = |at: i32| first + at / 8 * 4 + at % 4 + at % 8 / 4 * 16;
            let all: [i32; 16] = array::from_fn(|at| lane(at as i32));
            // SAFETY: the array holds 16 values.
            op!(_mm512_loadu_si512(all.as_ptr().cast()))
        };
        op!([
            F32s(_mm512_permutex2var_ps(a.0, indices(0), b.0)),
            F32s(_mm512_permutex2var_ps(a.0, indices(8), b.0))
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

operator!(F32s, Add, add, _mm512_add_ps);
operator!(F32s, Sub, sub, _mm512_sub_ps);
operator!(F32s, Mul, mul, _mm512_mul_ps);
operator!(F32s, Div, div, _mm512_div_ps);
operator!(I32s, Add, add, _mm512_add_epi32);
operator!(I32s, Sub, sub, _mm512_sub_epi32);
operator!(I32s, Mul, mul, _mm512_mullo_epi32);
operator!(I32s, BitAnd, bitand, _mm512_and_si512);
operator!(I32s, BitOr, bitor, _mm512_or_si512);

impl BitAnd for Bools {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Bools {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Bools {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Neg for F32s {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(op!(_mm512_xor_ps(self.0, _mm512_set1_ps(-0.0))))
    }
}

impl Float for F32s {
    type I32 = I32s;
    type Mask = Bools;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(op!(_mm512_fmadd_ps(self.0, factor.0, addend.0)))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(op!(_mm512_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(op!(_mm512_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(op!(_mm512_abs_ps(self.0)))
    }
    #[inline(always)]
    fn mul_power_of_2(self, n: I32s) -> Self {
        Self(op!(_mm512_scalef_ps(self.0, _mm512_cvtepi32_ps(n.0))))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(op!(_mm512_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Bools {
        Bools(op!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn round_to_i32(self) -> I32s {
        I32s(op!(_mm512_cvtps_epi32(self.0)))
    }
    #[inline(always)]
    fn to_bits(self) -> I32s {
        I32s(op!(_mm512_castps_si512(self.0)))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        op!(_mm512_reduce_add_ps(self.0))
    }
    #[inline(always)]
    fn min_lane(self) -> f32 {
        op!(_mm512_reduce_min_ps(self.0))
    }
    #[inline(always)]
    fn max_lane(self) -> f32 {
        op!(_mm512_reduce_max_ps(self.0))
    }
}

impl Int for I32s {
    type F32 = F32s;
    type Mask = Bools;

    #[inline(always)]
    fn to_f32(self) -> F32s {
        F32s(op!(_mm512_cvtepi32_ps(self.0)))
    }
    #[inline(always)]
    fn bitcast(self) -> F32s {
        F32s(op!(_mm512_castsi512_ps(self.0)))
    }
    #[inline(always)]
    fn power_of_2(self) -> F32s {
        (self + I32s(op!(_mm512_set1_epi32(127)))).shl::<23>().bitcast()
    }
    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(op!(_mm512_slli_epi32::<N>(self.0)))
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(op!(_mm512_srai_epi32::<N>(self.0)))
    }
    #[inline(always)]
    fn add_dot2(self, a: Self, b: Self) -> Self {
        Self(op!(add_dot2(self.0, a.0, b.0)))
    }
    #[inline(always)]
    fn add_i16(self, other: Self) -> Self {
        Self(op!(_mm512_add_epi16(self.0, other.0)))
    }
    #[inline(always)]
    fn sub_i16(self, other: Self) -> Self {
        Self(op!(_mm512_sub_epi16(self.0, other.0)))
    }
    #[inline(always)]
    fn widen_bytes(self) -> [Self; 2] {
        op!([
            Self(_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(self.0))),
            Self(_mm512_srai_epi16::<8>(self.0))
        ])
    }
    #[inline(always)]
    fn join_halves(self, other: Self) -> Self {
        Self(op!(_mm512_shuffle_i32x4::<0b01_00_01_00>(self.0, other.0)))
    }
    #[inline(always)]
    fn split_halves(self) -> [Self; 2] {
        [self, Self(op!(_mm512_shuffle_i32x4::<0b11_10_11_10>(self.0, self.0)))]
    }
    #[inline(always)]
    fn interleave_i16(self, other: Self) -> [Self; 2] {
        op!([
            Self(_mm512_unpacklo_epi16(self.0, other.0)),
            Self(_mm512_unpackhi_epi16(self.0, other.0))
        ])
    }
    #[inline(always)]
    fn join_low_bytes(self, b: Self, c: Self) -> Self {
        Self(op!(join_low_bytes(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn split_nibbles(self) -> [Self; 2] {
        let low = op!(_mm512_set1_epi8(15));
        op!([
            Self(_mm512_and_si512(self.0, low)),
            Self(_mm512_and_si512(_mm512_srli_epi16::<4>(self.0), low))
        ])
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Bools {
        Bools(op!(_mm512_cmplt_epi32_mask(self.0, other.0)))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Bools {
        Bools(op!(_mm512_cmpeq_epi32_mask(self.0, other.0)))
    }
}

impl Mask for Bools {
    type F32 = F32s;

    #[inline(always)]
    fn select(self, yes: F32s, no: F32s) -> F32s {
        F32s(op!(_mm512_mask_blend_ps(self.0, no.0, yes.0)))
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }
}
