//! The transformations of six numbers in a row: of inputs, weights and products.
//!
//! Polynomials of the fifth degree are given by their values at five places and by their highest
//! coefficient. Of `f32` the places are 0, ±√½ and ±√2, whose rounding errors are a quarter of
//! those that 0, ±1 and ±2 give. Of integers they are the latter, and nothing is rounded: weights
//! are multiplied by 24 as far as fractions demand, and outputs divided by as much.

use core::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use crate::{Float, Int, Simd};

/// A vector for each place of a square.
pub(super) type Square<V, const N: usize, const M: usize> = [[V; N]; M];

/// Of inputs.
#[inline(always)]
fn input<S: Simd>(simd: S, d: [S::F32; 6]) -> [S::F32; 6] {
    let [a, b] = [simd.splat(FRAC_1_SQRT_2), simd.splat(SQRT_2)];
    let [half, two, middle] = [simd.splat(-0.5), simd.splat(-2.0), simd.splat(-2.5)];
    let (even_a, odd_a) = (d[2].mul_add(two, d[4]), d[1].mul_add(two, d[3]));
    let (even_b, odd_b) = (d[2].mul_add(half, d[4]), d[1].mul_add(half, d[3]));
    [
        d[2].mul_add(middle, d[0] + d[4]),
        odd_a.mul_add(a, even_a),
        odd_a.mul_add(-a, even_a),
        odd_b.mul_add(b, even_b),
        odd_b.mul_add(-b, even_b),
        d[3].mul_add(middle, d[1] + d[5]),
    ]
}

/// Of weights.
#[inline(always)]
fn weight<S: Simd>(simd: S, g: [S::F32; 3]) -> [S::F32; 6] {
    let [a, b] = [simd.splat(FRAC_1_SQRT_2 / 1.5), simd.splat(SQRT_2 / 6.0)];
    let [third, two_thirds, sixth] =
        [simd.splat(-1.0 / 3.0), simd.splat(-2.0 / 3.0), simd.splat(1.0 / 6.0)];
    let even_a = g[2].mul_add(third, g[0] * two_thirds);
    let even_b = g[0].mul_add(sixth, g[2] * -third);
    [
        g[0],
        g[1].mul_add(-a, even_a),
        g[1].mul_add(a, even_a),
        g[1].mul_add(b, even_b),
        g[1].mul_add(-b, even_b),
        g[2],
    ]
}

/// Of products, to outputs.
#[inline(always)]
fn output<S: Simd>(simd: S, m: [S::F32; 6]) -> [S::F32; 4] {
    let [a, b] = [simd.splat(FRAC_1_SQRT_2), simd.splat(SQRT_2)];
    let (even_a, odd_a) = (m[1] + m[2], (m[1] - m[2]) * a);
    let (even_b, odd_b) = (m[3] + m[4], (m[3] - m[4]) * b);
    let [half, two] = [simd.splat(0.5), simd.splat(2.0)];
    [
        m[0] + (even_a + even_b),
        odd_a + odd_b,
        even_a.mul_add(half, even_b * two),
        odd_a.mul_add(half, odd_b.mul_add(two, m[5])),
    ]
}

/// Integers of 16 bits, twice.
#[inline(always)]
fn twice<I: Int>(x: I) -> I {
    x.add_i16(x)
}

/// Integers of 16 bits, four times.
#[inline(always)]
fn four<I: Int>(x: I) -> I {
    twice(twice(x))
}

/// Integers of 32 bits, six times.
#[inline(always)]
fn six<I: Int>(x: I) -> I {
    (x + x.shl::<1>()).shl::<1>()
}

/// Of integers of 16 bits; what `±255` gives fits into as many.
#[inline(always)]
fn whole_input<S: Simd>(_: S, d: [S::I32; 6]) -> [S::I32; 6] {
    let even_a = d[4].sub_i16(four(d[2]));
    let odd_a = d[3].sub_i16(four(d[1]));
    let even_b = d[4].sub_i16(d[2]);
    let odd_b = twice(d[3].sub_i16(d[1]));
    [
        four(d[0]).add_i16(even_a.sub_i16(d[2])),
        even_a.add_i16(odd_a),
        even_a.sub_i16(odd_a),
        even_b.add_i16(odd_b),
        even_b.sub_i16(odd_b),
        d[5].sub_i16(d[3]).sub_i16(twice(odd_b)),
    ]
}

/// Of weights of 16 bits: 4, -6, -6, 24, 24 and 1 times what makes outputs.
#[inline(always)]
fn whole_weight<S: Simd>(_: S, g: [S::I32; 3]) -> [S::I32; 6] {
    let (even_a, odd_b) = (g[0].add_i16(g[2]), twice(g[1]));
    let even_b = g[0].add_i16(four(g[2]));
    [
        g[0],
        even_a.add_i16(g[1]),
        even_a.sub_i16(g[1]),
        even_b.add_i16(odd_b),
        even_b.sub_i16(odd_b),
        g[2],
    ]
}

/// Of products, which wrap: 3 times outputs, and 2 to the power of [`SHIFTS`].
#[inline(always)]
fn whole_output<S: Simd>(_: S, m: [S::I32; 6]) -> [S::I32; 4] {
    let (even_a, odd_a) = (m[1] + m[2], m[1] - m[2]);
    let (even_b, odd_b) = (m[3] + m[4], m[3] - m[4]);
    [
        six(m[0]) + (even_b - even_a.shl::<2>()),
        odd_b - odd_a.shl::<1>(),
        even_b - even_a,
        six(m[5]) + (odd_b.shl::<1>() - odd_a),
    ]
}

/// See [`whole_output`].
pub(super) const SHIFTS: [u32; 4] = [3, 2, 1, 1];

/// The vectors at `at` of each row.
#[inline(always)]
fn column<V: Copy, const N: usize, const M: usize>(rows: &Square<V, N, M>, at: usize) -> [V; M] {
    let mut column = [rows[0][at]; M];
    for (to, row) in column.iter_mut().zip(rows) {
        *to = row[at];
    }
    column
}

/// Transforms rows, then columns, with indices that the compiler sees: so vectors stay in
/// registers.
macro_rules! both_ways {
    ($(#[$doc:meta])* $name:ident, $one:ident, $vector:ident, $from:literal [$($i:literal)*], $to:literal [$($o:literal)*]) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<S: Simd>(
            simd: S,
            from: Square<S::$vector, $from, $from>,
        ) -> Square<S::$vector, $to, $to> {
            let half = [$($one(simd, from[$i])),*];
            [$($one(simd, column::<S::$vector, $to, $from>(&half, $o))),*]
        }
    };
}

both_ways!(
    /// Of a tile of the input.
    inputs, input, F32, 6 [0 1 2 3 4 5], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of a kernel.
    weights, weight, F32, 3 [0 1 2], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of products, to a tile of the output.
    outputs, output, F32, 6 [0 1 2 3 4 5], 4 [0 1 2 3]
);
both_ways!(
    /// Of a tile of the input, integers.
    whole_inputs, whole_input, I32, 6 [0 1 2 3 4 5], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of a kernel of integers.
    whole_weights, whole_weight, I32, 3 [0 1 2], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of products of integers.
    whole_outputs, whole_output, I32, 6 [0 1 2 3 4 5], 4 [0 1 2 3]
);
