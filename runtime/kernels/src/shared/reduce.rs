//! Reductions over dimensions: output sizes, and loops over outputs and their elements.

use afferent_core::{Args, Dims, Error, IntList, KernelContext, TensorMut, TensorView};

use crate::shared::{
    accumulator::Accumulator,
    dim_args::{dim_mask, wrap_dim},
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
    order::{IndexedOutputs, slice_scratch},
};

/// Set of dimensions that a reduction removes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReducedDims {
    mask: u32,
}

impl ReducedDims {
    /// All dimensions.
    pub(crate) const ALL: Self = Self { mask: u32::MAX };

    /// The dimension `dim`, argument `index`.
    pub(crate) fn one(dim: i64, rank: usize, index: u8) -> Result<Self, Error> {
        Ok(Self { mask: 1 << wrap_dim(dim, rank, index)? })
    }

    /// The dimensions `dims`, argument `index`; all dimensions if the list is absent or empty.
    pub(crate) fn list_or_all(
        dims: Option<IntList<'_>>,
        rank: usize,
        index: u8,
    ) -> Result<Self, Error> {
        match dims {
            Some(dims) if !dims.is_empty() => Self::list(dims, rank, index),
            _ => Ok(Self::ALL),
        }
    }

    /// The dimensions `dims`, argument `index`; no dimension if the list is empty.
    pub(crate) fn list(dims: IntList<'_>, rank: usize, index: u8) -> Result<Self, Error> {
        Ok(Self { mask: dim_mask(dims, rank, index)? })
    }

    /// Returns true if the reduction removes `dim`.
    pub(crate) fn contains(self, dim: usize) -> bool {
        self.mask >> dim & 1 == 1
    }

    /// Sizes of the output. With `keepdim`, removed dimensions have size 1.
    pub(crate) fn out_sizes(self, sizes: &[usize], keepdim: bool) -> Result<Dims, Error> {
        let mut out_sizes = Dims::filled(0, 0);
        for (dim, &size) in sizes.iter().enumerate() {
            if !self.contains(dim) {
                out_sizes.push(size)?;
            } else if keepdim {
                out_sizes.push(1)?;
            }
        }
        Ok(out_sizes)
    }

    /// Number of elements that are reduced to one output; saturates.
    pub(crate) fn count(self, sizes: &[usize]) -> usize {
        let reduced = sizes.iter().enumerate().filter(|&(dim, _)| self.contains(dim));
        reduced.fold(1, |product, (_, &size)| product.saturating_mul(size))
    }
}

/// Loops of a reduction: over outputs, and over the elements that are reduced to each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    outputs: LoopNest<2>,
    outer: LoopNest<1>,
    inner_len: usize,
    inner_stride: usize,
}

impl Reduction {
    /// Reduction of `x` over the dimensions `reduced` to `out`, which has the output sizes.
    pub(crate) fn new(
        x: &TensorView<'_>,
        reduced: ReducedDims,
        keepdim: bool,
        out: &TensorMut<'_, '_>,
    ) -> Result<Self, Error> {
        let (x_strides, to_strides) = (strides_of(x), out_strides(out));
        let (mut outputs, mut outer, mut out_dim) = (LoopNest::new(), LoopNest::new(), 0);
        for (dim, (&size, &stride)) in x.sizes().iter().zip(x_strides.iter()).enumerate() {
            if reduced.contains(dim) {
                outer.push(size, [stride])?;
                out_dim += usize::from(keepdim);
            } else {
                let to = to_strides.get(out_dim).copied();
                let to = to.ok_or(Error::Internal { reason: "an output lacks a dimension" })?;
                outputs.push(size, [stride, to])?;
                out_dim += 1;
            }
        }
        let (inner_len, [inner_stride]) = outer.pop();
        Ok(Self { outputs, outer, inner_len, inner_stride })
    }

    /// Calls `f` for each output with the offsets of its first input element and of the output.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        self.outputs.for_each([0, 0], |[from, to]| f(from, to));
    }

    /// Calls `f` with chunks of the elements of the output that starts at offset `from`, in index
    /// order.
    pub(crate) fn for_each_chunk<A: Accumulator>(
        &self,
        x: &Reader<'_, A>,
        from: usize,
        mut f: impl FnMut(&[A]),
    ) {
        self.outer.for_each([from], |[from]| {
            x.for_each_chunk(from, self.inner_stride, self.inner_len, &mut f)
        });
    }

    /// Sum of `f` over chunks of the elements of the output that starts at offset `from`.
    ///
    /// Partial sums of 16 chunks keep rounding errors small (cascade summation).
    pub(crate) fn sum<A: Accumulator>(
        &self,
        x: &Reader<'_, A>,
        from: usize,
        f: impl Fn(&[A]) -> A,
    ) -> A {
        let (mut total, mut partial, mut chunks) = (A::default(), A::default(), 0_u8);
        self.for_each_chunk(x, from, |chunk| {
            partial = partial.add(f(chunk));
            chunks += 1;
            if chunks == 16 {
                (total, partial, chunks) = (total.add(partial), A::default(), 0);
            }
        });
        total.add(partial)
    }
}

/// Reduces argument 0 over one dimension: for each output, calls `f` with the elements and scratch
/// memory, which returns the index of one of them. Writes the elements to argument `out`, and the
/// indices to the next one.
pub(crate) fn reduce_slices<A: Accumulator>(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
    (reduced, keepdim): (ReducedDims, bool),
    out: u8,
    mut f: impl FnMut(&[A], &mut [u64]) -> usize,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let [mut values, mut indices] = args.outs([usize::from(out), usize::from(out) + 1])?;
    let mut outputs = IndexedOutputs { values: &mut values, indices: &mut indices, index: out };
    outputs.resize(x.dtype(), &reduced.out_sizes(x.sizes(), keepdim)?)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let reduction = Reduction::new(&x, reduced, keepdim, &values)?;
    let (slice, order) = slice_scratch::<A>(cx, reduced.count(x.sizes()))?;
    let reader = Reader::<A>::new(x, 0)?;
    let (mut values, mut indices) =
        (Writer::<A>::new(&mut values, out)?, Writer::<i64>::new(&mut indices, out + 1)?);
    reduction.for_each(|from, to| {
        reader.read(from, reduction.inner_stride, slice);
        let index = f(slice, order);
        values.set(to, slice[index]);
        indices.set(to, index as i64);
    });
    Ok(())
}
