//! Batches of signals: vectors with one element of each signal, and transposition from and to
//! tensors.

#![expect(unsafe_code, reason = "scratch memory is used as vectors")]

use core::{
    marker::PhantomData,
    ops::{Add, Mul, Sub},
};

use super::butterfly::{Complex, Root};
use crate::{Float, Isa, Routine, Simd};

/// Maximum number of signals in a batch.
pub const MAX_BATCH: usize = 16;

/// Floating-point type of signals.
pub trait Real:
    Copy
    + Default
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + 'static
{
    /// One half.
    const HALF: Self;

    /// Rounds from `f64`.
    fn from_f64(value: f64) -> Self;
    /// Converts to `f64`.
    fn to_f64(self) -> f64;
    /// Signals in a batch.
    fn lanes(isa: Isa) -> usize;
    /// Runs `job` with the instruction set.
    #[doc(hidden)]
    fn run(isa: Isa, job: impl Job<Self>);
}

impl Real for f32 {
    const HALF: Self = 0.5;

    fn from_f64(value: f64) -> Self {
        value as Self
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
    fn lanes(isa: Isa) -> usize {
        isa.lanes()
    }
    fn run(isa: Isa, job: impl Job<Self>) {
        isa.run(OnLanes(job));
    }
}

/// `f64` signals are transformed one at a time.
impl Real for f64 {
    const HALF: Self = 0.5;

    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn lanes(_: Isa) -> usize {
        1
    }
    fn run(_: Isa, job: impl Job<Self>) {
        job.run(One::new());
    }
}

/// Computation on one batch.
pub trait Job<A> {
    /// Runs the computation.
    fn run<B: Batch<Real = A>>(self, batch: B);
}

struct OnLanes<J>(J);

impl<J: Job<f32>> Routine for OnLanes<J> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.0.run(Lanes(simd));
    }
}

/// Vectors with one element of each signal.
pub trait Batch: Copy {
    /// Number of one signal.
    type Real: Real;
    /// Number of each signal.
    type Vector: Copy
        + Add<Output = Self::Vector>
        + Sub<Output = Self::Vector>
        + Mul<Output = Self::Vector>;
    /// Signals in a batch.
    const LANES: usize;

    /// `value` for all signals.
    fn splat(self, value: Self::Real) -> Self::Vector;
    /// `x * factor + addend`.
    fn mul_add(self, x: Self::Vector, factor: Self::Vector, addend: Self::Vector) -> Self::Vector;
    /// Loads up to `LANES` numbers.
    fn load(self, from: &[Self::Real]) -> Self::Vector;
    /// Stores up to `LANES` numbers.
    fn store(self, value: Self::Vector, to: &mut [Self::Real]);
    /// Transposes the first `LANES` vectors.
    fn transpose(self, vectors: &mut [Self::Vector; MAX_BATCH]);

    /// Factor for all lanes.
    #[inline(always)]
    fn root(self, [re, im]: [Self::Real; 2]) -> Root<Self::Vector> {
        [self.splat(re), self.splat(im), self.splat(Self::Real::default() - im)]
    }

    /// Scratch memory as complex rows.
    #[inline(always)]
    fn rows(self, scratch: &mut [Self::Real]) -> &mut [Complex<Self::Vector>] {
        // SAFETY: vectors of floating-point lanes have no invalid bit patterns and no padding.
        unsafe { scratch.align_to_mut() }.1
    }
}

/// One signal for each lane of a vector.
#[derive(Clone, Copy)]
struct Lanes<S>(S);

impl<S: Simd> Batch for Lanes<S> {
    type Real = f32;
    type Vector = S::F32;
    const LANES: usize = S::LANES;

    #[inline(always)]
    fn splat(self, value: f32) -> S::F32 {
        self.0.splat(value)
    }
    #[inline(always)]
    fn mul_add(self, x: S::F32, factor: S::F32, addend: S::F32) -> S::F32 {
        x.mul_add(factor, addend)
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> S::F32 {
        if from.len() >= S::LANES { self.0.load(from) } else { self.0.load_partial(from) }
    }
    #[inline(always)]
    fn store(self, value: S::F32, to: &mut [f32]) {
        if to.len() >= S::LANES {
            self.0.store(value, to);
        } else {
            self.0.store_partial(value, to);
        }
    }
    #[inline(always)]
    fn transpose(self, vectors: &mut [S::F32; MAX_BATCH]) {
        self.0.transpose(&mut vectors[..S::LANES]);
    }
}

/// One signal.
#[derive(Clone, Copy)]
pub(super) struct One<A>(PhantomData<A>);

impl<A> One<A> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Real> Batch for One<A> {
    type Real = A;
    type Vector = A;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(self, value: A) -> A {
        value
    }
    #[inline(always)]
    fn mul_add(self, x: A, factor: A, addend: A) -> A {
        x * factor + addend
    }
    #[inline(always)]
    fn load(self, from: &[A]) -> A {
        from.first().copied().unwrap_or_default()
    }
    #[inline(always)]
    fn store(self, value: A, to: &mut [A]) {
        if let Some(to) = to.first_mut() {
            *to = value;
        }
    }
    #[inline(always)]
    fn transpose(self, _: &mut [A; MAX_BATCH]) {}
}

/// Signals of a batch: element `i` of signal `s` begins at `data[starts[s] + i * stride]`. A complex
/// element is two adjacent numbers.
#[derive(Clone, Copy)]
pub struct Signals<'s, D> {
    /// The numbers.
    pub data: D,
    /// Position of the first element of each signal.
    pub starts: &'s [usize],
    /// Distance of the elements of a signal.
    pub stride: usize,
}

/// Up to `len` numbers from `start` on.
#[inline(always)]
fn part<A>(data: &[A], start: usize, len: usize) -> &[A] {
    let rest = data.get(start..).unwrap_or(&[]);
    &rest[..len.min(rest.len())]
}

impl<A: Real> Signals<'_, &[A]> {
    /// Calls `f` with `count` rows, in order. An element takes `parts` rows.
    #[inline(always)]
    pub(super) fn load<B: Batch<Real = A>>(
        &self,
        batch: B,
        count: usize,
        parts: usize,
        mut f: impl FnMut(usize, B::Vector),
    ) {
        let zero = batch.splat(A::default());
        let mut vectors = [zero; MAX_BATCH];
        for first in (0..count).step_by(B::LANES) {
            let len = B::LANES.min(count - first);
            for vector in vectors.iter_mut().skip(self.starts.len()) {
                *vector = zero;
            }
            for (vector, &start) in vectors.iter_mut().zip(self.starts).take(B::LANES) {
                *vector = if self.stride == parts {
                    batch.load(part(self.data, start + first, len))
                } else {
                    let mut numbers = [A::default(); MAX_BATCH];
                    for (row, number) in (first..first + len).zip(&mut numbers) {
                        let at = start + row / parts * self.stride + row % parts;
                        *number = self.data.get(at).copied().unwrap_or_default();
                    }
                    batch.load(&numbers[..B::LANES])
                };
            }
            batch.transpose(&mut vectors);
            for (row, &vector) in (first..).zip(&vectors[..len]) {
                f(row, vector);
            }
        }
    }
}

impl<A: Real> Signals<'_, &mut [A]> {
    /// Writes `count` rows, given by `row`. An element takes `parts` rows.
    #[inline(always)]
    pub(super) fn store<B: Batch<Real = A>>(
        &mut self,
        batch: B,
        count: usize,
        parts: usize,
        row: impl Fn(usize) -> B::Vector,
    ) {
        let mut vectors = [batch.splat(A::default()); MAX_BATCH];
        for first in (0..count).step_by(B::LANES) {
            let len = B::LANES.min(count - first);
            for (at, vector) in (first..).zip(&mut vectors[..len]) {
                *vector = row(at);
            }
            batch.transpose(&mut vectors);
            for (&vector, &start) in vectors.iter().zip(self.starts).take(B::LANES) {
                if self.stride == parts {
                    let to = self.data.get_mut(start + first..).unwrap_or(&mut []);
                    let len = len.min(to.len());
                    batch.store(vector, &mut to[..len]);
                    continue;
                }
                let mut numbers = [A::default(); MAX_BATCH];
                batch.store(vector, &mut numbers[..B::LANES]);
                for (at, &number) in (first..first + len).zip(&numbers) {
                    let to = start + at / parts * self.stride + at % parts;
                    if let Some(to) = self.data.get_mut(to) {
                        *to = number;
                    }
                }
            }
        }
    }
}
