//! Minimum and maximum: reductions to values and indices, and the binary functions. NaN propagates.

use afferent_core::{Args, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

/// Kind of extremum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinMax {
    Max,
    Min,
}

impl MinMax {
    /// Returns true if `x` replaces `best`. NaN replaces every number; of equal elements the first
    /// one stays.
    pub(crate) fn prefers<A: Accumulator>(self, x: A, best: A) -> bool {
        let beats = match self {
            Self::Max => x > best,
            Self::Min => x < best,
        };
        beats || (x.is_nan() && !best.is_nan())
    }

    /// Identity of the reduction.
    pub(crate) fn identity<A: Accumulator>(self) -> A {
        match self {
            Self::Max => A::LOWEST,
            Self::Min => A::HIGHEST,
        }
    }
}

/// Reduces argument 0 over the dimensions `reduced` to its extremes and writes them to argument
/// `out`.
pub(crate) fn reduce_values(
    args: &mut Args<'_>,
    kind: MinMax,
    reduced: ReducedDims,
    keepdim: bool,
    out: u8,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    check_comparable(&x)?;
    with_accumulator!(x.dtype(), A => {
        let mut to = args.out(usize::from(out))?;
        check_dtype(to.dtype(), x.dtype(), out)?;
        check_not_empty(&x, reduced)?;
        to.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
        let reduction = Reduction::new(&x, reduced, keepdim, &to)?;
        let (x, mut to) = (Reader::<A>::new(x, 0)?, Writer::new(&mut to, out)?);
        reduction.for_each(|from, at| {
            let mut best = kind.identity();
            reduction.for_each_chunk(&x, from, |chunk| best = fold(kind, best, chunk));
            to.set(at, best);
        });
        Ok(())
    })
}

/// Extreme of `best` and the elements of `chunk`.
fn fold<A: Accumulator>(kind: MinMax, best: A, chunk: &[A]) -> A {
    match kind {
        MinMax::Max => chunk.iter().fold(best, |b, &x| if b >= x || b.is_nan() { b } else { x }),
        MinMax::Min => chunk.iter().fold(best, |b, &x| if b <= x || b.is_nan() { b } else { x }),
    }
}

/// Reduces argument 0 along `dim`, or over all elements if `dim` is `None`. Writes the indices of
/// the extremes to the last of `outs` and, if there are two, the extremes to the first.
pub(crate) fn reduce_indices<const N: usize>(
    args: &mut Args<'_>,
    kind: MinMax,
    dim: Option<i64>,
    keepdim: bool,
    outs: [usize; N],
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    check_comparable(&x)?;
    let reduced = match dim {
        Some(dim) => ReducedDims::one(dim, x.rank(), 1)?,
        None => ReducedDims::ALL,
    };
    check_not_empty(&x, reduced)?;
    let sizes = reduced.out_sizes(x.sizes(), keepdim)?;
    let [mut values, mut indices] = match outs[..] {
        [indices] => [None, Some(args.outs([indices])?).map(|[p]| p)],
        [values, indices] => args.outs([values, indices])?.map(Some),
        _ => {
            return Err(Error::Internal {
                reason: "a reduction to indices has one or two outputs",
            });
        }
    };
    let last = u8::try_from(outs[N - 1]).unwrap_or(u8::MAX);
    let Some(indices) = &mut indices else {
        return Err(Error::Internal { reason: "a reduction to indices has an output for them" });
    };
    check_dtype(indices.dtype(), ScalarType::Long, last)?;
    indices.resize(&sizes)?;
    let reduction = Reduction::new(&x, reduced, keepdim, indices)?;
    with_accumulator!(x.dtype(), A => {
        let reader = Reader::<A>::new(x, 0)?;
        if let Some(values) = &mut values {
            check_dtype(values.dtype(), x.dtype(), last - 1)?;
            values.resize(&sizes)?;
            let is_aligned = values.dim_order() == indices.dim_order();
            let of_values = Reduction::new(&x, reduced, keepdim, values)?;
            let mut values = Writer::new(values, last - 1)?;
            if is_aligned {
                let mut indices = Writer::<i64>::new(indices, last)?;
                reduction.for_each(|from, to| {
                    let (value, index) = extremum(&reduction, &reader, from, kind);
                    values.set(to, value);
                    indices.set(to, index);
                });
                return Ok(());
            }
            of_values.for_each(|from, to| {
                values.set(to, extremum(&of_values, &reader, from, kind).0);
            });
        }
        let mut indices = Writer::<i64>::new(indices, last)?;
        reduction.for_each(|from, to| indices.set(to, extremum(&reduction, &reader, from, kind).1));
        Ok(())
    })
}

/// Extreme of the elements of a reduction that start at `from`, and its index among them.
fn extremum<A: Accumulator>(
    reduction: &Reduction,
    x: &Reader<'_, A>,
    from: usize,
    kind: MinMax,
) -> (A, i64) {
    let (mut best, mut index, mut start) = (kind.identity(), 0, 0);
    reduction.for_each_chunk(x, from, |chunk| {
        // Most chunks have no new extreme.
        if chunk.len() <= MIN_SCAN || may_prefer(kind, chunk, best) {
            for (at, &x) in (start..).zip(chunk) {
                if kind.prefers(x, best) {
                    (best, index) = (x, at);
                }
            }
        }
        start += chunk.len() as i64;
    });
    (best, index)
}

/// Shortest chunk that is searched with [`may_prefer`] first.
const MIN_SCAN: usize = 16;

/// Returns true if an element of `chunk` may replace `best`, which is not NaN or is the first NaN.
pub(crate) fn may_prefer<A: Accumulator>(kind: MinMax, chunk: &[A], best: A) -> bool {
    let search = |is_candidate: fn(A, A) -> bool| {
        let (blocks, rest) = chunk.as_chunks::<32>();
        blocks.iter().any(|block| block.iter().fold(false, |any, &x| any | is_candidate(x, best)))
            || rest.iter().any(|&x| is_candidate(x, best))
    };
    match kind {
        MinMax::Max => search(|x, best| (x > best) | x.is_nan()),
        MinMax::Min => search(|x, best| (x < best) | x.is_nan()),
    }
}

/// Returns an error if a reduction of `x` over the dimensions `reduced` has no elements.
fn check_not_empty(x: &TensorView<'_>, reduced: ReducedDims) -> Result<(), Error> {
    let expected = "at least one element along the reduced dimensions";
    if reduced.count(x.sizes()) == 0 {
        return Err(Error::InvalidArgument { index: 0, expected });
    }
    Ok(())
}

/// Returns an error for `u64`, kind cannot be compared as `i64`.
fn check_comparable(x: &TensorView<'_>) -> Result<(), Error> {
    match x.dtype() {
        found @ ScalarType::UInt64 => Err(Error::InvalidType { index: 0, found }),
        _ => Ok(()),
    }
}

/// Maximum; NaN if either is NaN.
pub(crate) fn nan_max<T: PartialOrd>(a: T, b: T) -> T {
    if a > b || is_nan(&a) { a } else { b }
}

/// Minimum; NaN if either is NaN.
pub(crate) fn nan_min<T: PartialOrd>(a: T, b: T) -> T {
    if a < b || is_nan(&a) { a } else { b }
}

fn is_nan<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_propagates_from_either_side() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(nan_max(a, b).is_nan() && nan_min(a, b).is_nan());
        }
        assert_eq!((nan_max(1, 2), nan_min(1, 2)), (2, 1));
        assert_eq!((nan_max(2.0, 1.0), nan_min(2.0, 1.0)), (2.0, 1.0));
    }
}
