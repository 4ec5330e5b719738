//! `aten::mm.out`: matrix product.
//!
//! | argument | type                    | shape    |
//! |----------|-------------------------|----------|
//! | `self`   | real tensor, not `bool` | `[n, k]` |
//! | `mat2`   | as `self`               | `[k, m]` |
//! | `out`    | as `self`               | `[n, m]` |
//!
//! Half types accumulate in `f32`; integers wrap. Tolerance: 1e-5 relative to the sum of
//! magnitudes.
//! Errors: other ranks, mismatched sizes, different dtypes. Source: ATen `mm`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand, check_dtype, with_operand},
    elements::{elements, elements_mut},
    loop_nest::{out_strides, strides_of},
    matmul::{Matmul, Matrix},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::mm.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], mm_out)];

fn mm_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.out(2)?.dtype(), dtype, 2)?;
    with_operand!(dtype, 0, T => mm::<T>(cx, args))
}

fn mm<T: Operand>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (a, b) = (args.tensor(0)?, args.tensor(1)?);
    let &[rows, inner] = a.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a matrix" });
    };
    let &[b_rows, cols] = b.sizes() else {
        return Err(Error::InvalidArgument { index: 1, expected: "a matrix" });
    };
    if b_rows != inner {
        return Err(Error::InvalidArgument {
            index: 1,
            expected: "as many rows as `self` has columns",
        });
    }
    let mut out = args.out(2)?;
    out.resize(&[rows, cols])?;
    let (a_strides, b_strides, to_strides) = (strides_of(&a), strides_of(&b), out_strides(&out));
    let product = Matmul {
        a: Matrix { data: elements::<T>(&a)?, row_stride: a_strides[0], col_stride: a_strides[1] },
        b: Matrix { data: elements(&b)?, row_stride: b_strides[0], col_stride: b_strides[1] },
        rows,
        inner,
        cols,
        alpha: T::Acc::ONE,
        addend: None,
    };
    product.write(cx, elements_mut(&mut out)?, to_strides[0], to_strides[1])
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let a = Tensor::new(&[2, 2], &[1_u8, 2, 3, 200]).unwrap();
        let b = Tensor::new(&[2, 1], &[4_u8, 5]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Byte, &[0, 0]);
        let mut arguments = [Argument::Tensor(&a), Argument::Tensor(&b), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<u8>(), Ok(&[14, 244][..]));

        let mut arguments = [Argument::Tensor(&b), Argument::Tensor(&a), Argument::Out(&mut out)];
        assert!(Call::new(&KERNELS[0]).run(&mut arguments).is_err());
    }
}
