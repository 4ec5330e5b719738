//! Depthwise `f32` convolution of NCHW tensors: one plane of the input per output channel.

#![expect(unsafe_code, reason = "reads planes through pointers checked a row at a time")]

use afferent_core::Workers;

use super::{Conv, Geometry, Strides};
use crate::{
    Float, Isa, Routine, Simd, SizeError,
    epilogue::clamp,
    parallel::{self, Chunks, Grain},
};

/// Maximum elements of a kernel.
const MAX_TAPS: usize = 49;

/// Maximum ratio of the elements of a plane with padding to the elements that are read and written.
const MAX_PADDING_RATIO: usize = 8;

/// A depthwise convolution and the layout of its padded planes.
///
/// A plane is copied with its padding. The columns of each row are sorted by their remainder modulo
/// the stride, so that the inputs of adjacent outputs are adjacent.
#[derive(Debug, Clone, Copy)]
pub(super) struct DepthwiseNchw<'c, 'd> {
    conv: &'c Conv<'d>,
    isa: Isa,
    /// Rows of a padded plane.
    rows: usize,
    /// Columns per remainder.
    cols: usize,
}

/// Kernel of one output channel.
#[derive(Clone, Copy)]
struct ChannelKernel<'d> {
    weights: &'d [f32],
    bias: f32,
}

impl<'c, 'd> DepthwiseNchw<'c, 'd> {
    /// True if `conv` is a depthwise convolution of row-major planes.
    pub(super) fn supports(conv: &Conv<'_>, to: Strides) -> bool {
        let g = &conv.geometry;
        let is_two_dimensional =
            [g.kernel[0], g.input[0], g.output[0]] == [1; 3] && g.padding[0] == 0;
        let [_, height, width] = g.output;
        let outputs = g.groups * g.out_channels;
        is_two_dimensional
            && g.in_channels == 1
            && g.taps() <= MAX_TAPS
            && conv.x_strides.spatial[2] == 1
            && conv.weight_strides.uniform_spatial(g.kernel) == Some(1)
            && (to.spatial[2] == 1 || width == 1)
            && (to.spatial[1] == width || height == 1)
            && (to.channel == height * width || outputs == 1)
            && (to.outer == outputs * height * width || g.batch == 1)
            && Self::is_dense(g)
    }

    /// True if a padded plane is at most [`MAX_PADDING_RATIO`] times as large as the input and the
    /// output.
    fn is_dense(g: &Geometry) -> bool {
        let elements = Self::padded_sizes(g)
            .and_then(|[rows, cols]| rows.checked_mul(cols)?.checked_mul(g.stride[2]));
        let used = g.input[1].saturating_mul(g.input[2]).saturating_add(g.positions());
        elements.is_some_and(|elements| elements <= used.saturating_mul(MAX_PADDING_RATIO))
    }

    /// Rows of a padded plane, and columns per remainder.
    fn padded_sizes(g: &Geometry) -> Option<[usize; 2]> {
        let span = |dim: usize| {
            let outputs = (g.output[dim] - 1).checked_mul(g.stride[dim])?;
            outputs.checked_add((g.kernel[dim] - 1).checked_mul(g.dilation[dim])?)?.checked_add(1)
        };
        Some([span(1)?, span(2)?.div_ceil(g.stride[2])])
    }

    pub(super) fn new(conv: &'c Conv<'d>, isa: Isa) -> Option<Self> {
        let g = &conv.geometry;
        let [rows, cols] = Self::padded_sizes(g)?;
        rows.checked_mul(cols)?.checked_mul(g.stride[2])?.checked_add(isa.lanes())?;
        Some(Self { conv, isa, rows, cols })
    }

    /// Elements per row of a padded plane.
    fn row_stride(&self) -> usize {
        self.cols * self.conv.geometry.stride[2]
    }

    /// Elements of a padded plane, and of the vector that may be read after it.
    fn plane_len(&self) -> usize {
        self.rows * self.row_stride() + self.isa.lanes()
    }

    fn tasks(&self, threads: usize) -> usize {
        let g = &self.conv.geometry;
        let planes = g.batch * g.groups * g.out_channels;
        let macs = planes.saturating_mul(g.positions()).saturating_mul(g.taps());
        Grain::DEPTHWISE_NCHW.tasks(macs, threads).min(planes).max(1)
    }

    pub(super) fn scratch_len(&self, threads: usize) -> usize {
        self.plane_len().saturating_mul(self.tasks(threads))
    }

    pub(super) fn run(
        &self,
        out: &mut [f32],
        to: Strides,
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let g = &self.conv.geometry;
        let outputs = g.groups * g.out_channels;
        let (planes, size) = (g.batch * outputs, g.positions());
        debug_assert!(to.spatial[2] == 1 || g.output[2] == 1, "checked by `supports`");
        let tasks = self.tasks(parallel::threads(workers));
        SizeError::check_min("scratch", scratch.len(), self.plane_len().checked_mul(tasks))?;
        SizeError::check_min("out", out.len(), planes.checked_mul(size))?;
        let scratch = &mut scratch[..self.plane_len() * tasks];
        scratch.fill(0.0);
        let share = planes.div_ceil(tasks);
        let out = &mut out[..planes * size];
        let task = |index: usize, out: &mut [f32], scratch: &mut [f32]| {
            for (plane, out) in (index * share..).zip(out.chunks_exact_mut(size)) {
                self.isa.run(Plane { of: *self, plane, scratch, out });
            }
        };
        if tasks == 1 {
            task(0, out, scratch);
            return Ok(());
        }
        let out = Chunks { data: out, chunk_len: share * size };
        let scratch = Chunks { data: scratch, chunk_len: self.plane_len() };
        parallel::for_each_chunk_pair(workers, out, scratch, task);
        Ok(())
    }
}

/// One plane of the output.
struct Plane<'p, 'c, 'd> {
    of: DepthwiseNchw<'c, 'd>,
    plane: usize,
    scratch: &'p mut [f32],
    out: &'p mut [f32],
}

impl Routine for Plane<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { of, plane, scratch, out } = self;
        let conv = of.conv;
        let g = &conv.geometry;
        let outputs = g.groups * g.out_channels;
        let (image, output) = (plane / outputs, plane % outputs);
        let channel = output / g.out_channels;
        of.copy_plane(simd, image, channel, scratch);
        let weights = &conv.weight[output * conv.weight_strides.outer..][..g.taps()];
        let bias = conv.bias.map_or(0.0, |bias| bias[output]);
        let kernel = ChannelKernel { weights, bias };
        match g.taps() {
            9 => of.convolve::<S, 9>(simd, scratch, kernel, out),
            25 => of.convolve::<S, 25>(simd, scratch, kernel, out),
            _ => of.convolve_any(simd, scratch, kernel, out),
        }
    }
}

impl DepthwiseNchw<'_, '_> {
    /// Copies a plane of the input. The padding around it is already zero.
    #[inline(always)]
    fn copy_plane<S: Simd>(&self, simd: S, image: usize, channel: usize, to: &mut [f32]) {
        let conv = self.conv;
        let g = &conv.geometry;
        let (stride, padding) = (g.stride[2], g.padding[2]);
        let x = &conv.x[image * conv.x_strides.outer + channel * conv.x_strides.channel..];
        let rows = g.input[1].min(self.rows.saturating_sub(g.padding[1]));
        for row in 0..rows {
            let from = &x[row * conv.x_strides.spatial[1]..][..g.input[2]];
            let to = &mut to[(row + g.padding[1]) * self.row_stride()..][..self.row_stride()];
            if stride == 1 {
                let to = &mut to[padding.min(self.cols)..];
                for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
                    let from = &from[..from.len().min(to.len())];
                    let len = from.len();
                    simd.store_partial(simd.load_partial(from), &mut to[..len]);
                }
                continue;
            }
            for (remainder, to) in to.chunks_exact_mut(self.cols).enumerate() {
                // Column `j` of this remainder is column `j * stride + remainder - padding` of the
                // input.
                let first = padding.saturating_sub(remainder).div_ceil(stride);
                let start = (first * stride + remainder).saturating_sub(padding);
                let Some(from) = from.get(start..) else { continue };
                let to = to.get_mut(first..).unwrap_or(&mut []);
                if stride == 2 {
                    let (pairs, last) = from.as_chunks::<2>();
                    let whole = pairs.len().min(to.len());
                    let (paired, rest) = to.split_at_mut(whole);
                    paired.iter_mut().zip(pairs).for_each(|(to, [from, _])| *to = *from);
                    rest.iter_mut().zip(last).for_each(|(to, from)| *to = *from);
                } else {
                    let from = from.iter().step_by(stride);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// Index of the first input of kernel element `tap` in a padded plane.
    #[inline(always)]
    fn tap_offset(&self, tap: usize) -> usize {
        let g = &self.conv.geometry;
        let (row, col) = (tap / g.kernel[2] * g.dilation[1], tap % g.kernel[2] * g.dilation[2]);
        row * self.row_stride() + col % g.stride[2] * self.cols + col / g.stride[2]
    }

    /// Convolves a padded plane with a kernel of `TAPS` elements.
    #[inline(always)]
    fn convolve<S: Simd, const TAPS: usize>(
        &self,
        simd: S,
        x: &[f32],
        ChannelKernel { weights, bias }: ChannelKernel<'_>,
        out: &mut [f32],
    ) {
        let mut factors = [simd.zero(); TAPS];
        let mut offsets = [0; TAPS];
        let mut max_offset = 0;
        for (tap, (factor, offset)) in factors.iter_mut().zip(&mut offsets).enumerate() {
            *factor = simd.splat(weights[tap]);
            *offset = self.tap_offset(tap);
            max_offset = max_offset.max(*offset);
        }
        let bias = simd.splat(bias);
        let g = &self.conv.geometry;
        // With a single output row, the stride may be of any size.
        let step = g.stride[1].saturating_mul(self.row_stride());
        for (row, out) in out.chunks_exact_mut(g.output[2]).enumerate() {
            let x = &x[row * step..];
            let len = out.len();
            assert!(max_offset + len.next_multiple_of(S::LANES) <= x.len());
            for col in (0..len).step_by(S::LANES) {
                // SAFETY: the assertion verified that the vectors at all offsets are in `x`.
                let sum = unsafe { self.dot(simd, x[col..].as_ptr(), &offsets, &factors, bias) };
                simd.store_partial(self.clamp(simd, sum), &mut out[col..]);
            }
        }
    }

    /// Computes one vector of outputs.
    ///
    /// # Safety
    /// `x` is valid for reads of a vector at each of `offsets`.
    #[inline(always)]
    unsafe fn dot<S: Simd, const TAPS: usize>(
        &self,
        simd: S,
        x: *const f32,
        offsets: &[usize; TAPS],
        factors: &[S::F32; TAPS],
        bias: S::F32,
    ) -> S::F32 {
        // Two chains of additions hide more of their latency.
        let mut sums = [bias, simd.zero()];
        for tap in 0..TAPS {
            // SAFETY: guaranteed by the caller.
            let x = unsafe { simd.load_ptr(x.wrapping_add(offsets[tap])) };
            sums[tap % 2] = x.mul_add(factors[tap], sums[tap % 2]);
        }
        sums[0] + sums[1]
    }

    /// Convolves a padded plane with a kernel of any size up to [`MAX_TAPS`].
    #[inline(always)]
    fn convolve_any<S: Simd>(
        &self,
        simd: S,
        x: &[f32],
        ChannelKernel { weights, bias }: ChannelKernel<'_>,
        out: &mut [f32],
    ) {
        let g = &self.conv.geometry;
        let mut offsets = [0; MAX_TAPS];
        for (tap, offset) in offsets.iter_mut().enumerate().take(weights.len()) {
            *offset = self.tap_offset(tap);
        }
        let bias = simd.splat(bias);
        for (row, out) in out.chunks_exact_mut(g.output[2]).enumerate() {
            let x = &x[row * g.stride[1] * self.row_stride()..];
            for (col, out) in out.chunks_mut(S::LANES).enumerate() {
                let x = &x[col * S::LANES..];
                let mut sum = bias;
                for (offset, factor) in offsets.iter().zip(weights) {
                    sum = simd.load(&x[*offset..]).mul_add(simd.splat(*factor), sum);
                }
                simd.store_partial(self.clamp(simd, sum), out);
            }
        }
    }

    #[inline(always)]
    fn clamp<S: Simd>(&self, simd: S, sum: S::F32) -> S::F32 {
        match self.conv.clamp {
            Some(bounds) => clamp(simd, sum, bounds),
            None => sum,
        }
    }
}
