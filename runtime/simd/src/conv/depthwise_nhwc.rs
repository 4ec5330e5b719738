//! Depthwise convolutions of pictures whose channels lie together.

#![expect(unsafe_code, reason = "reads channels through pointers checked an image at a time")]

use afferent_core::Workers;

use crate::{
    Float, Isa, Routine, Simd, SizeError,
    epilogue::BiasActivation,
    parallel::{self, Grain},
};

/// Neighbours of a row that are computed together.
const TOGETHER: usize = 6;

/// Vectors of channels of a position at the edge that are computed together.
const WIDE: usize = 4;

/// Neighbours of a row whose sums wait in registers while columns of the input pass by: widths of
/// pictures often are a multiple of it.
const SLIDE: usize = 7;

/// Which of [`SLIDE`] neighbours, each `step` columns after the last, column `column` of the input
/// is multiplied for with tap `tap`; `SLIDE` when there is none.
const fn neighbour(column: usize, tap: usize, step: usize) -> usize {
    let is_any = column >= tap && (column - tap).is_multiple_of(step);
    if is_any && (column - tap) / step < SLIDE { (column - tap) / step } else { SLIDE }
}

/// A convolution in which each channel has a kernel of its own.
#[derive(Debug, Clone, Copy)]
pub struct DepthwiseNhwc<'d> {
    /// Pictures: `batch`, rows, columns, channels.
    pub x: &'d [f32],
    /// The row of `x` that is the first one; behind its last row come those before this one.
    pub first_row: usize,
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
    /// Positions between neighbours of the result, at least 1.
    pub stride: [usize; 2],
    /// Positions between neighbours of the kernel, at least 1.
    pub dilation: [usize; 2],
    /// Zeros above and on the left.
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
        let lines = self.check(&epilogue, out.len())?;
        let Self { batch, channels, output, kernel, .. } = *self;
        let (rows, len) = (batch * output[0], output[1] * channels);
        if rows == 0 || len == 0 {
            return Ok(());
        }
        let macs = out.len().saturating_mul(kernel[0] * kernel[1]);
        let tasks = Grain::DEPTHWISE_NHWC.tasks(macs, parallel::threads(workers));
        let share = rows.div_ceil(tasks);
        parallel::for_each_chunk(workers, out, share * len, |task, out| {
            for (row, out) in (task * share..).zip(out.chunks_exact_mut(len)) {
                isa.run(Row { of: *self, row, lines, epilogue, out });
            }
        });
        Ok(())
    }

    /// Checks all slices and parameters, and returns the rows that `x` holds.
    fn check(&self, epilogue: &BiasActivation<'_>, out_len: usize) -> Result<usize, SizeError> {
        let product = |factors: &[usize]| {
            factors.iter().try_fold(1_usize, |product, factor| product.checked_mul(*factor))
        };
        let Self { batch, channels, input, output, kernel, .. } = *self;
        let overflow = SizeError::Overflow { slice: "x" };
        let row_len = product(&[input[1], channels]).ok_or(overflow)?;
        let lines = self.x.len().checked_div(row_len).unwrap_or(0);
        let x_len = product(&[batch, input[0], input[1], channels]);
        SizeError::check_min("x", self.x.len(), x_len)?;
        let starts_inside = self.first_row == 0 || self.first_row < lines;
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
        Ok(lines)
    }
}

struct Row<'r, 'd> {
    of: DepthwiseNhwc<'d>,
    row: usize,
    /// Rows of the input in memory.
    lines: usize,
    epilogue: BiasActivation<'r>,
    out: &'r mut [f32],
}

impl Routine for Row<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let DepthwiseNhwc { channels, input, output, kernel, stride, dilation, padding, .. } =
            self.of;
        let top = self.row % output[0] * stride[0];
        // Kernel rows that meet the picture.
        let from = padding[0].saturating_sub(top).div_ceil(dilation[0]).min(kernel[0]);
        let reach = (input[0] + padding[0]).saturating_sub(top).div_ceil(dilation[0]);
        let rows = (from, reach.min(kernel[0]).max(from));
        let small = kernel[1] == 3
            && dilation[1] == 1
            && padding[1] <= 1
            && input[1] >= 3
            && output[1] * stride[1] + 2 >= input[1] + padding[1];
        let mut channel = 0;
        while small && channel + S::LANES <= channels {
            match (rows.1 - rows.0, stride[1]) {
                (1, 1) => self.next::<S, 1>(simd, rows.0, channel),
                (2, 1) => self.next::<S, 2>(simd, rows.0, channel),
                (3, 1) => self.next::<S, 3>(simd, rows.0, channel),
                (1, 2) => self.every_second::<S, 1>(simd, rows.0, channel),
                (2, 2) => self.every_second::<S, 2>(simd, rows.0, channel),
                (3, 2) => self.every_second::<S, 3>(simd, rows.0, channel),
                _ => break,
            }
            channel += S::LANES;
        }
        let slides = kernel[1] == 5 && dilation[1] == 1 && output[1] >= SLIDE;
        while slides && channel + S::LANES <= channels {
            match stride[1] {
                1 => self.slide::<S, 1>(simd, rows, channel),
                2 => self.slide::<S, 2>(simd, rows, channel),
                _ => break,
            }
            channel += S::LANES;
        }
        // Columns of the result whose whole kernel meets the picture.
        let first = padding[1].div_ceil(stride[1]).min(output[1]);
        let span = (kernel[1].max(1) - 1) * dilation[1] + 1;
        let last = (input[1] + padding[1]).checked_sub(span).map_or(0, |end| end / stride[1] + 1);
        let last = last.min(output[1]).max(first);
        while channel + WIDE * S::LANES <= channels {
            for col in (0..first).chain(last..output[1]) {
                self.edge::<S, WIDE>(simd, rows, col, (channel, S::LANES));
            }
            for vector in 0..WIDE {
                let part = (channel + vector * S::LANES, S::LANES);
                self.middle(simd, rows, (first, last), part);
            }
            channel += WIDE * S::LANES;
        }
        while channel < channels {
            let len = S::LANES.min(channels - channel);
            for col in (0..first).chain(last..output[1]) {
                self.edge::<S, 1>(simd, rows, col, (channel, len));
            }
            self.middle(simd, rows, (first, last), (channel, len));
            channel += len;
        }
    }
}

impl Row<'_, '_> {
    /// Where row `i` of the kernel begins in the input and in the weights, for a channel.
    #[inline(always)]
    fn line(&self, i: usize, channel: usize) -> (*const f32, *const f32) {
        let DepthwiseNhwc {
            x, first_row, channels, input, output, stride, dilation, padding, ..
        } = self.of;
        let picture = self.row / output[0] * input[0];
        let row = picture + self.row % output[0] * stride[0] + i * dilation[0] - padding[0];
        let row = first_row + row;
        let row = if row < self.lines { row } else { row - self.lines };
        let x = x.as_ptr().wrapping_add(row * input[1] * channels + channel);
        let weights = self.of.weights.as_ptr();
        (x, weights.wrapping_add(i * self.of.kernel[1] * channels + channel))
    }

    /// The weights of `R` rows, three wide, and where the rows are in the input.
    ///
    /// # Safety
    /// There are so many rows from `first` on, and a whole vector of channels.
    #[inline(always)]
    unsafe fn three<S: Simd, const R: usize>(
        &self,
        simd: S,
        first: usize,
        channel: usize,
    ) -> ([*const f32; R], [[S::F32; 3]; R]) {
        let mut lines = [self.of.x.as_ptr(); R];
        let mut weights = [[simd.zero(); 3]; R];
        for (r, (line, weights)) in lines.iter_mut().zip(&mut weights).enumerate() {
            let (x, from) = self.line(first + r, channel);
            *line = x;
            for (j, weight) in weights.iter_mut().enumerate() {
                // SAFETY: `write` saw that the weights have all taps and channels.
                *weight = unsafe { simd.load_ptr(from.wrapping_add(j * self.of.channels)) };
            }
        }
        (lines, weights)
    }

    /// A row of results for a vector of channels, of `R` rows of a kernel three wide, each result
    /// one column after the last: every column of the input is read once, for three results.
    #[inline(always)]
    fn next<S: Simd, const R: usize>(&mut self, simd: S, first: usize, channel: usize) {
        let DepthwiseNhwc { channels, input, output, padding, .. } = self.of;
        // SAFETY: the caller has so many rows and channels.
        let (lines, weights) = unsafe { self.three::<S, R>(simd, first, channel) };
        let bias = simd.load(&self.epilogue.bias[channel..]);
        let (width, pad) = (input[1], padding[1]);
        // Results that lack their second and their third column.
        let (mut second, mut third) = (bias, bias);
        for col in 0..width {
            let (mut done, mut new) = (third, bias);
            third = second;
            for (line, weights) in lines.iter().zip(weights) {
                // SAFETY: the row and the column are in the picture, which `write` saw inside `x`.
                let x = unsafe { simd.load_ptr(line.wrapping_add(col * channels)) };
                done = x.mul_add(weights[2], done);
                third = x.mul_add(weights[1], third);
                new = x.mul_add(weights[0], new);
            }
            second = new;
            if col + pad >= 2 {
                self.put(simd, done, col + pad - 2, (channel, S::LANES));
            }
        }
        // Results beyond the last column of the input.
        for (at, sums) in [(width + pad - 2, third), (width + pad - 1, second)] {
            if at < output[1] {
                self.put(simd, sums, at, (channel, S::LANES));
            }
        }
        for at in width + pad..output[1] {
            self.put(simd, bias, at, (channel, S::LANES));
        }
    }

    /// As `next`, each result two columns after the last.
    #[inline(always)]
    fn every_second<S: Simd, const R: usize>(&mut self, simd: S, first: usize, channel: usize) {
        let DepthwiseNhwc { channels, input, output, padding, .. } = self.of;
        // SAFETY: the caller has so many rows and channels.
        let (lines, weights) = unsafe { self.three::<S, R>(simd, first, channel) };
        let bias = simd.load(&self.epilogue.bias[channel..]);
        let (width, pad) = (input[1], padding[1]);
        let load = |line: *const f32, col: usize| {
            let from = line.wrapping_add(col * channels);
            // SAFETY: callers name a row and a column in the picture.
            unsafe { simd.load_ptr(from) }
        };
        let mut sums = bias;
        if pad == 0 {
            for (line, weights) in lines.iter().zip(weights) {
                sums = load(*line, 0).mul_add(weights[0], sums);
            }
        }
        for at in 0..output[1] {
            let (col, mut new) = (2 * at + 1 - pad, bias);
            if col + 1 < width {
                for (line, weights) in lines.iter().zip(weights) {
                    sums = load(*line, col).mul_add(weights[1], sums);
                    let x = load(*line, col + 1);
                    sums = x.mul_add(weights[2], sums);
                    new = x.mul_add(weights[0], new);
                }
            } else if col < width {
                for (line, weights) in lines.iter().zip(weights) {
                    sums = load(*line, col).mul_add(weights[1], sums);
                }
            }
            self.put(simd, sums, at, (channel, S::LANES));
            sums = new;
        }
    }

    /// A row of results for a vector of channels, of a kernel five wide, each result `STEP` columns
    /// after the last.
    #[inline(always)]
    fn slide<S: Simd, const STEP: usize>(&mut self, simd: S, rows: (usize, usize), channel: usize) {
        let last = self.of.output[1] - SLIDE;
        for col in (0..self.of.output[1]).step_by(SLIDE) {
            // What is left over is computed with some that were written before.
            let col = col.min(last);
            let sums = self.neighbours::<S, STEP>(simd, rows, col, channel);
            for (n, sums) in sums.into_iter().enumerate() {
                self.put(simd, sums, col + n, (channel, S::LANES));
            }
        }
    }

    /// The sums of neighbours from column `col` on: for each row of the kernel, every column of the
    /// input is read once.
    #[inline(always)]
    fn neighbours<S: Simd, const STEP: usize>(
        &self,
        simd: S,
        rows: (usize, usize),
        col: usize,
        channel: usize,
    ) -> [S::F32; SLIDE] {
        let DepthwiseNhwc { channels, input, padding, .. } = self.of;
        // Columns on the left of the picture wrap, and are not inside of it.
        let first = (col * STEP).wrapping_sub(padding[1]);
        let mut sums = [simd.load(&self.epilogue.bias[channel..]); SLIDE];
        for i in rows.0..rows.1 {
            let (line, from) = self.line(i, channel);
            let mut weights = [simd.zero(); 5];
            for (j, weight) in weights.iter_mut().enumerate() {
                // SAFETY: `write` saw that the weights have all taps and channels.
                *weight = unsafe { simd.load_ptr(from.wrapping_add(j * channels)) };
            }
            macro_rules! taps {
                ($column:literal, $x:ident, $($tap:literal)*) => {$(
                    let n = const { neighbour($column, $tap, STEP) };
                    if n < SLIDE {
                        sums[n] = $x.mul_add(weights[$tap], sums[n]);
                    }
                )*};
            }
            macro_rules! columns {
                ($($column:literal)*) => {$(
                    let at = first.wrapping_add($column);
                    if const { $column < STEP * (SLIDE - 1) + 5 } && at < input[1] {
                        // SAFETY: the row and the column are in the picture, which `write` saw
                        // inside `x`.
                        let x = unsafe { simd.load_ptr(line.wrapping_add(at * channels)) };
                        taps!($column, x, 0 1 2 3 4);
                    }
                )*};
            }
            columns!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
        }
        sums
    }

    /// Writes the first `len` sums of column `col` from `channel` on.
    #[inline(always)]
    fn put<S: Simd>(&mut self, simd: S, sums: S::F32, col: usize, (channel, len): (usize, usize)) {
        let sums = self.epilogue.activation.apply(simd, sums);
        let to = &mut self.out[col * self.of.channels + channel..][..len];
        if len == S::LANES { simd.store(sums, to) } else { simd.store_partial(sums, to) }
    }

    /// `V` vectors of channels of a position at the edge, where only some columns of the kernel
    /// meet the picture.
    #[inline(always)]
    fn edge<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        rows: (usize, usize),
        col: usize,
        part: (usize, usize),
    ) {
        let DepthwiseNhwc { input, kernel, stride, dilation, padding, .. } = self.of;
        let left = col * stride[1];
        let from = padding[1].saturating_sub(left).div_ceil(dilation[1]).min(kernel[1]);
        let reach = (input[1] + padding[1]).saturating_sub(left).div_ceil(dilation[1]);
        let cols = (from, reach.min(kernel[1]).max(from));
        self.some::<S, 1, V>(simd, rows, cols, col, part);
    }

    /// Positions whose whole kernel meets the picture.
    #[inline(always)]
    fn middle<S: Simd>(
        &mut self,
        simd: S,
        rows: (usize, usize),
        (mut col, last): (usize, usize),
        part: (usize, usize),
    ) {
        let cols = (0, self.of.kernel[1]);
        if part.1 == S::LANES {
            while col + TOGETHER <= last {
                self.some::<S, TOGETHER, 1>(simd, rows, cols, col, (part.0, S::LANES));
                col += TOGETHER;
            }
            while col + 2 <= last {
                self.some::<S, 2, 1>(simd, rows, cols, col, (part.0, S::LANES));
                col += 2;
            }
        }
        for col in col..last {
            self.some::<S, 1, 1>(simd, rows, cols, col, part);
        }
    }

    /// `N` neighbours from column `col` on, of which the given rows and columns of the kernel meet
    /// the picture; `V` vectors of channels, whole ones when they are several.
    #[inline(always)]
    fn some<S: Simd, const N: usize, const V: usize>(
        &mut self,
        simd: S,
        rows: (usize, usize),
        cols: (usize, usize),
        col: usize,
        (channel, len): (usize, usize),
    ) {
        let DepthwiseNhwc { channels, stride, dilation, padding, .. } = self.of;
        let mut sums = [[simd.zero(); V]; N];
        for (v, bias) in self.epilogue.bias[channel..].chunks(S::LANES).take(V).enumerate() {
            let bias = simd.load_partial(&bias[..len.min(bias.len())]);
            sums.iter_mut().for_each(|sums| sums[v] = bias);
        }
        for i in rows.0..rows.1 {
            let (line, weights) = self.line(i, channel);
            for j in cols.0..cols.1 {
                let at = col * stride[1] + j * dilation[1] - padding[1];
                let from = line.wrapping_add(at * channels);
                let weights = weights.wrapping_add(j * channels);
                for v in 0..V {
                    let weight = weights.wrapping_add(v * S::LANES);
                    // SAFETY: `write` saw that the weights have all taps and channels.
                    let weight = unsafe { load(simd, weight, len) };
                    for (n, sums) in sums.iter_mut().enumerate() {
                        let from = from.wrapping_add(n * stride[1] * channels + v * S::LANES);
                        // SAFETY: rows and columns were chosen so that the position is inside the
                        // picture, of which `write` saw that it is inside `x`.
                        let x = unsafe { load(simd, from, len) };
                        sums[v] = x.mul_add(weight, sums[v]);
                    }
                }
            }
        }
        for (n, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                self.put(simd, sum, col + n, (channel + v * S::LANES, len));
            }
        }
    }
}

/// The first `len` numbers.
///
/// # Safety
/// So many can be read there, `LANES` at most.
#[inline(always)]
unsafe fn load<S: Simd>(simd: S, from: *const f32, len: usize) -> S::F32 {
    if len == S::LANES {
        // SAFETY: demanded of the caller.
        unsafe { simd.load_ptr(from) }
    } else {
        // SAFETY: demanded of the caller.
        unsafe { simd.load_partial_ptr(from, len) }
    }
}
