//! Discrete Fourier transform of any length.

pub(crate) mod dims;

use core::f64::consts::PI;

use crate::shared::{
    accumulator::Float,
    complex::{Complex, add, conj, mul, sub},
};

/// Largest radix. Larger prime factors use Bluestein's algorithm.
const MAX_RADIX: usize = 13;

/// `e^(i angle)`.
fn unit_root<A: Float>(angle: f64) -> Complex<A> {
    let (sin, cos) = libm::sincos(angle);
    [A::from_double(cos), A::from_double(sin)]
}

/// Direction of a transform: the sign of its exponents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    fn sign(self) -> f64 {
        if self == Self::Forward { -1.0 } else { 1.0 }
    }
}

/// Coefficients of a transform.
type Coefficients<'s, A> = &'s [Complex<A>];

/// Unnormalized transform of signals of one length.
///
/// A length whose prime factors are at most [`MAX_RADIX`] uses the mixed-radix Stockham autosort
/// algorithm. Any other length `n` uses Bluestein's algorithm: a convolution with the chirp
/// `e^(±π i k² / n)`, computed by transforms of a power-of-two length.
pub(crate) struct Fft<'s, A> {
    len: usize,
    /// Signal, zero-padded to the convolution length in Bluestein's algorithm.
    signal: &'s mut [Complex<A>],
    work: &'s mut [Complex<A>],
    /// Twiddle factors `e^(±2π i k / m)` for the `m` elements of `signal`.
    twiddles: &'s [Complex<A>],
    is_backward: bool,
    /// Chirp and transform of its conjugate, for Bluestein's algorithm.
    chirp: Option<[Coefficients<'s, A>; 2]>,
}

impl<'s, A: Float> Fft<'s, A> {
    /// Elements of scratch memory for signals of length `len`; `None` on overflow.
    pub(crate) fn scratch_len(len: usize) -> Option<usize> {
        if is_smooth(len) {
            return len.checked_mul(3);
        }
        convolution_len(len)?.checked_mul(4)?.checked_add(len)
    }

    /// Transform of signals of length `len`, at least 1. `scratch` has [`Fft::scratch_len`]
    /// elements.
    pub(crate) fn new(len: usize, direction: Direction, scratch: &'s mut [Complex<A>]) -> Self {
        let sign = direction.sign();
        if is_smooth(len) {
            let (signal, rest) = scratch.split_at_mut(len);
            let (work, rest) = rest.split_at_mut(len);
            let twiddles = &mut rest[..len];
            fill_twiddles(twiddles, sign);
            let is_backward = direction == Direction::Backward;
            return Self { len, signal, work, twiddles, is_backward, chirp: None };
        }
        let padded = convolution_len(len).unwrap_or(len);
        let (signal, rest) = scratch.split_at_mut(padded);
        let (work, rest) = rest.split_at_mut(padded);
        let (twiddles, rest) = rest.split_at_mut(padded);
        let (filter, rest) = rest.split_at_mut(padded);
        let chirp = &mut rest[..len];
        fill_twiddles(twiddles, Direction::Forward.sign());
        for (k, factor) in chirp.iter_mut().enumerate() {
            // The chirp has the period 2 n in k²; the reduced square keeps the angle accurate.
            let square = (k as u128 * k as u128) % (2 * len as u128);
            *factor = unit_root(sign * PI * square as f64 / len as f64);
        }
        signal.fill(Complex::default());
        for (k, &factor) in chirp.iter().enumerate() {
            signal[k] = conj(factor);
            signal[(padded - k) % padded] = conj(factor);
        }
        let mut this = Self { len, signal, work, twiddles, is_backward: false, chirp: None };
        this.transform();
        filter.copy_from_slice(this.signal);
        this.chirp = Some([chirp, filter]);
        this
    }

    /// Signal to transform; after [`Fft::run`], its transform.
    pub(crate) fn signal(&mut self) -> &mut [Complex<A>] {
        &mut self.signal[..self.len]
    }

    /// Transforms the signal in place.
    pub(crate) fn run(&mut self) {
        let Some([chirp, filter]) = self.chirp else {
            self.transform();
            return;
        };
        for (x, &factor) in self.signal.iter_mut().zip(chirp) {
            *x = mul(*x, factor);
        }
        self.signal[self.len..].fill(Complex::default());
        self.transform();
        // A forward transform between two conjugations is a backward transform.
        for (x, &factor) in self.signal.iter_mut().zip(filter) {
            *x = conj(mul(*x, factor));
        }
        self.transform();
        let scale = A::ONE / A::from_double(self.signal.len() as f64);
        for (x, &factor) in self.signal.iter_mut().zip(chirp) {
            let [re, im] = mul(conj(*x), factor);
            *x = [re * scale, im * scale];
        }
    }

    /// Transforms all of `signal`, a smooth length, in place.
    fn transform(&mut self) {
        let (mut left, mut step) = (self.signal.len(), 1);
        let mut is_in_work = false;
        while left > 1 {
            let radix = radix_of(left);
            let stage = Stage { radix, parts: left / radix, step };
            let (from, to) = if is_in_work {
                (&*self.work, &mut *self.signal)
            } else {
                (&*self.signal, &mut *self.work)
            };
            match radix {
                2 => stage.radix2(from, to, self.twiddles),
                4 => stage.radix4(from, to, self.twiddles, self.is_backward),
                _ => stage.radix_any(from, to, self.twiddles),
            }
            is_in_work = !is_in_work;
            (left, step) = (stage.parts, step * radix);
        }
        if is_in_work {
            self.signal.copy_from_slice(self.work);
        }
    }
}

/// Stage of the Stockham algorithm: butterflies of `radix` elements with stride `step * parts`.
#[derive(Clone, Copy)]
struct Stage {
    radix: usize,
    parts: usize,
    step: usize,
}

impl Stage {
    fn radix2<A: Float>(
        &self,
        from: &[Complex<A>],
        to: &mut [Complex<A>],
        twiddles: &[Complex<A>],
    ) {
        let (lower, upper) = from.split_at(self.step * self.parts);
        let blocks = lower.chunks_exact(self.step).zip(upper.chunks_exact(self.step));
        let targets = to.chunks_exact_mut(2 * self.step);
        for (part, ((lower, upper), target)) in blocks.zip(targets).enumerate() {
            let factor = twiddles[part * self.step];
            let (sums, differences) = target.split_at_mut(self.step);
            for (((&a, &b), sum), difference) in lower.iter().zip(upper).zip(sums).zip(differences)
            {
                *sum = add(a, b);
                *difference = mul(sub(a, b), factor);
            }
        }
    }

    fn radix4<A: Float>(
        &self,
        from: &[Complex<A>],
        to: &mut [Complex<A>],
        twiddles: &[Complex<A>],
        is_backward: bool,
    ) {
        let quarter = self.step * self.parts;
        for (part, target) in to.chunks_exact_mut(4 * self.step).enumerate() {
            let factors = [1, 2, 3].map(|j| twiddles[j * part * self.step]);
            for at in 0..self.step {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| from[k * quarter + part * self.step + at]);
                let (even, odd) = (add(a, c), add(b, d));
                let (left, right) = (sub(a, c), sub(b, d));
                // Multiplication by -i.
                let right = [right[1], A::default() - right[0]];
                let (third, first) = (sub(left, right), add(left, right));
                let (first, third) = if is_backward { (third, first) } else { (first, third) };
                target[at] = add(even, odd);
                target[self.step + at] = mul(first, factors[0]);
                target[2 * self.step + at] = mul(sub(even, odd), factors[1]);
                target[3 * self.step + at] = mul(third, factors[2]);
            }
        }
    }

    fn radix_any<A: Float>(
        &self,
        from: &[Complex<A>],
        to: &mut [Complex<A>],
        twiddles: &[Complex<A>],
    ) {
        let Self { radix, parts, step } = *self;
        let mut terms = [Complex::default(); MAX_RADIX];
        let terms = &mut terms[..radix];
        for (part, target) in to.chunks_exact_mut(radix * step).enumerate() {
            for at in 0..step {
                for (k, term) in terms.iter_mut().enumerate() {
                    *term = from[(k * parts + part) * step + at];
                }
                for j in 0..radix {
                    let mut sum = terms[0];
                    for (k, &term) in terms.iter().enumerate().skip(1) {
                        sum = add(sum, mul(term, twiddles[j * k % radix * (parts * step)]));
                    }
                    target[j * step + at] = mul(sum, twiddles[j * part * step]);
                }
            }
        }
    }
}

/// Radix of the first stage of a smooth length.
fn radix_of(len: usize) -> usize {
    if len.is_multiple_of(4) {
        return 4;
    }
    (2..=MAX_RADIX).find(|&radix| len.is_multiple_of(radix)).unwrap_or(len)
}

/// Returns true if `len` has no prime factor above [`MAX_RADIX`].
fn is_smooth(len: usize) -> bool {
    let mut left = len.max(1);
    for radix in 2..=MAX_RADIX {
        while left.is_multiple_of(radix) {
            left /= radix;
        }
    }
    left == 1
}

/// Power-of-two length of the convolution for signals of length `len`.
fn convolution_len(len: usize) -> Option<usize> {
    len.checked_mul(2)?.checked_next_power_of_two()
}

fn fill_twiddles<A: Float>(twiddles: &mut [Complex<A>], sign: f64) {
    let len = twiddles.len() as f64;
    for (k, factor) in twiddles.iter_mut().enumerate() {
        *factor = unit_root(sign * 2.0 * PI * k as f64 / len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition of the transform.
    #[track_caller]
    fn check(len: usize, direction: Direction) {
        let x: Vec<Complex<f64>> =
            (0..len).map(|k| [(k * 7 % 5) as f64 - 2.0, (k * 3 % 4) as f64]).collect();
        let mut scratch = vec![[0.0; 2]; Fft::<f64>::scratch_len(len).unwrap()];
        let mut fft = Fft::new(len, direction, &mut scratch);
        for _ in 0..2 {
            fft.signal().copy_from_slice(&x);
            fft.run();
        }
        for (j, found) in fft.signal().iter().enumerate() {
            let mut sum = [0.0; 2];
            for (k, &x) in x.iter().enumerate() {
                let angle = 2.0 * PI * (j * k % len) as f64 / len as f64;
                sum = add(sum, mul(x, unit_root(direction.sign() * angle)));
            }
            let distance = (found[0] - sum[0]).abs().max((found[1] - sum[1]).abs());
            assert!(distance < 1e-10 * len as f64, "{len}: {found:?} instead of {sum:?}");
        }
    }

    #[test]
    fn smooth_and_prime_lengths() {
        for len in (1..=40).chain([49, 64, 100, 121, 128, 169, 210, 251, 256, 289, 360]) {
            check(len, Direction::Forward);
            check(len, Direction::Backward);
        }
    }
}
