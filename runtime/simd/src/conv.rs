//! Convolutions of `f32` over up to three dimensions.
//!
//! Most are products of the weights with patches of the input, which are packed panel by panel and
//! never exist as a whole. One output for each input channel is summed up directly.

mod depthwise_nchw;
pub mod depthwise_nhwc;
pub mod depthwise_nhwc_q8;
mod im2col;
pub mod winograd;

use afferent_core::Workers;

use crate::{
    Isa, SizeError,
    gemm::{Addend, Dim, Gemm, MatrixStrides, Operand, Output, StridedOperand},
    parallel,
};
use depthwise_nchw::DepthwiseNchw;
use im2col::Im2col;

/// Sizes and settings of a convolution; one with fewer than three dimensions has the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Images.
    pub batch: usize,
    /// Groups of channels that do not meet.
    pub groups: usize,
    /// Input channels of one group.
    pub in_channels: usize,
    /// Output channels of one group.
    pub out_channels: usize,
    /// Sizes of the input.
    pub input: [usize; 3],
    /// Sizes of the kernel.
    pub kernel: [usize; 3],
    /// Sizes of the output.
    pub output: [usize; 3],
    /// Input positions between neighbours of the output.
    pub stride: [usize; 3],
    /// Zeros before and after the input.
    pub padding: [usize; 3],
    /// Input positions between neighbours of the kernel.
    pub dilation: [usize; 3],
}

/// The strides of a tensor: image or output channel, channel, positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// Between images; of weights, between output channels.
    pub outer: usize,
    /// Between channels.
    pub channel: usize,
    /// Between positions.
    pub spatial: [usize; 3],
}

/// A convolution.
#[derive(Debug, Clone, Copy)]
pub struct Conv<'d> {
    /// Its sizes.
    pub geometry: Geometry,
    /// The input.
    pub x: &'d [f32],
    /// Its strides.
    pub x_strides: Strides,
    /// The weights.
    pub weight: &'d [f32],
    /// Their strides.
    pub weight_strides: Strides,
    /// What is added to each output channel.
    pub bias: Option<&'d [f32]>,
    /// The bounds of the result; NaN stays.
    pub clamp: Option<(f32, f32)>,
}

/// How a convolution is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Planes, each with a kernel of its own.
    Planes,
    /// A product whose rows are output channels.
    ChannelsByPositions { position: usize },
    /// A product whose rows are positions.
    PositionsByChannels { position: usize },
}

impl Geometry {
    /// Elements of the kernel.
    pub fn taps(&self) -> usize {
        product(1, self.kernel)
    }

    /// Products that make one output.
    pub fn inner(&self) -> usize {
        product(self.in_channels, self.kernel)
    }

    /// Positions of the output.
    pub fn positions(&self) -> usize {
        product(1, self.output)
    }

    /// The input position along `dim` that the kernel element `tap` meets for the output `at`.
    fn source(&self, dim: usize, tap: usize, at: usize) -> Option<usize> {
        let padded = at * self.stride[dim] + tap * self.dilation[dim];
        padded.checked_sub(self.padding[dim]).filter(|&at| at < self.input[dim])
    }
}

/// `factor` times all `sizes`, or the largest number where that is less.
fn product(factor: usize, sizes: [usize; 3]) -> usize {
    sizes.into_iter().fold(factor, usize::saturating_mul)
}

impl Strides {
    /// The step between neighbours when positions of `sizes` are counted in row-major order;
    /// `None` when it is not always the same.
    pub fn uniform_spatial(&self, sizes: [usize; 3]) -> Option<usize> {
        let mut wanted = None;
        let mut count = 1_usize;
        for dim in (0..3).rev() {
            if sizes[dim] == 1 {
                continue;
            }
            let step = *wanted.get_or_insert(self.spatial[dim]);
            if self.spatial[dim] != step.checked_mul(count)? {
                return None;
            }
            count = count.checked_mul(sizes[dim])?;
        }
        Some(wanted.unwrap_or(1))
    }

    /// Whether every element is inside a slice of `len`; there is one.
    fn covers(&self, len: usize, outer: usize, channels: usize, sizes: [usize; 3]) -> bool {
        let mut last = Some(0_usize);
        let space = sizes.into_iter().zip(self.spatial);
        for (size, step) in space.chain([(outer, self.outer), (channels, self.channel)]) {
            let more = size.checked_sub(1).and_then(|count| count.checked_mul(step));
            last = last.zip(more).and_then(|(last, more)| last.checked_add(more));
        }
        last.is_some_and(|last| last < len)
    }
}

impl Conv<'_> {
    /// Numbers of scratch memory that [`Conv::write`] takes on `threads` threads; `None` for
    /// strides that it does not compute.
    pub fn scratch_len(&self, isa: Isa, to: Strides, threads: usize) -> Option<usize> {
        Some(match self.way(to)? {
            Way::Planes => DepthwiseNchw::new(self, isa)?.scratch_len(threads),
            Way::ChannelsByPositions { .. } => match self.direct(0) {
                Some(x) => self.by_channels(self.weights(0)?, x, 0).scratch_len(isa, threads),
                None => {
                    let product = self.by_channels(self.weights(0)?, self.patches(0)?, 0);
                    product.scratch_len(isa, threads)
                }
            },
            Way::PositionsByChannels { .. } => match self.direct(0) {
                Some(x) => self.by_positions(x, self.weights(0)?, 0).scratch_len(isa, threads),
                None => {
                    let product = self.by_positions(self.patches(0)?, self.weights(0)?, 0);
                    product.scratch_len(isa, threads)
                }
            },
        })
    }

    /// Computes the convolution and writes it to `out` with strides `to`.
    ///
    /// # Errors
    /// [`SizeError`] if [`Conv::scratch_len`] returns `None`, or a slice does not match the sizes.
    pub fn run(
        &self,
        isa: Isa,
        out: &mut [f32],
        to: Strides,
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let unsupported = SizeError::Parameter {
            parameter: "geometry",
            expected: "strides that `scratch_len` supports, and slices that hold all elements",
        };
        let way = self.way(to).ok_or(unsupported)?;
        let g = &self.geometry;
        let channels = g.groups * g.out_channels;
        let covers_out = to.covers(out.len(), g.batch, channels, g.output);
        SizeError::check_parameter("out", "as long as its strides require", covers_out)?;
        if way == Way::Planes {
            let conv = DepthwiseNchw::new(self, isa).ok_or(unsupported)?;
            return conv.run(out, to, scratch, workers);
        }
        let required = self.scratch_len(isa, to, parallel::threads(workers)).ok_or(unsupported)?;
        SizeError::check_min("scratch", scratch.len(), Some(required))?;
        for part in 0..g.batch * g.groups {
            let (item, group) = (part / g.groups, part % g.groups);
            let x_at = item * self.x_strides.outer + group * g.in_channels * self.x_strides.channel;
            let first = group * g.out_channels;
            let weights = self.weights(first).ok_or(unsupported)?;
            let data = &mut out[item * to.outer + first * to.channel..];
            let im2col = || self.patches(x_at).ok_or(unsupported);
            match (way, self.direct(x_at)) {
                (Way::PositionsByChannels { position }, x) => {
                    let strides = MatrixStrides { row: position, col: to.channel };
                    let out = Output { data, strides };
                    match x {
                        Some(x) => {
                            self.by_positions(x, weights, first).run(isa, out, scratch, workers)?
                        }
                        None => self
                            .by_positions(im2col()?, weights, first)
                            .run(isa, out, scratch, workers)?,
                    }
                }
                (Way::ChannelsByPositions { position }, x) => {
                    let strides = MatrixStrides { row: to.channel, col: position };
                    let out = Output { data, strides };
                    match x {
                        Some(x) => {
                            self.by_channels(weights, x, first).run(isa, out, scratch, workers)?
                        }
                        None => self
                            .by_channels(weights, im2col()?, first)
                            .run(isa, out, scratch, workers)?,
                    }
                }
                (Way::Planes, _) => return Err(unsupported),
            }
        }
        Ok(())
    }

    fn way(&self, to: Strides) -> Option<Way> {
        let g = &self.geometry;
        let channels = g.groups.checked_mul(g.in_channels)?;
        let outputs = g.groups.checked_mul(g.out_channels)?;
        let fits = !g.stride.contains(&0)
            && g.batch > 0
            && g.taps() > 0
            && g.positions() > 0
            && g.in_channels > 0
            && self.x_strides.covers(self.x.len(), g.batch, channels, g.input)
            && self.weight_strides.covers(self.weight.len(), outputs, g.in_channels, g.kernel)
            && self.bias.is_none_or(|bias| bias.len() >= outputs);
        let position = to.uniform_spatial(g.output).filter(|_| fits)?;
        if DepthwiseNchw::supports(self, to) {
            return Some(Way::Planes);
        }
        self.order()?;
        let by_rows = self.x_strides.spatial[2] == 1 || g.input[2] == 1;
        if !by_rows && self.x_strides.channel != 1 && g.in_channels > 1 {
            return None;
        }
        Some(if to.channel == 1 && g.out_channels > 1 {
            Way::PositionsByChannels { position }
        } else {
            Way::ChannelsByPositions { position }
        })
    }

    /// Steps between the weights of neighbouring input channels and of neighbouring elements of
    /// the kernel, which together count the weights of an output channel.
    fn order(&self) -> Option<(usize, usize)> {
        let g = &self.geometry;
        let (channels, taps) = (g.in_channels, g.taps());
        let tap = self.weight_strides.uniform_spatial(g.kernel)?;
        match (self.weight_strides.channel, tap) {
            (_, 1) if channels == 1 => Some((taps, 1)),
            (1, _) if taps == 1 => Some((1, channels)),
            (channel, 1) if channel == taps => Some((taps, 1)),
            (1, tap) if tap == channels => Some((1, channels)),
            _ => None,
        }
    }

    /// The weights of the output channels of the group that starts with channel `first`.
    fn weights(&self, first: usize) -> Option<StridedOperand<'_>> {
        let outer = self.weight_strides.outer;
        let data = self.weight.get(first * outer..)?;
        let columns = Dim { len: self.geometry.out_channels, stride: outer };
        StridedOperand::new(data, columns, Dim { len: self.geometry.inner(), stride: 1 })
    }

    /// The input from `at` on as lines, where each output depends on one position.
    fn direct(&self, at: usize) -> Option<StridedOperand<'_>> {
        let g = &self.geometry;
        let same = g.kernel == [1; 3] && g.stride == [1; 3] && g.padding == [0; 3];
        let step = self.x_strides.uniform_spatial(g.input).filter(|_| same)?;
        let data = self.x.get(at..)?;
        let positions = Dim { len: g.positions(), stride: step };
        let channels = Dim { len: g.in_channels, stride: self.x_strides.channel };
        StridedOperand::new(data, positions, channels)
    }

    fn patches(&self, at: usize) -> Option<Im2col<'_>> {
        let (channel, tap) = self.order()?;
        let x = self.x.get(at..)?;
        Some(Im2col { x, strides: self.x_strides, geometry: &self.geometry, channel, tap })
    }

    fn by_channels<'d, P: Operand>(
        &'d self,
        a: StridedOperand<'d>,
        b: P,
        first: usize,
    ) -> Gemm<'d, StridedOperand<'d>, P> {
        let (rows, cols) = (self.geometry.out_channels, self.geometry.positions());
        let (inner, addend) = (self.geometry.inner(), self.addend(first, 1, 0));
        Gemm { a, b, rows, inner, cols, alpha: 1.0, addend, clamp: self.clamp }
    }

    fn by_positions<'d, P: Operand>(
        &'d self,
        a: P,
        b: StridedOperand<'d>,
        first: usize,
    ) -> Gemm<'d, P, StridedOperand<'d>> {
        let (rows, cols) = (self.geometry.positions(), self.geometry.out_channels);
        let (inner, addend) = (self.geometry.inner(), self.addend(first, 0, 1));
        Gemm { a, b, rows, inner, cols, alpha: 1.0, addend, clamp: self.clamp }
    }

    fn addend(&self, first: usize, row: usize, col: usize) -> Option<Addend<'_>> {
        self.bias.map(|bias| Addend {
            data: &bias[first..],
            strides: MatrixStrides { row, col },
            beta: 1.0,
        })
    }
}
