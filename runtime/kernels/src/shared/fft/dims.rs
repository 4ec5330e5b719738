//! Fourier transform along dimensions of a tensor, and its arguments.

use afferent_core::{Args, Dims, Error, KernelContext, ScalarType};

use crate::shared::{
    accumulator::Float,
    complex::Complex,
    dim_args::wrap_dim,
    fft::{Direction, Fft},
    loop_nest::LoopNest,
};

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

/// Complex scratch memory.
type Scratch<'c, A> = &'c mut [Complex<A>];

/// Scratch memory: a buffer of `buffer_len` elements, and memory for transforms of each of `lens`.
pub(crate) fn scratch<'c, A: Float>(
    cx: &'c mut KernelContext<'_>,
    buffer_len: usize,
    lens: impl Iterator<Item = usize>,
) -> Result<(Scratch<'c, A>, Scratch<'c, A>), Error> {
    let overflow = Error::OutOfResources { bytes: usize::MAX };
    let mut transform_len = 0;
    for len in lens {
        transform_len = transform_len.max(Fft::<A>::scratch_len(len).ok_or(overflow)?);
    }
    let memory =
        cx.scratch::<Complex<A>>(buffer_len.checked_add(transform_len).ok_or(overflow)?)?;
    Ok(memory.split_at_mut(buffer_len))
}

/// Transforms `data` along `dim` in place.
pub(crate) fn transform_dim<A: Float>(
    data: &mut [Complex<A>],
    (sizes, strides): (&[usize], &[usize]),
    dim: usize,
    direction: Direction,
    scratch: &mut [Complex<A>],
) -> Result<(), Error> {
    let mut outer = LoopNest::<1>::new();
    for (other, (&size, &other_stride)) in sizes.iter().zip(strides).enumerate() {
        if other != dim {
            outer.push(size, [other_stride])?;
        }
    }
    let mut fft = Fft::new(sizes[dim], direction, scratch);
    let stride = strides[dim].max(1);
    outer.for_each([0], |[at]| {
        let signal = fft.signal();
        for (to, &from) in signal.iter_mut().zip(data[at..].iter().step_by(stride)) {
            *to = from;
        }
        fft.run();
        for (&mut from, to) in fft.signal().iter_mut().zip(data[at..].iter_mut().step_by(stride)) {
            *to = from;
        }
    });
    Ok(())
}
