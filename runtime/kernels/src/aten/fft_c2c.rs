//! `aten::_fft_c2c.out`: FFT of a complex signal.
//!
//! | argument        | type                             | shape     |
//! |-----------------|----------------------------------|-----------|
//! | `self`          | complex f32 or f64 tensor        | any       |
//! | `dim`           | ints, at least 1, not repeated   |           |
//! | `normalization` | int: 0 none, 1 by `√n`, 2 by `n` |           |
//! | `forward`       | bool                             |           |
//! | `out`           | as `self`                        | as `self` |
//!
//! Computes `X[j] = scale · Σ x[k] e^(∓2π i j k / n)` over each dimension of `dim`, with a
//! negative exponent if `forward` is true. `scale` is 1, `1 / √n` or `1 / n` for signals of `n`
//! elements. Any length takes `O(n log n)`. Tolerance: 1e-6 relative to the largest output.
//! Scratch: one batch of signals, and a copy of `out` if `dim` has more than one dimension.
//! Errors: an empty dimension, other dtypes. Source: ATen `_fft_c2c`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};
use afferent_simd::fft::Kind;

use crate::shared::{
    accumulator::check_dtype,
    complex::{numbers, numbers_mut},
    fft::{
        Component, Fft,
        args::{dims_arg, normalization_factor},
        scratch, signals, transform_dims,
    },
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_fft_c2c.out",
    &[Arg::Tensor, Arg::IntList, Arg::Int, Arg::Bool, Arg::Out],
    fft_c2c_out,
)];

fn fft_c2c_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let found = args.tensor(0)?.dtype();
    check_dtype(args.out(4)?.dtype(), found, 4)?;
    match found {
        ScalarType::ComplexFloat => transform::<f32>(cx, args),
        ScalarType::ComplexDouble => transform::<f64>(cx, args),
        found => Err(Error::InvalidType { index: 0, found }),
    }
}

fn transform<A: Component>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dims = dims_arg(args, x.rank())?;
    let sizes = x.sizes();
    if dims.iter().any(|&dim| sizes[dim] == 0) {
        return Err(Error::InvalidArgument { index: 0, expected: "signals that are not empty" });
    }
    let scale = normalization_factor::<A>(args, sizes, &dims)?;
    let kind = if args.bool(3)? { Kind::Forward } else { Kind::Backward };
    let no_dims = Error::Internal { reason: "an FFT has no dimensions" };
    let (&last, others) = dims.split_last().ok_or(no_dims)?;
    let mut out = args.out(4)?;
    out.resize(sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let copy_len = if others.is_empty() { 0 } else { 2 * out.numel() };
    let transforms = dims.iter().map(|&dim| Fft::new(kind, sizes[dim]));
    let (copy, scratch) = scratch::<A>(cx, copy_len, transforms)?;
    let out = numbers_mut::<A>(&mut out)?;
    let signals = signals(sizes, [&x_strides, &to_strides], last, [2, 2])?;
    let strides = [&x_strides, &to_strides].map(|strides| 2 * strides[last].max(1));
    let data = numbers::<A>(&x)?;
    Fft::new(kind, sizes[last]).run(&signals, (data, out), strides, scale, scratch)?;
    transform_dims(kind, (out, copy), (sizes, &to_strides), others, scratch)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(x: &[f32], sizes: &[usize], dims: &[i64], forward: bool) -> Result<Vec<f32>, Error> {
        let order: Vec<u8> = (0..).take(sizes.len()).collect();
        let bytes = bytemuck::cast_slice(x);
        let x = Tensor::from_bytes(ScalarType::ComplexFloat, sizes, &order, bytes).unwrap();
        let mut out = Tensor::zeros(ScalarType::ComplexFloat, &vec![0; sizes.len()]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(dims.to_vec()),
            Argument::Scalar(Scalar::Int(if forward { 0 } else { 2 })),
            Argument::Scalar(Scalar::Bool(forward)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(bytemuck::cast_slice(out.view().bytes()).to_vec())
    }

    #[test]
    fn backward_inverts_forward() {
        let x = [1.0, 2.0, -3.0, 0.5, 4.0, -1.0, 0.0, 2.0];
        for (sizes, dims) in [(&[4][..], &[0][..]), (&[2, 2], &[0, 1]), (&[2, 2], &[0])] {
            let spectrum = run(&x, sizes, dims, true).unwrap();
            let back = run(&spectrum, sizes, dims, false).unwrap();
            assert!(back.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-6), "{back:?}");
        }
        let sum = run(&x, &[4], &[0], true).unwrap();
        assert_eq!(sum[..2], [2.0, 3.5]);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        assert!(run(&[], &[0], &[0], true).is_err());
        assert!(run(&[1.0, 2.0], &[1], &[], true).is_err());
        assert!(run(&[1.0, 2.0], &[1], &[1], true).is_err());
    }
}
