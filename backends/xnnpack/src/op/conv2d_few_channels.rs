//! 2-D convolution of images with few channels, f32 and q8.
//!
//! Strips of image rows are copied with their padding, so that all elements of a kernel row are
//! contiguous: the indirection buffer then needs one offset per kernel row, and inner loops are
//! longer.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use afferent_core::{Element, Error};
use afferent_simd::{
    igemm::{InputRows, OutputRows},
    parallel::{self, Chunks},
};

use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

/// Maximum number of elements of a copied strip, if it has more than one output row.
const MAX_STRIP_ELEMENTS: usize = 12 * 1024;

/// Maximum number of input channels, unless the convolution supports more.
pub(crate) const MAX_CHANNELS: usize = 8;

/// A convolution that can read its taps through offsets of the caller.
pub(crate) trait StripConv2d: Send + Sync {
    /// Element type of input and output.
    type Element: Element;

    fn params(&self) -> &Conv2dParams;

    /// Value of pixels in the padding, as [`StripConv2d::copy`] writes it.
    fn padding_value(&self) -> Self::Element;

    /// Copies pixels to a strip.
    fn copy(&self, from: &[Self::Element], to: &mut [Self::Element]) {
        to.copy_from_slice(from);
    }

    /// Words of workspace that `pixels` output pixels need.
    fn workspace_len(&self, pixels: usize) -> usize;

    /// Computes `pixels` output pixels. `input_rows` has no taps in the padding.
    ///
    /// # Errors
    /// If a slice is too short.
    fn convolve(
        &self,
        x: &[Self::Element],
        pixels: usize,
        input_rows: InputRows<'_>,
        out: OutputRows<'_, Self::Element>,
        workspace: &mut [i32],
    ) -> Result<(), Error>;
}

/// Strip-wise convolution. The sizes are those of the last `reshape`.
pub(crate) struct Conv2dFewChannels<C> {
    conv: C,
    /// Input rows and columns.
    input: [usize; 2],
    /// Output rows and columns.
    output: [usize; 2],
    /// Elements of a padded input row.
    padded_row: usize,
    /// Output rows of a strip.
    strip_rows: usize,
    /// Input rows of a strip.
    strip_input_rows: usize,
    /// Offsets of the kernel rows of each output pixel of a strip.
    offsets: Vec<u32>,
}

/// Returns true if [`Conv2dFewChannels`] supports the convolution, and it has at most `max_channels` input
/// channels.
pub(crate) fn is_supported(params: &Conv2dParams, max_channels: usize) -> bool {
    params.kind == Conv2dKind::Standard
        && params.groups == 1
        && params.group_input_channels <= max_channels
        && params.window.kernel[1] > 1
        && params.window.dilation[1] == 1
}

impl<C: StripConv2d> Conv2dFewChannels<C> {
    pub(crate) fn new(conv: C) -> Self {
        Self {
            conv,
            input: [0; 2],
            output: [0; 2],
            padded_row: 0,
            strip_rows: 1,
            strip_input_rows: 1,
            offsets: Vec::new(),
        }
    }

    /// Computes the output rows of one image from row `first` on; `None` if a slice is too short.
    fn run_rows(
        &self,
        x: &[C::Element],
        first: usize,
        out: &mut [C::Element],
        workspace: &mut [i32],
    ) -> Option<()> {
        let (params, padding) = (*self.conv.params(), self.conv.padding_value());
        let Conv2dParams {
            window,
            group_input_channels: inputs,
            group_output_channels: outputs,
            ..
        } = params;
        let (strip, workspace) = workspace.split_at_mut_checked(self.strip_words())?;
        let strip: &mut [C::Element] = bytemuck::cast_slice_mut(strip);
        let width = self.input[1] * inputs;
        let left = window.padding_before[1] * inputs;
        for (at, out) in out.chunks_mut(self.strip_rows * self.output[1] * outputs).enumerate() {
            let top = (first + at * self.strip_rows) * window.stride[0];
            let rows = strip.chunks_exact_mut(self.padded_row).take(self.strip_input_rows);
            for (row, to) in rows.enumerate() {
                let from = (top + row).checked_sub(window.padding_before[0]);
                let from = from.filter(|from| *from < self.input[0]);
                let unpadded = to.get_mut(left..left + width)?;
                match from {
                    Some(from) => {
                        self.conv.copy(x.get(from * width..(from + 1) * width)?, unpadded);
                        to[..left].fill(padding);
                        to[left + width..].fill(padding);
                    }
                    None => to.fill(padding),
                }
            }
            let (pixels, taps) = (out.len() / outputs, window.kernel[0]);
            let offsets = self.offsets.get(..pixels * taps)?;
            let input_rows = InputRows::Indirect { offsets, taps };
            let out = OutputRows { data: out, offset: 0, row_stride: outputs };
            self.conv.convolve(strip, pixels, input_rows, out, workspace).ok()?;
        }
        Some(())
    }

    /// Words of a copied strip.
    fn strip_words(&self) -> usize {
        let elements = self.strip_input_rows * self.padded_row;
        (elements * size_of::<C::Element>()).div_ceil(size_of::<i32>())
    }
}

impl<C: StripConv2d> Operator for Conv2dFewChannels<C> {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let Conv2dParams { window, group_input_channels: inputs, .. } = *self.conv.params();
        let out = self.conv.params().output_shape(input)?;
        let [batch, height, width, _] = input.nhwc()?;
        let [_, rows, cols, _] = out.nhwc()?;
        let padded_width = width + window.padding_before[1] + window.padding_after[1];
        let padded_height = height + window.padding_before[0] + window.padding_after[0];
        let padded = Shape::of([batch, padded_height, padded_width, inputs]);
        padded.numel()?;
        Shape::of([rows, cols, window.kernel[0]]).numel()?;
        let padded_row = padded_width * inputs;
        let input_rows = |strip: usize| (strip - 1) * window.stride[0] + window.effective_kernel(0);
        let is_small = |strip: &usize| input_rows(*strip) * padded_row <= MAX_STRIP_ELEMENTS;
        let strip_rows = (2..=rows).take_while(is_small).last().unwrap_or(1);
        (self.input, self.output) = ([height, width], [rows, cols]);
        self.padded_row = padded_row;
        (self.strip_rows, self.strip_input_rows) = (strip_rows, input_rows(strip_rows));
        self.offsets.clear();
        let len = strip_rows * cols * window.kernel[0];
        budget.reserve::<u32>(len)?;
        self.offsets.try_reserve_exact(len).map_err(|_| TENSOR_TOO_LARGE)?;
        for (row, col) in (0..strip_rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            let input_row = |i: usize| row * window.stride[0] + i * window.dilation[0];
            let left = col * window.stride[1] * inputs;
            let taps = 0..window.kernel[0];
            self.offsets.extend(taps.map(|i| (input_row(i) * padded_row + left) as u32));
        }
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data()?, output_as(out)?);
        let Conv2dParams { group_input_channels: inputs, group_output_channels: outputs, .. } =
            *self.conv.params();
        let out_row = self.output[1] * outputs;
        let (x_len, out_len) = (self.input[0] * self.input[1] * inputs, self.output[0] * out_row);
        if x_len == 0 || out_len == 0 {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        let strips = self.output[0].div_ceil(self.strip_rows);
        let threads = parallel::threads(cx.workers).min(strips);
        let thread_rows = strips.div_ceil(threads) * self.strip_rows;
        let len = self.strip_words() + self.conv.workspace_len(self.strip_rows * self.output[1]);
        let workspace = grow(&mut cx.scratch.words, len * threads, &mut cx.scratch.budget)?;
        let failed = AtomicBool::new(false);
        for (x, out) in x.chunks_exact(x_len).zip(out.chunks_exact_mut(out_len)) {
            let out = Chunks { data: out, chunk_len: thread_rows * out_row };
            let workspace = Chunks { data: &mut *workspace, chunk_len: len };
            parallel::for_each_chunk_pair(cx.workers, out, workspace, |part, out, workspace| {
                if self.run_rows(x, part * thread_rows, out, workspace).is_none() {
                    failed.store(true, Relaxed);
                }
            });
        }
        if failed.into_inner() { Err(SHAPE_MISMATCH) } else { Ok(()) }
    }
}
