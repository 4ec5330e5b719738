//! `aten::native_layer_norm.out`: normalization over the last dimensions.
//!
//! | argument           | type                           | shape                              |
//! |--------------------|--------------------------------|------------------------------------|
//! | `input`            | floating-point tensor          | `[…, normalized_shape]`            |
//! | `normalized_shape` | ints                           |                                    |
//! | `weight`, `bias`   | optional floating-point tensor | `normalized_shape`, contiguous     |
//! | `eps`              | double                         |                                    |
//! | `out0`             | as `input`                     | as `input`                         |
//! | `out1`, `out2`     | floating-point tensor          | as `input`; normalized sizes are 1 |
//!
//! Writes `(x - mean) / √(var + eps) · weight + bias`, `mean` and `1 / √(var + eps)`; `var` is the
//! biased variance. Half types are computed in `f32`. Tolerance: 1e-5.
//! Errors: mismatched sizes, other dtypes. Source: ATen `native_layer_norm`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, OpPattern};
use afferent_simd::norm::Norm;

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
    norm::{Affine, Group},
    simd,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::native_layer_norm.out",
    &[
        Arg::Tensor,
        Arg::IntList,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::Double,
        Arg::Out,
        Arg::Out,
        Arg::Out,
    ],
    native_layer_norm_out,
)
.with_pattern(OpPattern::Normalization { dims: 1 })];

fn native_layer_norm_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    with_float_accumulator!(dtype, 0, A => layer_norm::<A>(args))
}

fn layer_norm<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let shape = args.int_list(1)?.to_dims().filter(|shape| !shape.is_empty());
    let shape = shape.filter(|shape| x.sizes().ends_with(shape));
    let shape = shape.ok_or(invalid(1, "the last sizes of the input"))?;
    let affine = |index: u8| match args.opt_tensor(usize::from(index))? {
        Some(tensor) if *tensor.sizes() != *shape => {
            Err(invalid(index, "the sizes of `normalized_shape`"))
        }
        Some(tensor) if !tensor.is_contiguous() => Err(invalid(index, "a row-major tensor")),
        Some(tensor) => Reader::new(tensor, index).map(Some),
        None => Ok(None),
    };
    let affine = Affine { weight: affine(2)?, bias: affine(3)? };
    let eps = A::from_double(args.double(4)?);
    let simd_affine = simd::affine_params(args, [2, 3]);

    let leading = x.rank() - shape.len();
    let mut stat_sizes = Dims::filled(x.rank(), 1);
    stat_sizes[..leading].copy_from_slice(&x.sizes()[..leading]);
    let [mut out, mut mean, mut rstd] = args.outs([5, 6, 7])?;
    out.resize(x.sizes())?;
    mean.resize(&stat_sizes)?;
    rstd.resize(&stat_sizes)?;

    let count = shape.iter().fold(1_usize, |count, &size| count.saturating_mul(size));
    if let Some([weight, bias]) = simd_affine {
        let eps = eps.to_double() as f32;
        let norm = Norm { row_len: count, weight, bias, affine_run: 1, eps };
        if simd::normalize(norm, &x, [&mut out, &mut mean, &mut rstd]) {
            return Ok(());
        }
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let (mean_strides, rstd_strides) = (out_strides(&mean), out_strides(&rstd));
    let mut rows = LoopNest::new();
    for dim in 0..leading {
        let strides = [x_strides[dim], to_strides[dim], mean_strides[dim], rstd_strides[dim]];
        rows.push(x.sizes()[dim], strides)?;
    }
    let group = Group::new(
        (leading..x.rank()).map(|dim| (x.sizes()[dim], [x_strides[dim], to_strides[dim]])),
    )?;
    let x = Reader::<A>::new(x, 0)?;
    let mut out = Writer::new(&mut out, 5)?;
    let (mut mean, mut rstd) = (Writer::new(&mut mean, 6)?, Writer::new(&mut rstd, 7)?);
    rows.for_each([0; 4], |[from, to, mean_to, rstd_to]| {
        let (row_mean, var) = group.mean_var(&x, from, count);
        let inv_std = A::ONE / (var + eps).sqrt();
        group.map(&x, &mut out, [from, to], |chunk, index| {
            chunk.iter_mut().for_each(|x| *x = (*x - row_mean) * inv_std);
            affine.apply(chunk, index);
        });
        mean.set(mean_to, if count == 0 { A::default() } else { row_mean });
        rstd.set(rstd_to, inv_std);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[1.0_f32, 3.0, 5.0, 5.0]).unwrap();
        let weight = Tensor::from_slice(&[2.0_f32, 3.0]);
        let mut outs = [[0, 0]; 3].map(|sizes| Tensor::zeros(ScalarType::Float, &sizes));
        let [out, mean, rstd] = &mut outs;
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![2]),
            Argument::Tensor(&weight),
            Argument::None,
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Out(out),
            Argument::Out(mean),
            Argument::Out(rstd),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(outs[0].data::<f32>().unwrap()[..2], [-2.0, 3.0]);
        assert_eq!(outs[1].data::<f32>(), Ok(&[2.0, 5.0][..]));
        assert_eq!(outs[2].data::<f32>(), Ok(&[1.0, f32::INFINITY][..]));
    }
}
