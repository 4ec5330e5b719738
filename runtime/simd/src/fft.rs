//! Discrete Fourier transforms of any length, of several signals at once: one in each vector lane.
//!
//! A batch of signals is transposed into rows: row `i` holds element `i` of each signal, and a
//! complex element takes two rows. A length whose prime factors are at most 13 uses the in-place
//! mixed-radix algorithm with decimation in time; rows are stored in digit-reversed order when they
//! are loaded. Any other length `n` uses Bluestein's algorithm: a convolution with the chirp
//! `e^(-π i k² / n)`, computed by transforms of a power-of-two length. A real transform of an even
//! length is a complex transform of half the length.

mod batch;
mod butterfly;
mod tables;

use batch::{Batch, Job, One};

pub use batch::{MAX_BATCH, Real, Signals};
pub use tables::{Tables, fill_tables, tables_len};

use crate::Isa;
use butterfly::{Complex, conj, scaled, swapped, times};
use tables::Slots;

/// Kind of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Complex signals, negative exponents.
    Forward,
    /// Complex signals, positive exponents.
    Backward,
    /// Real signals to the first `n / 2 + 1` elements of their spectrum, negative exponents.
    RealToComplex,
    /// The inverse of it without its factor `n`. Imaginary parts of elements that are real in the
    /// spectrum of a real signal are ignored.
    ComplexToReal,
}

impl Kind {
    /// True if one side has real elements.
    pub fn is_real(self) -> bool {
        matches!(self, Self::RealToComplex | Self::ComplexToReal)
    }
}

/// Elements of scratch memory for a batch; `None` on overflow.
pub fn scratch_len<A: Real>(isa: Isa, kind: Kind, len: usize) -> Option<usize> {
    let complex = tables::complex_len(len, kind.is_real());
    let longest = tables::transform_len(complex)?.max(len.checked_add(1)?);
    // Two buffers of complex rows, and slack to align them.
    longest.checked_mul(4)?.checked_mul(A::lanes(isa))?.checked_add(4 * MAX_BATCH)
}

/// Number of signals in a batch with this instruction set.
pub fn batch_len<A: Real>(isa: Isa) -> usize {
    A::lanes(isa)
}

/// Transforms up to [`batch_len`] signals and multiplies the results by `scale`.
///
/// Elements out of the bounds of `to` are dropped; elements out of the bounds of `from` are zero.
/// `scratch` has [`scratch_len`] elements.
pub fn transform<A: Real>(
    isa: Isa,
    kind: Kind,
    tables: Tables<'_, A>,
    (from, to): (Signals<'_, &[A]>, Signals<'_, &mut [A]>),
    scale: A,
    scratch: &mut [A],
) {
    A::run(isa, Transform { kind, tables, from, to, scale, scratch });
}

struct Transform<'a, A> {
    kind: Kind,
    tables: Tables<'a, A>,
    from: Signals<'a, &'a [A]>,
    to: Signals<'a, &'a mut [A]>,
    scale: A,
    scratch: &'a mut [A],
}

/// Complex rows.
type Rows<'b, B> = &'b mut [Complex<<B as Batch>::Vector>];

impl<A: Real> Job<A> for Transform<'_, A> {
    #[inline(always)]
    fn run<B: Batch<Real = A>>(mut self, batch: B) {
        let len = self.tables.transform_len();
        let rows = batch.rows(core::mem::take(&mut self.scratch));
        let half = rows.len() / 2;
        let (mut buffer, mut other) = rows.split_at_mut(half);
        let spectrum_len = self.tables.len / 2 + 1;
        if buffer.len() < len.max(spectrum_len) {
            return;
        }
        self.load(batch, buffer, other);
        for pass in 0.. {
            let Tables { radices, roots, .. } = self.tables;
            butterfly::run_stages(batch, &radices, roots, &mut buffer[..len]);
            let Some([chirp, filter]) = self.tables.chirp else { break };
            if pass == 1 {
                // The second transform is a backward one: both sides are swapped.
                for (row, &factor) in buffer.iter_mut().zip(chirp) {
                    *row = times(batch, swapped(*row), batch.root(factor));
                }
                break;
            }
            let slots = Slots::new(&radices, len);
            for ((row, &factor), slot) in buffer[..len].iter().zip(filter).zip(slots) {
                other[slot] = swapped(times(batch, *row, batch.root(factor)));
            }
            (buffer, other) = (other, buffer);
        }
        self.finish(batch, buffer);
    }
}

impl<A: Real> Transform<'_, A> {
    /// Loads the signals to `buffer`, in the order in which the transform reads them.
    #[inline(always)]
    fn load<B: Batch<Real = A>>(&self, batch: B, buffer: Rows<'_, B>, other: Rows<'_, B>) {
        let Self { kind, tables, from, .. } = self;
        let (len, zero) = (tables.complex_len(), batch.splat(A::default()));
        let mut store = Placement::new(batch, tables, buffer);
        match kind {
            Kind::ComplexToReal => {
                let spectrum_len = tables.len / 2 + 1;
                from.load(
                    batch,
                    2 * spectrum_len,
                    2,
                    #[inline(always)]
                    |row, value| other[row / 2][row % 2] = value,
                );
                for k in 0..len {
                    store.push(swapped(self.packed(batch, other, k)));
                }
            }
            Kind::RealToComplex if tables.is_halved() => {
                let mut first = zero;
                from.load(
                    batch,
                    2 * len,
                    1,
                    #[inline(always)]
                    |row, value| match row % 2 {
                        0 => first = value,
                        _ => store.push([first, value]),
                    },
                );
            }
            Kind::RealToComplex => {
                from.load(
                    batch,
                    len,
                    1,
                    #[inline(always)]
                    |_, value| store.push([value, zero]),
                );
            }
            Kind::Forward | Kind::Backward => {
                let is_backward = *kind == Kind::Backward;
                let mut first = zero;
                from.load(
                    batch,
                    2 * len,
                    2,
                    #[inline(always)]
                    |row, value| match row % 2 {
                        0 => first = value,
                        _ if is_backward => store.push([value, first]),
                        _ => store.push([first, value]),
                    },
                );
            }
        }
        store.fill_rest(zero);
    }

    /// Element `k` of the complex signal whose backward transform has the elements of a real signal
    /// with this `spectrum`: single ones for odd lengths, else pairs.
    #[inline(always)]
    fn packed<B: Batch<Real = A>>(
        &self,
        batch: B,
        spectrum: &[Complex<B::Vector>],
        k: usize,
    ) -> Complex<B::Vector> {
        let (len, zero) = (self.tables.complex_len(), batch.splat(A::default()));
        if !self.tables.is_halved() {
            return match k {
                0 => [spectrum[0][0], zero],
                _ if 2 * k < len => spectrum[k],
                _ => conj(batch, spectrum[len - k]),
            };
        }
        let (mut a, mut b) = (spectrum[k], spectrum[len - k]);
        if k == 0 {
            (a, b) = ([a[0], zero], [b[0], zero]);
        }
        let b = conj(batch, b);
        let (even, odd) = ([a[0] + b[0], a[1] + b[1]], [a[0] - b[0], a[1] - b[1]]);
        let [re, im] = self.tables.real_roots[k];
        let odd = times(batch, odd, batch.root([re, A::default() - im]));
        [even[0] - odd[1], even[1] + odd[0]]
    }

    /// Writes the result of the transform in `buffer`.
    #[inline(always)]
    fn finish<B: Batch<Real = A>>(mut self, batch: B, buffer: Rows<'_, B>) {
        let scale = batch.splat(self.scale);
        let is_backward = matches!(self.kind, Kind::Backward | Kind::ComplexToReal);
        if self.kind == Kind::RealToComplex && self.tables.is_halved() {
            unpack(batch, self.tables.real_roots, buffer);
        }
        // Rows of the output in a row of the buffer, and their number.
        let parts = if self.kind == Kind::ComplexToReal { 1 } else { 2 };
        let is_single = parts == 1 && !self.tables.is_halved();
        let count = match self.kind {
            Kind::RealToComplex => 2 * (self.tables.len / 2 + 1),
            Kind::ComplexToReal => self.tables.len,
            Kind::Forward | Kind::Backward => 2 * self.tables.len,
        };
        self.to.store(
            batch,
            count,
            parts,
            #[inline(always)]
            |row| {
                let (element, part) = if is_single { (row, 0) } else { (row / 2, row % 2) };
                buffer[element][part ^ usize::from(is_backward)] * scale
            },
        );
    }
}

/// Turns the transform of the pairs of a real signal into the spectrum of the signal, which has one
/// more element.
#[inline(always)]
fn unpack<B: Batch>(batch: B, roots: &[[B::Real; 2]], buffer: Rows<'_, B>) {
    let (len, half) = (roots.len(), batch.splat(B::Real::HALF));
    let [re, im] = buffer[0];
    let zero = batch.splat(B::Real::default());
    (buffer[0], buffer[len]) = ([re + im, zero], [re - im, zero]);
    for k in 1..=len / 2 {
        let (a, b) = (buffer[k], conj(batch, buffer[len - k]));
        let even = scaled([a[0] + b[0], a[1] + b[1]], half);
        let odd = scaled([a[1] - b[1], b[0] - a[0]], half);
        let odd = times(batch, odd, batch.root(roots[k]));
        buffer[k] = [even[0] + odd[0], even[1] + odd[1]];
        buffer[len - k] = conj(batch, [even[0] - odd[0], even[1] - odd[1]]);
    }
}

/// Writer of the elements of signals, in order, to the rows where the transform reads them.
struct Placement<'p, B: Batch> {
    batch: B,
    slots: Slots<'p>,
    chirp: Option<&'p [[B::Real; 2]]>,
    at: usize,
    rows: Rows<'p, B>,
}

impl<'p, B: Batch> Placement<'p, B> {
    #[inline(always)]
    fn new(batch: B, tables: &'p Tables<'_, B::Real>, rows: Rows<'p, B>) -> Self {
        let slots = Slots::new(&tables.radices, tables.transform_len());
        Self { batch, slots, chirp: tables.chirp.map(|[chirp, _]| chirp), at: 0, rows }
    }

    #[inline(always)]
    fn push(&mut self, row: Complex<B::Vector>) {
        let row = match self.chirp {
            Some(chirp) => times(self.batch, row, self.batch.root(chirp[self.at])),
            None => row,
        };
        self.at += 1;
        if let Some(slot) = self.slots.next() {
            self.rows[slot] = row;
        }
    }

    #[inline(always)]
    fn fill_rest(self, zero: B::Vector) {
        for slot in self.slots {
            self.rows[slot] = [zero; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    /// Transform of `x` by its definition.
    fn direct(x: &[[f64; 2]], sign: f64) -> Vec<[f64; 2]> {
        let len = x.len();
        let element = |j: usize| {
            x.iter().enumerate().fold([0.0; 2], |sum, (k, &[re, im])| {
                let (sin, cos) = (sign * 2.0 * PI * (j * k % len) as f64 / len as f64).sin_cos();
                [sum[0] + re * cos - im * sin, sum[1] + re * sin + im * cos]
            })
        };
        (0..len).map(element).collect()
    }

    /// Runs `kind` on `count` signals of `len` elements, each padded to `pitch` numbers.
    fn run<A: Real>(isa: Isa, kind: Kind, len: usize, (from, pitch): (&[A], usize)) -> Vec<A> {
        let count = batch_len::<A>(isa).min(3);
        let mut tables = vec![[A::default(); 2]; tables_len(len, kind.is_real()).unwrap()];
        fill_tables(len, kind.is_real(), &mut tables);
        let mut scratch = vec![A::default(); scratch_len::<A>(isa, kind, len).unwrap()];
        let starts: Vec<usize> = (0..count).map(|signal| signal * pitch).collect();
        let parts = |is_real| if is_real { 1 } else { 2 };
        let stride = parts(kind == Kind::RealToComplex);
        let from = Signals { data: from, starts: &starts, stride };
        let mut out = vec![A::default(); count * pitch];
        let stride = parts(kind == Kind::ComplexToReal);
        let to = Signals { data: &mut out[..], starts: &starts, stride };
        let tables = Tables::new(len, kind.is_real(), &tables);
        transform(isa, kind, tables, (from, to), A::from_f64(1.0), &mut scratch);
        out
    }

    #[track_caller]
    fn check<A: Real>(isa: Isa, len: usize, tolerance: f64) {
        let wave = |at: usize| (at * at % 31) as f64 / 8.0 - 1.0;
        let pitch = 2 * len + 5;
        let numbers: Vec<f64> = (0..pitch * 3).map(wave).collect();
        let from: Vec<A> = numbers.iter().map(|&x| A::from_f64(x)).collect();
        let compare = |kind, found: &[A], expected: &dyn Fn(&[f64]) -> Vec<f64>| {
            for (signal, found) in numbers.chunks(pitch).zip(found.chunks(pitch)) {
                for (at, expected) in expected(signal).into_iter().enumerate() {
                    let error = (found[at].to_f64() - expected).abs();
                    assert!(error <= tolerance, "{isa:?} {kind:?} {len} at {at}: {error:e}");
                }
            }
        };
        let complex = |signal: &[f64]| signal[..2 * len].as_chunks::<2>().0.to_vec();
        for (kind, sign) in [(Kind::Forward, -1.0), (Kind::Backward, 1.0)] {
            let found = run(isa, kind, len, (&from, pitch));
            compare(kind, &found, &|signal| direct(&complex(signal), sign).concat());
        }
        let found = run(isa, Kind::RealToComplex, len, (&from, pitch));
        compare(Kind::RealToComplex, &found, &|signal| {
            let x: Vec<_> = signal[..len].iter().map(|&re| [re, 0.0]).collect();
            direct(&x, -1.0)[..len / 2 + 1].concat()
        });
        let found = run(isa, Kind::ComplexToReal, len, (&from, pitch));
        compare(Kind::ComplexToReal, &found, &|signal| {
            let mut spectrum = complex(signal);
            spectrum[0][1] = 0.0;
            if len.is_multiple_of(2) {
                spectrum[len / 2][1] = 0.0;
            }
            for k in len / 2 + 1..len {
                let [re, im] = spectrum[len - k];
                spectrum[k] = [re, -im];
            }
            direct(&spectrum, 1.0).into_iter().map(|[re, _]| re).collect()
        });
    }

    #[test]
    fn smooth_and_prime_lengths() {
        for len in (1..=40).chain([49, 64, 100, 121, 128, 169, 210, 251, 256, 289, 360, 502]) {
            check::<f64>(Isa::SCALAR, len, 1e-11 * len as f64);
            for isa in Isa::available() {
                check::<f32>(isa, len, 3e-6 * len as f64);
            }
        }
    }

    #[test]
    fn strided_signals() {
        let len = 12;
        let from: Vec<f64> = (0..24).map(f64::from).collect();
        let mut tables = vec![[0.0; 2]; tables_len(len, true).unwrap()];
        fill_tables(len, true, &mut tables);
        let kind = Kind::RealToComplex;
        let mut scratch = vec![0.0; scratch_len::<f64>(Isa::SCALAR, kind, len).unwrap()];
        let mut out = vec![0.0; 28];
        transform(
            Isa::SCALAR,
            kind,
            Tables::new(len, true, &tables),
            (
                Signals { data: &from, starts: &[1], stride: 2 },
                Signals { data: &mut out, starts: &[2], stride: 4 },
            ),
            0.5,
            &mut scratch,
        );
        let x: Vec<_> = (0..len).map(|at| [from[1 + 2 * at], 0.0]).collect();
        for (k, expected) in direct(&x, -1.0).into_iter().take(7).enumerate() {
            let found = [out.get(2 + 4 * k), out.get(3 + 4 * k)].map(|x| x.copied().unwrap_or(0.0));
            let expected = if 2 + 4 * k < out.len() { expected } else { [0.0; 2] };
            let distance =
                (found[0] - expected[0] / 2.0).abs() + (found[1] - expected[1] / 2.0).abs();
            assert!(distance < 1e-12, "{k}: {found:?}");
        }
    }
}
