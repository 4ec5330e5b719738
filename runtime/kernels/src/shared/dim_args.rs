//! Dimensions, positions and sizes as PyTorch takes them: negative ones count from the end.

use afferent_core::{Args, Dims, Error, IntList};

use crate::shared::strided_view::StridedView;

/// The dimension that `dim` names in a tensor of `rank` dimensions; of a tensor without
/// dimensions 0 and -1 name an imaginary first one.
///
/// # Errors
/// [`Error::InvalidArgument`] for the argument `index` when there is no such dimension.
pub(crate) fn wrap_dim(dim: i64, rank: usize, index: u8) -> Result<usize, Error> {
    wrap_index(dim, rank.max(1)).ok_or(Error::InvalidArgument { index, expected: "a dimension" })
}

/// As [`wrap_dim`], for the integer argument at `index`.
pub(crate) fn dim_arg(args: &Args<'_>, index: u8, rank: usize) -> Result<usize, Error> {
    wrap_dim(args.int(usize::from(index))?, rank, index)
}

/// As [`dim_arg`], where the tensor needs to have that dimension.
pub(crate) fn existing_dim_arg(args: &Args<'_>, index: u8, rank: usize) -> Result<usize, Error> {
    let dim = dim_arg(args, index, rank)?;
    if dim < rank {
        Ok(dim)
    } else {
        Err(Error::InvalidArgument { index, expected: "a dimension of a tensor that has some" })
    }
}

/// The position that `position` names among `size`; `None` when there is no such.
pub(crate) fn wrap_index(position: i64, size: usize) -> Option<usize> {
    let size = i64::try_from(size).ok()?;
    let wrapped = if position < 0 { position.checked_add(size)? } else { position };
    if (0..size).contains(&wrapped) { usize::try_from(wrapped).ok() } else { None }
}

/// The bound of a slice that `position` names among `size`: clamped to it.
pub(crate) fn clamp_index(position: i64, size: usize) -> usize {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let wrapped = if position < 0 { position.saturating_add(size) } else { position };
    usize::try_from(wrapped.clamp(0, size)).unwrap_or(0)
}

/// The dimensions that `dims` names, as a set of bits.
///
/// # Errors
/// [`Error::InvalidArgument`] for the argument `index` when one is named twice or is none.
pub(crate) fn dim_mask(dims: IntList<'_>, rank: usize, index: u8) -> Result<u32, Error> {
    let mut set = 0_u32;
    for dim in dims.iter() {
        let bit = 1 << wrap_dim(dim, rank, index)?;
        if set & bit != 0 {
            return Err(Error::InvalidArgument { index, expected: "each dimension once" });
        }
        set |= bit;
    }
    Ok(set)
}

/// The sizes at `index`, none of them negative.
///
/// # Errors
/// [`Error::InvalidArgument`] when they are not such sizes.
pub(crate) fn sizes_arg(args: &Args<'_>, index: u8) -> Result<Dims, Error> {
    let sizes = args.int_list(usize::from(index))?.to_dims();
    sizes.ok_or(Error::InvalidArgument { index, expected: "up to 16 sizes, none negative" })
}

/// The sizes at `index` of a tensor with `numel` elements, one of which may be -1: what is left.
///
/// # Errors
/// [`Error::InvalidArgument`] when there are no such sizes.
pub(crate) fn inferred_sizes_arg(args: &Args<'_>, index: u8, numel: usize) -> Result<Dims, Error> {
    let wrong = Error::InvalidArgument { index, expected: "sizes for as many elements" };
    let mut sizes = Dims::filled(0, 0);
    let mut open = None;
    let mut known = Some(1_usize);
    for size in args.int_list(usize::from(index))?.iter() {
        if size == -1 && open.is_none() {
            open = Some(sizes.len());
            sizes.push(0)?;
        } else {
            let size = usize::try_from(size).map_err(|_| wrong)?;
            sizes.push(size)?;
            // A zero decides, whatever overflowed before it.
            known = if size == 0 { Some(0) } else { known.and_then(|n| n.checked_mul(size)) };
        }
    }
    let known = known.ok_or(wrong)?;
    match open {
        Some(dim) if known > 0 && numel.is_multiple_of(known) => sizes[dim] = numel / known,
        None if known == numel => {}
        _ => return Err(wrong),
    }
    Ok(sizes)
}

/// Slices `part` by the four arguments from `index` on: dimension, start, end and step.
///
/// # Errors
/// [`Error::InvalidArgument`] when there is no such dimension or the step is not positive.
pub(crate) fn slice_args(args: &Args<'_>, index: u8, part: &mut StridedView) -> Result<(), Error> {
    let dim = existing_dim_arg(args, index, part.sizes.len())?;
    let first = usize::from(index);
    let size = part.sizes[dim];
    let start = clamp_index(args.opt_int(first + 1)?.unwrap_or(0), size);
    let end = clamp_index(args.opt_int(first + 2)?.unwrap_or(i64::MAX), size);
    let step = usize::try_from(args.int(first + 3)?).ok().filter(|&step| step > 0);
    let wrong = Error::InvalidArgument { index: index + 3, expected: "a positive step" };
    let step = step.ok_or(wrong)?;
    part.slice(dim, start, end.saturating_sub(start).div_ceil(step), step);
    Ok(())
}

/// Selects from `part` by the two arguments from `index` on: dimension and position.
///
/// # Errors
/// [`Error::InvalidArgument`] when there is no such dimension or position.
pub(crate) fn select_args(args: &Args<'_>, index: u8, part: &mut StridedView) -> Result<(), Error> {
    let dim = existing_dim_arg(args, index, part.sizes.len())?;
    let at = wrap_index(args.int(usize::from(index) + 1)?, part.sizes[dim]);
    let expected = "a position of the dimension";
    part.select(dim, at.ok_or(Error::InvalidArgument { index: index + 1, expected })?);
    Ok(())
}

/// Refuses the dim order at `index`, if there is one, unless it is that of the tensor at `out`.
///
/// # Errors
/// [`Error::InvalidArgument`] when it is not.
pub(crate) fn check_dim_order_arg(args: &mut Args<'_>, index: u8, out: usize) -> Result<(), Error> {
    let Some(wanted) = args.opt_int_list(usize::from(index))? else { return Ok(()) };
    let own = args.out(out)?.dim_order();
    if wanted.iter().eq(own.iter().map(|&dim| i64::from(dim))) {
        Ok(())
    } else {
        Err(Error::InvalidArgument { index, expected: "the dim order of the output" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
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
    fn a_tensor_without_dimensions_has_an_imaginary_one() {
        assert_eq!(wrap_dim(-1, 0, 0), Ok(0));
        assert!(wrap_dim(1, 0, 0).is_err());
    }
}
