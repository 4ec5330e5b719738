//! `aten::linear.out`: linear layer.
//!
//! | argument | type                    | shape    |
//! |----------|-------------------------|----------|
//! | `input`  | real tensor, not `bool` | `[…, k]` |
//! | `weight` | as `input`              | `[m, k]` |
//! | `bias`   | optional, as `input`    | `[m]`    |
//! | `out`    | as `input`              | `[…, m]` |
//!
//! Computes `input weightᵀ + bias`. Half types accumulate in `f32`; integers wrap. Tolerance: 1e-5
//! relative to the sum of magnitudes.
//! Errors: other ranks, mismatched sizes, different dtypes. Source: ATen `linear`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, OpPattern};

use crate::shared::{
    accumulator::{Accumulator, Operand, check_dtype, with_operand},
    elements::{elements, elements_mut},
    loop_nest::{LoopNest, out_strides, strides_of},
    matmul::{Matmul, Matrix},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::linear.out",
    &[Arg::Tensor, Arg::Tensor, Arg::OptTensor, Arg::Out],
    linear_out,
)
.with_pattern(OpPattern::RowWise)];

fn linear_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.opt_tensor(2)?.map_or(dtype, |bias| bias.dtype()), dtype, 2)?;
    check_dtype(args.out(3)?.dtype(), dtype, 3)?;
    with_operand!(dtype, 0, T => linear::<T>(cx, args))
}

fn linear<T: Operand>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (x, weight, bias) = (args.tensor(0)?, args.tensor(1)?, args.opt_tensor(2)?);
    let &[cols, inner] = weight.sizes() else {
        return Err(Error::InvalidArgument { index: 1, expected: "a matrix" });
    };
    let Some((&last, leading)) = x.sizes().split_last().filter(|(last, _)| **last == inner) else {
        return Err(Error::InvalidArgument {
            index: 0,
            expected: "a last dimension that matches `weight`",
        });
    };
    if bias.is_some_and(|bias| *bias.sizes() != [cols]) {
        return Err(Error::InvalidArgument {
            index: 2,
            expected: "one element per row of `weight`",
        });
    }
    let mut sizes =
        Dims::new(leading).ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
    sizes.push(cols)?;
    let mut out = args.out(3)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, w_strides) = (strides_of(&x), strides_of(&weight));
    let to_strides = out_strides(&out);
    let mut outer = LoopNest::new();
    for (dim, &size) in leading.iter().enumerate() {
        // `x` has no elements if `last` is 0: its strides are not used.
        outer.push(size, [if last == 0 { 0 } else { x_strides[dim] }, to_strides[dim]])?;
    }
    let (rows, [x_row_stride, to_row_stride]) = outer.pop();
    let (x_col_stride, to_col_stride) = (x_strides[leading.len()], to_strides[leading.len()]);
    let (x, weight, out) = (elements::<T>(&x)?, elements(&weight)?, elements_mut(&mut out)?);
    let addend = match bias {
        Some(bias) => {
            Some((Matrix { data: elements(&bias)?, row_stride: 0, col_stride: 1 }, T::Acc::ONE))
        }
        None => None,
    };
    let mut result = Ok(());
    outer.for_each([0, 0], |[from, to]| {
        let product = Matmul {
            a: Matrix {
                data: x.get(from..).unwrap_or(&[]),
                row_stride: x_row_stride,
                col_stride: x_col_stride,
            },
            b: Matrix { data: weight, row_stride: w_strides[1], col_stride: w_strides[0] },
            rows,
            inner,
            cols,
            alpha: T::Acc::ONE,
            addend,
        };
        let out = out.get_mut(to..).unwrap_or(&mut []);
        result = result.and(product.write(cx, out, to_row_stride, to_col_stride));
    });
    result
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], bias: Option<&Tensor>, expected: &[f32]) {
        let data = [1.0_f32, 2.0, 3.0, 4.0];
        let x = Tensor::new(sizes, &data[..sizes.iter().product()]).unwrap();
        let weight = Tensor::new(&[3, 2], &[1.0_f32, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &vec![0; sizes.len()]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&weight),
            bias.map_or(Argument::None, Argument::Tensor),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn values() {
        let bias = Tensor::from_slice(&[0.5_f32, 0.0, -1.0]);
        check(&[2], None, &[1.0, 2.0, 3.0]);
        check(&[2, 1, 2], Some(&bias), &[1.5, 2.0, 2.0, 3.5, 4.0, 6.0]);
        check(&[0, 2], None, &[]);
    }
}
