//! Depthwise convolutions of pictures whose channels lie together.

#![expect(unsafe_code, reason = "reads channels through pointers checked a picture at a time")]

use afferent_core::Workers;

use crate::{Float, Int, Isa, Routine, Simd, parallel};

/// The least multiplications that are worth another thread.
const WORTH: usize = 1 << 17;

/// Neighbours of a row that are computed together.
const TOGETHER: usize = 4;

/// Numbers of a picture.
pub trait Source: Copy + Sync + 'static {
    /// A vector of the first `len` numbers, less `zero_point`.
    ///
    /// # Safety
    /// So many can be read there, `LANES` at most.
    unsafe fn load<S: Simd>(simd: S, from: *const Self, len: usize, zero_point: f32) -> S::F32;
}

impl Source for f32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32, len: usize, _: f32) -> S::F32 {
        if len >= S::LANES {
            // SAFETY: demanded of the caller.
            unsafe { simd.load_at(from) }
        } else {
            // SAFETY: demanded of the caller.
            unsafe { simd.load_first_at(from, len) }
        }
    }
}

impl Source for i8 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const i8, len: usize, zero_point: f32) -> S::F32 {
        // SAFETY: demanded of the caller.
        unsafe { simd.load_i8_at(from, len) }.to_f32() - simd.splat(zero_point)
    }
}

/// What becomes of sums.
pub trait Sink: Sync {
    /// What is written.
    type Out: Send;

    /// Whether it has what it needs for so many channels.
    fn fits(&self, channels: usize) -> bool;

    /// Writes the first `len` sums of the channels from `channel` on.
    ///
    /// # Safety
    /// So many elements can be written there, `LANES` at most, and `fits` said yes to them.
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        sums: S::F32,
        channel: usize,
        to: *mut Self::Out,
        len: usize,
    );
}

/// Sums within bounds; NaN stays.
#[derive(Debug, Clone, Copy)]
pub struct Bounded(pub f32, pub f32);

impl Sink for Bounded {
    type Out = f32;

    fn fits(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn write<S: Simd>(&self, simd: S, sums: S::F32, _: usize, to: *mut f32, len: usize) {
        let sums = simd.splat(self.1).min(simd.splat(self.0).max(sums));
        if len >= S::LANES {
            // SAFETY: demanded of the caller.
            unsafe { simd.store_at(sums, to) }
        } else {
            // SAFETY: demanded of the caller.
            unsafe { simd.store_first_at(sums, to, len) }
        }
    }
}

/// Sums that become integers of 8 bits: `round(sum · scale)` within bounds, and the zero point.
#[derive(Debug, Clone, Copy)]
pub struct Rounded<'d> {
    /// A factor for each channel.
    pub scale: &'d [f32],
    /// The bounds, without the zero point.
    pub clamp: (f32, f32),
    /// What zero is stored as.
    pub zero_point: i32,
}

impl Sink for Rounded<'_> {
    type Out = i8;

    fn fits(&self, channels: usize) -> bool {
        self.scale.len() >= channels
    }

    #[inline(always)]
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        sums: S::F32,
        channel: usize,
        to: *mut i8,
        len: usize,
    ) {
        let scaled = sums * simd.load_first(&self.scale[channel..channel + len]);
        let bounded = simd.splat(self.clamp.1).min(simd.splat(self.clamp.0).max(scaled));
        let value = bounded.round_to_i32() + simd.splat_i32(self.zero_point);
        // SAFETY: demanded of the caller.
        unsafe { simd.store_i8_at(value, to, len) }
    }
}

/// A convolution in which each channel has a kernel of its own.
#[derive(Debug, Clone, Copy)]
pub struct Channels<'d, T> {
    /// Pictures: `batch`, rows, columns, channels.
    pub x: &'d [T],
    /// What zero is stored as.
    pub zero_point: f32,
    /// Pictures.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Rows and columns of a picture.
    pub input: [usize; 2],
    /// Rows and columns of the result.
    pub output: [usize; 2],
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Positions between neighbours of the result.
    pub stride: [usize; 2],
    /// Positions between neighbours of the kernel.
    pub dilation: [usize; 2],
    /// Zeros above and on the left.
    pub padding: [usize; 2],
    /// Weights: rows and columns of the kernel, channels.
    pub weights: &'d [f32],
    /// What is added to each channel.
    pub bias: &'d [f32],
}

impl<T: Source> Channels<'_, T> {
    /// Writes the convolution as `sink` says; `None` when something does not fit its slice, and
    /// nothing is written then.
    pub fn write<K: Sink>(
        &self,
        isa: Isa,
        sink: &K,
        out: &mut [K::Out],
        workers: Option<&dyn Workers>,
    ) -> Option<()> {
        let product = |factors: &[usize]| {
            factors.iter().try_fold(1_usize, |product, factor| product.checked_mul(*factor))
        };
        let Self { batch, channels, input, output, kernel, .. } = *self;
        let taps = kernel[0].checked_mul(kernel[1])?;
        let rows = batch.checked_mul(output[0])?;
        let fits = product(&[batch, input[0], input[1], channels])? <= self.x.len()
            && product(&[taps, channels])? <= self.weights.len()
            && channels <= self.bias.len()
            && product(&[rows, output[1], channels])? == out.len()
            && sink.fits(channels);
        for dim in 0..2 {
            let most = (output[dim].max(1) - 1).checked_mul(self.stride[dim])?;
            most.checked_add(kernel[dim].checked_mul(self.dilation[dim])?)?;
        }
        if !fits {
            return None;
        }
        let len = output[1] * channels;
        if rows == 0 || len == 0 {
            return Some(());
        }
        let work = out.len().saturating_mul(taps);
        let pieces = workers.map_or(1, Workers::threads).min(work / WORTH).max(1);
        let share = rows.div_ceil(pieces);
        parallel::for_each_chunk(workers, out, share * len, |piece, out| {
            for (row, out) in (piece * share..).zip(out.chunks_exact_mut(len)) {
                isa.run(Row { of: *self, row, sink, out });
            }
        });
        Some(())
    }
}

struct Row<'r, 'd, T, K: Sink> {
    of: Channels<'d, T>,
    row: usize,
    sink: &'r K,
    out: &'r mut [K::Out],
}

impl<T: Source, K: Sink> Routine for Row<'_, '_, T, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let Channels { channels, input, output, kernel, stride, dilation, padding, .. } = self.of;
        let top = self.row % output[0] * stride[0];
        // Kernel rows that meet the picture.
        let from = padding[0].saturating_sub(top).div_ceil(dilation[0].max(1)).min(kernel[0]);
        let reach = (input[0] + padding[0]).saturating_sub(top).div_ceil(dilation[0].max(1));
        let rows = (from, reach.min(kernel[0]).max(from));
        // Columns of the result whose whole kernel meets the picture.
        let first = padding[1].div_ceil(stride[1]).min(output[1]);
        let span = (kernel[1].max(1) - 1) * dilation[1] + 1;
        let last = (input[1] + padding[1]).checked_sub(span).map_or(0, |end| end / stride[1] + 1);
        let last = last.min(output[1]).max(first);
        for channel in (0..channels).step_by(S::LANES) {
            let len = S::LANES.min(channels - channel);
            for col in 0..first {
                self.edge(simd, rows, col, (channel, len));
            }
            let mut col = first;
            while col + TOGETHER <= last {
                self.some::<S, TOGETHER>(simd, rows, (0, kernel[1]), col, (channel, len));
                col += TOGETHER;
            }
            for col in col..last {
                self.some::<S, 1>(simd, rows, (0, kernel[1]), col, (channel, len));
            }
            for col in last..output[1] {
                self.edge(simd, rows, col, (channel, len));
            }
        }
    }
}

impl<T: Source, K: Sink> Row<'_, '_, T, K> {
    /// A position at the edge, where only some columns of the kernel meet the picture.
    #[inline(always)]
    fn edge<S: Simd>(&mut self, simd: S, rows: (usize, usize), col: usize, part: (usize, usize)) {
        let Channels { input, kernel, stride, dilation, padding, .. } = self.of;
        let left = col * stride[1];
        let from = padding[1].saturating_sub(left).div_ceil(dilation[1].max(1)).min(kernel[1]);
        let reach = (input[1] + padding[1]).saturating_sub(left).div_ceil(dilation[1].max(1));
        self.some::<S, 1>(simd, rows, (from, reach.min(kernel[1]).max(from)), col, part);
    }

    /// `N` neighbours from column `col` on, of which the given rows and columns of the kernel meet
    /// the picture.
    #[inline(always)]
    fn some<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        rows: (usize, usize),
        cols: (usize, usize),
        col: usize,
        (channel, len): (usize, usize),
    ) {
        let Channels { x, channels, input, output, kernel, stride, dilation, padding, .. } =
            self.of;
        let picture = self.row / output[0] * input[0];
        let top = self.row % output[0] * stride[0];
        let bias = &self.of.bias[channel..channel + len];
        let mut sums = [simd.load_first(bias); N];
        for i in rows.0..rows.1 {
            let line = (picture + top + i * dilation[0] - padding[0]) * input[1];
            for j in cols.0..cols.1 {
                let at = line + col * stride[1] + j * dilation[1] - padding[1];
                let from = x.as_ptr().wrapping_add(at * channels + channel);
                let weight = &self.of.weights[(i * kernel[1] + j) * channels + channel..][..len];
                let weight =
                    if len >= S::LANES { simd.load(weight) } else { simd.load_first(weight) };
                for (n, sum) in sums.iter_mut().enumerate() {
                    let from = from.wrapping_add(n * stride[1] * channels);
                    // SAFETY: rows and columns were chosen so that the position is inside the
                    // picture, of which `write` saw that it is inside `x`.
                    let x = unsafe { T::load(simd, from, len, self.of.zero_point) };
                    *sum = x.mul_add(weight, *sum);
                }
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            let to = &mut self.out[(col + n) * channels + channel..][..len];
            // SAFETY: the slice has so many places, and `write` asked `fits`.
            unsafe { self.sink.write(simd, sum, channel, to.as_mut_ptr(), len) };
        }
    }
}
