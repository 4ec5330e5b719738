//! Winograd transforms of inputs, weights and products.
//!
//! The transforms evaluate polynomials of degree 5 at five points and at infinity. The points of
//! the `f32` transforms are 0, ±√½ and ±√2, whose rounding error is a quarter of that of 0, ±1 and
//! ±2. The integer transforms use the latter and are exact: weights are scaled by up to 24 to avoid
//! fractions, and outputs are divided by the same factors.

use core::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use crate::{Float, Int, Simd};

/// A vector per element of `M` rows of `N` elements.
pub(super) type Square<V, const N: usize, const M: usize> = [[V; N]; M];

/// One-dimensional input transform.
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

/// One-dimensional weight transform.
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

/// One-dimensional output transform.
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

/// `2 * x` in 16-bit halves.
#[inline(always)]
fn double_i16<I: Int>(x: I) -> I {
    x.add_i16(x)
}

/// `4 * x` in 16-bit halves.
#[inline(always)]
fn quadruple_i16<I: Int>(x: I) -> I {
    double_i16(double_i16(x))
}

/// `6 * x` in 32-bit lanes.
#[inline(always)]
fn times_6<I: Int>(x: I) -> I {
    (x + x.shl::<1>()).shl::<1>()
}

/// One-dimensional input transform of 16-bit integers. After both dimensions, inputs within ±255
/// fit 16 bits.
#[inline(always)]
fn input_i16<S: Simd>(_: S, d: [S::I32; 6]) -> [S::I32; 6] {
    let even_a = d[4].sub_i16(quadruple_i16(d[2]));
    let odd_a = d[3].sub_i16(quadruple_i16(d[1]));
    let even_b = d[4].sub_i16(d[2]);
    let odd_b = double_i16(d[3].sub_i16(d[1]));
    [
        quadruple_i16(d[0]).add_i16(even_a.sub_i16(d[2])),
        even_a.add_i16(odd_a),
        even_a.sub_i16(odd_a),
        even_b.add_i16(odd_b),
        even_b.sub_i16(odd_b),
        d[5].sub_i16(d[3]).sub_i16(double_i16(odd_b)),
    ]
}

/// One-dimensional weight transform of 16-bit integers, scaled by 4, -6, -6, 24, 24 and 1.
#[inline(always)]
fn weight_i16<S: Simd>(_: S, g: [S::I32; 3]) -> [S::I32; 6] {
    let (even_a, odd_b) = (g[0].add_i16(g[2]), double_i16(g[1]));
    let even_b = g[0].add_i16(quadruple_i16(g[2]));
    [
        g[0],
        even_a.add_i16(g[1]),
        even_a.sub_i16(g[1]),
        even_b.add_i16(odd_b),
        even_b.sub_i16(odd_b),
        g[2],
    ]
}

/// One-dimensional output transform of wrapping 32-bit integers. Results are scaled by 3 and by 2
/// to the power of [`OUTPUT_SHIFTS`].
#[inline(always)]
fn output_i32<S: Simd>(_: S, m: [S::I32; 6]) -> [S::I32; 4] {
    let (even_a, odd_a) = (m[1] + m[2], m[1] - m[2]);
    let (even_b, odd_b) = (m[3] + m[4], m[3] - m[4]);
    [
        times_6(m[0]) + (even_b - even_a.shl::<2>()),
        odd_b - odd_a.shl::<1>(),
        even_b - even_a,
        times_6(m[5]) + (odd_b.shl::<1>() - odd_a),
    ]
}

/// Binary exponents of the factors of [`outputs_i32`], per row and per column.
pub(super) const OUTPUT_SHIFTS: [u32; 4] = [3, 2, 1, 1];

/// Element `index` of each row.
#[inline(always)]
fn column<V: Copy, const N: usize, const M: usize>(rows: &Square<V, N, M>, index: usize) -> [V; M] {
    let mut column = [rows[0][index]; M];
    for (to, row) in column.iter_mut().zip(rows) {
        *to = row[index];
    }
    column
}

/// Two-dimensional transform: rows, then columns. Indices are literals, so that vectors stay in
/// registers.
macro_rules! two_dimensional {
    ($(#[$doc:meta])* $name:ident, $transform:ident, $vector:ident, $from:literal [$($i:literal)*], $to:literal [$($o:literal)*]) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<S: Simd>(
            simd: S,
            from: Square<S::$vector, $from, $from>,
        ) -> Square<S::$vector, $to, $to> {
            let rows = [$($transform(simd, from[$i])),*];
            [$($transform(simd, column::<S::$vector, $to, $from>(&rows, $o))),*]
        }
    };
}

two_dimensional!(
    /// Input transform of a tile.
    inputs, input, F32, 6 [0 1 2 3 4 5], 6 [0 1 2 3 4 5]
);
two_dimensional!(
    /// Weight transform of a kernel.
    weights, weight, F32, 3 [0 1 2], 6 [0 1 2 3 4 5]
);
two_dimensional!(
    /// Output transform of a tile.
    outputs, output, F32, 6 [0 1 2 3 4 5], 4 [0 1 2 3]
);
two_dimensional!(
    /// Input transform of a tile of 16-bit integers.
    inputs_i16, input_i16, I32, 6 [0 1 2 3 4 5], 6 [0 1 2 3 4 5]
);
two_dimensional!(
    /// Weight transform of a kernel of 16-bit integers.
    weights_i16, weight_i16, I32, 3 [0 1 2], 6 [0 1 2 3 4 5]
);
two_dimensional!(
    /// Output transform of a tile of 32-bit integers, which wrap.
    outputs_i32, output_i32, I32, 6 [0 1 2 3 4 5], 4 [0 1 2 3]
);
