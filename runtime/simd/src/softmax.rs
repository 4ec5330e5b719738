//! Softmax and log-softmax along one dimension of a row-major tensor.

use crate::{
    Float, Isa, Routine, Simd,
    math::{exp, ln},
};

/// The dimension of a row-major tensor that softmax reduces.
#[derive(Clone, Copy)]
pub struct Axis {
    /// Product of the sizes of the dimensions before it.
    pub outer: usize,
    /// Size of the dimension.
    pub len: usize,
    /// Product of the sizes of the dimensions after it.
    pub inner: usize,
}

/// Computes `exp(x - max) / Σ exp(x - max)`.
///
/// # Panics
/// If `x` or `out` is shorter than the tensor.
pub fn softmax(isa: Isa, axis: Axis, x: &[f32], out: &mut [f32]) {
    isa.run(Softmax { axis, x, out, is_log: false });
}

/// Computes `x - max - ln Σ exp(x - max)`.
///
/// # Panics
/// As [`softmax`].
pub fn log_softmax(isa: Isa, axis: Axis, x: &[f32], out: &mut [f32]) {
    isa.run(Softmax { axis, x, out, is_log: true });
}

struct Softmax<'a> {
    axis: Axis,
    x: &'a [f32],
    out: &'a mut [f32],
    is_log: bool,
}

impl Routine for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Axis { outer, len, inner } = self.axis;
        if len == 0 || inner == 0 {
            return;
        }
        let all = outer.checked_mul(len).and_then(|all| all.checked_mul(inner));
        let all = all.expect("a tensor fits the address space");
        let (x, out) = (&self.x[..all], &mut self.out[..all]);
        for (x, out) in x.chunks_exact(len * inner).zip(out.chunks_exact_mut(len * inner)) {
            if inner == 1 {
                row(simd, x, out, self.is_log);
            } else {
                columns(simd, inner, x, out, self.is_log);
            }
        }
    }
}

/// A contiguous row.
#[inline(always)]
fn row<S: Simd>(simd: S, x: &[f32], out: &mut [f32], is_log: bool) {
    let base = simd.splat(max(simd, x));
    let mut sum = simd.zero();
    for (x, out) in x.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
        let power = exp(simd, simd.load_partial(x) - base);
        simd.store_partial(power, out);
        // Lanes beyond the end are not zero before the store; reading back makes them zero.
        sum = sum + if out.len() < S::LANES { simd.load_partial(out) } else { power };
    }
    if is_log {
        let log = ln(simd, simd.splat(sum.sum()));
        for (x, out) in x.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            simd.store_partial(simd.load_partial(x) - base - log, out);
        }
    } else {
        let scale = simd.splat(1.0 / sum.sum());
        for out in out.chunks_mut(S::LANES) {
            simd.store_partial(simd.load_partial(out) * scale, out);
        }
    }
}

/// Maximum of a slice; unspecified if a value is NaN.
#[inline(always)]
fn max<S: Simd>(simd: S, values: &[f32]) -> f32 {
    let (whole, rest) = values.split_at(values.len() - values.len() % S::LANES);
    let mut max = simd.splat(f32::NEG_INFINITY);
    for x in whole.chunks_exact(S::LANES) {
        max = max.max(simd.load(x));
    }
    rest.iter().fold(max.max_lane(), |max, &x| if max > x { max } else { x })
}

/// Adjacent columns, one per lane.
#[inline(always)]
fn columns<S: Simd>(simd: S, inner: usize, x: &[f32], out: &mut [f32], is_log: bool) {
    for first in (0..inner).step_by(S::LANES) {
        let lanes = S::LANES.min(inner - first);
        let at = |row: usize| row * inner + first..row * inner + first + lanes;
        let rows = x.len() / inner;
        let mut max = simd.splat(f32::NEG_INFINITY);
        for row in 0..rows {
            max = max.max(simd.load_partial(&x[at(row)]));
        }
        let mut sum = simd.zero();
        for row in 0..rows {
            let power = exp(simd, simd.load_partial(&x[at(row)]) - max);
            simd.store_partial(power, &mut out[at(row)]);
            sum = sum + power;
        }
        let (log, scale) = (ln(simd, sum), simd.splat(1.0) / sum);
        for row in 0..rows {
            let out = &mut out[at(row)];
            let y = if is_log {
                simd.load_partial(&x[at(row)]) - max - log
            } else {
                simd.load_partial(out) * scale
            };
            simd.store_partial(y, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: Axis, from: &[f32]) {
        let Axis { outer, len, inner } = axis;
        for isa in Isa::available() {
            for is_log in [false, true] {
                let mut to = vec![f32::NAN; from.len()];
                let function = if is_log { log_softmax } else { softmax };
                function(isa, axis, from, &mut to);
                for line in 0..outer * inner {
                    let at = |i: usize| (line / inner * len + i) * inner + line % inner;
                    let max = (0..len).map(|i| from[at(i)]).fold(f32::NEG_INFINITY, f32::max);
                    let power = |i| f64::from(from[at(i)] - max).exp();
                    let sum: f64 = (0..len).map(power).sum();
                    for i in 0..len {
                        let share = power(i) / sum;
                        let expected =
                            if is_log { f64::from(from[at(i)] - max) - sum.ln() } else { share };
                        let error = (f64::from(to[at(i)]) - expected).abs();
                        let fine = error <= 1e-6 * (1.0 + expected.abs())
                            || to[at(i)].is_nan() && expected.is_nan()
                            || f64::from(to[at(i)]) == expected;
                        assert!(fine, "{isa:?} {is_log} {len} {inner}: {} {expected}", to[at(i)]);
                    }
                }
            }
        }
    }

    #[test]
    fn every_layout() {
        for (outer, len, inner) in
            [(2, 5, 1), (1, 33, 1), (3, 7, 5), (2, 3, 37), (1, 1, 1), (0, 3, 2)]
        {
            let from: Vec<f32> =
                (0..outer * len * inner).map(|i| (i * 37 % 101) as f32 / 9.0 - 5.0).collect();
            check(Axis { outer, len, inner }, &from);
        }
    }

    #[test]
    fn infinities_and_nan() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let rows = [1000.0, 999.0, -1000.0, -inf, 0.0, 1.0, -inf, -inf, -inf, inf, 0.0, 1.0];
        check(Axis { outer: 4, len: 3, inner: 1 }, &rows);
        check(Axis { outer: 1, len: 4, inner: 3 }, &rows);
        for isa in Isa::available() {
            let mut to = [0.0; 2];
            softmax(isa, Axis { outer: 1, len: 2, inner: 1 }, &[nan, 1.0], &mut to);
            assert!(to.iter().all(|x| x.is_nan()));
        }
    }
}
