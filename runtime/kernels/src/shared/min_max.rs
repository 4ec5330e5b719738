//! Largest and smallest elements along dimensions, and where they stand.

use afferent_core::{Args, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

/// Which element is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinMax {
    Max,
    Min,
}

impl MinMax {
    /// Whether `x` replaces `best`; NaN replaces every number, and the first of equals stays.
    pub(crate) fn prefers<A: Accumulator>(self, x: A, best: A) -> bool {
        let beats = match self {
            Self::Max => x > best,
            Self::Min => x < best,
        };
        beats || (x.is_nan() && !best.is_nan())
    }

    /// What every other number replaces.
    pub(crate) fn start<A: Accumulator>(self) -> A {
        match self {
            Self::Max => A::LOWEST,
            Self::Min => A::HIGHEST,
        }
    }
}

/// Writes the extreme of each group of elements of argument 0 to argument `out`.
pub(crate) fn reduce_values(
    args: &mut Args<'_>,
    which: MinMax,
    reduced: ReducedDims,
    keepdim: bool,
    out: u8,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    ordered(&x)?;
    with_accumulator!(x.dtype(), A => {
        let mut to = args.out(usize::from(out))?;
        check_dtype(to.dtype(), x.dtype(), out)?;
        refuse_nothing(&x, reduced)?;
        to.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
        let reduction = Reduction::new(&x, reduced, keepdim, &to)?;
        let (x, mut to) = (Reader::<A>::new(x, 0)?, Writer::new(&mut to, out)?);
        reduction.for_each(|from, at| {
            let mut best = which.start();
            reduction.for_each_chunk(&x, from, |chunk| best = fold(which, best, chunk));
            to.set(at, best);
        });
        Ok(())
    })
}

/// The better of `best` and the elements of `chunk`.
fn fold<A: Accumulator>(which: MinMax, best: A, chunk: &[A]) -> A {
    match which {
        MinMax::Max => chunk.iter().fold(best, |b, &x| if b >= x || b.is_nan() { b } else { x }),
        MinMax::Min => chunk.iter().fold(best, |b, &x| if b <= x || b.is_nan() { b } else { x }),
    }
}

/// Writes the position of the extreme along `dim` of argument 0, or in all of it, to the last of
/// `outs`, and the extreme itself to the first when there are two.
pub(crate) fn reduce_indices<const N: usize>(
    args: &mut Args<'_>,
    which: MinMax,
    dim: Option<i64>,
    keepdim: bool,
    outs: [usize; N],
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    ordered(&x)?;
    let reduced = match dim {
        Some(dim) => ReducedDims::one(dim, x.rank(), 1)?,
        None => ReducedDims::ALL,
    };
    refuse_nothing(&x, reduced)?;
    let sizes = reduced.out_sizes(x.sizes(), keepdim)?;
    let [mut values, mut positions] = match outs[..] {
        [positions] => [None, Some(args.outs([positions])?).map(|[p]| p)],
        [values, positions] => args.outs([values, positions])?.map(Some),
        _ => return Err(Error::Internal { reason: "one output or two" }),
    };
    let last = u8::try_from(outs[N - 1]).unwrap_or(u8::MAX);
    let Some(positions) = &mut positions else {
        return Err(Error::Internal { reason: "positions are always written" });
    };
    check_dtype(positions.dtype(), ScalarType::Long, last)?;
    positions.resize(&sizes)?;
    let reduction = Reduction::new(&x, reduced, keepdim, positions)?;
    with_accumulator!(x.dtype(), A => {
        let reader = Reader::<A>::new(x, 0)?;
        if let Some(values) = &mut values {
            check_dtype(values.dtype(), x.dtype(), last - 1)?;
            values.resize(&sizes)?;
            let reduction = Reduction::new(&x, reduced, keepdim, values)?;
            let mut values = Writer::new(values, last - 1)?;
            reduction.for_each(|from, to| values.set(to, best(&reduction, &reader, from, which).0));
        }
        let mut positions = Writer::<i64>::new(positions, last)?;
        reduction.for_each(|from, to| positions.set(to, best(&reduction, &reader, from, which).1));
        Ok(())
    })
}

/// The extreme of the elements that begin at `from`, and its place among them.
fn best<A: Accumulator>(
    reduction: &Reduction,
    x: &Reader<'_, A>,
    from: usize,
    which: MinMax,
) -> (A, i64) {
    let (mut best, mut place, mut at) = (which.start(), 0, 0);
    reduction.for_each_chunk(x, from, |chunk| {
        for &x in chunk {
            if which.prefers(x, best) {
                (best, place) = (x, at);
            }
            at += 1;
        }
    });
    (best, place)
}

fn refuse_nothing(x: &TensorView<'_>, reduced: ReducedDims) -> Result<(), Error> {
    let expected = "elements along the dimensions that are reduced";
    if reduced.count(x.sizes()) == 0 {
        return Err(Error::InvalidArgument { index: 0, expected });
    }
    Ok(())
}

/// An error for a dtype that cannot be compared as `i64`.
fn ordered(x: &TensorView<'_>) -> Result<(), Error> {
    match x.dtype() {
        found @ ScalarType::UInt64 => Err(Error::InvalidType { index: 0, found }),
        _ => Ok(()),
    }
}

/// The larger; NaN where either is NaN.
pub(crate) fn nan_max<T: PartialOrd>(a: T, b: T) -> T {
    if a > b || is_nan(&a) { a } else { b }
}

/// The smaller; NaN where either is NaN.
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
    fn nan_wins_on_either_side() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(nan_max(a, b).is_nan() && nan_min(a, b).is_nan());
        }
        assert_eq!((nan_max(1, 2), nan_min(1, 2)), (2, 1));
        assert_eq!((nan_max(2.0, 1.0), nan_min(2.0, 1.0)), (2.0, 1.0));
    }
}
