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
    let &[batch, channels, ref space @ ..] = x.sizes() else {
        return Err(invalid(0, "a tensor [batch, channels, ...]"));
    };
    let area = space.iter().fold(1_usize, |area, &size| area.saturating_mul(size));
    for (index, size) in [(3, batch), (4, channels), (5, area)] {
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
    let (eps, factors) = (A::from_double(args.double(7)?), simd::affine_params(args, [1, 2]));

    let [mut out, mut mean, mut rstd] = args.outs([8, 9, 10])?;
    out.resize(x.sizes())?;
    mean.resize(&[batch, groups])?;
    rstd.resize(&[batch, groups])?;
    if x.numel() == 0 {
        // Groups without elements have the mean zero, as in PyTorch.
        let count = mean.numel();
        let (mut mean, mut rstd) = (Writer::new(&mut mean, 9)?, Writer::new(&mut rstd, 10)?);
        for at in 0..count {
            mean.set(at, A::default());
            rstd.set(at, A::from_double(f64::NAN));
        }
        return Ok(());
    }
    let each = channels / groups;
    if let Some([weight, bias]) = factors {
        let (width, eps) = (each.saturating_mul(area), eps.to_double() as f32);
        let norm = Norm { row_len: width, weight, bias, affine_run: area, eps };
        if simd::normalize(norm, &x, [&mut out, &mut mean, &mut rstd]) {
            return Ok(());
        }
    }
    let (from, to) = (strides_of(&x), out_strides(&out));
    let (mean_to, rstd_to) = (out_strides(&mean), out_strides(&rstd));
    let space = || (2..x.rank()).map(|dim| (x.sizes()[dim], [from[dim], to[dim]]));
    let group = Group::new(core::iter::once((each, [from[1], to[1]])).chain(space()))?;
    let channel = Group::new(space())?;
    let x = Reader::<A>::new(x, 0)?;
    let mut out = Writer::new(&mut out, 8)?;
    let (mut mean, mut rstd) = (Writer::new(&mut mean, 9)?, Writer::new(&mut rstd, 10)?);
    for item in 0..batch {
        for place in 0..groups {
            let first = item * from[0] + place * each * from[1];
            let (group_mean, var) = group.mean_var(&x, first, each.saturating_mul(area));
            let scale = A::ONE / (var + eps).sqrt();
            for c in place * each..(place + 1) * each {
                let (weight, bias) = affine.get(c);
                let (scale, shift) = (scale * weight, bias);
                let at = [item * from[0] + c * from[1], item * to[0] + c * to[1]];
                channel.map(&x, &mut out, at, |part, _| {
                    part.iter_mut().for_each(|x| *x = (*x - group_mean) * scale + shift);
                });
            }
            mean.set(item * mean_to[0] + place * mean_to[1], group_mean);
            rstd.set(item * rstd_to[0] + place * rstd_to[1], scale);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    /// The result, the means and the factors of `x` in two groups.
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
