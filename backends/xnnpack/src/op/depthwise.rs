//! Convolutions with a kernel for each channel.

use afferent_core::Error;
use afferent_simd::channels::{Bounded, Channels, Rounded};

use super::{Cx, Input, Op, conv::Sizes, elements, only};
use crate::shape::{MISFIT, Shape};

/// How results are stored.
pub(crate) enum Stored {
    /// As they are, within bounds.
    Numbers((f32, f32)),
    /// As integers, of inputs that are integers too.
    Integers {
        /// What zero is stored as in the input.
        from: f32,
        /// A factor for each channel.
        scale: Vec<f32>,
        /// The bounds, without the zero point.
        clamp: (f32, f32),
        /// What zero is stored as in the result.
        to: i32,
    },
}

/// A convolution with one result for each channel.
pub(crate) struct Depthwise {
    pub(crate) sizes: Sizes,
    /// Rows and columns of the kernel, channels.
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) stored: Stored,
}

impl Op for Depthwise {
    fn shape(&mut self, inputs: &[Shape]) -> Result<Shape, Error> {
        self.sizes.output(only(inputs)?)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let done = match &self.stored {
            Stored::Numbers(clamp) => {
                let conv = self.channels(input, input.data::<f32>()?, 0.0)?;
                conv.write(cx.isa, &Bounded(clamp.0, clamp.1), elements(out)?, cx.workers)
            }
            Stored::Integers { from, scale, clamp, to } => {
                let conv = self.channels(input, input.data::<i8>()?, *from)?;
                let sink = Rounded { scale, clamp: *clamp, zero_point: *to };
                conv.write(cx.isa, &sink, elements(out)?, cx.workers)
            }
        };
        done.ok_or(MISFIT)
    }
}

impl Depthwise {
    fn channels<'d, T>(
        &'d self,
        input: &Input<'_>,
        x: &'d [T],
        zero_point: f32,
    ) -> Result<Channels<'d, T>, Error> {
        let [batch, height, width, channels] = input.shape.picture()?;
        let [_, rows, cols, _] = self.sizes.output(&input.shape)?.picture()?;
        let window = self.sizes.window;
        Ok(Channels {
            x,
            zero_point,
            batch,
            channels,
            input: [height, width],
            output: [rows, cols],
            kernel: window.kernel,
            stride: window.stride,
            dilation: window.dilation,
            padding: window.before,
            weights: &self.weights,
            bias: &self.bias,
        })
    }
}
