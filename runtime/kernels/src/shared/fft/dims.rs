//! Fourier transforms of the lines of a tensor, and the arguments that ask for them.

use afferent_core::{Args, Dims, Error, KernelContext, ScalarType};

use crate::shared::{
    accumulator::Float,
    complex::Complex,
    dim_args::wrap_dim,
    fft::{Direction, Fft},
    loop_nest::LoopNest,
};

/// The complex dtype whose parts are of `dtype`.
pub(crate) fn complex_dtype_of(dtype: ScalarType) -> Option<ScalarType> {
    match dtype {
        ScalarType::Float => Some(ScalarType::ComplexFloat),
        ScalarType::Double => Some(ScalarType::ComplexDouble),
        _ => None,
    }
}

/// The dimensions at 1, at least one and each once, of a tensor of `rank`.
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

/// The factor that the normalization at 2 asks of signals with the sizes `dims` of `sizes`.
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

/// Scratch memory of complex numbers.
type Memory<'c, A> = &'c mut [Complex<A>];

/// Scratch memory for `more` elements and transforms of all of `lens`.
pub(crate) fn scratch<'c, A: Float>(
    cx: &'c mut KernelContext<'_>,
    more: usize,
    lens: impl Iterator<Item = usize>,
) -> Result<(Memory<'c, A>, Memory<'c, A>), Error> {
    let missing = Error::OutOfResources { bytes: usize::MAX };
    let mut most = 0;
    for len in lens {
        most = most.max(Fft::<A>::scratch(len).ok_or(missing)?);
    }
    let memory = cx.scratch::<Complex<A>>(more.checked_add(most).ok_or(missing)?)?;
    Ok(memory.split_at_mut(more))
}

/// Transforms every line of `data` along `dim` in place.
pub(crate) fn transform_dim<A: Float>(
    data: &mut [Complex<A>],
    (sizes, strides): (&[usize], &[usize]),
    dim: usize,
    direction: Direction,
    scratch: &mut [Complex<A>],
) -> Result<(), Error> {
    let mut lines = LoopNest::<1>::new();
    for (other, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
        if other != dim {
            lines.push(size, [stride])?;
        }
    }
    let mut fft = Fft::new(sizes[dim], direction, scratch);
    let step = strides[dim].max(1);
    lines.for_each([0], |[at]| {
        let line = fft.line();
        for (to, &from) in line.iter_mut().zip(data[at..].iter().step_by(step)) {
            *to = from;
        }
        fft.run();
        for (&mut from, to) in fft.line().iter_mut().zip(data[at..].iter_mut().step_by(step)) {
            *to = from;
        }
    });
    Ok(())
}
