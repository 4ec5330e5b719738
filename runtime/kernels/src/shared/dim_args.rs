//! Dimension, index and size arguments, as PyTorch defines them: negative values count from the
//! end.

use afferent_core::{Args, Dims, Error, IntList};

use crate::shared::strided_view::StridedView;

/// Wraps `dim` to a dimension of a tensor of `rank` dimensions. A 0-d tensor counts as 1-d: 0 and
/// -1 are valid.
///
/// # Errors
/// [`Error::InvalidArgument`] for argument `index` if `dim` is out of range.
pub(crate) fn wrap_dim(dim: i64, rank: usize, index: u8) -> Result<usize, Error> {
    wrap_index(dim, rank.max(1))
        .ok_or(Error::InvalidArgument { index, expected: "a dimension of the tensor" })
}

/// Reads the integer argument `index` and wraps it as [`wrap_dim`].
pub(crate) fn dim_arg(args: &Args<'_>, index: u8, rank: usize) -> Result<usize, Error> {
    wrap_dim(args.int(usize::from(index))?, rank, index)
}

/// Like [`dim_arg`], but rejects 0-d tensors.
pub(crate) fn existing_dim_arg(args: &Args<'_>, index: u8, rank: usize) -> Result<usize, Error> {
    let dim = dim_arg(args, index, rank)?;
    if dim < rank {
        Ok(dim)
    } else {
        Err(Error::InvalidArgument { index, expected: "a dimension of a tensor that is not 0-d" })
    }
}

/// Wraps `index` to `0..size`; `None` if it is out of range.
pub(crate) fn wrap_index(index: i64, size: usize) -> Option<usize> {
    let size = i64::try_from(size).ok()?;
    let wrapped = if index < 0 { index.checked_add(size)? } else { index };
    if (0..size).contains(&wrapped) { usize::try_from(wrapped).ok() } else { None }
}

/// Wraps the slice bound `index` and clamps it to `0..=size`.
pub(crate) fn clamp_index(index: i64, size: usize) -> usize {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let wrapped = if index < 0 { index.saturating_add(size) } else { index };
    usize::try_from(wrapped.clamp(0, size)).unwrap_or(0)
}

/// Bit mask of the dimensions `dims`.
///
/// # Errors
/// [`Error::InvalidArgument`] for argument `index` if a dimension is repeated or out of range.
pub(crate) fn dim_mask(dims: IntList<'_>, rank: usize, index: u8) -> Result<u32, Error> {
    let mut mask = 0_u32;
    for dim in dims.iter() {
        let bit = 1 << wrap_dim(dim, rank, index)?;
        if mask & bit != 0 {
            return Err(Error::InvalidArgument { index, expected: "no dimension twice" });
        }
        mask |= bit;
    }
    Ok(mask)
}

/// Reads sizes from argument `index`.
///
/// # Errors
/// [`Error::InvalidArgument`] if a size is negative or there are more than 16.
pub(crate) fn sizes_arg(args: &Args<'_>, index: u8) -> Result<Dims, Error> {
    let sizes = args.int_list(usize::from(index))?.to_dims();
    sizes.ok_or(Error::InvalidArgument { index, expected: "up to 16 sizes that are not negative" })
}

/// Reads the sizes of a tensor of `numel` elements from argument `index`. One size may be -1: it is
/// inferred.
///
/// # Errors
/// [`Error::InvalidArgument`] if the sizes do not have `numel` elements.
pub(crate) fn inferred_sizes_arg(args: &Args<'_>, index: u8, numel: usize) -> Result<Dims, Error> {
    let wrong =
        Error::InvalidArgument { index, expected: "sizes with the same number of elements" };
    let mut sizes = Dims::filled(0, 0);
    let mut inferred = None;
    let mut known = Some(1_usize);
    for size in args.int_list(usize::from(index))?.iter() {
        if size == -1 && inferred.is_none() {
            inferred = Some(sizes.len());
            sizes.push(0)?;
        } else {
            let size = usize::try_from(size).map_err(|_| wrong)?;
            sizes.push(size)?;
            // A size of zero makes the product zero, even if the other sizes overflow.
            known = if size == 0 { Some(0) } else { known.and_then(|n| n.checked_mul(size)) };
        }
    }
    let known = known.ok_or(wrong)?;
    match inferred {
        Some(dim) if known > 0 && numel.is_multiple_of(known) => sizes[dim] = numel / known,
        None if known == numel => {}
        _ => return Err(wrong),
    }
    Ok(sizes)
}

/// Slices `view` by four arguments, the first at `index`: dimension, start, end and step.
///
/// # Errors
/// [`Error::InvalidArgument`] if the dimension is out of range or the step is not positive.
pub(crate) fn slice_args(args: &Args<'_>, index: u8, view: &mut StridedView) -> Result<(), Error> {
    let dim = existing_dim_arg(args, index, view.sizes.len())?;
    let first = usize::from(index);
    let size = view.sizes[dim];
    let start = clamp_index(args.opt_int(first + 1)?.unwrap_or(0), size);
    let end = clamp_index(args.opt_int(first + 2)?.unwrap_or(i64::MAX), size);
    let step = usize::try_from(args.int(first + 3)?).ok().filter(|&step| step > 0);
    let wrong = Error::InvalidArgument { index: index + 3, expected: "a positive step" };
    let step = step.ok_or(wrong)?;
    view.slice(dim, start, end.saturating_sub(start).div_ceil(step), step);
    Ok(())
}

/// Selects from `view` by two arguments, the first at `index`: dimension and index.
///
/// # Errors
/// [`Error::InvalidArgument`] if the dimension or the index is out of range.
pub(crate) fn select_args(args: &Args<'_>, index: u8, view: &mut StridedView) -> Result<(), Error> {
    let dim = existing_dim_arg(args, index, view.sizes.len())?;
    let at = wrap_index(args.int(usize::from(index) + 1)?, view.sizes[dim]);
    let expected = "an index of the dimension";
    view.select(dim, at.ok_or(Error::InvalidArgument { index: index + 1, expected })?);
    Ok(())
}

/// Checks that the dim order in argument `index`, if present, is that of the output `out`.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is not.
pub(crate) fn check_dim_order_arg(args: &mut Args<'_>, index: u8, out: usize) -> Result<(), Error> {
    let Some(expected) = args.opt_int_list(usize::from(index))? else { return Ok(()) };
    let own = args.out(out)?.dim_order();
    if expected.iter().eq(own.iter().map(|&dim| i64::from(dim))) {
        Ok(())
    } else {
        Err(Error::InvalidArgument { index, expected: "the dim order of the output" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices() {
        assert_eq!(wrap_index(-1, 3), Some(2));
        assert_eq!(wrap_index(-4, 3), None);
        assert_eq!(wrap_index(3, 3), None);
        assert_eq!(wrap_index(i64::MIN, 3), None);
        assert_eq!(wrap_index(0, 0), None);
        assert_eq!(clamp_index(i64::MIN, 3), 0);
        assert_eq!(clamp_index(i64::MAX, 3), 3);
        assert_eq!(clamp_index(-1, 3), 2);
    }

    #[test]
    fn dimensions() {
        assert_eq!(wrap_dim(-2, 3, 0), Ok(1));
        assert!(wrap_dim(3, 3, 0).is_err());
        assert!(wrap_dim(i64::MIN, 3, 0).is_err());
    }

    #[test]
    fn a_0d_tensor_counts_as_1d() {
        assert_eq!(wrap_dim(-1, 0, 0), Ok(0));
        assert!(wrap_dim(1, 0, 0).is_err());
    }
}
