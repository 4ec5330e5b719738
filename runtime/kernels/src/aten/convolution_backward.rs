//! `aten::convolution_backward.out`: gradients of a convolution over one to three dimensions.
//!
//! | argument         | type                     | shape                                        |
//! |------------------|--------------------------|----------------------------------------------|
//! | `grad_output`    | as `input`               | `[n, o, …]`                                  |
//! | `input`          | floating-point tensor    | `[n, c, …]`                                  |
//! | `weight`         | as `input`               | `[o, c / groups, …]` or `[c, o / groups, …]` |
//! | `bias_sizes`     | optional ints, ignored   |                                              |
//! | `stride`         | 1 int or 1 per dimension |                                              |
//! | `padding`        | as `stride`              |                                              |
//! | `dilation`       | as `stride`              |                                              |
//! | `transposed`     | bool                     |                                              |
//! | `output_padding` | as `stride`              |                                              |
//! | `groups`         | int                      |                                              |
//! | `output_mask`    | 3 bools, one per output  |                                              |
//! | `out0`           | as `input`               | as `input`                                   |
//! | `out1`           | as `input`               | as `weight`                                  |
//! | `out2`           | as `input`               | `[o]`                                        |
//!
//! The second shape of `weight` is that of a transposed convolution. Outputs that are false in
//! `output_mask` are not written. Half types accumulate in `f32`. The ExecuTorch kernel supports
//! only two dimensions and no transposed convolution. Tolerance: 1e-5 relative to the sum of
//! magnitudes.
//! Errors: parameters that do not match the sizes, different dtypes. Source: ATen
//! `convolution_backward`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand, check_dtype},
    conv::{self, Geometry, Operands, Strides, direct},
    dtype::with_dtype,
    elements::{elements, elements_mut},
    loop_nest::{LoopNest, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::convolution_backward.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::OptIntList,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::IntList,
        Arg::Int,
        Arg::BoolList,
        Arg::Out,
        Arg::Out,
        Arg::Out,
    ],
    convolution_backward_out,
)];

fn convolution_backward_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(1)?.dtype();
    for index in [0, 2] {
        check_dtype(args.tensor(usize::from(index))?.dtype(), dtype, index)?;
    }
    let &[of_input, of_weight, of_bias] = args.bool_list(10)? else {
        return Err(Error::InvalidArgument { index: 10, expected: "three truth values" });
    };
    let (geometry, sizes) = conv::geometry(args, 1)?;
    let (grad, input, weight) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    if grad.sizes() != &*sizes {
        return Err(Error::InvalidArgument { index: 0, expected: "the sizes of the convolution" });
    }
    let wanted = [of_input, of_weight, of_bias].map(|wanted| wanted != 0);
    let shapes = [input.sizes(), weight.sizes(), &sizes[1..2]];
    for ((index, wanted), shape) in (11_u8..).zip(wanted).zip(shapes) {
        if wanted {
            let mut out = args.out(usize::from(index))?;
            check_dtype(out.dtype(), dtype, index)?;
            out.resize(shape)?;
        }
    }
    with_dtype!(float, dtype, 1, T => gradients::<T>(args, &geometry, wanted))
}

/// Writes the gradients that are wanted.
fn gradients<T: Operand>(
    args: &mut Args<'_>,
    g: &Geometry,
    [of_input, of_weight, of_bias]: [bool; 3],
) -> Result<(), Error> {
    let is_transposed = args.bool(7)?;
    let (grad, input, weight) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    let (grad_steps, input_steps) = (conv::steps(&grad), conv::steps(&input));
    // The input of a convolution takes the place of the output, and the other way round.
    let back = Geometry {
        in_channels: g.out_channels,
        out_channels: g.in_channels,
        input: g.output,
        output: g.input,
        ..*g
    };
    if of_input {
        let operands = Operands {
            x: elements::<T>(&grad)?,
            x_strides: grad_steps,
            weight: elements(&weight)?,
            weight_strides: conv::steps(&weight),
            bias: None,
        };
        let mut out = args.out(11)?;
        let to = conv::out_steps(&out);
        let out = elements_mut(&mut out)?;
        match (out.is_empty(), is_transposed) {
            (true, _) => {}
            (_, true) => direct::forward(&back, &operands, out, to),
            (_, false) => direct::transposed(&back, &operands, out, to),
        }
    }
    if of_weight {
        let mut out = args.out(12)?;
        let to = conv::out_steps(&out);
        let (grad, input) = ((elements::<T>(&grad)?, grad_steps), (elements(&input)?, input_steps));
        // A forward convolution reads the larger side, a transposed one writes it.
        let (sides, g) = if is_transposed { ([input, grad], &back) } else { ([grad, input], g) };
        weight_gradient(g, sides, elements_mut(&mut out)?, to);
    }
    if of_bias {
        bias_gradient::<T>(args)?;
    }
    Ok(())
}

/// Writes for each element of the kernel the sum of products of what it connects: elements of the
/// side that `g` writes, the first, and of the side that it reads.
fn weight_gradient<T: Operand>(
    g: &Geometry,
    [(small, small_steps), (large, large_steps)]: [(&[T], Strides); 2],
    out: &mut [T],
    to: Strides,
) {
    if out.is_empty() {
        return;
    }
    for channel in 0..g.groups * g.out_channels {
        for of_group in 0..g.in_channels {
            let from = channel / g.out_channels.max(1) * g.in_channels + of_group;
            for tap in taps(g) {
                let places: [_; 3] = core::array::from_fn(|dim| places(g, dim, tap[dim]));
                let mut sum = T::Acc::default();
                for item in 0..g.batch {
                    let at = [
                        item * small_steps.outer + channel * small_steps.channel,
                        item * large_steps.outer + from * large_steps.channel,
                    ];
                    for depth in places[0].clone() {
                        for row in places[1].clone() {
                            for column in places[2].clone() {
                                let place = [depth, row, column];
                                let [mut a, mut b] = at;
                                for dim in 0..3 {
                                    a += place[dim] * small_steps.spatial[dim];
                                    let met =
                                        place[dim] * g.stride[dim] + tap[dim] * g.dilation[dim];
                                    b += (met - g.padding[dim]) * large_steps.spatial[dim];
                                }
                                if let (Some(a), Some(b)) = (small.get(a), large.get(b)) {
                                    sum = sum.add(a.widen().mul(b.widen()));
                                }
                            }
                        }
                    }
                }
                let at = channel * to.outer
                    + of_group * to.channel
                    + (0..3).map(|dim| tap[dim] * to.spatial[dim]).sum::<usize>();
                if let Some(place) = out.get_mut(at) {
                    *place = sum.to_element();
                }
            }
        }
    }
}

/// The elements of the kernel.
fn taps(g: &Geometry) -> impl Iterator<Item = [usize; 3]> {
    let [depths, rows, columns] = g.kernel;
    (0..depths).flat_map(move |depth| {
        (0..rows).flat_map(move |row| (0..columns).map(move |column| [depth, row, column]))
    })
}

/// The outputs along `dim` for which the kernel element `tap` lies inside the input.
fn places(g: &Geometry, dim: usize, tap: usize) -> core::ops::Range<usize> {
    let offset = tap * g.dilation[dim];
    let first = g.padding[dim].saturating_sub(offset).div_ceil(g.stride[dim]);
    let end = (g.input[dim] + g.padding[dim]).saturating_sub(offset).div_ceil(g.stride[dim]);
    first..end.min(g.output[dim])
}

/// Writes for each channel the sum of its gradients.
fn bias_gradient<T: Operand>(args: &mut Args<'_>) -> Result<(), Error> {
    let grad = args.tensor(0)?;
    let (strides, data) = (strides_of(&grad), elements::<T>(&grad)?);
    let mut places = LoopNest::<1>::new();
    for (dim, &size) in grad.sizes().iter().enumerate() {
        if dim != 1 {
            places.push(size, [strides[dim]])?;
        }
    }
    let mut out = args.out(13)?;
    for (channel, place) in elements_mut::<T>(&mut out)?.iter_mut().enumerate() {
        let mut sum = T::Acc::default();
        places.for_each([channel * strides[1]], |[at]| {
            sum = sum.add(data.get(at).map_or(T::Acc::default(), |&x| x.widen()));
        });
        *place = sum.to_element();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    /// The gradients for the input 1, 2, 3 and the kernel 1, 10 of one channel each.
    fn run(grad: &[f32], stride: i64, transposed: bool) -> Result<[Vec<f32>; 3], Error> {
        let input = Tensor::new(&[1, 1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
        let weight = Tensor::new(&[1, 1, 2], &[1.0_f32, 10.0]).unwrap();
        let grad = Tensor::new(&[1, 1, grad.len()], grad).unwrap();
        let mut outs =
            [[0; 3].as_slice(), &[0; 3], &[0]].map(|sizes| Tensor::zeros(ScalarType::Float, sizes));
        let [of_input, of_weight, of_bias] = &mut outs;
        let mut arguments = [
            Argument::Tensor(&grad),
            Argument::Tensor(&input),
            Argument::Tensor(&weight),
            Argument::Ints(vec![1]),
            Argument::Ints(vec![stride]),
            Argument::Ints(vec![0]),
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(transposed)),
            Argument::Ints(vec![0]),
            Argument::Scalar(Scalar::Int(1)),
            Argument::Bools(vec![true; 3]),
            Argument::Out(of_input),
            Argument::Out(of_weight),
            Argument::Out(of_bias),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(outs.map(|out| out.data().unwrap().to_vec()))
    }

    #[test]
    fn values() {
        let expected = [vec![1.0, 12.0, 20.0], vec![5.0, 8.0], vec![3.0]];
        assert_eq!(run(&[1.0, 2.0], 1, false), Ok(expected));
        let expected = [vec![1.0, 10.0, 0.0], vec![1.0, 2.0], vec![1.0]];
        assert_eq!(run(&[1.0], 2, false), Ok(expected));
        let expected = [vec![21.0, 32.0, 43.0], vec![14.0, 20.0], vec![10.0]];
        assert_eq!(run(&[1.0, 2.0, 3.0, 4.0], 1, true), Ok(expected));
    }

    #[test]
    fn mismatched_grad_output_is_rejected() {
        assert!(run(&[1.0], 1, false).is_err());
        assert!(run(&[1.0], 0, false).is_err());
    }
}
