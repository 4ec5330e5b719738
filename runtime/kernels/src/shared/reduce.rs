//! Reductions: which dimensions go, what shape is left, and the elements behind each result.

use afferent_core::{Dims, Error, IntList, TensorMut, TensorView};

use crate::shared::{
    accumulator::Accumulator,
    dim_args::{dim_mask, wrap_dim},
    elements::Reader,
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// The dimensions of a tensor that a reduction removes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReducedDims {
    mask: u32,
}

impl ReducedDims {
    /// All of them.
    pub(crate) const ALL: Self = Self { mask: u32::MAX };

    /// The dimension `dim`, the argument `index`.
    pub(crate) fn one(dim: i64, rank: usize, index: u8) -> Result<Self, Error> {
        Ok(Self { mask: 1 << wrap_dim(dim, rank, index)? })
    }

    /// The dimensions `dims`, the argument `index`; all when there are none.
    pub(crate) fn list(dims: Option<IntList<'_>>, rank: usize, index: u8) -> Result<Self, Error> {
        match dims {
            Some(dims) if !dims.is_empty() => Self::exactly(dims, rank, index),
            _ => Ok(Self::ALL),
        }
    }

    /// The dimensions `dims`, the argument `index`, which may be none.
    pub(crate) fn exactly(dims: IntList<'_>, rank: usize, index: u8) -> Result<Self, Error> {
        Ok(Self { mask: dim_mask(dims, rank, index)? })
    }

    pub(crate) fn contains(self, dim: usize) -> bool {
        self.mask >> dim & 1 == 1
    }

    /// The sizes of the result.
    pub(crate) fn out_sizes(self, sizes: &[usize], keepdim: bool) -> Result<Dims, Error> {
        let mut left = Dims::filled(0, 0);
        for (dim, &size) in sizes.iter().enumerate() {
            if !self.contains(dim) {
                left.push(size)?;
            } else if keepdim {
                left.push(1)?;
            }
        }
        Ok(left)
    }

    /// How many elements make one result.
    pub(crate) fn count(self, sizes: &[usize]) -> usize {
        let reduced = sizes.iter().enumerate().filter(|&(dim, _)| self.contains(dim));
        reduced.fold(1, |product, (_, &size)| product.saturating_mul(size))
    }
}

/// The loops of one reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    kept: LoopNest<2>,
    outer: LoopNest<1>,
    run: usize,
    step: usize,
}

impl Reduction {
    /// The reduction of `x` into `out`, which has the sizes of the result.
    pub(crate) fn new(
        x: &TensorView<'_>,
        reduced: ReducedDims,
        keepdim: bool,
        out: &TensorMut<'_, '_>,
    ) -> Result<Self, Error> {
        let (x_strides, to_strides) = (strides_of(x), out_strides(out));
        let (mut kept, mut outer, mut at) = (LoopNest::new(), LoopNest::new(), 0);
        for (dim, (&size, &step)) in x.sizes().iter().zip(x_strides.iter()).enumerate() {
            if reduced.contains(dim) {
                outer.push(size, [step])?;
                at += usize::from(keepdim);
            } else {
                let to = to_strides.get(at).copied();
                let to =
                    to.ok_or(Error::Internal { reason: "a result has the kept dimensions" })?;
                kept.push(size, [step, to])?;
                at += 1;
            }
        }
        let (run, [step]) = outer.pop();
        Ok(Self { kept, outer, run, step })
    }

    /// Calls `f` for each result: where its elements begin, and where it goes.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        self.kept.for_each([0, 0], |[from, to]| f(from, to));
    }

    /// Calls `f` for the elements of the result that begin at `from`, a chunk at a time, in the
    /// order of their indices.
    pub(crate) fn for_each_chunk<A: Accumulator>(
        &self,
        x: &Reader<'_, A>,
        from: usize,
        mut f: impl FnMut(&[A]),
    ) {
        self.outer.for_each([from], |[from]| x.for_each_chunk(from, self.step, self.run, &mut f));
    }

    /// The sum of `f` over the elements of the result that begin at `from`.
    ///
    /// Partial sums of a few chunks are added up, so that rounding errors grow slowly.
    pub(crate) fn sum<A: Accumulator>(
        &self,
        x: &Reader<'_, A>,
        from: usize,
        f: impl Fn(&[A]) -> A,
    ) -> A {
        let (mut total, mut part, mut chunks) = (A::default(), A::default(), 0_u8);
        self.for_each_chunk(x, from, |chunk| {
            part = part.add(f(chunk));
            chunks += 1;
            if chunks == 16 {
                (total, part, chunks) = (total.add(part), A::default(), 0);
            }
        });
        total.add(part)
    }
}
