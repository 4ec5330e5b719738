//! Convolutions with a kernel for each channel.

use afferent_core::Error;
use afferent_simd::{
    Activation, Isa,
    conv::{
        depthwise_nhwc::DepthwiseNhwc,
        depthwise_nhwc_q8::{self, DepthwiseNhwcQ8, KernelShape},
    },
    epilogue::BiasActivation,
    qgemm::{q8::panel_cols, requantize::RequantizeInt8},
};

use super::{
    Cx, Input, Op,
    conv::{Sizes, Table},
    elements,
    keep::{Form, Keep, Kept},
    only,
};
use crate::shape::{MISFIT, Room, Shape, TOO_LARGE};

/// A convolution with one result for each channel.
pub(crate) struct Depthwise {
    pub(crate) sizes: Sizes,
    /// Rows and columns of the kernel, channels.
    pub(crate) weights: Kept<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) then: Activation,
}

impl Op for Depthwise {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        self.sizes.output(only(inputs)?)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let conv = self.channels(input, input.data::<f32>()?)?;
        let epilogue = BiasActivation { bias: &self.bias, activation: self.then };
        conv.run(cx.isa, epilogue, elements(out)?, cx.workers).or(Err(MISFIT))
    }
}

impl Depthwise {
    /// `weights`: rows and columns of the kernel, channels.
    pub(crate) fn new(
        keep: &Keep<'_>,
        sizes: Sizes,
        weights: &[f32],
        bias: Option<&[f32]>,
        then: Activation,
    ) -> Result<Self, Error> {
        let weights = keep.numbers(Form::Numbers, &[], weights.len(), |to| {
            to.copy_from_slice(weights);
            Ok(())
        })?;
        keep.take::<f32>(sizes.groups)?;
        let bias = bias.map_or_else(|| vec![0.0; sizes.groups], <[f32]>::to_vec);
        Ok(Self { sizes, weights, bias, then })
    }

    fn channels<'d>(&'d self, input: &Input<'_>, x: &'d [f32]) -> Result<DepthwiseNhwc<'d>, Error> {
        let [batch, height, width, channels] = input.shape.picture()?;
        let [_, rows, cols, _] = self.sizes.output(input.shape)?.picture()?;
        let window = self.sizes.window;
        Ok(DepthwiseNhwc {
            x,
            first_row: 0,
            batch,
            channels,
            input: [height, width],
            output: [rows, cols],
            kernel: window.kernel,
            stride: window.stride,
            dilation: window.dilation,
            padding: window.before,
            weights: &self.weights,
        })
    }
}

/// A convolution of integers with one result for each channel.
pub(crate) struct IntegerDepthwise {
    sizes: Sizes,
    weights: Kept<i32>,
    /// What sums start with, in the order of the weights.
    bias: Vec<i32>,
    /// A factor for each channel, in the same order.
    scale: Vec<f32>,
    /// The bounds, without the zero point.
    clamp: (f32, f32),
    /// What zero is stored as in the input, for each channel.
    zeros: Vec<i8>,
    /// What zero is stored as in the result.
    to: i32,
    table: Table,
}

impl IntegerDepthwise {
    /// `weights`: rows and columns of the kernel, channels; `from` and `to` are what zero is
    /// stored as in the input and in the result.
    pub(crate) fn new(
        keep: &Keep<'_>,
        sizes: Sizes,
        (weights, scale, bias): (&[i8], &[f32], &[i32]),
        (from, to): (i8, i32),
        clamp: (f32, f32),
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let (taps, count) = (sizes.window.taps(), sizes.groups);
        let shape = KernelShape { taps, channels: count };
        let len = depthwise_nhwc_q8::packed_len(isa, shape).ok_or(TOO_LARGE)?;
        let weight = |tap: usize, channel: usize| weights[tap * count + channel];
        let packed = keep.numbers(Form::Channels, &[taps, count], len, |to| {
            depthwise_nhwc_q8::pack(isa, shape, weight, to);
            Ok(())
        })?;
        // Sums are of integers as they are stored; what zero adds to them is taken away here.
        let rest = |(channel, bias): (usize, &i32)| {
            let sum: i32 = (0..taps).map(|tap| i32::from(weights[tap * count + channel])).sum();
            bias.wrapping_sub(sum.wrapping_mul(i32::from(from)))
        };
        let bias: Vec<i32> = bias.iter().enumerate().map(rest).collect();
        // Bias, factors and zeros, of whole blocks of channels.
        keep.take::<[i32; 3]>(count.next_multiple_of(panel_cols(isa)))?;
        Ok(Self {
            sizes,
            weights: packed,
            bias: depthwise_nhwc_q8::interleave(isa, &bias).collect(),
            scale: depthwise_nhwc_q8::interleave(isa, scale).collect(),
            clamp,
            zeros: vec![from; count.max(panel_cols(isa))],
            to,
            table: Table::default(),
        })
    }
}

impl Op for IntegerDepthwise {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let out = self.sizes.output(input)?;
        self.table.find(&self.sizes, input, self.sizes.groups, room)?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let conv = DepthwiseNhwcQ8 {
            x: only(inputs)?.data()?,
            zero_points: &self.zeros,
            offsets: self.table.at(),
            taps: self.sizes.window.taps(),
            channels: self.sizes.groups,
            weights: &self.weights,
        };
        let Self { bias, scale, clamp, to, .. } = self;
        let epilogue = RequantizeInt8 { bias, scale, clamp: *clamp, zero_point: *to };
        conv.run(cx.isa, &epilogue, elements(out)?, cx.workers).or(Err(MISFIT))
    }
}
