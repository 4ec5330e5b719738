//! `quantized_decomposed::mixed_mm.out`: matrix product with a quantized matrix.
//!
//! | argument             | type                  | shape    |
//! |----------------------|-----------------------|----------|
//! | `input`              | floating-point tensor | `[m, k]` |
//! | `weight`             | i8 tensor             | `[k, n]` |
//! | `weight_scales`      | as `input`            | `[k]`    |
//! | `weight_zero_points` | as `input`, optional  | `[k]`    |
//! | `out`                | as `input`            | `[m, n]` |
//!
//! `Σ x[i, k] · (w[k, j] - zero_point[k]) · scale[k]`, accumulated in `f32`, for `f64` tensors in
//! `f64`. ExecuTorch's kernel accumulates in the dtype of `input` and supports no zero points.
//! Tolerance: 1e-5 relative to the sum of magnitudes.
//! Errors: sizes that do not match, other dtypes.
//! Source: ExecuTorch `op_mixed_mm.cpp`; PyTorch has only the schema.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::mixed_mm.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::OptTensor, Arg::Out],
    mixed_mm_out,
)];

fn mixed_mm_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), ScalarType::Char, 1)?;
    check_dtype(args.tensor(2)?.dtype(), dtype, 2)?;
    check_dtype(args.opt_tensor(3)?.map_or(dtype, |tensor| tensor.dtype()), dtype, 3)?;
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    with_float_accumulator!(dtype, 0, A => mixed_mm::<A>(cx, args))
}

fn mixed_mm<A: Float>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (x, weight, scales) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[rows, inner] = x.sizes() else { return Err(wrong(0, "a matrix")) };
    let &[_, columns] = weight.sizes() else { return Err(wrong(1, "a matrix")) };
    if weight.sizes()[0] != inner {
        return Err(wrong(1, "as many rows as the input has columns"));
    }
    let zero_points = args.opt_tensor(3)?;
    for (index, parameters) in [(2, Some(scales)), (3, zero_points)] {
        if parameters.is_some_and(|parameters| *parameters.sizes() != [inner]) {
            return Err(wrong(index, "one element for each row of the weight"));
        }
    }
    let mut out = args.out(4)?;
    out.resize(&[rows, columns])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let scratch_len = columns.checked_mul(2).ok_or(Error::OutOfResources { bytes: usize::MAX })?;
    let (sums, row) = cx.scratch::<A>(scratch_len)?.split_at_mut(columns);
    let (from, w, to) = (strides_of(&x), strides_of(&weight), out_strides(&out));
    let (x, weight, scales) =
        (Reader::<A>::new(x, 0)?, Reader::<A>::new(weight, 1)?, Reader::<A>::new(scales, 2)?);
    let zero_points = zero_points.map(|tensor| Reader::<A>::new(tensor, 3)).transpose()?;
    let mut out = Writer::new(&mut out, 4)?;
    for i in 0..rows {
        sums.fill(A::default());
        for k in 0..inner {
            let factor = x.get(i * from[0] + k * from[1]) * scales.get(k);
            let zero_point = zero_points.map_or(A::default(), |values| values.get(k));
            weight.read(k * w[0], w[1], row);
            for (sum, &q) in sums.iter_mut().zip(&*row) {
                *sum = *sum + factor * (q - zero_point);
            }
        }
        out.write(i * to[0], to[1], sums);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 2], &[1.0_f32, 2.0]).unwrap();
        let weight = Tensor::new(&[2, 3], &[1_i8, 2, 3, -4, 5, 6]).unwrap();
        let scales = Tensor::from_slice(&[0.5_f32, 2.0]);
        let zero_points = Tensor::from_slice(&[0.0_f32, 1.0]);
        for (zero_points, expected) in [
            (Argument::None, [-15.5, 21.0, 25.5]),
            (Argument::Tensor(&zero_points), [-19.5, 17.0, 21.5]),
        ] {
            let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Tensor(&weight),
                Argument::Tensor(&scales),
                zero_points,
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<f32>(), Ok(&expected[..]));
        }
    }
}
