//! Sizes, strides and broadcasting.

/// Maximum rank of a tensor.
pub(crate) const MAX_RANK: usize = 8;

/// Maximum number of elements of a tensor.
const MAX_NUMEL: usize = 1 << 30;

/// Number of elements; `None` if it exceeds the limit.
pub(crate) fn numel(dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        let bounded = dims.iter().all(|dim| *dim <= MAX_NUMEL);
        return bounded.then_some(0);
    }
    let product = dims.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    product.filter(|numel| *numel <= MAX_NUMEL)
}

/// Strides of a row-major tensor.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim].max(1);
    }
    strides
}

/// Sizes of the result of an operator with inputs of sizes `a` and `b`.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], dim: usize| {
        (dim + dims.len()).checked_sub(rank).map_or(1, |dim| dims[dim])
    };
    let join = |dim| match (size(a, dim), size(b, dim)) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    };
    (0..rank).map(join).collect()
}

/// Strides with that a tensor of sizes `dims` is read as one of sizes `out`: 0 where it broadcasts.
pub(crate) fn broadcast_strides(dims: &[usize], out: &[usize]) -> Vec<usize> {
    let skip = out.len() - dims.len();
    let own = strides(dims);
    let stride = |dim: usize| match dim.checked_sub(skip) {
        Some(dim) if dims[dim] != 1 => own[dim],
        _ => 0,
    };
    (0..out.len()).map(stride).collect()
}

/// Index of dimension `dim`, which counts from the end if it is negative.
///
/// # Errors
/// If a tensor of rank `rank` has no such dimension. A scalar has dimension 0.
pub(crate) fn wrap_dim(dim: i64, rank: usize) -> Result<usize, &'static str> {
    let rank = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    let wrapped = if dim < 0 { dim.saturating_add(rank) } else { dim };
    if wrapped >= rank || wrapped < 0 {
        return Err("has a dimension that exceeds the rank of its tensor");
    }
    Ok(usize::try_from(wrapped).unwrap_or_default())
}

/// Product of the sizes.
pub(crate) fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}
