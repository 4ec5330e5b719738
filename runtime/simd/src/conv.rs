//! Convolutions.
//!
//! [`Conv`] computes `f32` convolutions of one to three dimensions with any strides: as a GEMM of
//! the weights with im2col patches, which are packed panel by panel and never materialized as a
//! whole, or directly if it is depthwise. The modules below are for NHWC tensors and prepacked
//! weights; [`igemm`](crate::igemm) and [`qgemm::q8`](crate::qgemm::q8) compute dense NHWC
//! convolutions.
//!
//! | module                | contents                                                |
//! |-----------------------|---------------------------------------------------------|
//! | `depthwise_nchw`      | depthwise `f32` convolution of NCHW tensors             |
//! | [`depthwise_nhwc`]    | depthwise `f32` convolution of NHWC tensors             |
//! | [`depthwise_nhwc_q8`] | depthwise int8 convolution of NHWC tensors              |
//! | `im2col`              | patches of the input as operand of a GEMM               |
//! | [`winograd`]          | Winograd convolution F(4×4, 3×3) of NHWC tensors        |

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

/// Sizes of a convolution. With fewer than three spatial dimensions, the leading ones are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Images.
    pub batch: usize,
    /// Groups.
    pub groups: usize,
    /// Input channels per group.
    pub in_channels: usize,
    /// Output channels per group.
    pub out_channels: usize,
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Sizes of the kernel.
    pub kernel: [usize; 3],
    /// Spatial sizes of the output.
    pub output: [usize; 3],
    /// Stride per spatial dimension.
    pub stride: [usize; 3],
    /// Zeros before and after the input.
    pub padding: [usize; 3],
    /// Dilation per spatial dimension.
    pub dilation: [usize; 3],
}

/// Strides of a tensor in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// From one image to the next; of weights, from one output channel to the next.
    pub outer: usize,
    /// From one channel to the next; of weights, from one input channel to the next.
    pub channel: usize,
    /// From one position to the next along each spatial dimension.
    pub spatial: [usize; 3],
}

/// An `f32` convolution.
#[derive(Debug, Clone, Copy)]
pub struct Conv<'d> {
    /// Sizes.
    pub geometry: Geometry,
    /// Input.
    pub x: &'d [f32],
    /// Strides of the input.
    pub x_strides: Strides,
    /// Weights.
    pub weight: &'d [f32],
    /// Strides of the weights.
    pub weight_strides: Strides,
    /// Bias per output channel.
    pub bias: Option<&'d [f32]>,
    /// Bounds of the output; NaN passes through.
    pub clamp: Option<(f32, f32)>,
}

/// Algorithm of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    /// Direct depthwise convolution of NCHW tensors.
    DepthwiseNchw,
    /// GEMM with output channels as rows. `position_stride` is that of the output.
    ChannelsByPositions { position_stride: usize },
    /// GEMM with output positions as rows. `position_stride` is that of the output.
    PositionsByChannels { position_stride: usize },
}

/// Order of the weights of an output channel: strides in the inner dimension of the GEMM.
#[derive(Debug, Clone, Copy)]
struct InnerStrides {
    /// From one input channel to the next.
    channel: usize,
    /// From one kernel element to the next.
    tap: usize,
}

impl Geometry {
    /// Elements of the kernel.
    pub fn taps(&self) -> usize {
        product(1, self.kernel)
    }

    /// Terms per output element: inner dimension of the GEMM.
    pub fn inner(&self) -> usize {
        product(self.in_channels, self.kernel)
    }

    /// Positions of the output.
    pub fn positions(&self) -> usize {
        product(1, self.output)
    }

    /// Input position along `dim` of kernel element `tap` for output position `at`; `None` in the
    /// padding.
    fn source(&self, dim: usize, tap: usize, at: usize) -> Option<usize> {
        let padded = at * self.stride[dim] + tap * self.dilation[dim];
        padded.checked_sub(self.padding[dim]).filter(|&at| at < self.input[dim])
    }
}

/// Product of `factor` and all `sizes`; saturates.
fn product(factor: usize, sizes: [usize; 3]) -> usize {
    sizes.into_iter().fold(factor, usize::saturating_mul)
}

impl Strides {
    /// Stride between neighbors if the positions of `sizes` are counted in row-major order; `None`
    /// if it is not uniform.
    pub fn uniform_spatial(&self, sizes: [usize; 3]) -> Option<usize> {
        let mut uniform = None;
        let mut count = 1_usize;
        for dim in (0..3).rev() {
            if sizes[dim] == 1 {
                continue;
            }
            let stride = *uniform.get_or_insert(self.spatial[dim]);
            if self.spatial[dim] != stride.checked_mul(count)? {
                return None;
            }
            count = count.checked_mul(sizes[dim])?;
        }
        Some(uniform.unwrap_or(1))
    }

    /// True if all elements of a tensor are inside a slice of `len` elements. Sizes are positive.
    fn covers(&self, len: usize, outer: usize, channels: usize, sizes: [usize; 3]) -> bool {
        let mut last = Some(0_usize);
        let spatial = sizes.into_iter().zip(self.spatial);
        for (size, stride) in spatial.chain([(outer, self.outer), (channels, self.channel)]) {
            let extent = size.checked_sub(1).and_then(|count| count.checked_mul(stride));
            last = last.zip(extent).and_then(|(last, extent)| last.checked_add(extent));
        }
        last.is_some_and(|last| last < len)
    }
}

impl Conv<'_> {
    /// Scratch buffer of [`Conv::run`] on `threads` threads, in elements; `None` if the strides are
    /// not supported.
    pub fn scratch_len(&self, isa: Isa, to: Strides, threads: usize) -> Option<usize> {
        Some(match self.algorithm(to)? {
            Algorithm::DepthwiseNchw => DepthwiseNchw::new(self, isa)?.scratch_len(threads),
            Algorithm::ChannelsByPositions { .. } => match self.pointwise_input(0) {
                Some(x) => self.by_channels(self.weights(0)?, x, 0).scratch_len(isa, threads),
                None => {
                    let product = self.by_channels(self.weights(0)?, self.im2col(0)?, 0);
                    product.scratch_len(isa, threads)
                }
            },
            Algorithm::PositionsByChannels { .. } => match self.pointwise_input(0) {
                Some(x) => self.by_positions(x, self.weights(0)?, 0).scratch_len(isa, threads),
                None => {
                    let product = self.by_positions(self.im2col(0)?, self.weights(0)?, 0);
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
        let algorithm = self.algorithm(to).ok_or(unsupported)?;
        let g = &self.geometry;
        let channels = g.groups * g.out_channels;
        let covers_out = to.covers(out.len(), g.batch, channels, g.output);
        SizeError::check_parameter("out", "as long as its strides require", covers_out)?;
        if algorithm == Algorithm::DepthwiseNchw {
            let conv = DepthwiseNchw::new(self, isa).ok_or(unsupported)?;
            return conv.run(out, to, scratch, workers);
        }
        let required = self.scratch_len(isa, to, parallel::threads(workers)).ok_or(unsupported)?;
        SizeError::check_min("scratch", scratch.len(), Some(required))?;
        for index in 0..g.batch * g.groups {
            let (image, group) = (index / g.groups, index % g.groups);
            let x_start =
                image * self.x_strides.outer + group * g.in_channels * self.x_strides.channel;
            let first = group * g.out_channels;
            let weights = self.weights(first).ok_or(unsupported)?;
            let data = &mut out[image * to.outer + first * to.channel..];
            let im2col = || self.im2col(x_start).ok_or(unsupported);
            let pointwise = self.pointwise_input(x_start);
            match algorithm {
                Algorithm::PositionsByChannels { position_stride } => {
                    let strides = MatrixStrides { row: position_stride, col: to.channel };
                    let out = Output { data, strides };
                    match pointwise {
                        Some(x) => {
                            self.by_positions(x, weights, first).run(isa, out, scratch, workers)?
                        }
                        None => self
                            .by_positions(im2col()?, weights, first)
                            .run(isa, out, scratch, workers)?,
                    }
                }
                Algorithm::ChannelsByPositions { position_stride } => {
                    let strides = MatrixStrides { row: to.channel, col: position_stride };
                    let out = Output { data, strides };
                    match pointwise {
                        Some(x) => {
                            self.by_channels(weights, x, first).run(isa, out, scratch, workers)?
                        }
                        None => self
                            .by_channels(weights, im2col()?, first)
                            .run(isa, out, scratch, workers)?,
                    }
                }
                Algorithm::DepthwiseNchw => return Err(unsupported),
            }
        }
        Ok(())
    }

    /// Chooses the algorithm for an output with strides `to`; `None` if a slice is too short or the
    /// strides are not supported.
    fn algorithm(&self, to: Strides) -> Option<Algorithm> {
        let g = &self.geometry;
        let channels = g.groups.checked_mul(g.in_channels)?;
        let outputs = g.groups.checked_mul(g.out_channels)?;
        let is_valid = !g.stride.contains(&0)
            && g.batch > 0
            && g.taps() > 0
            && g.positions() > 0
            && g.in_channels > 0
            && self.x_strides.covers(self.x.len(), g.batch, channels, g.input)
            && self.weight_strides.covers(self.weight.len(), outputs, g.in_channels, g.kernel)
            && self.bias.is_none_or(|bias| bias.len() >= outputs);
        let position_stride = to.uniform_spatial(g.output).filter(|_| is_valid)?;
        if DepthwiseNchw::supports(self, to) {
            return Some(Algorithm::DepthwiseNchw);
        }
        self.inner_strides()?;
        let has_contiguous_rows = self.x_strides.spatial[2] == 1 || g.input[2] == 1;
        if !has_contiguous_rows && self.x_strides.channel != 1 && g.in_channels > 1 {
            return None;
        }
        Some(if to.channel == 1 && g.out_channels > 1 {
            Algorithm::PositionsByChannels { position_stride }
        } else {
            Algorithm::ChannelsByPositions { position_stride }
        })
    }

    /// Order of the weights of an output channel; `None` if they are not contiguous.
    fn inner_strides(&self) -> Option<InnerStrides> {
        let g = &self.geometry;
        let (channels, taps) = (g.in_channels, g.taps());
        let tap = self.weight_strides.uniform_spatial(g.kernel)?;
        match (self.weight_strides.channel, tap) {
            (_, 1) if channels == 1 => Some(InnerStrides { channel: taps, tap: 1 }),
            (1, _) if taps == 1 => Some(InnerStrides { channel: 1, tap: channels }),
            (channel, 1) if channel == taps => Some(InnerStrides { channel: taps, tap: 1 }),
            (1, tap) if tap == channels => Some(InnerStrides { channel: 1, tap: channels }),
            _ => None,
        }
    }

    /// Weights of the group whose first output channel is `first`.
    fn weights(&self, first: usize) -> Option<StridedOperand<'_>> {
        let outer = self.weight_strides.outer;
        let data = self.weight.get(first * outer..)?;
        let channels = Dim { len: self.geometry.out_channels, stride: outer };
        StridedOperand::new(data, channels, Dim { len: self.geometry.inner(), stride: 1 })
    }

    /// Input of a pointwise (1×1) convolution from `start` on: positions × channels. `None` if the
    /// convolution is not pointwise, or the positions have no uniform stride.
    fn pointwise_input(&self, start: usize) -> Option<StridedOperand<'_>> {
        let g = &self.geometry;
        let is_pointwise = g.kernel == [1; 3] && g.stride == [1; 3] && g.padding == [0; 3];
        let stride = self.x_strides.uniform_spatial(g.input).filter(|_| is_pointwise)?;
        let data = self.x.get(start..)?;
        let positions = Dim { len: g.positions(), stride };
        let channels = Dim { len: g.in_channels, stride: self.x_strides.channel };
        StridedOperand::new(data, positions, channels)
    }

    /// Patches of the input from `start` on.
    fn im2col(&self, start: usize) -> Option<Im2col<'_>> {
        let inner_strides = self.inner_strides()?;
        let x = self.x.get(start..)?;
        Some(Im2col { x, strides: self.x_strides, geometry: &self.geometry, inner_strides })
    }

    fn by_channels<'d, P: Operand>(
        &'d self,
        a: StridedOperand<'d>,
        b: P,
        first: usize,
    ) -> Gemm<'d, StridedOperand<'d>, P> {
        let (rows, cols) = (self.geometry.out_channels, self.geometry.positions());
        let addend = self.addend(first, MatrixStrides { row: 1, col: 0 });
        let inner = self.geometry.inner();
        Gemm { a, b, rows, inner, cols, alpha: 1.0, addend, clamp: self.clamp }
    }

    fn by_positions<'d, P: Operand>(
        &'d self,
        a: P,
        b: StridedOperand<'d>,
        first: usize,
    ) -> Gemm<'d, P, StridedOperand<'d>> {
        let (rows, cols) = (self.geometry.positions(), self.geometry.out_channels);
        let addend = self.addend(first, MatrixStrides { row: 0, col: 1 });
        let inner = self.geometry.inner();
        Gemm { a, b, rows, inner, cols, alpha: 1.0, addend, clamp: self.clamp }
    }

    /// Bias of the group whose first output channel is `first`.
    fn addend(&self, first: usize, strides: MatrixStrides) -> Option<Addend<'_>> {
        self.bias.map(|bias| Addend { data: &bias[first..], strides, beta: 1.0 })
    }
}
