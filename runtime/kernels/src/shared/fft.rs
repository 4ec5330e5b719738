//! Discrete Fourier transforms of any length.

pub(crate) mod dims;

use core::f64::consts::PI;

use crate::shared::{
    accumulator::Float,
    complex::{Complex, add, conj, mul, sub},
};

/// The largest prime whose transform is computed as it is defined.
const LARGEST_RADIX: usize = 13;

/// `e^(i angle)`.
fn turn<A: Float>(angle: f64) -> Complex<A> {
    let (sin, cos) = libm::sincos(angle);
    [A::from_double(cos), A::from_double(sin)]
}

/// Which way a transform goes: the sign of its exponents.
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

/// Complex numbers that a transform reads.
type Line<'s, A> = &'s [Complex<A>];

/// Transforms lines of one length, without a factor.
///
/// A length of small primes is taken apart, a radix at a time, by the autosort method of Stockham.
/// Another length `n` becomes a convolution with the chirp `e^(±π i k² / n)`, as Bluestein found,
/// which transforms of a power of two compute.
pub(crate) struct Fft<'s, A> {
    len: usize,
    /// The line to transform, which is shorter than this where a chirp is used.
    line: &'s mut [Complex<A>],
    work: &'s mut [Complex<A>],
    /// `e^(±2π i k / m)` for the `m` elements of `line`.
    turns: &'s [Complex<A>],
    is_backward: bool,
    /// The chirp and the transform of its conjugate.
    chirp: Option<[Line<'s, A>; 2]>,
}

impl<'s, A: Float> Fft<'s, A> {
    /// Elements of scratch memory that lines of `len` need; `None` when there are too many.
    pub(crate) fn scratch(len: usize) -> Option<usize> {
        if is_smooth(len) {
            return len.checked_mul(3);
        }
        convolution_len(len)?.checked_mul(4)?.checked_add(len)
    }

    /// A transform of lines of `len`, at least one, in `scratch`.
    pub(crate) fn new(len: usize, direction: Direction, scratch: &'s mut [Complex<A>]) -> Self {
        let sign = direction.sign();
        if is_smooth(len) {
            let (line, rest) = scratch.split_at_mut(len);
            let (work, rest) = rest.split_at_mut(len);
            let turns = &mut rest[..len];
            fill_turns(turns, sign);
            let is_backward = direction == Direction::Backward;
            return Self { len, line, work, turns, is_backward, chirp: None };
        }
        let padded = convolution_len(len).unwrap_or(len);
        let (line, rest) = scratch.split_at_mut(padded);
        let (work, rest) = rest.split_at_mut(padded);
        let (turns, rest) = rest.split_at_mut(padded);
        let (filter, rest) = rest.split_at_mut(padded);
        let chirp = &mut rest[..len];
        fill_turns(turns, Direction::Forward.sign());
        for (k, factor) in chirp.iter_mut().enumerate() {
            // The squares repeat after 2 n; their remainder keeps the angle exact.
            let square = (k as u128 * k as u128) % (2 * len as u128);
            *factor = turn(sign * PI * square as f64 / len as f64);
        }
        line.fill(Complex::default());
        for (k, &factor) in chirp.iter().enumerate() {
            line[k] = conj(factor);
            line[(padded - k) % padded] = conj(factor);
        }
        let mut this = Self { len, line, work, turns, is_backward: false, chirp: None };
        this.transform();
        filter.copy_from_slice(this.line);
        this.chirp = Some([chirp, filter]);
        this
    }

    /// The line to transform, and after [`Fft::run`] its transform.
    pub(crate) fn line(&mut self) -> &mut [Complex<A>] {
        &mut self.line[..self.len]
    }

    /// Transforms the line.
    pub(crate) fn run(&mut self) {
        let Some([chirp, filter]) = self.chirp else {
            self.transform();
            return;
        };
        for (x, &factor) in self.line.iter_mut().zip(chirp) {
            *x = mul(*x, factor);
        }
        self.line[self.len..].fill(Complex::default());
        self.transform();
        // Conjugated before and after, the transform goes backward.
        for (x, &factor) in self.line.iter_mut().zip(filter) {
            *x = conj(mul(*x, factor));
        }
        self.transform();
        let scale = A::ONE / A::from_double(self.line.len() as f64);
        for (x, &factor) in self.line.iter_mut().zip(chirp) {
            let [re, im] = mul(conj(*x), factor);
            *x = [re * scale, im * scale];
        }
    }

    /// Transforms the whole of `line`, whose length is smooth.
    fn transform(&mut self) {
        let (mut left, mut step) = (self.line.len(), 1);
        let mut is_in_work = false;
        while left > 1 {
            let radix = radix_of(left);
            let stage = Stage { radix, parts: left / radix, step };
            let (from, to) = if is_in_work {
                (&*self.work, &mut *self.line)
            } else {
                (&*self.line, &mut *self.work)
            };
            match radix {
                2 => stage.by_two(from, to, self.turns),
                4 => stage.by_four(from, to, self.turns, self.is_backward),
                _ => stage.by_any(from, to, self.turns),
            }
            is_in_work = !is_in_work;
            (left, step) = (stage.parts, step * radix);
        }
        if is_in_work {
            self.line.copy_from_slice(self.work);
        }
    }
}

/// One pass over a line: transforms of `radix` elements that are `step * parts` apart.
#[derive(Clone, Copy)]
struct Stage {
    radix: usize,
    parts: usize,
    step: usize,
}

impl Stage {
    fn by_two<A: Float>(&self, from: &[Complex<A>], to: &mut [Complex<A>], turns: &[Complex<A>]) {
        let (lower, upper) = from.split_at(self.step * self.parts);
        let blocks = lower.chunks_exact(self.step).zip(upper.chunks_exact(self.step));
        let targets = to.chunks_exact_mut(2 * self.step);
        for (part, ((lower, upper), target)) in blocks.zip(targets).enumerate() {
            let factor = turns[part * self.step];
            let (sums, differences) = target.split_at_mut(self.step);
            for (((&a, &b), sum), difference) in lower.iter().zip(upper).zip(sums).zip(differences)
            {
                *sum = add(a, b);
                *difference = mul(sub(a, b), factor);
            }
        }
    }

    fn by_four<A: Float>(
        &self,
        from: &[Complex<A>],
        to: &mut [Complex<A>],
        turns: &[Complex<A>],
        is_backward: bool,
    ) {
        let quarter = self.step * self.parts;
        for (part, target) in to.chunks_exact_mut(4 * self.step).enumerate() {
            let factors = [1, 2, 3].map(|j| turns[j * part * self.step]);
            for at in 0..self.step {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| from[k * quarter + part * self.step + at]);
                let (even, odd) = (add(a, c), add(b, d));
                let (left, right) = (sub(a, c), sub(b, d));
                // A quarter turn forward is a product with -i.
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

    fn by_any<A: Float>(&self, from: &[Complex<A>], to: &mut [Complex<A>], turns: &[Complex<A>]) {
        let Self { radix, parts, step } = *self;
        let mut terms = [Complex::default(); LARGEST_RADIX];
        let terms = &mut terms[..radix];
        for (part, target) in to.chunks_exact_mut(radix * step).enumerate() {
            for at in 0..step {
                for (k, term) in terms.iter_mut().enumerate() {
                    *term = from[(k * parts + part) * step + at];
                }
                for j in 0..radix {
                    let mut sum = terms[0];
                    for (k, &term) in terms.iter().enumerate().skip(1) {
                        sum = add(sum, mul(term, turns[j * k % radix * (parts * step)]));
                    }
                    target[j * step + at] = mul(sum, turns[j * part * step]);
                }
            }
        }
    }
}

/// The radix by which a smooth length is divided first.
fn radix_of(len: usize) -> usize {
    if len.is_multiple_of(4) {
        return 4;
    }
    (2..=LARGEST_RADIX).find(|&radix| len.is_multiple_of(radix)).unwrap_or(len)
}

/// Whether `len` has no prime factor above [`LARGEST_RADIX`].
fn is_smooth(len: usize) -> bool {
    let mut left = len.max(1);
    for radix in 2..=LARGEST_RADIX {
        while left.is_multiple_of(radix) {
            left /= radix;
        }
    }
    left == 1
}

/// The power of two that a convolution of lines of `len` takes.
fn convolution_len(len: usize) -> Option<usize> {
    len.checked_mul(2)?.checked_next_power_of_two()
}

fn fill_turns<A: Float>(turns: &mut [Complex<A>], sign: f64) {
    let len = turns.len() as f64;
    for (k, factor) in turns.iter_mut().enumerate() {
        *factor = turn(sign * 2.0 * PI * k as f64 / len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition.
    #[track_caller]
    fn check(len: usize, direction: Direction) {
        let x: Vec<Complex<f64>> =
            (0..len).map(|k| [(k * 7 % 5) as f64 - 2.0, (k * 3 % 4) as f64]).collect();
        let mut scratch = vec![[0.0; 2]; Fft::<f64>::scratch(len).unwrap()];
        let mut fft = Fft::new(len, direction, &mut scratch);
        for _ in 0..2 {
            fft.line().copy_from_slice(&x);
            fft.run();
        }
        for (j, found) in fft.line().iter().enumerate() {
            let mut sum = [0.0; 2];
            for (k, &x) in x.iter().enumerate() {
                let angle = 2.0 * PI * (j * k % len) as f64 / len as f64;
                sum = add(sum, mul(x, turn(direction.sign() * angle)));
            }
            let distance = (found[0] - sum[0]).abs().max((found[1] - sum[1]).abs());
            assert!(distance < 1e-10 * len as f64, "{len}: {found:?} instead of {sum:?}");
        }
    }

    #[test]
    fn every_kind_of_length() {
        for len in (1..=40).chain([49, 64, 100, 121, 128, 169, 210, 251, 256, 289, 360]) {
            check(len, Direction::Forward);
            check(len, Direction::Backward);
        }
    }
}
