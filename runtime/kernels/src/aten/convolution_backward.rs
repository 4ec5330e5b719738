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
    let &[has_input, has_weight, has_bias] = args.bool_list(10)? else {
        return Err(Error::InvalidArgument { index: 10, expected: "three bools" });
    };
    let (geometry, sizes) = conv::geometry(args, 1)?;
    let (grad, input, weight) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    if grad.sizes() != &*sizes {
        return Err(Error::InvalidArgument {
            index: 0,
            expected: "the output sizes of the convolution",
        });
    }
    let output_mask = [has_input, has_weight, has_bias].map(|is_set| is_set != 0);
    let shapes = [input.sizes(), weight.sizes(), &sizes[1..2]];
    for ((index, is_set), shape) in (11_u8..).zip(output_mask).zip(shapes) {
        if is_set {
            let mut out = args.out(usize::from(index))?;
            check_dtype(out.dtype(), dtype, index)?;
            out.resize(shape)?;
        }
    }
    with_dtype!(float, dtype, 1, T => write_gradients::<T>(args, &geometry, output_mask))
}

/// Writes the gradients in the output mask.
fn write_gradients<T: Operand>(
    args: &mut Args<'_>,
    g: &Geometry,
    [has_input, has_weight, has_bias]: [bool; 3],
) -> Result<(), Error> {
    let is_transposed = args.bool(7)?;
    let (grad, input, weight) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    let (grad_strides, input_strides) = (conv::steps(&grad), conv::steps(&input));
    // Geometry with input and output swapped: of the convolution from `grad` to `input`.
    let backward = Geometry {
        in_channels: g.out_channels,
        out_channels: g.in_channels,
        input: g.output,
        output: g.input,
        ..*g
    };
    if has_input {
        let operands = Operands {
            x: elements::<T>(&grad)?,
            x_strides: grad_strides,
            weight: elements(&weight)?,
            weight_strides: conv::steps(&weight),
            bias: None,
        };
        let mut out = args.out(11)?;
        let to_strides = conv::out_steps(&out);
        let out = elements_mut(&mut out)?;
        match (out.is_empty(), is_transposed) {
            (true, _) => {}
            (_, true) => direct::forward(&backward, &operands, out, to_strides),
            (_, false) => direct::transposed(&backward, &operands, out, to_strides),
        }
    }
    if has_weight {
        let mut out = args.out(12)?;
        let to_strides = conv::out_steps(&out);
        let grad = Strided { data: elements::<T>(&grad)?, strides: grad_strides };
        let input = Strided { data: elements(&input)?, strides: input_strides };
        // The weight gradient of a transposed convolution is that of the forward convolution from
        // `grad` to `input`.
        let (g, input, output) =
            if is_transposed { (&backward, grad, input) } else { (g, input, grad) };
        weight_gradient(g, input, output, elements_mut(&mut out)?, to_strides);
    }
    if has_bias {
        bias_gradient::<T>(args)?;
    }
    Ok(())
}

/// Elements of a tensor and their strides.
#[derive(Clone, Copy)]
struct Strided<'a, T> {
    data: &'a [T],
    strides: Strides,
}

/// Writes the weight gradient of the forward convolution `g`: for each kernel element, the sum over
/// all outputs of the output times the input that the kernel element connects to it.
fn weight_gradient<T: Operand>(
    g: &Geometry,
    input: Strided<'_, T>,
    output: Strided<'_, T>,
    out: &mut [T],
    to_strides: Strides,
) {
    if out.is_empty() {
        return;
    }
    for out_channel in 0..g.groups * g.out_channels {
        for group_channel in 0..g.in_channels {
            let in_channel = out_channel / g.out_channels.max(1) * g.in_channels + group_channel;
            for tap in kernel_elements(g) {
                let ranges: [_; 3] = core::array::from_fn(|dim| output_range(g, dim, tap[dim]));
                let mut sum = T::Acc::default();
                for item in 0..g.batch {
                    let output_start =
                        item * output.strides.outer + out_channel * output.strides.channel;
                    let input_start =
                        item * input.strides.outer + in_channel * input.strides.channel;
                    for depth in ranges[0].clone() {
                        for row in ranges[1].clone() {
                            for column in ranges[2].clone() {
                                let position = [depth, row, column];
                                let (mut a, mut b) = (output_start, input_start);
                                for dim in 0..3 {
                                    a += position[dim] * output.strides.spatial[dim];
                                    let padded =
                                        position[dim] * g.stride[dim] + tap[dim] * g.dilation[dim];
                                    b += (padded - g.padding[dim]) * input.strides.spatial[dim];
                                }
                                if let (Some(a), Some(b)) = (output.data.get(a), input.data.get(b))
                                {
                                    sum = sum.add(a.widen().mul(b.widen()));
                                }
                            }
                        }
                    }
                }
                let to = out_channel * to_strides.outer
                    + group_channel * to_strides.channel
                    + (0..3).map(|dim| tap[dim] * to_strides.spatial[dim]).sum::<usize>();
                if let Some(element) = out.get_mut(to) {
                    *element = sum.to_element();
                }
            }
        }
    }
}

/// Positions of the kernel elements.
fn kernel_elements(g: &Geometry) -> impl Iterator<Item = [usize; 3]> {
    let [depths, rows, columns] = g.kernel;
    (0..depths).flat_map(move |depth| {
        (0..rows).flat_map(move |row| (0..columns).map(move |column| [depth, row, column]))
    })
}

/// Outputs in dimension `dim` for which the kernel element `tap` is inside the input.
fn output_range(g: &Geometry, dim: usize, tap: usize) -> core::ops::Range<usize> {
    let offset = tap * g.dilation[dim];
    let first = g.padding[dim].saturating_sub(offset).div_ceil(g.stride[dim]);
    let end = (g.input[dim] + g.padding[dim]).saturating_sub(offset).div_ceil(g.stride[dim]);
    first..end.min(g.output[dim])
}

/// Writes the bias gradient: the sum of the output gradients of each channel.
fn bias_gradient<T: Operand>(args: &mut Args<'_>) -> Result<(), Error> {
    let grad = args.tensor(0)?;
    let (strides, data) = (strides_of(&grad), elements::<T>(&grad)?);
    let mut loops = LoopNest::<1>::new();
    for (dim, &size) in grad.sizes().iter().enumerate() {
        if dim != 1 {
            loops.push(size, [strides[dim]])?;
        }
    }
    let mut out = args.out(13)?;
    for (channel, element) in elements_mut::<T>(&mut out)?.iter_mut().enumerate() {
        let mut sum = T::Acc::default();
        loops.for_each([channel * strides[1]], |[offset]| {
            sum = sum.add(data.get(offset).map_or(T::Acc::default(), |&x| x.widen()));
        });
        *element = sum.to_element();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    /// Gradients for the input 1, 2, 3 and the kernel 1, 10, each with one channel.
    fn run(grad: &[f32], stride: i64, transposed: bool) -> Result<[Vec<f32>; 3], Error> {
        let input = Tensor::new(&[1, 1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
        let weight = Tensor::new(&[1, 1, 2], &[1.0_f32, 10.0]).unwrap();
        let grad = Tensor::new(&[1, 1, grad.len()], grad).unwrap();
        let mut outs =
            [[0; 3].as_slice(), &[0; 3], &[0]].map(|sizes| Tensor::zeros(ScalarType::Float, sizes));
        let [grad_input, grad_weight, grad_bias] = &mut outs;
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
            Argument::Out(grad_input),
            Argument::Out(grad_weight),
            Argument::Out(grad_bias),
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
