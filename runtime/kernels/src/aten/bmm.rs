//! `aten::bmm.out`: batched matrix product.
//!
//! | argument | type                                       | shape       |
//! |----------|--------------------------------------------|-------------|
//! | `self`   | real tensor, not `bool`, or complex tensor | `[b, n, k]` |
//! | `mat2`   | as `self`                                  | `[b, k, m]` |
//! | `out`    | as `self`                                  | `[b, n, m]` |
//!
//! Half types accumulate in `f32`; integers wrap. Tolerance: 1e-5 relative to the sum of
//! magnitudes.
//! Errors: other ranks, mismatched sizes, different dtypes. Source: ATen `bmm`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand, check_dtype, with_operand},
    complex::{self, common_complex, with_complex},
    elements::{elements, elements_mut},
    loop_nest::{out_strides, strides_of},
    matmul::{Matmul, Matrix},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::bmm.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], bmm_out)];

fn bmm_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    let sizes = resize_out(args)?;
    if common_complex(&[dtype]).is_some() {
        return with_complex!(dtype, A => complex::bmm::<A>(args, sizes));
    }
    with_operand!(dtype, 0, T => bmm::<T>(cx, args, sizes))
}

/// Checks the sizes and resizes the output. Returns the rows, inner size and columns of the
/// matrices.
fn resize_out(args: &mut Args<'_>) -> Result<[usize; 3], Error> {
    let (a, b) = (args.tensor(0)?, args.tensor(1)?);
    let &[batch, rows, inner] = a.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a batch of matrices" });
    };
    let &[b_batch, b_rows, cols] = b.sizes() else {
        return Err(Error::InvalidArgument { index: 1, expected: "a batch of matrices" });
    };
    if (b_batch, b_rows) != (batch, inner) {
        return Err(Error::InvalidArgument {
            index: 1,
            expected: "a batch of matrices that matches `self`",
        });
    }
    let mut out = args.out(2)?;
    out.resize(&[batch, rows, cols])?;
    Ok([rows, inner, cols])
}

fn bmm<T: Operand>(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
    [rows, inner, cols]: [usize; 3],
) -> Result<(), Error> {
    let (a, b, mut out) = (args.tensor(0)?, args.tensor(1)?, args.out(2)?);
    let batch = out.sizes().first().copied().unwrap_or(0);
    if out.numel() == 0 {
        return Ok(());
    }
    let (a_strides, b_strides, to_strides) = (strides_of(&a), strides_of(&b), out_strides(&out));
    let (a, b, out) = (elements::<T>(&a)?, elements(&b)?, elements_mut(&mut out)?);
    let out_of_bounds = Error::Internal { reason: "a matrix is out of bounds" };
    for item in 0..batch {
        let a = a.get(item * a_strides[0]..).ok_or(out_of_bounds)?;
        let b = b.get(item * b_strides[0]..).ok_or(out_of_bounds)?;
        let product = Matmul {
            a: Matrix { data: a, row_stride: a_strides[1], col_stride: a_strides[2] },
            b: Matrix { data: b, row_stride: b_strides[1], col_stride: b_strides[2] },
            rows,
            inner,
            cols,
            alpha: T::Acc::ONE,
            addend: None,
        };
        let out = out.get_mut(item * to_strides[0]..).ok_or(out_of_bounds)?;
        product.write(cx, out, to_strides[1], to_strides[2])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let a = Tensor::new(&[2, 1, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let b = Tensor::new(&[2, 2, 1], &[5.0_f32, 6.0, 7.0, 8.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments = [Argument::Tensor(&a), Argument::Tensor(&b), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[17.0, 53.0][..]));
    }

    #[test]
    fn empty_output_with_huge_sizes() {
        for dtype in [ScalarType::Float, ScalarType::ComplexFloat] {
            let a = Tensor::zeros(dtype, &[1 << 40, 1 << 40, 0]);
            let b = Tensor::zeros(dtype, &[1 << 40, 0, 0]);
            let mut out = Tensor::zeros(dtype, &[0, 0, 0]);
            let mut arguments =
                [Argument::Tensor(&a), Argument::Tensor(&b), Argument::Out(&mut out)];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.sizes(), [1 << 40, 1 << 40, 0]);
        }
    }
}
