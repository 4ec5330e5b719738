//! Depthwise `f32` convolution of NHWC tensors.
//!
//! Vectors run along the channels. Kernels 3 and 5 columns wide have microkernels that load each
//! input column once for all outputs that use it; other kernels compute a tile of adjacent outputs,
//! with partial kernels at the left and right edges.

#![expect(unsafe_code, reason = "reads channels through pointers checked an image at a time")]

use core::ops::Range;

use afferent_core::Workers;

use crate::{
    Float, Isa, Routine, Simd, SizeError,
    epilogue::BiasActivation,
    parallel::{self, Grain},
};

/// Outputs of a tile that does not touch an edge.
const INNER_TILE_COLS: usize = 6;

/// Vectors of channels of a tile at an edge.
const EDGE_TILE_VECTORS: usize = 4;

/// Outputs whose accumulators stay in registers while the input columns pass by, for kernels 5
/// columns wide. Divides the width of common feature maps.
const SLIDING_COLS: usize = 7;

/// Index of the output, of [`SLIDING_COLS`] outputs `stride` columns apart, that input column
/// `column` contributes to through kernel column `tap`; `SLIDING_COLS` if there is none.
const fn sliding_output(column: usize, tap: usize, stride: usize) -> usize {
    let exists = column >= tap && (column - tap).is_multiple_of(stride);
    if exists && (column - tap) / stride < SLIDING_COLS {
        (column - tap) / stride
    } else {
        SLIDING_COLS
    }
}

/// Depthwise convolution with one output channel per input channel.
#[derive(Debug, Clone, Copy)]
pub struct DepthwiseNhwc<'d> {
    /// Input: batch, rows, columns, channels. A ring buffer of rows.
    pub x: &'d [f32],
    /// Row of `x` that holds the first row of the input. The rows wrap around at the end of `x`.
    pub first_row: usize,
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Stride, at least 1.
    pub stride: [usize; 2],
    /// Dilation, at least 1.
    pub dilation: [usize; 2],
    /// Rows of zeros above the input, and columns of zeros to its left.
    pub padding: [usize; 2],
    /// Weights: rows and columns of the kernel, channels.
    pub weights: &'d [f32],
}

impl DepthwiseNhwc<'_> {
    /// Computes the convolution and writes it to `out`: batch, rows, columns, channels.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes, or a stride or dilation is zero.
    pub fn run(
        &self,
        isa: Isa,
        epilogue: BiasActivation<'_>,
        out: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        let x_rows = self.check(&epilogue, out.len())?;
        let Self { batch, channels, output, kernel, .. } = *self;
        let (rows, row_len) = (batch * output[0], output[1] * channels);
        if rows == 0 || row_len == 0 {
            return Ok(());
        }
        let macs = out.len().saturating_mul(kernel[0] * kernel[1]);
        let tasks = Grain::DEPTHWISE_NHWC.tasks(macs, parallel::threads(workers));
        let share = rows.div_ceil(tasks);
        parallel::for_each_chunk(workers, out, share * row_len, |task, out| {
            for (row, out) in (task * share..).zip(out.chunks_exact_mut(row_len)) {
                isa.run(OutputRow { of: *self, row, x_rows, epilogue, out });
            }
        });
        Ok(())
    }

    /// Checks all slices and parameters, and returns the number of rows in `x`.
    fn check(&self, epilogue: &BiasActivation<'_>, out_len: usize) -> Result<usize, SizeError> {
        let product = |factors: &[usize]| {
            factors.iter().try_fold(1_usize, |product, factor| product.checked_mul(*factor))
        };
        let Self { batch, channels, input, output, kernel, .. } = *self;
        let overflow = SizeError::Overflow { slice: "x" };
        let row_len = product(&[input[1], channels]).ok_or(overflow)?;
        let x_rows = self.x.len().checked_div(row_len).unwrap_or(0);
        let x_len = product(&[batch, input[0], input[1], channels]);
        SizeError::check_min("x", self.x.len(), x_len)?;
        let starts_inside = self.first_row == 0 || self.first_row < x_rows;
        SizeError::check_parameter("first_row", "a row of `x`", starts_inside)?;
        let weights_len = product(&[kernel[0], kernel[1], channels]);
        SizeError::check_min("weights", self.weights.len(), weights_len)?;
        SizeError::check_min("bias", epilogue.bias.len(), Some(channels))?;
        let out_required = product(&[batch, output[0], output[1], channels]);
        SizeError::check_exact("out", out_len, out_required)?;
        product(&[batch, output[0]]).ok_or(SizeError::Overflow { slice: "out" })?;
        product(&kernel).ok_or(SizeError::Overflow { slice: "weights" })?;
        for dim in 0..2 {
            let last = (output[dim].max(1) - 1).checked_mul(self.stride[dim]);
            let span = kernel[dim].checked_mul(self.dilation[dim]);
            let end = last.zip(span).and_then(|(last, span)| last.checked_add(span));
            end.ok_or(overflow)?;
            SizeError::check_parameter("stride", "at least 1", self.stride[dim] > 0)?;
            SizeError::check_parameter("dilation", "at least 1", self.dilation[dim] > 0)?;
        }
        Ok(x_rows)
    }
}

/// One row of the output.
struct OutputRow<'r, 'd> {
    of: DepthwiseNhwc<'d>,
    row: usize,
    /// Rows in `x`.
    x_rows: usize,
    epilogue: BiasActivation<'r>,
    out: &'r mut [f32],
}

/// Vectors of channels from `start` on.
#[derive(Clone, Copy)]
struct ChannelRange {
    start: usize,
    /// Channels per vector: all lanes, or the remainder.
    len: usize,
}

/// Kernel rows or columns `start..end`: those that meet the input.
type TapRange = (usize, usize);

impl Routine for OutputRow<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let DepthwiseNhwc { channels, input, output, kernel, stride, dilation, padding, .. } =
            self.of;
        let top = self.row % output[0] * stride[0];
        // Kernel rows inside the image.
        let first = padding[0].saturating_sub(top).div_ceil(dilation[0]).min(kernel[0]);
        let end = (input[0] + padding[0]).saturating_sub(top).div_ceil(dilation[0]);
        let rows = (first, end.min(kernel[0]).max(first));
        let fits_three_wide = kernel[1] == 3
            && dilation[1] == 1
            && padding[1] <= 1
            && input[1] >= 3
            && output[1] * stride[1] + 2 >= input[1] + padding[1];
        let mut channel = 0;
        while fits_three_wide && channel + S::LANES <= channels {
            match (rows.1 - rows.0, stride[1]) {
                (1, 1) => self.three_wide_stride_1::<S, 1>(simd, rows.0, channel),
                (2, 1) => self.three_wide_stride_1::<S, 2>(simd, rows.0, channel),
                (3, 1) => self.three_wide_stride_1::<S, 3>(simd, rows.0, channel),
                (1, 2) => self.three_wide_stride_2::<S, 1>(simd, rows.0, channel),
                (2, 2) => self.three_wide_stride_2::<S, 2>(simd, rows.0, channel),
                (3, 2) => self.three_wide_stride_2::<S, 3>(simd, rows.0, channel),
                _ => break,
            }
            channel += S::LANES;
        }
        let fits_five_wide = kernel[1] == 5 && dilation[1] == 1 && output[1] >= SLIDING_COLS;
        while fits_five_wide && channel + S::LANES <= channels {
            match stride[1] {
                1 => self.five_wide::<S, 1>(simd, rows, channel),
                2 => self.five_wide::<S, 2>(simd, rows, channel),
                _ => break,
            }
            channel += S::LANES;
        }
        // Output columns whose whole kernel is inside the image.
        let first = padding[1].div_ceil(stride[1]).min(output[1]);
        let span = (kernel[1].max(1) - 1) * dilation[1] + 1;
        let end = (input[1] + padding[1]).checked_sub(span).map_or(0, |end| end / stride[1] + 1);
        let end = end.min(output[1]).max(first);
        while channel + EDGE_TILE_VECTORS * S::LANES <= channels {
            let range = ChannelRange { start: channel, len: S::LANES };
            for col in (0..first).chain(end..output[1]) {
                self.edge::<S, EDGE_TILE_VECTORS>(simd, rows, col, range);
            }
            for vector in 0..EDGE_TILE_VECTORS {
                let range = ChannelRange { start: channel + vector * S::LANES, len: S::LANES };
                self.inner(simd, rows, first..end, range);
            }
            channel += EDGE_TILE_VECTORS * S::LANES;
        }
        while channel < channels {
            let range = ChannelRange { start: channel, len: S::LANES.min(channels - channel) };
            for col in (0..first).chain(end..output[1]) {
                self.edge::<S, 1>(simd, rows, col, range);
            }
            self.inner(simd, rows, first..end, range);
            channel += range.len;
        }
    }
}

impl OutputRow<'_, '_> {
    /// Pointers to the input row and to the weights of kernel row `i`, from `channel` on.
    #[inline(always)]
    fn row_ptrs(&self, i: usize, channel: usize) -> (*const f32, *const f32) {
        let DepthwiseNhwc {
            x, first_row, channels, input, output, stride, dilation, padding, ..
        } = self.of;
        let image = self.row / output[0] * input[0];
        let row = image + self.row % output[0] * stride[0] + i * dilation[0] - padding[0];
        let row = first_row + row;
        let row = if row < self.x_rows { row } else { row - self.x_rows };
        let x = x.as_ptr().wrapping_add(row * input[1] * channels + channel);
        let weights = self.of.weights.as_ptr();
        (x, weights.wrapping_add(i * self.of.kernel[1] * channels + channel))
    }

    /// Pointers to `R` input rows, and the weights of `R` kernel rows three columns wide, from
    /// kernel row `first` on.
    ///
    /// # Safety
    /// The kernel has these rows inside the image, and a whole vector of channels from `channel`
    /// on.
    #[inline(always)]
    unsafe fn three_wide_rows<S: Simd, const R: usize>(
        &self,
        simd: S,
        first: usize,
        channel: usize,
    ) -> ([*const f32; R], [[S::F32; 3]; R]) {
        let mut rows = [self.of.x.as_ptr(); R];
        let mut weights = [[simd.zero(); 3]; R];
        for (r, (row, weights)) in rows.iter_mut().zip(&mut weights).enumerate() {
            let (x, from) = self.row_ptrs(first + r, channel);
            *row = x;
            for (j, weight) in weights.iter_mut().enumerate() {
                // SAFETY: `check` verified that the weights have all taps and channels.
                *weight = unsafe { simd.load_ptr(from.wrapping_add(j * self.of.channels)) };
            }
        }
        (rows, weights)
    }

    /// Computes all outputs of a vector of channels for `R` kernel rows three columns wide and
    /// stride 1. Each input column is loaded once, for three outputs.
    #[inline(always)]
    fn three_wide_stride_1<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        first: usize,
        channel: usize,
    ) {
        let DepthwiseNhwc { channels, input, output, padding, .. } = self.of;
        let range = ChannelRange { start: channel, len: S::LANES };
        // SAFETY: the caller passes rows inside the image and a whole vector of channels.
        let (rows, weights) = unsafe { self.three_wide_rows::<S, R>(simd, first, channel) };
        let bias = simd.load(&self.epilogue.bias[channel..]);
        let (width, padding) = (input[1], padding[1]);
        // Accumulators that lack their second and third column.
        let (mut second, mut third) = (bias, bias);
        for col in 0..width {
            let (mut done, mut new) = (third, bias);
            third = second;
            for (row, weights) in rows.iter().zip(weights) {
                // SAFETY: the row and the column are inside the image, which `check` verified to be
                // inside `x`.
                let x = unsafe { simd.load_ptr(row.wrapping_add(col * channels)) };
                done = x.mul_add(weights[2], done);
                third = x.mul_add(weights[1], third);
                new = x.mul_add(weights[0], new);
            }
            second = new;
            if col + padding >= 2 {
                self.store(simd, done, col + padding - 2, range);
            }
        }
        // Outputs beyond the last input column.
        for (col, acc) in [(width + padding - 2, third), (width + padding - 1, second)] {
            if col < output[1] {
                self.store(simd, acc, col, range);
            }
        }
        for col in width + padding..output[1] {
            self.store(simd, bias, col, range);
        }
    }

    /// As [`OutputRow::three_wide_stride_1`], for stride 2.
    #[inline(always)]
    fn three_wide_stride_2<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        first: usize,
        channel: usize,
    ) {
        let DepthwiseNhwc { channels, input, output, padding, .. } = self.of;
        let range = ChannelRange { start: channel, len: S::LANES };
        // SAFETY: the caller passes rows inside the image and a whole vector of channels.
        let (rows, weights) = unsafe { self.three_wide_rows::<S, R>(simd, first, channel) };
        let bias = simd.load(&self.epilogue.bias[channel..]);
        let (width, padding) = (input[1], padding[1]);
        let load = |row: *const f32, col: usize| {
            let from = row.wrapping_add(col * channels);
            // SAFETY: callers pass a row and a column inside the image.
            unsafe { simd.load_ptr(from) }
        };
        let mut acc = bias;
        if padding == 0 {
            for (row, weights) in rows.iter().zip(weights) {
                acc = load(*row, 0).mul_add(weights[0], acc);
            }
        }
        for out_col in 0..output[1] {
            let (col, mut new) = (2 * out_col + 1 - padding, bias);
            if col + 1 < width {
                for (row, weights) in rows.iter().zip(weights) {
                    acc = load(*row, col).mul_add(weights[1], acc);
                    let x = load(*row, col + 1);
                    acc = x.mul_add(weights[2], acc);
                    new = x.mul_add(weights[0], new);
                }
            } else if col < width {
                for (row, weights) in rows.iter().zip(weights) {
                    acc = load(*row, col).mul_add(weights[1], acc);
                }
            }
            self.store(simd, acc, out_col, range);
            acc = new;
        }
    }

    /// Computes all outputs of a vector of channels for kernels five columns wide.
    #[inline(always)]
    fn five_wide<S: Simd, const STRIDE: usize>(&mut self, simd: S, rows: TapRange, channel: usize) {
        let range = ChannelRange { start: channel, len: S::LANES };
        let last = self.of.output[1] - SLIDING_COLS;
        for col in (0..self.of.output[1]).step_by(SLIDING_COLS) {
            // The last tile overlaps the one before it.
            let col = col.min(last);
            let accumulators = self.sliding_tile::<S, STRIDE>(simd, rows, col, channel);
            for (n, acc) in accumulators.into_iter().enumerate() {
                self.store(simd, acc, col + n, range);
            }
        }
    }

    /// Accumulators of adjacent outputs from column `col` on. Each input column is loaded once per
    /// kernel row.
    #[inline(always)]
    fn sliding_tile<S: Simd, const STRIDE: usize>(
        &self,
        simd: S,
        rows: TapRange,
        col: usize,
        channel: usize,
    ) -> [S::F32; SLIDING_COLS] {
        let DepthwiseNhwc { channels, input, padding, .. } = self.of;
        // Columns to the left of the image wrap, so that the comparison below excludes them.
        let first = (col * STRIDE).wrapping_sub(padding[1]);
        let mut accumulators = [simd.load(&self.epilogue.bias[channel..]); SLIDING_COLS];
        for i in rows.0..rows.1 {
            let (row, from) = self.row_ptrs(i, channel);
            let mut weights = [simd.zero(); 5];
            for (j, weight) in weights.iter_mut().enumerate() {
                // SAFETY: `check` verified that the weights have all taps and channels.
                *weight = unsafe { simd.load_ptr(from.wrapping_add(j * channels)) };
            }
            macro_rules! taps {
                ($column:literal, $x:ident, $($tap:literal)*) => {$(
                    let n = const { sliding_output($column, $tap, STRIDE) };
                    if n < SLIDING_COLS {
                        accumulators[n] = $x.mul_add(weights[$tap], accumulators[n]);
                    }
                )*};
            }
            macro_rules! columns {
                ($($column:literal)*) => {$(
                    let at = first.wrapping_add($column);
                    if const { $column < STRIDE * (SLIDING_COLS - 1) + 5 } && at < input[1] {
                        // SAFETY: the row and the column are inside the image, which `check`
                        // verified to be inside `x`.
                        let x = unsafe { simd.load_ptr(row.wrapping_add(at * channels)) };
                        taps!($column, x, 0 1 2 3 4);
                    }
                )*};
            }
            columns!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
        }
        accumulators
    }

    /// Applies the activation and stores `range.len` channels of output column `col`.
    #[inline(always)]
    fn store<S: Simd>(&mut self, simd: S, acc: S::F32, col: usize, range: ChannelRange) {
        let value = self.epilogue.activation.apply(simd, acc);
        let to = &mut self.out[col * self.of.channels + range.start..][..range.len];
        if range.len == S::LANES { simd.store(value, to) } else { simd.store_partial(value, to) }
    }

    /// Computes `V` vectors of channels of an output at an edge, where only some kernel columns are
    /// inside the image.
    #[inline(always)]
    fn edge<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        rows: TapRange,
        col: usize,
        range: ChannelRange,
    ) {
        let DepthwiseNhwc { input, kernel, stride, dilation, padding, .. } = self.of;
        let left = col * stride[1];
        let first = padding[1].saturating_sub(left).div_ceil(dilation[1]).min(kernel[1]);
        let end = (input[1] + padding[1]).saturating_sub(left).div_ceil(dilation[1]);
        let cols = (first, end.min(kernel[1]).max(first));
        self.tile::<S, 1, V>(simd, rows, cols, col, range);
    }

    /// Computes output columns whose whole kernel is inside the image.
    #[inline(always)]
    fn inner<S: Simd>(
        &mut self,
        simd: S,
        rows: TapRange,
        out_cols: Range<usize>,
        range: ChannelRange,
    ) {
        let cols = (0, self.of.kernel[1]);
        let Range { start: mut col, end } = out_cols;
        if range.len == S::LANES {
            let range = ChannelRange { len: S::LANES, ..range };
            while col + INNER_TILE_COLS <= end {
                self.tile::<S, INNER_TILE_COLS, 1>(simd, rows, cols, col, range);
                col += INNER_TILE_COLS;
            }
            while col + 2 <= end {
                self.tile::<S, 2, 1>(simd, rows, cols, col, range);
                col += 2;
            }
        }
        for col in col..end {
            self.tile::<S, 1, 1>(simd, rows, cols, col, range);
        }
    }

    /// Computes `N` adjacent outputs from column `col` on, for `V` vectors of channels, with the
    /// given kernel rows and columns. Several vectors are whole vectors.
    #[inline(always)]
    fn tile<S: Simd, const N: usize, const V: usize>(
        &mut self,
        simd: S,
        rows: TapRange,
        cols: TapRange,
        col: usize,
        ChannelRange { start: channel, len }: ChannelRange,
    ) {
        let DepthwiseNhwc { channels, stride, dilation, padding, .. } = self.of;
        let mut accumulators = [[simd.zero(); V]; N];
        for (v, bias) in self.epilogue.bias[channel..].chunks(S::LANES).take(V).enumerate() {
            let bias = simd.load_partial(&bias[..len.min(bias.len())]);
            accumulators.iter_mut().for_each(|accumulators| accumulators[v] = bias);
        }
        for i in rows.0..rows.1 {
            let (row, weights) = self.row_ptrs(i, channel);
            for j in cols.0..cols.1 {
                let at = col * stride[1] + j * dilation[1] - padding[1];
                let from = row.wrapping_add(at * channels);
                let weights = weights.wrapping_add(j * channels);
                for v in 0..V {
                    let weight = weights.wrapping_add(v * S::LANES);
                    // SAFETY: `check` verified that the weights have all taps and channels.
                    let weight = unsafe { load(simd, weight, len) };
                    for (n, accumulators) in accumulators.iter_mut().enumerate() {
                        let from = from.wrapping_add(n * stride[1] * channels + v * S::LANES);
                        // SAFETY: the kernel rows and columns are inside the image, which `check`
                        // verified to be inside `x`.
                        let x = unsafe { load(simd, from, len) };
                        accumulators[v] = x.mul_add(weight, accumulators[v]);
                    }
                }
            }
        }
        for (n, accumulators) in accumulators.into_iter().enumerate() {
            for (v, acc) in accumulators.into_iter().enumerate() {
                let range = ChannelRange { start: channel + v * S::LANES, len };
                self.store(simd, acc, col + n, range);
            }
        }
    }
}

/// Loads the first `len` lanes.
///
/// # Safety
/// `ptr` is valid for reads of `len` values; `len` is at most `LANES`.
#[inline(always)]
unsafe fn load<S: Simd>(simd: S, ptr: *const f32, len: usize) -> S::F32 {
    if len == S::LANES {
        // SAFETY: guaranteed by the caller.
        unsafe { simd.load_ptr(ptr) }
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { simd.load_partial_ptr(ptr, len) }
    }
}
