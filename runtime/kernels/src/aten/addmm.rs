//! `aten::addmm.out`: matrix product plus a matrix.
//!
//! | argument | type                    | shape                  |
//! |----------|-------------------------|------------------------|
//! | `self`   | real tensor, not `bool` | broadcasts to `[n, m]` |
//! | `mat1`   | as `self`               | `[n, k]`               |
//! | `mat2`   | as `self`               | `[k, m]`               |
//! | `beta`   | scalar                  |                        |
//! | `alpha`  | scalar                  |                        |
//! | `out`    | as `self`               | `[n, m]`               |
//!
//! Computes `beta · self + alpha · mat1 mat2`. If `beta` is 0, `self` is not read. Half types
//! accumulate in `f32`; integers wrap. Tolerance: 1e-5 relative to the sum of magnitudes.
//! Errors: other ranks, mismatched sizes, different dtypes. Source: ATen `addmm`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorView};

use crate::shared::{
    accumulator::{Accumulator, Operand, check_dtype, with_operand},
    elements::{elements, elements_mut},
    loop_nest::{out_strides, strides_of},
    matmul::{Matmul, Matrix},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::addmm.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Out],
    addmm_out,
)];

fn addmm_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.tensor(2)?.dtype(), dtype, 2)?;
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    with_operand!(dtype, 0, T => addmm::<T>(cx, args))
}

fn addmm<T: Operand>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (addend, a, b) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    let &[rows, inner] = a.sizes() else {
        return Err(Error::InvalidArgument { index: 1, expected: "a matrix" });
    };
    let &[b_rows, cols] = b.sizes() else {
        return Err(Error::InvalidArgument { index: 2, expected: "a matrix" });
    };
    if b_rows != inner {
        return Err(Error::InvalidArgument {
            index: 2,
            expected: "as many rows as `mat1` has columns",
        });
    }
    let beta = T::Acc::from_arg(args.scalar(3)?);
    let alpha = T::Acc::from_arg(args.scalar(4)?);
    let addend = broadcast::<T>(&addend, rows, cols)?;
    let mut out = args.out(5)?;
    out.resize(&[rows, cols])?;
    let (a_strides, b_strides, to_strides) = (strides_of(&a), strides_of(&b), out_strides(&out));
    let product = Matmul {
        a: Matrix { data: elements::<T>(&a)?, row_stride: a_strides[0], col_stride: a_strides[1] },
        b: Matrix { data: elements(&b)?, row_stride: b_strides[0], col_stride: b_strides[1] },
        rows,
        inner,
        cols,
        alpha,
        addend: Some((addend, beta)).filter(|_| beta != T::Acc::default()),
    };
    product.write(cx, elements_mut(&mut out)?, to_strides[0], to_strides[1])
}

/// Broadcasts `tensor`, argument 0, to a `rows` × `cols` matrix.
fn broadcast<'a, T: Operand>(
    tensor: &TensorView<'a>,
    rows: usize,
    cols: usize,
) -> Result<Matrix<'a, T>, Error> {
    let (sizes, strides) = (tensor.sizes(), strides_of(tensor));
    let stride = |dim_from_end: usize, expected: usize| {
        let Some(dim) = sizes.len().checked_sub(dim_from_end) else { return Some(0) };
        match sizes[dim] {
            1 => Some(0),
            size => Some(strides[dim]).filter(|_| size == expected),
        }
    };
    match (stride(2, rows), stride(1, cols)) {
        (Some(row_stride), Some(col_stride)) if sizes.len() <= 2 => {
            Ok(Matrix { data: elements(tensor)?, row_stride, col_stride })
        }
        _ => {
            Err(Error::InvalidArgument { index: 0, expected: "a shape that broadcasts to [n, m]" })
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(addend: &Tensor, beta: f64, expected: &[f32]) {
        let a = Tensor::new(&[2, 1], &[1.0_f32, 2.0]).unwrap();
        let b = Tensor::new(&[1, 2], &[3.0_f32, 4.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
        let mut arguments = [
            Argument::Tensor(addend),
            Argument::Tensor(&a),
            Argument::Tensor(&b),
            Argument::Scalar(Scalar::Double(beta)),
            Argument::Scalar(Scalar::Int(10)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn values() {
        let row = Tensor::from_slice(&[1.0_f32, 2.0]);
        check(&row, 1.0, &[31.0, 42.0, 61.0, 82.0]);
        let column = Tensor::new(&[2, 1], &[1.0_f32, 2.0]).unwrap();
        check(&column, 0.5, &[30.5, 40.5, 61.0, 81.0]);
        let nan = Tensor::new(&[], &[f32::NAN]).unwrap();
        check(&nan, 0.0, &[30.0, 40.0, 60.0, 80.0]);
    }
}
