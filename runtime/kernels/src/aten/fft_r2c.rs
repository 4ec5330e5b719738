//! `aten::_fft_r2c.out`: FFT of a real signal.
//!
//! | argument        | type                             | shape                   |
//! |-----------------|----------------------------------|-------------------------|
//! | `self`          | f32 or f64 tensor                | any                     |
//! | `dim`           | ints, at least 1, not repeated   |                         |
//! | `normalization` | int: 0 none, 1 by `√n`, 2 by `n` |                         |
//! | `onesided`      | bool                             |                         |
//! | `out`           | complex f32 or f64 tensor        | as `self`, or one-sided |
//!
//! Computes `X[j] = scale · Σ x[k] e^(-2π i j k / n)` over each dimension of `dim`. `scale` is 1,
//! `1 / √n` or `1 / n` for signals of `n` elements. A one-sided output has size `n / 2 + 1` in the
//! last of `dim`: it omits the elements that are conjugates of others. Any length takes `O(n log
//! n)`. Tolerance: 1e-6 relative to the largest output.
//! Scratch: one batch of signals, and a copy of `out` if `dim` has more than one dimension.
//! Errors: an empty dimension, other dtypes. Source: ATen `_fft_r2c`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, ScalarType};
use afferent_simd::fft::Kind;

use crate::shared::{
    accumulator::check_dtype,
    complex::numbers_mut,
    fft::{
        Component, Fft,
        args::{complex_dtype_of, dims_arg, normalization_factor},
        scratch, signals, transform_dims,
    },
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_fft_r2c.out",
    &[Arg::Tensor, Arg::IntList, Arg::Int, Arg::Bool, Arg::Out],
    fft_r2c_out,
)];

fn fft_r2c_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let found = args.tensor(0)?.dtype();
    let complex = complex_dtype_of(found).ok_or(Error::InvalidType { index: 0, found })?;
    check_dtype(args.out(4)?.dtype(), complex, 4)?;
    if found == ScalarType::Double {
        transform::<f64>(cx, args)
    } else {
        transform::<f32>(cx, args)
    }
}

fn transform<A: Component>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dims = dims_arg(args, x.rank())?;
    if dims.iter().any(|&dim| x.sizes()[dim] == 0) {
        return Err(Error::InvalidArgument { index: 0, expected: "signals that are not empty" });
    }
    let scale = normalization_factor::<A>(args, x.sizes(), &dims)?;
    let mut sizes =
        Dims::new(x.sizes()).ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
    let no_dims = Error::Internal { reason: "an FFT has no dimensions" };
    let (&last, others) = dims.split_last().ok_or(no_dims)?;
    let (len, is_onesided) = (sizes[last], args.bool(3)?);
    if is_onesided {
        sizes[last] = len / 2 + 1;
    }
    let mut out = args.out(4)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let fft = Fft::new(Kind::RealToComplex, len);
    let others_fft = others.iter().map(|&dim| Fft::new(Kind::Forward, sizes[dim]));
    let copy_len = if others.is_empty() { 0 } else { 2 * out.numel() };
    let (copy, scratch) = scratch::<A>(cx, copy_len, others_fft.chain([fft]))?;
    let out = numbers_mut::<A>(&mut out)?;
    let signals = signals(&sizes, [&x_strides, &to_strides], last, [1, 2])?;
    let strides = [x_strides[last].max(1), 2 * to_strides[last].max(1)];
    fft.run(&signals, (x.data()?, out), strides, scale, scratch)?;
    if !is_onesided {
        signals.for_each([0, 0], |[_, to]| fill_conjugates(&mut out[to..], len, strides[1]));
    }
    transform_dims(Kind::Forward, (out, copy), (&sizes, &to_strides), others, scratch)
}

/// Fills the second half of the spectrum of a real signal, whose elements are `stride` numbers
/// apart, from the first half.
fn fill_conjugates<A: Component>(spectrum: &mut [A], len: usize, stride: usize) {
    for k in len / 2 + 1..len {
        let from = (len - k) * stride;
        spectrum[k * stride] = spectrum[from];
        spectrum[k * stride + 1] = A::default() - spectrum[from + 1];
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(
        x: &Tensor,
        dims: &[i64],
        normalization: i64,
        onesided: bool,
    ) -> Result<Vec<f32>, Error> {
        let mut out = Tensor::zeros(ScalarType::ComplexFloat, &vec![0; x.sizes().len()]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Ints(dims.to_vec()),
            Argument::Scalar(Scalar::Int(normalization)),
            Argument::Scalar(Scalar::Bool(onesided)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(bytemuck::cast_slice(out.view().bytes()).to_vec())
    }

    #[test]
    fn values() {
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]);
        assert_eq!(run(&x, &[0], 0, true), Ok(vec![10.0, 0.0, -2.0, 2.0, -2.0, 0.0]));
        assert_eq!(run(&x, &[-1], 1, true), Ok(vec![5.0, 0.0, -1.0, 1.0, -1.0, 0.0]));
        let all = vec![10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0];
        assert_eq!(run(&x, &[0], 0, false), Ok(all));
        let square = Tensor::new(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let expected = vec![2.5, 0.0, -0.5, 0.0, -1.0, 0.0, 0.0, 0.0];
        assert_eq!(run(&square, &[0, 1], 2, true), Ok(expected));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let x = Tensor::from_slice(&[1.0_f32, 2.0]);
        assert!(run(&x, &[], 0, true).is_err());
        assert!(run(&x, &[0, -1], 0, true).is_err());
        assert!(run(&x, &[1], 0, true).is_err());
        assert!(run(&x, &[0], 3, true).is_err());
        assert!(run(&Tensor::from_slice::<f32>(&[]), &[0], 0, true).is_err());
        assert!(run(&Tensor::from_slice(&[1_i32]), &[0], 0, true).is_err());
        assert!(run(&Tensor::new(&[], &[1.0_f32]).unwrap(), &[0], 0, true).is_err());
    }
}
