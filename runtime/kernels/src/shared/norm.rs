//! Mean, variance and normalization of groups of elements.

use afferent_core::Error;

use crate::shared::{
    accumulator::{Float, sum, sum_of},
    elements::{CHUNK, Reader, Writer},
    loop_nest::LoopNest,
};

/// Elements of a chunk that is copied and then normalized in place. It fits the L1 cache.
const CACHED_ELEMENTS: usize = 1024;

/// Elements of one group, in an input and an output tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    outer: LoopNest<2>,
    inner_len: usize,
    inner_strides: [usize; 2],
}

impl Group {
    /// Group over dimensions, each with its size and its strides in both tensors.
    pub(crate) fn new(dims: impl Iterator<Item = (usize, [usize; 2])>) -> Result<Self, Error> {
        let mut outer = LoopNest::new();
        for (size, strides) in dims {
            outer.push(size, strides)?;
        }
        let (inner_len, inner_strides) = outer.pop();
        Ok(Self { outer, inner_len, inner_strides })
    }

    /// Mean and variance of the `count` elements of the group that starts at offset `from`.
    pub(crate) fn mean_var<A: Float>(
        &self,
        x: &Reader<'_, A>,
        from: usize,
        count: usize,
    ) -> (A, A) {
        let count = A::from_double(count as f64);
        let mean = self.sum(x, from, sum) / count;
        let square = |x: A| (x - mean) * (x - mean);
        (mean, self.sum(x, from, |chunk| sum_of(chunk, square)) / count)
    }

    fn sum<A: Float>(&self, x: &Reader<'_, A>, from: usize, f: impl Fn(&[A]) -> A) -> A {
        let mut total = A::default();
        self.outer.for_each([from, 0], |[from, _]| {
            let mut part = A::default();
            x.for_each_chunk(from, self.inner_strides[0], self.inner_len, |chunk| {
                part = part + f(chunk)
            });
            total = total + part;
        });
        total
    }

    /// Copies the group at offset `from` of `x` to offset `to` of `out` and applies `f` to it, a
    /// chunk at a time. `f` also gets the index of the first element of the chunk in the group.
    pub(crate) fn map<A: Float>(
        &self,
        x: &Reader<'_, A>,
        out: &mut Writer<'_, A>,
        [from, to]: [usize; 2],
        mut f: impl FnMut(&mut [A], usize),
    ) {
        let (mut index, mut buffer) = (0, [A::default(); CHUNK]);
        self.outer.for_each([from, to], |[from, to]| {
            let pair = x.slice(from, self.inner_len).zip(out.slice_mut(to, self.inner_len));
            if let Some((from, to)) = pair.filter(|_| self.inner_strides == [1, 1]) {
                // Chunks stay in cache between the copy and `f`.
                for (from, to) in from.chunks(CACHED_ELEMENTS).zip(to.chunks_mut(CACHED_ELEMENTS)) {
                    to.copy_from_slice(from);
                    f(to, index);
                    index += to.len();
                }
                return;
            }
            let mut done = 0;
            while done < self.inner_len {
                let chunk = &mut buffer[..CHUNK.min(self.inner_len - done)];
                x.read(from + done * self.inner_strides[0], self.inner_strides[0], chunk);
                f(chunk, index);
                out.write(to + done * self.inner_strides[1], self.inner_strides[1], chunk);
                done += chunk.len();
                index += chunk.len();
            }
        });
    }
}

/// Elementwise affine parameters after normalization. An absent weight is 1, an absent bias 0.
pub(crate) struct Affine<'a, A> {
    pub(crate) weight: Option<Reader<'a, A>>,
    pub(crate) bias: Option<Reader<'a, A>>,
}

impl<A: Float> Affine<'_, A> {
    /// Weight and bias at `index`.
    pub(crate) fn get(&self, index: usize) -> (A, A) {
        let weight = self.weight.map_or(A::ONE, |weight| weight.get(index));
        (weight, self.bias.map_or(A::default(), |bias| bias.get(index)))
    }

    /// Applies the weights and biases from `index` on to `values`.
    pub(crate) fn apply(&self, values: &mut [A], index: usize) {
        let mut buffer = [A::default(); CHUNK];
        for (first, chunk) in (index..).step_by(CHUNK).zip(values.chunks_mut(CHUNK)) {
            let buffer = &mut buffer[..chunk.len()];
            if let Some(weight) = &self.weight {
                weight.read(first, 1, buffer);
                chunk.iter_mut().zip(&*buffer).for_each(|(x, &w)| *x = *x * w);
            }
            if let Some(bias) = &self.bias {
                bias.read(first, 1, buffer);
                chunk.iter_mut().zip(&*buffer).for_each(|(x, &b)| *x = *x + b);
            }
        }
    }
}
