//! `aten::nonzero.out`: indices of the nonzero elements.
//!
//! | argument | type        | shape                                     |
//! |----------|-------------|-------------------------------------------|
//! | `self`   | real tensor | any                                       |
//! | `out`    | i64 tensor  | `[n, rank of self]`, `n` nonzero elements |
//!
//! Indices are in row-major order. NaN is nonzero. Tolerance: exact.
//! Errors: another dtype of `out` is [`Error::DtypeMismatch`].
//! Source: ATen `nonzero`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    dtype::with_dtype, strided_copy::OUT_OF_BOUNDS, strided_view::for_each_position,
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::nonzero.out", &[Arg::Tensor, Arg::Out], nonzero)];

fn nonzero(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let is_nonzero = nonzero_predicate(input.dtype())?;
    let bytes = input.bytes();
    let elements = bytes.chunks_exact(input.dtype().size());
    let count = elements.filter(|element| is_nonzero(element)).count();
    let mut out = args.out(1)?;
    out.resize(&[count, input.rank()])?;
    let (row_stride, col_stride) = match *out.strides() {
        [row_stride, col_stride] => (row_stride, col_stride),
        _ => return Err(OUT_OF_BOUNDS),
    };
    let (size, sizes) = (input.dtype().size(), input.sizes());
    let dst = out.data_mut::<i64>()?;
    let (mut found, mut position) = (0_usize, 0_usize);
    for_each_position(sizes, [0], [&input.strides()], |[offset]| {
        let element = bytes.get(offset * size..(offset + 1) * size).ok_or(OUT_OF_BOUNDS)?;
        if is_nonzero(element) {
            let mut rest = position;
            for (dim, &size) in sizes.iter().enumerate().rev() {
                let to = found.wrapping_mul(row_stride).wrapping_add(dim.wrapping_mul(col_stride));
                *dst.get_mut(to).ok_or(OUT_OF_BOUNDS)? = i64::try_from(rest % size).unwrap_or(0);
                rest /= size;
            }
            found += 1;
        }
        position += 1;
        Ok(())
    })
}

/// Predicate on the bytes of an element of `dtype`: true if it is nonzero.
fn nonzero_predicate(dtype: ScalarType) -> Result<fn(&[u8]) -> bool, Error> {
    with_dtype!(all, dtype, 0, T => Ok(|bytes: &[u8]| {
        bytemuck::try_from_bytes::<T>(bytes).is_ok_and(|&element| element != T::default())
    }))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn run(x: &Tensor, expected: &[i64]) {
        let mut out = Tensor::zeros(ScalarType::Long, &[0, x.sizes().len()]);
        let mut arguments = [Argument::Tensor(x), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i64>().unwrap(), expected);
    }

    #[test]
    fn values() {
        run(&Tensor::new(&[2, 2], &[0, 7, -1, 0]).unwrap(), &[0, 1, 1, 0]);
        run(&Tensor::from_slice(&[0.0, -0.0, f32::NAN, 1e-40]), &[2, 3]);
        run(&Tensor::from_slice(&[false, true].map(Bool::from)), &[1]);
        run(&Tensor::zeros(ScalarType::Int, &[0, 3]), &[]);
        run(&Tensor::new(&[], &[5]).unwrap(), &[]);
    }
}
