//! Convolutions of single planes: one kernel of weights for each output channel.

#![expect(unsafe_code, reason = "reads planes through pointers checked a row at a time")]

use afferent_core::Workers;

use super::{Conv, Geometry, Strides};
use crate::{
    Float, Isa, Routine, Simd, SizeError,
    epilogue::clamp,
    parallel::{self, Chunks, Grain},
};

/// The most elements of a kernel.
const MOST_TAPS: usize = 49;

/// How many times more numbers a laid out plane may have than are read and written.
const SPARSE: usize = 8;

/// How planes are laid out for the loops: with the padding around them, and the columns of a row
/// sorted by their remainder modulo the stride, so that the inputs of neighbouring outputs are
/// neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct DepthwiseNchw<'c, 'd> {
    conv: &'c Conv<'d>,
    isa: Isa,
    /// Rows with padding.
    rows: usize,
    /// Columns of one remainder.
    cols: usize,
}

impl<'c, 'd> DepthwiseNchw<'c, 'd> {
    /// Whether `conv` consists of planes in row-major order.
    pub(super) fn supports(conv: &Conv<'_>, to: Strides) -> bool {
        let g = &conv.geometry;
        let is_flat = [g.kernel[0], g.input[0], g.output[0]] == [1; 3] && g.padding[0] == 0;
        let [_, height, width] = g.output;
        let outputs = g.groups * g.out_channels;
        is_flat
            && g.in_channels == 1
            && g.taps() <= MOST_TAPS
            && conv.x_strides.spatial[2] == 1
            && conv.weight_strides.uniform_spatial(g.kernel) == Some(1)
            && (to.spatial[2] == 1 || width == 1)
            && (to.spatial[1] == width || height == 1)
            && (to.channel == height * width || outputs == 1)
            && (to.outer == outputs * height * width || g.batch == 1)
            && Self::is_dense(g)
    }

    /// Whether a plane, with its padding and what strides pass over, is not much larger than what
    /// is read and written.
    fn is_dense(g: &Geometry) -> bool {
        let numbers = Self::spans(g)
            .and_then(|[rows, cols]| rows.checked_mul(cols)?.checked_mul(g.stride[2]));
        let used = g.input[1].saturating_mul(g.input[2]).saturating_add(g.positions());
        numbers.is_some_and(|numbers| numbers <= used.saturating_mul(SPARSE))
    }

    /// Rows of a plane, and columns of one remainder.
    fn spans(g: &Geometry) -> Option<[usize; 2]> {
        let span = |dim: usize| {
            let outputs = (g.output[dim] - 1).checked_mul(g.stride[dim])?;
            outputs.checked_add((g.kernel[dim] - 1).checked_mul(g.dilation[dim])?)?.checked_add(1)
        };
        Some([span(1)?, span(2)?.div_ceil(g.stride[2])])
    }

    pub(super) fn new(conv: &'c Conv<'d>, isa: Isa) -> Option<Self> {
        let g = &conv.geometry;
        let [rows, cols] = Self::spans(g)?;
        rows.checked_mul(cols)?.checked_mul(g.stride[2])?.checked_add(isa.lanes())?;
        Some(Self { conv, isa, rows, cols })
    }

    /// Numbers in one row.
    fn pitch(&self) -> usize {
        self.cols * self.conv.geometry.stride[2]
    }

    /// Numbers in a plane, and those that a vector may read after it.
    fn len(&self) -> usize {
        self.rows * self.pitch() + self.isa.lanes()
    }

    fn tasks(&self, threads: usize) -> usize {
        let g = &self.conv.geometry;
        let planes = g.batch * g.groups * g.out_channels;
        let macs = planes.saturating_mul(g.positions()).saturating_mul(g.taps());
        Grain::DEPTHWISE_NCHW.tasks(macs, threads).min(planes).max(1)
    }

    pub(super) fn scratch_len(&self, threads: usize) -> usize {
        self.len().saturating_mul(self.tasks(threads))
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
        SizeError::check_min("scratch", scratch.len(), self.len().checked_mul(tasks))?;
        SizeError::check_min("out", out.len(), planes.checked_mul(size))?;
        let scratch = &mut scratch[..self.len() * tasks];
        scratch.fill(0.0);
        let share = planes.div_ceil(tasks);
        let out = &mut out[..planes * size];
        let task = |index: usize, out: &mut [f32], scratch: &mut [f32]| {
            for (at, out) in (index * share..).zip(out.chunks_exact_mut(size)) {
                self.isa.run(Plane { planes: *self, plane: at, scratch, out });
            }
        };
        if tasks == 1 {
            task(0, out, scratch);
            return Ok(());
        }
        let out = Chunks { data: out, chunk_len: share * size };
        let scratch = Chunks { data: scratch, chunk_len: self.len() };
        parallel::for_each_chunk_pair(workers, out, scratch, task);
        Ok(())
    }
}

struct Plane<'p, 'c, 'd> {
    planes: DepthwiseNchw<'c, 'd>,
    plane: usize,
    scratch: &'p mut [f32],
    out: &'p mut [f32],
}

impl Routine for Plane<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { planes, plane, scratch, out } = self;
        let conv = planes.conv;
        let g = &conv.geometry;
        let outputs = g.groups * g.out_channels;
        let (item, output) = (plane / outputs, plane % outputs);
        let channel = output / g.out_channels;
        planes.copy(simd, item, channel, scratch);
        let weight = &conv.weight[output * conv.weight_strides.outer..][..g.taps()];
        let bias = conv.bias.map_or(0.0, |bias| bias[output]);
        match g.taps() {
            9 => planes.sum::<S, 9>(simd, scratch, weight, bias, out),
            25 => planes.sum::<S, 25>(simd, scratch, weight, bias, out),
            taps => planes.sum_any(simd, scratch, &weight[..taps], bias, out),
        }
    }
}

impl DepthwiseNchw<'_, '_> {
    /// Copies a plane of the input; the padding around it stays zero.
    #[inline(always)]
    fn copy<S: Simd>(&self, simd: S, item: usize, channel: usize, to: &mut [f32]) {
        let conv = self.conv;
        let g = &conv.geometry;
        let (stride, padding) = (g.stride[2], g.padding[2]);
        let x = &conv.x[item * conv.x_strides.outer + channel * conv.x_strides.channel..];
        let rows = g.input[1].min(self.rows.saturating_sub(g.padding[1]));
        for row in 0..rows {
            let from = &x[row * conv.x_strides.spatial[1]..][..g.input[2]];
            let to = &mut to[(row + g.padding[1]) * self.pitch()..][..self.pitch()];
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
                // Column `j` of this remainder is column `j * stride + remainder - padding`.
                let first = padding.saturating_sub(remainder).div_ceil(stride);
                let Some(from) = from.get((first * stride + remainder).saturating_sub(padding)..)
                else {
                    continue;
                };
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

    /// Where the inputs of tap `tap` begin.
    #[inline(always)]
    fn offset(&self, tap: usize) -> usize {
        let g = &self.conv.geometry;
        let (row, col) = (tap / g.kernel[2] * g.dilation[1], tap % g.kernel[2] * g.dilation[2]);
        row * self.pitch() + col % g.stride[2] * self.cols + col / g.stride[2]
    }

    #[inline(always)]
    fn sum<S: Simd, const TAPS: usize>(
        &self,
        simd: S,
        x: &[f32],
        weight: &[f32],
        bias: f32,
        out: &mut [f32],
    ) {
        let mut factors = [simd.zero(); TAPS];
        let mut offsets = [0; TAPS];
        let mut last = 0;
        for (tap, (factor, offset)) in factors.iter_mut().zip(&mut offsets).enumerate() {
            *factor = simd.splat(weight[tap]);
            *offset = self.offset(tap);
            last = last.max(*offset);
        }
        let bias = simd.splat(bias);
        let g = &self.conv.geometry;
        // Where there is one row, the step may be of any size.
        let step = g.stride[1].saturating_mul(self.pitch());
        for (row, out) in out.chunks_exact_mut(g.output[2]).enumerate() {
            let x = &x[row * step..];
            let len = out.len();
            assert!(last + len.next_multiple_of(S::LANES) <= x.len());
            for col in (0..len).step_by(S::LANES) {
                // SAFETY: `last` is the greatest offset, and its vectors of the row are in `x`.
                let sum = unsafe { self.one(simd, x[col..].as_ptr(), &offsets, &factors, bias) };
                simd.store_partial(self.bounded(simd, sum), &mut out[col..]);
            }
        }
    }

    /// The sums of one vector of outputs.
    ///
    /// # Safety
    /// A vector can be read at each of `offsets` from `x` on.
    #[inline(always)]
    unsafe fn one<S: Simd, const TAPS: usize>(
        &self,
        simd: S,
        x: *const f32,
        offsets: &[usize; TAPS],
        factors: &[S::F32; TAPS],
        bias: S::F32,
    ) -> S::F32 {
        // Two chains of additions hide more of the time that each takes.
        let mut sums = [bias, simd.zero()];
        for tap in 0..TAPS {
            // SAFETY: demanded of the caller.
            let x = unsafe { simd.load_ptr(x.wrapping_add(offsets[tap])) };
            sums[tap % 2] = x.mul_add(factors[tap], sums[tap % 2]);
        }
        sums[0] + sums[1]
    }

    #[inline(always)]
    fn sum_any<S: Simd>(&self, simd: S, x: &[f32], weight: &[f32], bias: f32, out: &mut [f32]) {
        let g = &self.conv.geometry;
        let mut offsets = [0; MOST_TAPS];
        for (tap, offset) in offsets.iter_mut().enumerate().take(weight.len()) {
            *offset = self.offset(tap);
        }
        let bias = simd.splat(bias);
        for (row, out) in out.chunks_exact_mut(g.output[2]).enumerate() {
            let x = &x[row * g.stride[1] * self.pitch()..];
            for (col, out) in out.chunks_mut(S::LANES).enumerate() {
                let x = &x[col * S::LANES..];
                let mut sum = bias;
                for (offset, factor) in offsets.iter().zip(weight) {
                    sum = simd.load(&x[*offset..]).mul_add(simd.splat(*factor), sum);
                }
                simd.store_partial(self.bounded(simd, sum), out);
            }
        }
    }

    #[inline(always)]
    fn bounded<S: Simd>(&self, simd: S, sum: S::F32) -> S::F32 {
        match self.conv.clamp {
            Some(bounds) => clamp(simd, sum, bounds),
            None => sum,
        }
    }
}
