//! Mean, variance and rescaling of groups of elements.

use afferent_core::Error;

use crate::shared::{
    accumulator::{Float, sum, sum_of},
    elements::{CHUNK, Reader, Writer},
    loop_nest::LoopNest,
};

/// Elements that are copied and then changed.
const IN_CACHE: usize = 1024;

/// The elements of one group, in a tensor to read and one to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    outer: LoopNest<2>,
    run: usize,
    steps: [usize; 2],
}

impl Group {
    /// The elements of dimensions of `sizes`, with the strides of both tensors in them.
    pub(crate) fn new(dims: impl Iterator<Item = (usize, [usize; 2])>) -> Result<Self, Error> {
        let mut outer = LoopNest::new();
        for (size, steps) in dims {
            outer.push(size, steps)?;
        }
        let (run, steps) = outer.pop();
        Ok(Self { outer, run, steps })
    }

    /// The mean and the variance of the `count` elements of the group that begins at `from`.
    pub(crate) fn moments<A: Float>(&self, x: &Reader<'_, A>, from: usize, count: usize) -> (A, A) {
        let count = A::from_double(count as f64);
        let mean = self.sum(x, from, sum) / count;
        let square = |x: A| (x - mean) * (x - mean);
        (mean, self.sum(x, from, |chunk| sum_of(chunk, square)) / count)
    }

    fn sum<A: Float>(&self, x: &Reader<'_, A>, from: usize, f: impl Fn(&[A]) -> A) -> A {
        let mut total = A::default();
        self.outer.for_each([from, 0], |[from, _]| {
            let mut part = A::default();
            x.for_each_chunk(from, self.steps[0], self.run, |chunk| part = part + f(chunk));
            total = total + part;
        });
        total
    }

    /// Reads the group that begins at `from`, lets `f` change its elements, and writes it from
    /// `to` on; `f` also gets the number of elements before.
    pub(crate) fn map<A: Float>(
        &self,
        x: &Reader<'_, A>,
        out: &mut Writer<'_, A>,
        [from, to]: [usize; 2],
        mut f: impl FnMut(&mut [A], usize),
    ) {
        let (mut before, mut buffer) = (0, [A::default(); CHUNK]);
        self.outer.for_each([from, to], |[from, to]| {
            let pair = x.slice(from, self.run).zip(out.slice_mut(to, self.run));
            if let Some((from, to)) = pair.filter(|_| self.steps == [1, 1]) {
                // Parts stay in the cache between the copy and the change.
                for (from, to) in from.chunks(IN_CACHE).zip(to.chunks_mut(IN_CACHE)) {
                    to.copy_from_slice(from);
                    f(to, before);
                    before += to.len();
                }
                return;
            }
            let mut done = 0;
            while done < self.run {
                let part = &mut buffer[..CHUNK.min(self.run - done)];
                x.read(from + done * self.steps[0], self.steps[0], part);
                f(part, before);
                out.write(to + done * self.steps[1], self.steps[1], part);
                done += part.len();
                before += part.len();
            }
        });
    }
}

/// What multiplies and what is added after normalisation; one and zero where there is none.
pub(crate) struct Affine<'a, A> {
    pub(crate) weight: Option<Reader<'a, A>>,
    pub(crate) bias: Option<Reader<'a, A>>,
}

impl<A: Float> Affine<'_, A> {
    /// The factor and the addend at `at`.
    pub(crate) fn at(&self, at: usize) -> (A, A) {
        let weight = self.weight.map_or(A::ONE, |weight| weight.get(at));
        (weight, self.bias.map_or(A::default(), |bias| bias.get(at)))
    }

    /// Applies the factors and addends from `at` on to `values`.
    pub(crate) fn apply(&self, values: &mut [A], at: usize) {
        let mut buffer = [A::default(); CHUNK];
        for (first, part) in (at..).step_by(CHUNK).zip(values.chunks_mut(CHUNK)) {
            let buffer = &mut buffer[..part.len()];
            if let Some(weight) = &self.weight {
                weight.read(first, 1, buffer);
                part.iter_mut().zip(&*buffer).for_each(|(x, &w)| *x = *x * w);
            }
            if let Some(bias) = &self.bias {
                bias.read(first, 1, buffer);
                part.iter_mut().zip(&*buffer).for_each(|(x, &b)| *x = *x + b);
            }
        }
    }
}
