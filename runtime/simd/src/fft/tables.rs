//! Roots of unity of a transform, and the order in which it reads its elements.

use core::f64::consts::PI;

use super::{One, Real, butterfly};

/// Largest radix. Larger prime factors use Bluestein's algorithm.
pub(super) const MAX_RADIX: usize = 13;

/// Precomputed factors of the transforms of one length.
#[derive(Clone, Copy)]
pub struct Tables<'t, A> {
    /// Length of the signals.
    pub(super) len: usize,
    is_real: bool,
    /// Radices of the transform of [`Tables::transform_len`] elements.
    pub(super) radices: Radices,
    /// `e^(-2π i k / m)` for the `m` elements of that transform.
    pub(super) roots: &'t [[A; 2]],
    /// Chirp and transform of its conjugate divided by its length, for Bluestein's algorithm.
    pub(super) chirp: Option<[&'t [[A; 2]]; 2]>,
    /// `e^(-2π i k / n)` for the first half of the `n` elements of a real signal of even length.
    pub(super) real_roots: &'t [[A; 2]],
}

impl<'t, A: Real> Tables<'t, A> {
    /// Tables for signals of length `len`, at least 1, with the contents that [`fill_tables`] wrote.
    ///
    /// # Panics
    /// If `tables` is shorter than [`tables_len`].
    pub fn new(len: usize, is_real: bool, tables: &'t [[A; 2]]) -> Self {
        let complex = complex_len(len, is_real);
        let transform = transform_len(complex).unwrap_or(complex);
        let is_halved = is_real && len.is_multiple_of(2);
        let (real_roots, rest) = tables.split_at(if is_halved { complex } else { 0 });
        let (roots, rest) = rest.split_at(transform);
        let is_smooth = transform == complex;
        let chirp = (!is_smooth).then(|| [&rest[..complex], &rest[complex..complex + transform]]);
        Self { len, is_real, radices: Radices::of(transform), roots, chirp, real_roots }
    }

    /// True if the transform has half the length of the real signal.
    #[inline(always)]
    pub(super) fn is_halved(&self) -> bool {
        self.is_real && self.len.is_multiple_of(2)
    }

    /// Length of the complex signals.
    #[inline(always)]
    pub(super) fn complex_len(&self) -> usize {
        complex_len(self.len, self.is_real)
    }

    /// Length of the smooth transform.
    #[inline(always)]
    pub(super) fn transform_len(&self) -> usize {
        self.roots.len()
    }
}

/// Length of the complex transform for signals of length `len`.
pub(super) fn complex_len(len: usize, is_real: bool) -> usize {
    if is_real && len.is_multiple_of(2) { len / 2 } else { len }
}

/// Smooth length of the transform for `len` complex elements: `len` itself, or the power of two of
/// Bluestein's convolution; `None` on overflow.
pub(super) fn transform_len(len: usize) -> Option<usize> {
    if Radices::of(len).product() == len {
        return Some(len);
    }
    len.checked_mul(2)?.checked_next_power_of_two()
}

/// Pairs of numbers in the tables for signals of length `len`; `None` on overflow.
pub fn tables_len(len: usize, is_real: bool) -> Option<usize> {
    let complex = complex_len(len, is_real);
    let transform = transform_len(complex)?;
    let real_roots = if complex == len { 0 } else { complex };
    let bluestein = if transform == complex { 0 } else { complex.checked_add(transform)? };
    real_roots.checked_add(transform)?.checked_add(bluestein)
}

/// Computes the tables for signals of length `len`, at least 1.
///
/// # Panics
/// If `tables` is shorter than [`tables_len`].
pub fn fill_tables<A: Real>(len: usize, is_real: bool, tables: &mut [[A; 2]]) {
    let complex = complex_len(len, is_real);
    let transform = transform_len(complex).unwrap_or(complex);
    let (real_roots, rest) = tables.split_at_mut(if complex == len { 0 } else { complex });
    fill_roots(real_roots, len);
    let (roots, rest) = rest.split_at_mut(transform);
    fill_roots(roots, transform);
    if transform == complex {
        return;
    }
    let (chirp, rest) = rest.split_at_mut(complex);
    for (k, factor) in chirp.iter_mut().enumerate() {
        // The chirp has the period 2 n in k²; the reduced square keeps the angle accurate.
        let square = (k as u128 * k as u128) % (2 * complex as u128);
        *factor = root(square as f64 / (2.0 * complex as f64));
    }
    let (filter, radices) = (&mut rest[..transform], Radices::of(transform));
    let scale = A::from_f64(1.0 / transform as f64);
    for (k, slot) in Slots::new(&radices, transform).enumerate() {
        let factor = chirp.get(k.min(transform - k));
        let [re, im] = factor.copied().unwrap_or_default();
        filter[slot] = [re * scale, A::default() - im * scale];
    }
    butterfly::run_stages(One::new(), &radices, roots, filter);
}

fn fill_roots<A: Real>(roots: &mut [[A; 2]], len: usize) {
    for (k, to) in roots.iter_mut().enumerate() {
        *to = root(k as f64 / len as f64);
    }
}

/// `e^(-2π i turns)`.
fn root<A: Real>(turns: f64) -> [A; 2] {
    let (sin, cos) = libm::sincos(2.0 * PI * turns);
    [A::from_f64(cos), A::from_f64(-sin)]
}

/// Radices of the stages of a transform, in order.
#[derive(Clone, Copy)]
pub(super) struct Radices {
    all: [u8; 64],
    count: usize,
}

impl Radices {
    /// Radices up to [`MAX_RADIX`] that divide `len`. Larger odd radices come first: the first
    /// stage has no twiddle factors.
    pub(super) fn of(len: usize) -> Self {
        let (mut left, mut radices) = (len.max(1), Self { all: [0; 64], count: 0 });
        for radix in [13, 11, 7, 5, 3, 4, 2] {
            while left.is_multiple_of(usize::from(radix)) {
                radices.all[radices.count] = radix;
                radices.count += 1;
                left /= usize::from(radix);
            }
        }
        radices
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        self.all[..self.count].iter().map(|&radix| usize::from(radix))
    }

    fn product(&self) -> usize {
        self.iter().product()
    }
}

/// Positions of elements 0, 1, … in digit-reversed order.
pub(super) struct Slots<'r> {
    radices: &'r Radices,
    digits: [u8; 64],
    len: usize,
    next: usize,
    left: usize,
}

impl<'r> Slots<'r> {
    /// Positions of `len` elements, the product of `radices`.
    #[inline(always)]
    pub(super) fn new(radices: &'r Radices, len: usize) -> Self {
        Self { radices, digits: [0; 64], len, next: 0, left: len }
    }
}

impl Iterator for Slots<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.next;
        // The lowest digit of an element is the highest one of its position.
        let mut weight = self.len;
        for (radix, digit) in self.radices.iter().rev().zip(&mut self.digits) {
            weight /= radix;
            *digit += 1;
            self.next += weight;
            if usize::from(*digit) < radix {
                break;
            }
            *digit = 0;
            self.next -= radix * weight;
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_reverse_digits() {
        let check = |len: usize, expected: &[usize]| {
            let radices = Radices::of(len);
            assert!(Slots::new(&radices, len).eq(expected.iter().copied()), "{len}");
        };
        check(1, &[0]);
        check(8, &[0, 4, 1, 5, 2, 6, 3, 7]);
        check(6, &[0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn lengths() {
        assert_eq!(tables_len(400, true), Some(400));
        assert_eq!(tables_len(17, false), Some(64 + 17 + 64));
        assert_eq!(tables_len(usize::MAX, false), None);
    }
}
