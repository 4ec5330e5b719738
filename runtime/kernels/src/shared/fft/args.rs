//! Arguments of Fourier transforms.

use afferent_core::{Args, Dims, Error, ScalarType};

use crate::shared::{accumulator::Float, dim_args::wrap_dim};

/// Complex dtype with parts of `dtype`.
pub(crate) fn complex_dtype_of(dtype: ScalarType) -> Option<ScalarType> {
    match dtype {
        ScalarType::Float => Some(ScalarType::ComplexFloat),
        ScalarType::Double => Some(ScalarType::ComplexDouble),
        _ => None,
    }
}

/// Reads the dimensions of a transform of a tensor of `rank` dimensions from argument 1.
///
/// # Errors
/// [`Error::InvalidArgument`] if there are none, or one is repeated or out of range.
pub(crate) fn dims_arg(args: &Args<'_>, rank: usize) -> Result<Dims, Error> {
    let mut dims = Dims::filled(0, 0);
    for dim in args.int_list(1)?.iter() {
        let dim = wrap_dim(dim, rank, 1)?;
        if dims.contains(&dim) || dim >= rank {
            return Err(Error::InvalidArgument { index: 1, expected: "no dimension twice" });
        }
        dims.push(dim)?;
    }
    if dims.is_empty() {
        return Err(Error::InvalidArgument { index: 1, expected: "at least one dimension" });
    }
    Ok(dims)
}

/// Scale factor for the normalization in argument 2 of a transform over the dimensions `dims`.
pub(crate) fn normalization_factor<A: Float>(
    args: &Args<'_>,
    sizes: &[usize],
    dims: &[usize],
) -> Result<A, Error> {
    let count = dims.iter().fold(1.0, |count, &dim| count * sizes[dim] as f64);
    match args.int(2)? {
        0 => Ok(A::ONE),
        1 => Ok(A::from_double(1.0 / libm::sqrt(count))),
        2 => Ok(A::from_double(1.0 / count)),
        _ => Err(Error::InvalidArgument { index: 2, expected: "0, 1 or 2" }),
    }
}
