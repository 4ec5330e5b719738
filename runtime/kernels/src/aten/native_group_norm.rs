//! `aten::native_group_norm.out`: normalization over groups of channels.
//!
//! | argument         | type                           | shape        |
//! |------------------|--------------------------------|--------------|
//! | `input`          | floating-point tensor          | `[N, C, …]`  |
//! | `weight`, `bias` | optional floating-point tensor | `[C]`        |
//! | `N`, `C`, `HxW`  | ints: sizes of `input`         |              |
//! | `group`          | int, divides `C`               |              |
//! | `eps`            | double                         |              |
//! | `out0`           | as `input`                     | as `input`   |
//! | `out1`, `out2`   | floating-point tensor          | `[N, group]` |
//!
//! Writes `(x - mean) / √(var + eps) · weight + bias`, `mean` and `1 / √(var + eps)`; `var` is the
//! biased variance. Half types are computed in `f32`. Tolerance: 1e-5.
//! Errors: mismatched sizes, other dtypes. Source: ATen `native_group_norm`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};
use afferent_simd::norm::Norm;

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::{out_strides, strides_of},
    norm::{Affine, Group},
    simd,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::native_group_norm.out",
    &[
        Arg::Tensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Double,
        Arg::Out,
        Arg::Out,
        Arg::Out,
    ],
    native_group_norm_out,
)];

fn native_group_norm_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(8)?.dtype(), dtype, 8)?;
    with_float_accumulator!(dtype, 0, A => group_norm::<A>(args))
}

fn group_norm<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[batch, channels, ref spatial @ ..] = x.sizes() else {
        return Err(invalid(0, "a tensor [batch, channels, ...]"));
    };
    let spatial_size = spatial.iter().fold(1_usize, |product, &size| product.saturating_mul(size));
    for (index, size) in [(3, batch), (4, channels), (5, spatial_size)] {
        if usize::try_from(args.int(usize::from(index))?).ok() != Some(size) {
            return Err(invalid(index, "the size of the input"));
        }
    }
    let groups = usize::try_from(args.int(6)?).ok().filter(|&groups| groups > 0);
    let groups = groups.filter(|&groups| channels.is_multiple_of(groups));
    let groups = groups.ok_or(invalid(6, "a divisor of the number of channels"))?;
    let affine = |index: u8| match args.opt_tensor(usize::from(index))? {
        Some(tensor) if *tensor.sizes() != [channels] => {
            Err(invalid(index, "one element per channel"))
        }
        Some(tensor) => Reader::new(tensor, index).map(Some),
        None => Ok(None),
    };
    let affine = Affine::<A> { weight: affine(1)?, bias: affine(2)? };
    let eps = A::from_double(args.double(7)?);
    let simd_affine = simd::affine_params(args, [1, 2]);

    let [mut out, mut mean, mut rstd] = args.outs([8, 9, 10])?;
    out.resize(x.sizes())?;
    mean.resize(&[batch, groups])?;
    rstd.resize(&[batch, groups])?;
    if x.numel() == 0 {
        // As in PyTorch, the mean of an empty group is zero.
        let count = mean.numel();
        let (mut mean, mut rstd) = (Writer::new(&mut mean, 9)?, Writer::new(&mut rstd, 10)?);
        for i in 0..count {
            mean.set(i, A::default());
            rstd.set(i, A::from_double(f64::NAN));
        }
        return Ok(());
    }
    let group_channels = channels / groups;
    let group_size = group_channels.saturating_mul(spatial_size);
    if let Some([weight, bias]) = simd_affine {
        let eps = eps.to_double() as f32;
        let norm = Norm { row_len: group_size, weight, bias, affine_run: spatial_size, eps };
        if simd::normalize(norm, &x, [&mut out, &mut mean, &mut rstd]) {
            return Ok(());
        }
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let (mean_strides, rstd_strides) = (out_strides(&mean), out_strides(&rstd));
    let spatial_dims =
        || (2..x.rank()).map(|dim| (x.sizes()[dim], [x_strides[dim], to_strides[dim]]));
    let channel_dim = (group_channels, [x_strides[1], to_strides[1]]);
    let group = Group::new(core::iter::once(channel_dim).chain(spatial_dims()))?;
    let channel = Group::new(spatial_dims())?;
    let x = Reader::<A>::new(x, 0)?;
    let mut out = Writer::new(&mut out, 8)?;
    let (mut mean, mut rstd) = (Writer::new(&mut mean, 9)?, Writer::new(&mut rstd, 10)?);
    for item in 0..batch {
        for g in 0..groups {
            let from = item * x_strides[0] + g * group_channels * x_strides[1];
            let (group_mean, var) = group.mean_var(&x, from, group_size);
            let inv_std = A::ONE / (var + eps).sqrt();
            for c in g * group_channels..(g + 1) * group_channels {
                let (weight, bias) = affine.get(c);
                let scale = inv_std * weight;
                let from = item * x_strides[0] + c * x_strides[1];
                let to = item * to_strides[0] + c * to_strides[1];
                channel.map(&x, &mut out, [from, to], |chunk, _| {
                    chunk.iter_mut().for_each(|x| *x = (*x - group_mean) * scale + bias);
                });
            }
            mean.set(item * mean_strides[0] + g * mean_strides[1], group_mean);
            rstd.set(item * rstd_strides[0] + g * rstd_strides[1], inv_std);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    /// Output, mean and reciprocal standard deviation of `x` in two groups.
    fn run(x: &Tensor, bias: Option<&Tensor>) -> [Vec<f32>; 3] {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut stats = [[0, 0]; 2].map(|sizes| Tensor::zeros(ScalarType::Float, &sizes));
        let [mean, rstd] = &mut stats;
        let size = |dim: usize| Argument::Scalar(Scalar::Int(x.sizes()[dim] as i64));
        let mut arguments = [
            Argument::Tensor(x),
            Argument::None,
            bias.map_or(Argument::None, Argument::Tensor),
            size(0),
            size(1),
            size(2),
            Argument::Scalar(Scalar::Int(2)),
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Out(&mut out),
            Argument::Out(mean),
            Argument::Out(rstd),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        let [mean, rstd] = stats;
        [out, mean, rstd].map(|tensor| tensor.data().unwrap().to_vec())
    }

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 4, 1], &[1.0_f32, 3.0, 5.0, 9.0]).unwrap();
        let bias = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0]);
        let expected = [vec![-1.0, 2.0, 1.0, 4.0], vec![2.0, 7.0], vec![1.0, 0.5]];
        assert_eq!(run(&x, Some(&bias)), expected);
    }

    #[test]
    fn empty_groups_have_statistics() {
        for sizes in [[1, 1 << 40, 0], [1, 0, 1 << 40]] {
            let [out, mean, rstd] = run(&Tensor::zeros(ScalarType::Float, &sizes), None);
            assert_eq!((out, mean), (vec![], vec![0.0; 2]));
            assert!(rstd.len() == 2 && rstd.iter().all(|x| x.is_nan()));
        }
    }
}
