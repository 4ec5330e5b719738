//! `aten::_fft_c2r.out`: inverse FFT of a one-sided spectrum to a real signal.
//!
//! | argument        | type                             | shape                               |
//! |-----------------|----------------------------------|-------------------------------------|
//! | `self`          | complex f32 or f64 tensor        | last of `dim`: at least `n / 2 + 1` |
//! | `dim`           | ints, at least 1, not repeated   |                                     |
//! | `normalization` | int: 0 none, 1 by `√n`, 2 by `n` |                                     |
//! | `last_dim_size` | int `n`, at least 1              |                                     |
//! | `out`           | f32 or f64 tensor                | as `self`; last of `dim`: `n`       |
//!
//! Computes `x[k] = scale · Σ X[j] e^(2π i j k / n)` over each dimension of `dim`. The missing half
//! of the last one is the conjugate of the given half. The imaginary parts of element 0 and, for
//! even `n`, of element `n / 2` are ignored. `scale` is 1, `1 / √n` or `1 / n` for signals of `n`
//! elements. Any length takes `O(n log n)`. Tolerance: 1e-6 relative to the largest output.
//! Scratch: one batch of signals, and two copies of `self` if `dim` has more than one dimension.
//! Errors: an empty or too short dimension, other dtypes. Source: ATen `_fft_c2r`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, ScalarType, TensorView};
use afferent_simd::fft::Kind;

use crate::shared::{
    accumulator::check_dtype,
    complex::numbers,
    fft::{
        Component, Fft,
        args::{complex_dtype_of, dims_arg, normalization_factor},
        scratch, signals, transform_dims,
    },
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_fft_c2r.out",
    &[Arg::Tensor, Arg::IntList, Arg::Int, Arg::Int, Arg::Out],
    fft_c2r_out,
)];

fn fft_c2r_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let found = args.out(4)?.dtype();
    let complex = complex_dtype_of(found).ok_or(Error::InvalidType { index: 4, found })?;
    check_dtype(args.tensor(0)?.dtype(), complex, 0)?;
    if found == ScalarType::Double {
        transform::<f64>(cx, args)
    } else {
        transform::<f32>(cx, args)
    }
}

/// Reads and checks the output sizes.
fn out_sizes(args: &Args<'_>, x: &TensorView<'_>, dims: &[usize]) -> Result<Dims, Error> {
    let mut sizes =
        Dims::new(x.sizes()).ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
    let len = usize::try_from(args.int(3)?).ok().filter(|&len| len > 0);
    let len = len.ok_or(Error::InvalidArgument { index: 3, expected: "a positive size" })?;
    let too_short = Error::InvalidArgument {
        index: 0,
        expected: "at least n / 2 + 1 elements in the last of `dim`",
    };
    if let Some(&last) = dims.last() {
        sizes[last] = len;
        if x.sizes()[last] < len / 2 + 1 {
            return Err(too_short);
        }
    }
    if dims.iter().any(|&dim| x.sizes()[dim] == 0) { Err(too_short) } else { Ok(sizes) }
}

fn transform<A: Component>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dims = dims_arg(args, x.rank())?;
    let sizes = out_sizes(args, &x, &dims)?;
    let scale = normalization_factor::<A>(args, &sizes, &dims)?;
    let no_dims = Error::Internal { reason: "an FFT has no dimensions" };
    let (&last, others) = dims.split_last().ok_or(no_dims)?;
    let mut out = args.out(4)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let mut data = numbers::<A>(&x)?;
    let copy_len = if others.is_empty() { 0 } else { data.len() };
    let fft = Fft::new(Kind::ComplexToReal, sizes[last]);
    let others_fft = others.iter().map(|&dim| Fft::new(Kind::Backward, sizes[dim]));
    let (copies, scratch) = scratch::<A>(cx, 2 * copy_len, others_fft.chain([fft]))?;
    let (copy, second) = copies.split_at_mut(copy_len);
    if !others.is_empty() {
        copy.copy_from_slice(data);
        let shape = (x.sizes(), &*x_strides);
        transform_dims(Kind::Backward, (copy, second), shape, others, scratch)?;
        data = copy;
    }
    let signals = signals(&sizes, [&x_strides, &to_strides], last, [2, 1])?;
    let strides = [2 * x_strides[last].max(1), to_strides[last].max(1)];
    fft.run(&signals, (data, out.data_mut()?), strides, scale, scratch)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(x: &[f32], len: i64, normalization: i64) -> Result<Vec<f32>, Error> {
        let sizes = [x.len() / 2];
        let bytes = bytemuck::cast_slice(x);
        let x = Tensor::from_bytes(ScalarType::ComplexFloat, &sizes, &[0], bytes).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![0]),
            Argument::Scalar(Scalar::Int(normalization)),
            Argument::Scalar(Scalar::Int(len)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn values() {
        let x = [10.0, 5.0, -2.0, 2.0, -2.0, 7.0];
        assert_eq!(run(&x, 4, 2), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(run(&x, 1, 0), Ok(vec![10.0]));
        assert_eq!(run(&x, 2, 0), Ok(vec![8.0, 12.0]));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for len in [0, -1, 6, i64::MAX] {
            assert!(run(&[1.0; 6], len, 0).is_err());
        }
        assert!(run(&[], 1, 0).is_err());
    }
}
