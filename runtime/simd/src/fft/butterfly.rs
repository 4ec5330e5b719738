//! Stages of the mixed-radix transform.

use super::{
    batch::{Batch, Real},
    tables::{MAX_RADIX, Radices},
};

/// Real and imaginary part.
pub(super) type Complex<V> = [V; 2];

/// Factor of all lanes: real part, imaginary part, and the negative of the imaginary part.
pub(super) type Root<V> = [V; 3];

/// Product of `x` and a root.
#[inline(always)]
pub(super) fn times<B: Batch>(
    batch: B,
    [re, im]: Complex<B::Vector>,
    [cos, sin, negative_sin]: Root<B::Vector>,
) -> Complex<B::Vector> {
    [batch.mul_add(re, cos, im * negative_sin), batch.mul_add(re, sin, im * cos)]
}

#[inline(always)]
pub(super) fn conj<B: Batch>(batch: B, [re, im]: Complex<B::Vector>) -> Complex<B::Vector> {
    [re, batch.splat(B::Real::default()) - im]
}

/// Real and imaginary part swapped. A forward transform between two swaps is a backward transform.
#[inline(always)]
pub(super) fn swapped<V>([re, im]: Complex<V>) -> Complex<V> {
    [im, re]
}

#[inline(always)]
pub(super) fn scaled<V: Copy + core::ops::Mul<Output = V>>(
    [re, im]: Complex<V>,
    scale: V,
) -> Complex<V> {
    [re * scale, im * scale]
}

#[inline(always)]
fn add<V: Copy + core::ops::Add<Output = V>>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn sub<V: Copy + core::ops::Sub<Output = V>>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] - b[0], a[1] - b[1]]
}

/// Adds or subtracts `-i · x`.
#[inline(always)]
fn rotated_pair<V>(a: Complex<V>, [re, im]: Complex<V>) -> [Complex<V>; 2]
where
    V: Copy + core::ops::Add<Output = V> + core::ops::Sub<Output = V>,
{
    [[a[0] + im, a[1] - re], [a[0] - im, a[1] + re]]
}

/// Transforms `rows`, whose elements are in digit-reversed order. `roots` are the roots of unity of
/// their number.
#[inline(always)]
pub(super) fn run_stages<B: Batch>(
    batch: B,
    radices: &Radices,
    roots: &[[B::Real; 2]],
    rows: &mut [Complex<B::Vector>],
) {
    let mut step = 1;
    for radix in radices.iter() {
        let stride = rows.len() / (step * radix);
        let stage = Stage { batch, radix, step, stride, roots };
        match radix {
            2 => stage.run::<2, Radix2>(rows),
            3 => stage.run::<3, Radix3>(rows),
            4 => stage.run::<4, Radix4>(rows),
            5 => stage.run::<5, Radix5>(rows),
            _ => stage.run_any(rows),
        }
        step *= radix;
    }
}

/// Stage that joins `radix` transforms of `step` elements.
struct Stage<'r, B: Batch> {
    batch: B,
    radix: usize,
    step: usize,
    /// Distance of the twiddle factors of adjacent elements in `roots`.
    stride: usize,
    roots: &'r [[B::Real; 2]],
}

impl<B: Batch> Stage<'_, B> {
    /// Twiddle factor of element `at` of transform `k`.
    #[inline(always)]
    fn twiddle(&self, at: usize, k: usize) -> Root<B::Vector> {
        self.batch.root(self.roots[at * k * self.stride])
    }

    #[inline(always)]
    fn run<const R: usize, F: Butterfly<R>>(&self, rows: &mut [Complex<B::Vector>]) {
        let step = self.step;
        for at in 0..step {
            let mut twiddles = [self.twiddle(0, 0); R];
            for (k, twiddle) in twiddles.iter_mut().enumerate().skip(1) {
                *twiddle = self.twiddle(at, k);
            }
            for block in rows.chunks_exact_mut(R * step) {
                let mut x = [block[at]; R];
                for k in 1..R {
                    let element = block[k * step + at];
                    x[k] = if at > 0 { times(self.batch, element, twiddles[k]) } else { element };
                }
                let y = F::apply(self.batch, x);
                for k in 0..R {
                    block[k * step + at] = y[k];
                }
            }
        }
    }

    /// As [`Stage::run`], for any radix up to [`MAX_RADIX`].
    #[inline(always)]
    fn run_any(&self, rows: &mut [Complex<B::Vector>]) {
        let (step, radix) = (self.step, self.radix);
        let distance = rows.len() / radix;
        let zero = self.batch.splat(B::Real::default());
        let mut x = [[zero; 2]; MAX_RADIX];
        for at in 0..step {
            for block in rows.chunks_exact_mut(radix * step) {
                for (k, x) in x[..radix].iter_mut().enumerate() {
                    *x = times(self.batch, block[k * step + at], self.twiddle(at, k));
                }
                for j in 0..radix {
                    let mut sum = x[0];
                    for (k, &x) in x[..radix].iter().enumerate().skip(1) {
                        let root = self.batch.root(self.roots[j * k % radix * distance]);
                        sum = add(sum, times(self.batch, x, root));
                    }
                    block[j * step + at] = sum;
                }
            }
        }
    }
}

/// Transform of `R` elements.
///
/// A trait and not a closure: the code must be inlined into the function of the instruction set.
trait Butterfly<const R: usize> {
    fn apply<B: Batch>(batch: B, x: [Complex<B::Vector>; R]) -> [Complex<B::Vector>; R];
}

struct Radix2;
struct Radix3;
struct Radix4;
struct Radix5;

impl Butterfly<2> for Radix2 {
    #[inline(always)]
    fn apply<B: Batch>(_: B, [a, b]: [Complex<B::Vector>; 2]) -> [Complex<B::Vector>; 2] {
        [add(a, b), sub(a, b)]
    }
}

impl Butterfly<3> for Radix3 {
    #[inline(always)]
    fn apply<B: Batch>(batch: B, [a, b, c]: [Complex<B::Vector>; 3]) -> [Complex<B::Vector>; 3] {
        let half = batch.splat(B::Real::from_f64(-0.5));
        let sin = batch.splat(B::Real::from_f64(0.866_025_403_784_438_6));
        let sum = add(b, c);
        let middle = add_scaled(batch, a, sum, half);
        let [first, second] = rotated_pair(middle, scaled(sub(b, c), sin));
        [add(a, sum), first, second]
    }
}

impl Butterfly<4> for Radix4 {
    #[inline(always)]
    fn apply<B: Batch>(_: B, [a, b, c, d]: [Complex<B::Vector>; 4]) -> [Complex<B::Vector>; 4] {
        let (even, odd) = (add(a, c), add(b, d));
        let [first, third] = rotated_pair(sub(a, c), sub(b, d));
        [add(even, odd), first, sub(even, odd), third]
    }
}

impl Butterfly<5> for Radix5 {
    #[inline(always)]
    fn apply<B: Batch>(
        batch: B,
        [a, b, c, d, e]: [Complex<B::Vector>; 5],
    ) -> [Complex<B::Vector>; 5] {
        let cos1 = batch.splat(B::Real::from_f64(0.309_016_994_374_947_45));
        let cos2 = batch.splat(B::Real::from_f64(-0.809_016_994_374_947_5));
        let sin1 = batch.splat(B::Real::from_f64(0.951_056_516_295_153_5));
        let sin2 = batch.splat(B::Real::from_f64(0.587_785_252_292_473_1));
        let (outer, inner) = (add(b, e), add(c, d));
        let (outer_difference, inner_difference) = (sub(b, e), sub(c, d));
        let even1 = add_scaled(batch, add_scaled(batch, a, outer, cos1), inner, cos2);
        let even2 = add_scaled(batch, add_scaled(batch, a, outer, cos2), inner, cos1);
        let odd1 = add_scaled(batch, scaled(inner_difference, sin2), outer_difference, sin1);
        let odd2 = sub(scaled(outer_difference, sin2), scaled(inner_difference, sin1));
        let [first, fourth] = rotated_pair(even1, odd1);
        let [second, third] = rotated_pair(even2, odd2);
        [add(a, add(outer, inner)), first, second, third, fourth]
    }
}

/// `a + x · factor`.
#[inline(always)]
fn add_scaled<B: Batch>(
    batch: B,
    a: Complex<B::Vector>,
    x: Complex<B::Vector>,
    factor: B::Vector,
) -> Complex<B::Vector> {
    [batch.mul_add(x[0], factor, a[0]), batch.mul_add(x[1], factor, a[1])]
}
