//! Convolution: geometry and operands.

use afferent_core::{Args, Dims, Error, IntList, TensorMut, TensorView};
pub(crate) use afferent_simd::conv::{Geometry, Strides};

use crate::shared::{
    accumulator::Operand,
    elements::elements,
    loop_nest::{out_strides, strides_of},
};

pub(crate) mod direct;
pub(crate) mod im2col;

/// Input tensors of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) x_strides: Strides,
    pub(crate) weight: &'a [T],
    pub(crate) weight_strides: Strides,
    pub(crate) bias: Option<&'a [T]>,
}

/// Reads the geometry of a convolution and its output sizes. The arguments of
/// `aten::convolution.out` start at argument `first`.
pub(crate) fn geometry(args: &Args<'_>, first: u8) -> Result<(Geometry, Dims), Error> {
    let at = |index: u8| usize::from(first + index);
    let (x, weight) = (args.tensor(at(0))?, args.tensor(at(1))?);
    let wrong = |index, expected| Error::InvalidArgument { index: first + index, expected };
    let rank = x.rank();
    if !(3..=5).contains(&rank) {
        return Err(wrong(0, "a tensor [batch, channels, ...] with 1 to 3 spatial dimensions"));
    }
    if weight.rank() != rank || weight.sizes()[2..].contains(&0) {
        return Err(wrong(1, "a non-empty kernel with the rank of the input"));
    }
    let transposed = args.bool(at(6))?;
    let groups = args.int(at(8))?;
    let groups = usize::try_from(groups).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or(wrong(8, "a positive number of groups"))?;
    let (channels, w) = (x.sizes()[1], weight.sizes());
    let is_divisible = channels.is_multiple_of(groups) && w[0].is_multiple_of(groups);
    let (in_channels, out_channels) =
        if transposed { (w[0] / groups, w[1]) } else { (w[1], w[0] / groups) };
    if !is_divisible || channels / groups != in_channels {
        return Err(wrong(1, "channels that match the input and the groups"));
    }
    let mut geometry = Geometry {
        batch: x.sizes()[0],
        groups,
        in_channels,
        out_channels,
        input: last_three(&x.sizes()[2..], 1),
        kernel: last_three(&w[2..], 1),
        output: [1; 3],
        stride: spatial_arg(args.int_list(at(3))?, rank - 2, 1, 1, first + 3)?,
        padding: spatial_arg(args.int_list(at(4))?, rank - 2, 0, 0, first + 4)?,
        dilation: spatial_arg(args.int_list(at(5))?, rank - 2, 1, 1, first + 5)?,
    };
    let output_padding = spatial_arg(args.int_list(at(7))?, rank - 2, 0, 0, first + 7)?;
    for (dim, &padding) in output_padding.iter().enumerate() {
        let size = if transposed {
            if padding > 0 && padding >= geometry.stride[dim].max(geometry.dilation[dim]) {
                return Err(wrong(7, "less than the stride or the dilation"));
            }
            transposed_size(&geometry, dim, padding)
        } else {
            forward_size(&geometry, dim)
        };
        geometry.output[dim] = size.ok_or(wrong(0, "sizes that give a non-empty output"))?;
    }
    let mut sizes = Dims::filled(0, 0);
    sizes.push(geometry.batch)?;
    sizes.push(out_channels.checked_mul(groups).ok_or(wrong(1, "fewer channels"))?)?;
    for &size in &geometry.output[5 - rank..] {
        sizes.push(size)?;
    }
    Ok((geometry, sizes))
}

/// Size of the dilated kernel in dimension `dim`, minus 1.
fn kernel_extent(g: &Geometry, dim: usize) -> Option<usize> {
    g.dilation[dim].checked_mul(g.kernel[dim] - 1)
}

fn forward_size(g: &Geometry, dim: usize) -> Option<usize> {
    let padded = g.padding[dim].checked_mul(2)?.checked_add(g.input[dim])?;
    Some(padded.checked_sub(kernel_extent(g, dim)?.checked_add(1)?)? / g.stride[dim] + 1)
}

fn transposed_size(g: &Geometry, dim: usize, output_padding: usize) -> Option<usize> {
    let spread = g.input[dim].checked_sub(1)?.checked_mul(g.stride[dim])?;
    let size =
        spread.checked_add(kernel_extent(g, dim)?)?.checked_add(output_padding)?.checked_add(1)?;
    let size = size.checked_sub(g.padding[dim].checked_mul(2)?)?;
    // Offsets are relative to the first padding element and must not overflow.
    size.checked_add(g.padding[dim])?;
    Some(size).filter(|&size| size > 0)
}

/// Strides of an input tensor.
pub(crate) fn steps(tensor: &TensorView<'_>) -> Strides {
    steps_of(&strides_of(tensor))
}

/// Strides of an output tensor.
pub(crate) fn out_steps(tensor: &TensorMut<'_, '_>) -> Strides {
    steps_of(&out_strides(tensor))
}

fn steps_of(strides: &[usize]) -> Strides {
    let space = last_three(strides.get(2..).unwrap_or(&[]), 0);
    let at = |dim: usize| strides.get(dim).copied().unwrap_or(0);
    Strides { outer: at(0), channel: at(1), spatial: space }
}

impl<'a, T: Operand> Operands<'a, T> {
    /// Reads the tensor arguments of `aten::convolution.out`.
    pub(crate) fn new(args: &Args<'a>) -> Result<Self, Error> {
        let (x, weight) = (args.tensor(0)?, args.tensor(1)?);
        let bias = args.opt_tensor(2)?.map(|bias| elements(&bias)).transpose()?;
        Ok(Self {
            x: elements(&x)?,
            x_strides: steps(&x),
            weight: elements(&weight)?,
            weight_strides: steps(&weight),
            bias,
        })
    }

    /// Initial accumulator of output channel `channel`: its bias, or zero.
    pub(crate) fn initial_accumulator(&self, channel: usize) -> T::Acc {
        let bias = self.bias.and_then(|bias| bias.get(channel));
        bias.map_or(T::Acc::default(), |&bias| bias.widen())
    }
}

/// The last three of `items`, padded with `fill` in front.
fn last_three(items: &[usize], fill: usize) -> [usize; 3] {
    let mut all = [fill; 3];
    for (to, &from) in all.iter_mut().rev().zip(items.iter().rev()) {
        *to = from;
    }
    all
}

/// Reads one value for each of the last `count` dimensions, all at least `min`; `fill` for the
/// others. A list of length 1 applies to all dimensions.
fn spatial_arg(
    list: IntList<'_>,
    count: usize,
    fill: usize,
    min: usize,
    index: u8,
) -> Result<[usize; 3], Error> {
    let wrong = Error::InvalidArgument {
        index,
        expected: "one value, or one for each spatial dimension, not below its minimum",
    };
    let mut all = [fill; 3];
    for (dim, to) in all[3 - count..].iter_mut().enumerate() {
        let item = if list.len() == 1 { 0 } else { dim };
        let value = list.get(item).and_then(|value| usize::try_from(value).ok());
        *to = value.filter(|&value| value >= min).ok_or(wrong)?;
    }
    if list.len() == 1 || list.len() == count { Ok(all) } else { Err(wrong) }
}
