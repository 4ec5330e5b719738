//! `quantized_decomposed::mixed_linear.out`: linear layer with quantized weights.
//!
//! | argument             | type                     | shape                  |
//! |----------------------|--------------------------|------------------------|
//! | `input`              | floating-point tensor    | `[m, k]`               |
//! | `weight`             | i8 tensor                | `[n, k]`               |
//! | `weight_scales`      | as `input`               | `[n]` or `[n, groups]` |
//! | `weight_zero_points` | as `input`, optional     | as `weight_scales`     |
//! | `dtype`              | dtype of `out`, optional |                        |
//! | `out`                | floating-point tensor    | `[m, n]`               |
//!
//! `Σ x[i, k] · (w[j, k] - zero_point) · scale` with the parameters of row `j` and of the group of
//! column `k`; a group has `⌈k / groups⌉` columns. Accumulates in `f32`, for `f64` tensors in
//! `f64`. ExecuTorch's kernel accumulates in the dtype of `out` and supports no zero points.
//! Tolerance: 1e-5 relative to the sum of magnitudes.
//! Errors: sizes that do not match, other dtypes.
//! Source: ExecuTorch `op_mixed_linear.cpp`; PyTorch has only the schema.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType, TensorView};

use crate::shared::{
    accumulator::{Float, check_dtype, sum_of, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "quantized_decomposed::mixed_linear.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Tensor, Arg::OptTensor, Arg::OptDtype, Arg::Out],
    mixed_linear_out,
)];

fn mixed_linear_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), ScalarType::Char, 1)?;
    check_dtype(args.tensor(2)?.dtype(), dtype, 2)?;
    check_dtype(args.opt_tensor(3)?.map_or(dtype, |tensor| tensor.dtype()), dtype, 3)?;
    let (expected, found) = (args.opt_dtype(4)?, args.out(5)?.dtype());
    check_dtype(found, expected.unwrap_or(found), 5)?;
    if !found.is_float() {
        return Err(Error::InvalidType { index: 5, found });
    }
    with_float_accumulator!(dtype, 0, A => mixed_linear::<A>(cx, args))
}

fn mixed_linear<A: Float>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (x, weight) = (args.tensor(0)?, args.tensor(1)?);
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[rows, inner] = x.sizes() else { return Err(wrong(0, "a matrix")) };
    let &[columns, _] = weight.sizes() else { return Err(wrong(1, "a matrix")) };
    if weight.sizes()[1] != inner {
        return Err(wrong(1, "as many columns as the input"));
    }
    let qparams = QParams::<A>::new(args, columns)?;
    let mut out = args.out(5)?;
    out.resize(&[rows, columns])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let overflow = Error::OutOfResources { bytes: usize::MAX };
    let scratch_len =
        rows.checked_add(1).and_then(|rows| rows.checked_mul(inner)).ok_or(overflow)?;
    let (inputs, row) = cx.scratch::<A>(scratch_len)?.split_at_mut(rows * inner);
    let (from, w, to) = (strides_of(&x), strides_of(&weight), out_strides(&out));
    let (x, weight) = (Reader::<A>::new(x, 0)?, Reader::<A>::new(weight, 1)?);
    let mut out = Writer::new(&mut out, 5)?;
    for (i, input) in inputs.chunks_exact_mut(inner.max(1)).enumerate() {
        x.read(i * from[0], from[1], input);
    }
    let group_size = inner.div_ceil(qparams.groups).max(1);
    for j in 0..columns {
        weight.read(j * w[0], w[1], row);
        for (group, weights) in row.chunks_mut(group_size).enumerate() {
            let (scale, zero_point) = qparams.get(j, group);
            weights.iter_mut().for_each(|q| *q = (*q - zero_point) * scale);
        }
        for i in 0..rows {
            let sum = dot(inputs.get(i * inner..(i + 1) * inner).unwrap_or(&[]), row);
            out.set(i * to[0] + j * to[1], sum);
        }
    }
    Ok(())
}

/// Dot product.
fn dot<A: Float>(a: &[A], b: &[A]) -> A {
    let mut total = A::default();
    for (a, b) in a.chunks(64).zip(b.chunks(64)) {
        let mut products = [A::default(); 64];
        for ((product, &a), &b) in products.iter_mut().zip(a).zip(b) {
            *product = a * b;
        }
        total = total + sum_of(&products[..a.len()], |product| product);
    }
    total
}

/// Scales and zero points per row and group.
struct QParams<'a, A> {
    scales: Reader<'a, A>,
    zero_points: Option<Reader<'a, A>>,
    /// Strides of rows and groups: scales, zero points.
    strides: [[usize; 2]; 2],
    groups: usize,
}

impl<'a, A: Float> QParams<'a, A> {
    fn new(args: &Args<'a>, rows: usize) -> Result<Self, Error> {
        let (scales, zero_points) = (args.tensor(2)?, args.opt_tensor(3)?);
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let groups = match *scales.sizes() {
            [count] if count == rows => 1,
            [count, groups] if count == rows && groups > 0 => groups,
            _ => return Err(wrong(2, "sizes [n] or [n, groups]")),
        };
        if zero_points.is_some_and(|zero_points| zero_points.sizes() != scales.sizes()) {
            return Err(wrong(3, "the sizes of the scales"));
        }
        let row_and_group = |tensor: &TensorView<'_>| {
            let strides = strides_of(tensor);
            [strides[0], strides.get(1).copied().unwrap_or(0)]
        };
        Ok(Self {
            strides: [row_and_group(&scales), zero_points.as_ref().map_or([0; 2], row_and_group)],
            scales: Reader::new(scales, 2)?,
            zero_points: zero_points.map(|tensor| Reader::new(tensor, 3)).transpose()?,
            groups,
        })
    }

    /// Scale and zero point of a group.
    fn get(&self, row: usize, group: usize) -> (A, A) {
        let [scale, zero_point] =
            self.strides.map(|[by_row, by_group]| row * by_row + group * by_group);
        let zero_point = self.zero_points.map_or(A::default(), |values| values.get(zero_point));
        (self.scales.get(scale), zero_point)
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 3], &[1.0_f32, 2.0, 3.0, 0.0, 1.0, 0.0]).unwrap();
        let weight = Tensor::new(&[2, 3], &[1_i8, 2, 3, -4, 5, 6]).unwrap();
        let by_row = Tensor::from_slice(&[0.5_f32, 2.0]);
        let by_group = Tensor::new(&[2, 2], &[0.5_f32, 1.0, 2.0, 3.0]).unwrap();
        for (scales, expected) in
            [(&by_row, [7.0, 48.0, 1.0, 10.0]), (&by_group, [11.5, 66.0, 1.0, 10.0])]
        {
            let mut out = Tensor::zeros(ScalarType::Float, &[0, 0]);
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Tensor(&weight),
                Argument::Tensor(scales),
                Argument::None,
                Argument::None,
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<f32>(), Ok(&expected[..]));
        }
    }
}
