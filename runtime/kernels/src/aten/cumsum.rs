//! `aten::cumsum.out`: cumulative sum along a dimension.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `dim`    | int                          |           |
//! | `dtype`  | optional; the dtype of `out` |           |
//! | `out`    | real tensor, not `bool`      | as `self` |
//!
//! Accumulates in `f64` if `out` is floating point, otherwise in `i64` with wrap-around. Tolerance:
//! 1e-6 relative.
//! Errors: a `dim` out of range, a `dtype` other than that of `out`.
//! Source: ATen `cumsum`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype},
    dim_apply::DimSlices,
    dim_args::dim_arg,
    elements::{Reader, Writer},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::cumsum.out",
    &[Arg::Tensor, Arg::Int, Arg::OptDtype, Arg::Out],
    cumsum_out,
)];

fn cumsum_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
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
        slices.for_each(|at| cumsum_slice(&x, &mut out, at, &slices));
    } else {
        let (x, mut out) = (Reader::<i64>::new(x, 0)?, Writer::new(&mut out, 3)?);
        slices.for_each(|at| cumsum_slice(&x, &mut out, at, &slices));
    }
    Ok(())
}

/// Writes the cumulative sum of the slice at offset `from` to the slice at offset `to`.
fn cumsum_slice<A: Accumulator>(
    x: &Reader<'_, A>,
    out: &mut Writer<'_, A>,
    [from, mut to]: [usize; 2],
    slices: &DimSlices,
) {
    let mut total = A::default();
    x.for_each_chunk(from, slices.strides[0], slices.len, |chunk| {
        for &x in chunk {
            total = total.add(x);
            out.set(to, total);
            to += slices.strides[1];
        }
    });
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        for (dim, expected) in [(0, [1_i64, 2, 3, 5, 7, 9]), (-1, [1, 3, 6, 4, 9, 15])] {
            let mut out = Tensor::zeros(ScalarType::Long, &[2, 3]);
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Scalar(Scalar::Int(dim)),
                Argument::None,
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<i64>(), Ok(&expected[..]));
        }
    }
}
