//! The transformations of six numbers in a row: of inputs, weights and products.
//!
//! Polynomials of the fifth degree are given by their values at 0, ±√½, ±√2 and by their highest
//! coefficient. Rounding errors are a quarter of those that 0, ±1 and ±2 give.

use core::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use crate::{Float, Simd};

/// A vector for each place of a square.
pub(super) type Square<S, const N: usize, const M: usize> = [[<S as Simd>::F32; N]; M];

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

/// The vectors at `at` of each row.
#[inline(always)]
fn column<S: Simd, const N: usize, const M: usize>(
    simd: S,
    rows: &Square<S, N, M>,
    at: usize,
) -> [S::F32; M] {
    let mut column = [simd.zero(); M];
    for (to, row) in column.iter_mut().zip(rows) {
        *to = row[at];
    }
    column
}

/// Transforms rows, then columns, with indices that the compiler sees: so vectors stay in registers.
macro_rules! both_ways {
    ($(#[$doc:meta])* $name:ident, $one:ident, $from:literal [$($i:literal)*], $to:literal [$($o:literal)*]) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<S: Simd>(
            simd: S,
            from: Square<S, $from, $from>,
        ) -> Square<S, $to, $to> {
            let half = [$($one(simd, from[$i])),*];
            [$($one(simd, column::<S, $to, $from>(simd, &half, $o))),*]
        }
    };
}

both_ways!(
    /// Of a tile of the input.
    inputs, input, 6 [0 1 2 3 4 5], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of a kernel.
    weights, weight, 3 [0 1 2], 6 [0 1 2 3 4 5]
);
both_ways!(
    /// Of products, to a tile of the output.
    outputs, output, 6 [0 1 2 3 4 5], 4 [0 1 2 3]
);
