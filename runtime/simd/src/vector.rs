//! What a vector register can do: the traits in which arithmetic is written once for all
//! instruction sets.

#![expect(unsafe_code, reason = "declares loads and stores through pointers")]

use core::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// An instruction set, as a token that exists only where the processor has it.
///
/// Generic code takes the token, makes vectors from it and is `#[inline(always)]` down to the
/// methods of these traits: only then do the instructions end up in the function that
/// [`Routine`](crate::Routine) compiles for the instruction set.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Numbers in a vector: a power of two, at most 16.
    const LANES: usize;
    /// Vector registers of the processor.
    const REGISTERS: usize;
    /// Whether sums of products of bytes are made of four at a time ([`Simd::add_dot4`]), not of
    /// pairs that were widened.
    const HAS_DOT4: bool;
    /// What is added to bytes before [`Simd::add_dot4`] multiplies them with weights: 128, so that
    /// they have no sign, or nothing where the processor multiplies bytes that have one.
    const DOT4_OFFSET: u8 = 128;
    /// `LANES` numbers of 32 bits.
    type F32: Float<I32 = Self::I32, Mask = Self::Mask>;
    /// `LANES` integers of 32 bits.
    type I32: Int<F32 = Self::F32, Mask = Self::Mask>;
    /// A truth value for each lane.
    type Mask: Mask<F32 = Self::F32>;

    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::F32;

    /// `value` in every lane.
    fn splat_i32(self, value: i32) -> Self::I32;

    /// The numbers from `from` on.
    ///
    /// # Safety
    /// `LANES` numbers can be read there; no alignment is needed.
    unsafe fn load_ptr(self, from: *const f32) -> Self::F32;

    /// The first `len` numbers from `from` on, and zeros.
    ///
    /// # Safety
    /// The smaller of `len` and `LANES` numbers can be read there.
    unsafe fn load_partial_ptr(self, from: *const f32, len: usize) -> Self::F32;

    /// Says that what lies at `from`, wherever that is, is read soon.
    #[inline(always)]
    fn prefetch<T>(self, _from: *const T) {}

    /// Writes all lanes from `to` on.
    ///
    /// # Safety
    /// `LANES` numbers can be written there; no alignment is needed.
    unsafe fn store_ptr(self, value: Self::F32, to: *mut f32);

    /// Writes the first `len` lanes from `to` on.
    ///
    /// # Safety
    /// The smaller of `len` and `LANES` numbers can be written there.
    unsafe fn store_partial_ptr(self, value: Self::F32, to: *mut f32, len: usize);

    /// Writes the first `len` lanes from `to` on; what does not fit becomes the nearest that does.
    ///
    /// # Safety
    /// The smaller of `len` and `LANES` integers can be written there.
    unsafe fn store_i8_ptr(self, value: Self::I32, to: *mut i8, len: usize);

    /// `LANES` pairs of integers of 8 bits, each of them as an integer of 16 bits.
    ///
    /// # Safety
    /// Twice as many integers as `LANES` can be read there.
    #[inline(always)]
    unsafe fn load_widened_i8_ptr(self, from: *const i8) -> Self::I32 {
        let mut all = [0_i32; 16];
        for (lane, to) in all.iter_mut().enumerate().take(Self::LANES) {
            let pair = from.wrapping_add(2 * lane);
            // SAFETY: the caller vouches for both of the pair, which need no alignment.
            let [low, high] = unsafe { pair.cast::<[i8; 2]>().read() };
            *to = (i32::from(low) & 0xffff) | (i32::from(high) << 16);
        }
        // SAFETY: the array has 16 integers.
        unsafe { self.load_ptr(all.as_ptr().cast()) }.to_bits()
    }

    /// Twice `LANES` bytes of each of three rows, with [`Simd::DOT4_OFFSET`] added: in each lane one of
    /// each row, and zero. The lanes are zipped (see [`Int::interleave_i16`]).
    ///
    /// # Safety
    /// So many can be read in each row.
    #[inline(always)]
    unsafe fn load_three_rows_ptr(self, rows: [*const i8; 3]) -> [Self::I32; 2] {
        let (byte, sign) = (
            self.splat_i32(0x00ff_00ff),
            self.splat_i32(0x0001_0001 * i32::from(Self::DOT4_OFFSET)),
        );
        let [a, b, c] = rows.map(|row| {
            // SAFETY: demanded of the caller.
            let words = unsafe { self.load_widened_i8_ptr(row) };
            ((words & byte) + sign) & byte
        });
        (a | b.shl::<8>()).interleave_i16(c)
    }

    /// Writes the first `len` of two zipped vectors (see [`Int::interleave_i16`]) in their order, each
    /// number within `bounds`, which are whole numbers, rounded, and `zero_point`, which is one of
    /// 8 bits, added.
    ///
    /// # Safety
    /// The smaller of `len` and twice `LANES` integers can be written there.
    #[inline(always)]
    unsafe fn store_interleaved_i8_ptr(
        self,
        values: [Self::F32; 2],
        zero_point: i32,
        bounds: (f32, f32),
        to: *mut i8,
        len: usize,
    ) {
        let values = self.deinterleave(values);
        for (half, value) in values.into_iter().enumerate() {
            // What is no number becomes the lower bound.
            let bounded = value.max(self.splat(bounds.0)).min(self.splat(bounds.1));
            let value = bounded.round_to_i32() + self.splat_i32(zero_point);
            let at = half * Self::LANES;
            // SAFETY: demanded of the caller.
            unsafe { self.store_i8_ptr(value, to.wrapping_add(at), len.saturating_sub(at)) }
        }
    }

    /// Writes for each byte of `x` that of `table` in its place, as far as whole vectors reach; how
    /// far that is. None where the processor looks up single bytes as fast.
    #[inline(always)]
    fn lookup_bytes(self, _table: &[u8; 256], _x: &[u8], _to: &mut [u8]) -> usize {
        0
    }

    /// `sum`, and the products of the four bytes of each lane of `a`, which have [`Simd::DOT4_OFFSET`]
    /// added, and of `b`, which have a sign.
    fn add_dot4(self, sum: Self::I32, a: Self::I32, b: Self::I32) -> Self::I32;

    /// `sum`, and the products of bytes without sign, below 16, with those of `x`, which have one.
    /// It begins with zeros and is brought together by [`Simd::reduce_dot4_u4`], after at most eight times.
    /// Where there are quads this is one: below 16, a byte is the same with a sign and without.
    #[inline(always)]
    fn add_dot4_u4(self, sum: Self::I32, nibbles: Self::I32, x: Self::I32) -> Self::I32 {
        self.add_dot4(sum, nibbles, x)
    }

    /// The sum for each lane of what [`Simd::add_dot4_u4`] added up: `sum` itself where there are
    /// quads.
    #[inline(always)]
    fn reduce_dot4_u4(self, sum: Self::I32) -> Self::I32 {
        sum
    }

    /// Two zipped vectors (see [`Int::interleave_i16`]) in the order of their channels.
    fn deinterleave(self, values: [Self::F32; 2]) -> [Self::F32; 2];

    /// Zeros.
    #[inline(always)]
    fn zero(self) -> Self::F32 {
        self.splat(0.0)
    }

    /// The first `LANES` numbers of `from`.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::F32 {
        let from = &from[..Self::LANES];
        // SAFETY: the slice holds `LANES` numbers.
        unsafe { self.load_ptr(from.as_ptr()) }
    }

    /// The first numbers of `from`, with zeros when they are fewer than `LANES`.
    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> Self::F32 {
        // SAFETY: no more is read than the slice holds.
        unsafe { self.load_partial_ptr(from.as_ptr(), from.len()) }
    }

    /// Writes all lanes to the first `LANES` places of `to`.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline(always)]
    fn store(self, value: Self::F32, to: &mut [f32]) {
        let to = &mut to[..Self::LANES];
        // SAFETY: the slice holds `LANES` numbers.
        unsafe { self.store_ptr(value, to.as_mut_ptr()) }
    }

    /// Writes as many lanes to `to` as it has places.
    #[inline(always)]
    fn store_partial(self, value: Self::F32, to: &mut [f32]) {
        // SAFETY: no more is written than the slice holds.
        unsafe { self.store_partial_ptr(value, to.as_mut_ptr(), to.len()) }
    }
}

/// A vector of numbers of 32 bits.
pub trait Float:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Integers of as many lanes.
    type I32: Int<F32 = Self, Mask = Self::Mask>;
    /// Truth values of as many lanes.
    type Mask: Mask<F32 = Self>;

    /// `self · factor + addend`; rounded once where the processor can.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// `self` where it is less than `other`, else `other`: also where one of them is NaN.
    fn min(self, other: Self) -> Self;
    /// `self` where it is greater than `other`, else `other`: also where one of them is NaN.
    fn max(self, other: Self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// Where `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// Where `self <= other`.
    fn le(self, other: Self) -> Self::Mask;
    /// Where `self == other`; never where one is NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// The nearest integers, halves to the even one; unspecified outside the range of `i32`.
    fn round_to_i32(self) -> Self::I32;
    /// The same bits.
    fn to_bits(self) -> Self::I32;
    /// The sum of the lanes.
    fn sum(self) -> f32;
    /// The smallest lane; unspecified when one is NaN.
    fn min_lane(self) -> f32;
    /// The largest lane; unspecified when one is NaN.
    fn max_lane(self) -> f32;

    /// Where the number is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        !self.eq(self)
    }
}

/// A vector of integers of 32 bits, which wrap.
pub trait Int:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
{
    /// Numbers of as many lanes.
    type F32: Float<I32 = Self>;
    /// Truth values of as many lanes.
    type Mask: Mask<F32 = Self::F32>;

    /// The nearest numbers.
    fn to_f32(self) -> Self::F32;
    /// The same bits.
    fn bitcast(self) -> Self::F32;
    /// The bits moved up by `N`, which is less than 32.
    fn shl<const N: u32>(self) -> Self;
    /// The bits moved down by `N`, which is less than 32; the sign fills up.
    fn shr<const N: u32>(self) -> Self;
    /// Adds the products of the lower and of the upper halves of `a` and `b`, each half an integer
    /// of 16 bits with a sign.
    #[must_use]
    fn add_dot2(self, a: Self, b: Self) -> Self;
    /// The sums of the lower and of the upper halves, each an integer of 16 bits, which wraps.
    #[must_use]
    fn add_i16(self, other: Self) -> Self;
    /// The same, of differences.
    #[must_use]
    fn sub_i16(self, other: Self) -> Self;
    /// The lower and the upper bytes of both halves, as integers of 16 bits with a sign.
    fn widen_bytes(self) -> [Self; 2];
    /// Pairs each integer of 16 bits with that of `other` in the same place. Of every eight
    /// places, the first four go to the first vector and the others to the second: place `p` to
    /// lane `p / 8 * 4 + p % 4` of vector `p % 8 / 4`. Such vectors are zipped.
    fn interleave_i16(self, other: Self) -> [Self; 2];
    /// The lowest bytes of three vectors: that of `self` becomes the highest byte, those of `b` and
    /// of `c` follow, and the lowest byte is zero.
    #[must_use]
    fn join_low_bytes(self, b: Self, c: Self) -> Self;
    /// The lower four and the upper four bits of each byte, as bytes.
    fn split_nibbles(self) -> [Self; 2];
    /// Where `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// Where `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
}

/// A truth value for each lane.
pub trait Mask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// Numbers of as many lanes.
    type F32: Copy;

    /// `yes` where it is true, else `no`.
    fn select(self, yes: Self::F32, no: Self::F32) -> Self::F32;
    /// Whether it is true anywhere.
    fn any(self) -> bool;
}
