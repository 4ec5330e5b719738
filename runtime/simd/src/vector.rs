//! Portable vector traits: arithmetic is written once against them and compiled for each
//! instruction set.

#![expect(unsafe_code, reason = "declares loads and stores through pointers")]

use core::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// An instruction set, as a token that exists only if the processor supports it.
///
/// Generic code takes the token, creates vectors from it, and is `#[inline(always)]` down to the
/// methods of these traits. Only then are the instructions emitted into the function that
/// [`Routine`](crate::Routine) compiles for the instruction set.
pub trait Simd: Copy + Send + Sync + 'static {
    /// 32-bit lanes of a vector: a power of two, at most 16.
    const LANES: usize;
    /// Vector registers of the processor.
    const REGISTERS: usize;
    /// True if int8 dot products are computed four bytes at a time ([`Simd::add_dot4`]), and not
    /// two at a time after widening to 16 bits ([`Int::add_dot2`]).
    const HAS_DOT4: bool;
    /// Offset that the caller adds to the left operand of [`Simd::add_dot4`]: 128 if the
    /// instruction takes unsigned bytes there, 0 if it takes signed bytes.
    const DOT4_OFFSET: u8 = 128;
    /// Vector of `LANES` `f32` values.
    type F32: Float<I32 = Self::I32, Mask = Self::Mask>;
    /// Vector of `LANES` `i32` values.
    type I32: Int<F32 = Self::F32, Mask = Self::Mask>;
    /// Vector of `LANES` booleans.
    type Mask: Mask<F32 = Self::F32>;

    /// Broadcasts `value` to all lanes.
    fn splat(self, value: f32) -> Self::F32;

    /// Broadcasts `value` to all lanes.
    fn splat_i32(self, value: i32) -> Self::I32;

    /// Loads `LANES` values. No alignment is required.
    ///
    /// # Safety
    /// `ptr` is valid for reads of `LANES` values.
    unsafe fn load_ptr(self, ptr: *const f32) -> Self::F32;

    /// Loads the first `len` lanes; the others are zero.
    ///
    /// # Safety
    /// `ptr` is valid for reads of the smaller of `len` and `LANES` values.
    unsafe fn load_partial_ptr(self, ptr: *const f32, len: usize) -> Self::F32;

    /// Prefetches the cache line at `ptr`. The pointer may be invalid.
    #[inline(always)]
    fn prefetch<T>(self, _ptr: *const T) {}

    /// Stores all lanes. No alignment is required.
    ///
    /// # Safety
    /// `ptr` is valid for writes of `LANES` values.
    unsafe fn store_ptr(self, value: Self::F32, ptr: *mut f32);

    /// Stores the first `len` lanes.
    ///
    /// # Safety
    /// `ptr` is valid for writes of the smaller of `len` and `LANES` values.
    unsafe fn store_partial_ptr(self, value: Self::F32, ptr: *mut f32, len: usize);

    /// Stores the first `len` lanes as int8 with saturation.
    ///
    /// # Safety
    /// `ptr` is valid for writes of the smaller of `len` and `LANES` values.
    unsafe fn store_i8_ptr(self, value: Self::I32, ptr: *mut i8, len: usize);

    /// Loads `2 * LANES` int8 values and widens them to 16 bits, two per lane.
    ///
    /// # Safety
    /// `ptr` is valid for reads of `2 * LANES` values.
    #[inline(always)]
    unsafe fn load_widened_i8_ptr(self, ptr: *const i8) -> Self::I32 {
        let mut all = [0_i32; 16];
        for (lane, to) in all.iter_mut().enumerate().take(Self::LANES) {
            let pair = ptr.wrapping_add(2 * lane);
            // SAFETY: the caller guarantees both bytes of the pair, which need no alignment.
            let [low, high] = unsafe { pair.cast::<[i8; 2]>().read() };
            *to = (i32::from(low) & 0xffff) | (i32::from(high) << 16);
        }
        // SAFETY: the array holds 16 values.
        unsafe { self.load_ptr(all.as_ptr().cast()) }.to_bits()
    }

    /// Loads four bytes for each lane out of windows of 16 bytes. Lanes `4k` to `4k + 3` read the
    /// window at `ptr + offsets[k]`: byte `b` of lane `l` is the byte with the index
    /// `indices[4 * l + b]`, or zero if that index is 128.
    ///
    /// # Safety
    /// There is an offset for each four lanes, and four indices for each lane, each below 16 or 128.
    /// Each window is valid for reads.
    #[inline(always)]
    unsafe fn load_windows_ptr(
        self,
        ptr: *const u8,
        offsets: *const u32,
        indices: *const u8,
    ) -> Self::I32 {
        let mut all = [0_i32; 16];
        for (lane, to) in all.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller guarantees an offset for each four lanes.
            let offset = unsafe { offsets.wrapping_add(lane / 4).read() };
            // SAFETY: the caller guarantees the window, which needs no alignment.
            let window = unsafe { ptr.wrapping_add(offset as usize).cast::<[u8; 16]>().read() };
            // SAFETY: the caller guarantees four indices for each lane.
            let indices = unsafe { indices.wrapping_add(4 * lane).cast::<[u8; 4]>().read() };
            let byte = |index: u8| window.get(usize::from(index)).copied().unwrap_or(0);
            *to = i32::from_le_bytes(indices.map(byte));
        }
        // SAFETY: the array holds 16 values.
        unsafe { self.load_ptr(all.as_ptr().cast()) }.to_bits()
    }

    /// Loads `2 * LANES` int8 values of each of three rows and adds [`Simd::DOT4_OFFSET`]. Each
    /// lane of the result holds one byte of each row and a zero byte. The vectors are interleaved
    /// (see [`Int::interleave_i16`]).
    ///
    /// # Safety
    /// Each row is valid for reads of `2 * LANES` values.
    #[inline(always)]
    unsafe fn load_three_rows_ptr(self, rows: [*const i8; 3]) -> [Self::I32; 2] {
        let offset = 0x0001_0001 * i32::from(Self::DOT4_OFFSET);
        let (byte, offset) = (self.splat_i32(0x00ff_00ff), self.splat_i32(offset));
        let [a, b, c] = rows.map(|row| {
            // SAFETY: guaranteed by the caller.
            let words = unsafe { self.load_widened_i8_ptr(row) };
            ((words & byte) + offset) & byte
        });
        (a | b.shl::<8>()).interleave_i16(c)
    }

    /// Requantizes two interleaved vectors and stores the first `len` values in column order:
    /// `saturate(round(clamp(value, low, high)) + zero_point)`.
    ///
    /// The bounds are integers, and `zero_point` fits int8. NaN becomes the lower bound.
    ///
    /// # Safety
    /// `ptr` is valid for writes of the smaller of `len` and `2 * LANES` values.
    #[inline(always)]
    unsafe fn store_interleaved_i8_ptr(
        self,
        values: [Self::F32; 2],
        zero_point: i32,
        (low, high): (f32, f32),
        ptr: *mut i8,
        len: usize,
    ) {
        let values = self.deinterleave(values);
        for (half, value) in values.into_iter().enumerate() {
            // NaN becomes the lower bound.
            let bounded = value.max(self.splat(low)).min(self.splat(high));
            let value = bounded.round_to_i32() + self.splat_i32(zero_point);
            let start = half * Self::LANES;
            // SAFETY: guaranteed by the caller.
            unsafe { self.store_i8_ptr(value, ptr.wrapping_add(start), len.saturating_sub(start)) }
        }
    }

    /// Writes `table[x[i]]` to `out[i]` for whole vectors, and returns the number of bytes written.
    /// Returns zero if the processor has no faster instruction than a scalar load.
    #[inline(always)]
    fn lookup_bytes(self, _table: &[u8; 256], _x: &[u8], _out: &mut [u8]) -> usize {
        0
    }

    /// Adds to each lane of `sum` the dot product of its four bytes in `a` and in `b`. The bytes of
    /// `a` have [`Simd::DOT4_OFFSET`] added; the bytes of `b` are signed.
    fn add_dot4(self, sum: Self::I32, a: Self::I32, b: Self::I32) -> Self::I32;

    /// Adds the dot products of the unsigned 4-bit values in the bytes of `nibbles` with the signed
    /// bytes of `x`.
    ///
    /// `sum` starts at zero, and [`Simd::reduce_dot4_u4`] completes it after at most eight
    /// additions, before the 16-bit partial sums overflow. With [`Simd::HAS_DOT4`] this is
    /// [`Simd::add_dot4`]: a byte below 16 has the same value signed and unsigned.
    #[inline(always)]
    fn add_dot4_u4(self, sum: Self::I32, nibbles: Self::I32, x: Self::I32) -> Self::I32 {
        self.add_dot4(sum, nibbles, x)
    }

    /// Completes the sums of [`Simd::add_dot4_u4`] to one int32 per lane. With [`Simd::HAS_DOT4`]
    /// this is the identity.
    #[inline(always)]
    fn reduce_dot4_u4(self, sum: Self::I32) -> Self::I32 {
        sum
    }

    /// Converts two interleaved vectors (see [`Int::interleave_i16`]) to column order.
    fn deinterleave(self, values: [Self::F32; 2]) -> [Self::F32; 2];

    /// Transposes a square tile of `LANES` vectors in place: lane `j` of vector `i` becomes lane `i`
    /// of vector `j`. A tile of another length stays as it is.
    fn transpose(self, tile: &mut [Self::F32]);

    /// Vector of zeros.
    #[inline(always)]
    fn zero(self) -> Self::F32 {
        self.splat(0.0)
    }

    /// Loads the first `LANES` values of `from`.
    ///
    /// # Panics
    /// If `from` is shorter.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::F32 {
        let from = &from[..Self::LANES];
        // SAFETY: the slice holds `LANES` values.
        unsafe { self.load_ptr(from.as_ptr()) }
    }

    /// Loads up to `LANES` values of `from`; missing lanes are zero.
    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> Self::F32 {
        // SAFETY: no more is read than the slice holds.
        unsafe { self.load_partial_ptr(from.as_ptr(), from.len()) }
    }

    /// Stores all lanes to the first `LANES` elements of `to`.
    ///
    /// # Panics
    /// If `to` is shorter.
    #[inline(always)]
    fn store(self, value: Self::F32, to: &mut [f32]) {
        let to = &mut to[..Self::LANES];
        // SAFETY: the slice holds `LANES` values.
        unsafe { self.store_ptr(value, to.as_mut_ptr()) }
    }

    /// Stores as many lanes as `to` has elements.
    #[inline(always)]
    fn store_partial(self, value: Self::F32, to: &mut [f32]) {
        // SAFETY: no more is written than the slice holds.
        unsafe { self.store_partial_ptr(value, to.as_mut_ptr(), to.len()) }
    }
}

/// Vector of `f32` lanes.
pub trait Float:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Integer vector with the same number of lanes.
    type I32: Int<F32 = Self, Mask = Self::Mask>;
    /// Boolean vector with the same number of lanes.
    type Mask: Mask<F32 = Self>;

    /// `self * factor + addend`; fused if the processor supports it.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// `if self < other { self } else { other }`; returns `other` if one of them is NaN.
    fn min(self, other: Self) -> Self;
    /// `if self > other { self } else { other }`; returns `other` if one of them is NaN.
    fn max(self, other: Self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// `self * 2ⁿ` for `n` from -252 to 254. The result may be subnormal, zero or infinite.
    #[must_use]
    #[inline(always)]
    fn mul_power_of_2(self, n: Self::I32) -> Self {
        // Two factors, because 2ⁿ itself may be out of range.
        let half = n.shr::<1>();
        self * half.power_of_2() * (n - half).power_of_2()
    }
    /// Square root.
    fn sqrt(self) -> Self;
    /// `self < other`; false if one of them is NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`; false if one of them is NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// `self == other`; false if one of them is NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// Rounds to the nearest integer, ties to even; unspecified outside the range of `i32`.
    fn round_to_i32(self) -> Self::I32;
    /// Reinterprets the bits as integers.
    fn to_bits(self) -> Self::I32;
    /// Sum of all lanes.
    fn sum(self) -> f32;
    /// Minimum of all lanes; unspecified if one is NaN.
    fn min_lane(self) -> f32;
    /// Maximum of all lanes; unspecified if one is NaN.
    fn max_lane(self) -> f32;

    /// True in the lanes that are NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        !self.eq(self)
    }
}

/// Vector of `i32` lanes with wrapping arithmetic.
pub trait Int:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
{
    /// `f32` vector with the same number of lanes.
    type F32: Float<I32 = Self>;
    /// Boolean vector with the same number of lanes.
    type Mask: Mask<F32 = Self::F32>;

    /// Converts to the nearest `f32`.
    fn to_f32(self) -> Self::F32;
    /// Reinterprets the bits as `f32`.
    fn bitcast(self) -> Self::F32;
    /// 2ⁿ for `n` from -126 to 127.
    fn power_of_2(self) -> Self::F32;
    /// Shifts left by `N`, which is less than 32.
    fn shl<const N: u32>(self) -> Self;
    /// Shifts right by `N`, which is less than 32, with sign extension.
    fn shr<const N: u32>(self) -> Self;
    /// Adds to each lane the dot product of its two 16-bit halves in `a` and in `b`, signed.
    #[must_use]
    fn add_dot2(self, a: Self, b: Self) -> Self;
    /// Adds the 16-bit halves of the lanes, wrapping.
    #[must_use]
    fn add_i16(self, other: Self) -> Self;
    /// Subtracts the 16-bit halves of the lanes, wrapping.
    #[must_use]
    fn sub_i16(self, other: Self) -> Self;
    /// Sign-extends the low bytes of the 16-bit halves, and the high bytes, to 16 bits.
    fn widen_bytes(self) -> [Self; 2];
    /// Pairs each 16-bit half of `self` with the same half of `other`, in *interleaved order*.
    ///
    /// In each group of eight halves, the first four go to the first vector, the rest to the second:
    /// half `p` goes to lane `p / 8 * 4 + p % 4` of vector `p % 8 / 4`.
    fn interleave_i16(self, other: Self) -> [Self; 2];
    /// Joins the first halves of the lanes of two vectors in one, or returns `self` if a vector has only
    /// four lanes: the columns of a narrow panel, from two interleaved vectors.
    fn join_halves(self, other: Self) -> Self;
    /// The two vectors of [`Int::join_halves`]. Their other lanes are unspecified.
    fn split_halves(self) -> [Self; 2];
    /// Joins the lowest bytes of three vectors: bits 24 to 31 from `self`, 16 to 23 from `b`, 8 to
    /// 15 from `c`. The lowest byte is zero.
    #[must_use]
    fn join_low_bytes(self, b: Self, c: Self) -> Self;
    /// Low four bits and high four bits of each byte, as bytes.
    fn split_nibbles(self) -> [Self; 2];
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
}

/// Vector of booleans.
pub trait Mask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// `f32` vector with the same number of lanes.
    type F32: Copy;

    /// `yes` in the lanes that are true, otherwise `no`.
    fn select(self, yes: Self::F32, no: Self::F32) -> Self::F32;
    /// True if any lane is true.
    fn any(self) -> bool;
}
