//! `aten::convolution.out`: convolution or transposed convolution over one to three dimensions.
//!
//! | argument         | type                     | shape                                        |
//! |------------------|--------------------------|----------------------------------------------|
//! | `input`          | real tensor, not `bool`  | `[n, c, …]`                                  |
//! | `weight`         | as `input`               | `[o, c / groups, …]` or `[c, o / groups, …]` |
//! | `bias`           | optional, as `input`     | `[o]`                                        |
//! | `stride`         | 1 int or 1 per dimension |                                              |
//! | `padding`        | as `stride`              |                                              |
//! | `dilation`       | as `stride`              |                                              |
//! | `transposed`     | bool                     |                                              |
//! | `output_padding` | as `stride`              |                                              |
//! | `groups`         | int                      |                                              |
//! | `out`            | as `input`               | `[n, o, …]`                                  |
//!
//! `output_padding` and the second shape of `weight` are those of a transposed convolution. Half
//! types accumulate in `f32`; integers wrap. Tolerance: 1e-5 relative to the sum of magnitudes.
//! Scratch: im2col needs 16384 elements or eight patches; a channels-last depthwise convolution
//! needs a copy of the weight.
//! Errors: mismatched sizes, parameters that give an empty output, different dtypes.
//! Source: ATen `convolution`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Operand, check_dtype, with_operand},
    conv::{self, Operands, direct, im2col},
    elements::elements_mut,
    simd,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::convolution.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::OptTensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::IntList,
        Arg::Int,
        Arg::Out,
    ],
    convolution_out,
)];

fn convolution_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.opt_tensor(2)?.map_or(dtype, |bias| bias.dtype()), dtype, 2)?;
    check_dtype(args.out(9)?.dtype(), dtype, 9)?;
    with_operand!(dtype, 0, T => convolution::<T>(cx, args))
}

fn convolution<T: Operand>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (g, sizes) = conv::geometry(args, 0)?;
    if args.opt_tensor(2)?.is_some_and(|bias| *bias.sizes() != [sizes[1]]) {
        let expected = "one element per output channel";
        return Err(Error::InvalidArgument { index: 2, expected });
    }
    let (operands, is_transposed) = (Operands::<T>::new(args)?, args.bool(6)?);
    let mut out = args.out(9)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let to_strides = conv::out_steps(&out);
    let out = elements_mut(&mut out)?;
    if !is_transposed
        && let Some(written) = simd::conv::try_convolution(cx, &g, &operands, out, to_strides)
    {
        return written;
    }
    if is_transposed {
        direct::transposed(&g, &operands, out, to_strides);
    } else if g.in_channels == 1
        && g.out_channels == 1
        && g.groups > 1
        && (operands.x_strides.channel, to_strides.channel) == (1, 1)
    {
        direct::channels_last_depthwise(cx, &g, &operands, out, to_strides)?;
    } else if g.out_channels >= 4 && im2col::supports(&g, &operands, to_strides) {
        im2col::forward(cx, &g, &operands, out, to_strides)?;
    } else {
        direct::forward(&g, &operands, out, to_strides);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    struct Params {
        stride: i64,
        padding: i64,
        dilation: i64,
        transposed: bool,
        groups: i64,
    }

    const DEFAULT: Params =
        Params { stride: 1, padding: 0, dilation: 1, transposed: false, groups: 1 };

    fn run(x: &Tensor, weight: &Tensor, params: &Params) -> Result<Tensor, Error> {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Tensor(weight),
            Argument::None,
            Argument::Ints(vec![params.stride]),
            Argument::Ints(vec![params.padding]),
            Argument::Ints(vec![params.dilation]),
            Argument::Scalar(Scalar::Bool(params.transposed)),
            Argument::Ints(vec![0]),
            Argument::Scalar(Scalar::Int(params.groups)),
            Argument::Out(&mut out),
        ];
        Call::with_memory_limit(&KERNELS[0], 1 << 20).run(&mut arguments)?;
        Ok(out)
    }

    /// Convolves the input 1, 2, 3, 4 (one channel) with the kernel 1, 10 for each of `channels`
    /// output channels.
    #[track_caller]
    fn check(channels: usize, params: &Params, expected: &[f32]) {
        let x = Tensor::new(&[1, 1, 4], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let weight = [1.0_f32, 10.0].repeat(channels);
        let sizes = if params.transposed { [1, channels, 2] } else { [channels, 1, 2] };
        let out = run(&x, &Tensor::new(&sizes, &weight).unwrap(), params).unwrap();
        assert_eq!(out.sizes(), [1, channels, expected.len()]);
        assert_eq!(out.data::<f32>().unwrap(), expected.repeat(channels));
    }

    #[test]
    fn values() {
        for channels in [1, 5] {
            check(channels, &DEFAULT, &[21.0, 32.0, 43.0]);
            check(channels, &Params { padding: 1, ..DEFAULT }, &[10.0, 21.0, 32.0, 43.0, 4.0]);
            check(channels, &Params { stride: 2, padding: 1, ..DEFAULT }, &[10.0, 32.0, 4.0]);
            check(channels, &Params { dilation: 3, ..DEFAULT }, &[41.0]);
            let transposed = Params { transposed: true, ..DEFAULT };
            check(channels, &transposed, &[1.0, 12.0, 23.0, 34.0, 40.0]);
            let expected = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];
            check(channels, &Params { stride: 2, ..transposed }, &expected);
        }
    }

    #[test]
    fn large_strides_and_dilations_need_no_memory() {
        check(1, &Params { stride: 1 << 29, padding: 1, ..DEFAULT }, &[10.0]);
        let large = Params { padding: 1 << 28, dilation: 1 << 29, ..DEFAULT };
        check(1, &large, &[0.0; 4]);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let x = Tensor::zeros(ScalarType::Float, &[1, 2, 4]);
        let weight = Tensor::zeros(ScalarType::Float, &[2, 2, 2]);
        for params in [
            Params { stride: 0, ..DEFAULT },
            Params { padding: -1, ..DEFAULT },
            Params { dilation: i64::MIN, ..DEFAULT },
            Params { dilation: i64::MAX, ..DEFAULT },
            Params { padding: i64::MAX, ..DEFAULT },
            Params { groups: 0, ..DEFAULT },
            Params { groups: 2, ..DEFAULT },
            Params { stride: i64::MAX, transposed: true, ..DEFAULT },
            Params { padding: 9, transposed: true, ..DEFAULT },
        ] {
            assert!(run(&x, &weight, &params).is_err());
        }
    }
}
