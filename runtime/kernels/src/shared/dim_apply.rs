//! Application of a function to each 1-D slice of a tensor along one dimension.

use afferent_core::{Args, Error, KernelContext, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype},
    dim_args::dim_arg,
    elements::{CHUNK, Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// 1-D slices of an input and an output tensor along dimension `dim`. Their sizes differ in that
/// dimension at most.
pub(crate) struct DimSlices {
    outer: LoopNest<2>,
    /// Length of a slice of the input.
    pub(crate) len: usize,
    /// Strides along `dim`: input, output.
    pub(crate) strides: [usize; 2],
}

impl DimSlices {
    pub(crate) fn new(
        x: &TensorView<'_>,
        out: &TensorMut<'_, '_>,
        dim: usize,
    ) -> Result<Self, Error> {
        let (from, to) = (strides_of(x), out_strides(out));
        let mut outer = LoopNest::new();
        for (other, &size) in x.sizes().iter().enumerate() {
            if other != dim {
                outer.push(size, [from[other], to[other]])?;
            }
        }
        let stride = |strides: &[usize]| strides.get(dim).copied().unwrap_or(1);
        let len = x.sizes().get(dim).copied().unwrap_or(1);
        Ok(Self { outer, len, strides: [stride(&from), stride(&to)] })
    }

    /// Calls `f` with the offsets of the first elements of each slice: input, output.
    pub(crate) fn for_each(&self, f: impl FnMut([usize; 2])) {
        self.outer.for_each([0, 0], f);
    }
}

/// Copies each 1-D slice of `x`, argument 0, along `dim` to scratch memory, applies `f` to it
/// in place, and writes it to `out`, argument `index`, which is resized to the sizes of `x`.
pub(crate) fn map_slices<A: Accumulator>(
    cx: &mut KernelContext<'_>,
    x: TensorView<'_>,
    dim: usize,
    out: &mut TensorMut<'_, '_>,
    index: u8,
    mut f: impl FnMut(&mut [A]),
) -> Result<(), Error> {
    out.resize(x.sizes())?;
    if out.numel() == 0 {
        return Ok(());
    }
    let slices = DimSlices::new(&x, out, dim)?;
    let slice = cx.scratch::<A>(slices.len)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(out, index)?);
    slices.for_each(|[from, to]| {
        x.read(from, slices.strides[0], slice);
        f(slice);
        out.write(to, slices.strides[1], slice);
    });
    Ok(())
}

/// Writes to argument 3 the results of `float` or `int` over all elements of argument 0 up to each
/// one along the dimension in argument 1, from `initial` on. Argument 2 is the dtype of the output,
/// or none.
pub(crate) fn accumulate(
    args: &mut Args<'_>,
    initial: f64,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> i64,
) -> Result<(), Error> {
    let (x, dtype) = (args.tensor(0)?, args.opt_dtype(2)?);
    let dim = dim_arg(args, 1, x.rank())?;
    let mut out = args.out(3)?;
    check_dtype(dtype.unwrap_or(out.dtype()), out.dtype(), 3)?;
    if out.dtype() == ScalarType::Bool {
        return Err(Error::InvalidType { index: 3, found: out.dtype() });
    }
    out.resize(x.sizes())?;
    if out.numel() == 0 {
        return Ok(());
    }
    let slices = DimSlices::new(&x, &out, dim)?;
    if out.dtype().is_float() {
        let (x, mut out) = (Reader::<f64>::new(x, 0)?, Writer::new(&mut out, 3)?);
        slices.for_each(|at| accumulate_slice(&x, &mut out, at, (&slices, initial), &float));
    } else {
        let (x, mut out) = (Reader::<i64>::new(x, 0)?, Writer::new(&mut out, 3)?);
        let initial = initial as i64;
        slices.for_each(|at| accumulate_slice(&x, &mut out, at, (&slices, initial), &int));
    }
    Ok(())
}

/// Writes the results of `f` over the slice at offset `from` to the slice at offset `to`.
fn accumulate_slice<A: Accumulator>(
    x: &Reader<'_, A>,
    out: &mut Writer<'_, A>,
    [from, mut to]: [usize; 2],
    (slices, initial): (&DimSlices, A),
    f: &impl Fn(A, A) -> A,
) {
    let (mut total, mut results) = (initial, [A::default(); CHUNK]);
    x.for_each_chunk(from, slices.strides[0], slices.len, |chunk| {
        let results = &mut results[..chunk.len()];
        for (result, &x) in results.iter_mut().zip(chunk) {
            total = f(total, x);
            *result = total;
        }
        out.write(to, slices.strides[1], results);
        to += slices.strides[1] * results.len();
    });
}
