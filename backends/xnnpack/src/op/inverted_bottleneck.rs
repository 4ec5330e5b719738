//! Inverted bottleneck of MobileNet: expand, depthwise, project, in one operator.
//!
//! It computes strips of rows through all convolutions, so that the intermediate tensors stay in
//! the cache.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use afferent_core::{Error, Workers};
use afferent_simd::{
    Isa,
    conv::depthwise_nhwc::DepthwiseNhwc,
    parallel::{self, Chunks},
};

use super::{conv2d::Conv2d, depthwise_conv2d::DepthwiseConv2d};
use crate::{
    error::SHAPE_MISMATCH,
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

/// Intermediate elements up to which an image is computed as a single strip.
const MAX_SINGLE_STRIP_ELEMENTS: usize = 128 * 1024;

/// Intermediate elements of a strip, if there are several and they have more than one output row.
const MAX_STRIP_ELEMENTS: usize = 48 * 1024;

/// A depthwise convolution between two pointwise ones. Expand is optional.
pub(crate) struct InvertedBottleneck {
    expand: Option<Conv2d>,
    depthwise: DepthwiseConv2d,
    project: Conv2d,
    sizes: Sizes,
}

/// Sizes of one image, set by `reshape`.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    /// Rows and columns of the depthwise input.
    input: [usize; 2],
    /// Rows and columns of the depthwise output.
    output: [usize; 2],
    /// Elements of a row.
    row: RowLens,
    /// Output rows of a strip, if there are several strips.
    strip_rows: usize,
}

/// Elements of a row of each tensor.
#[derive(Debug, Clone, Copy, Default)]
struct RowLens {
    input: usize,
    expanded: usize,
    depthwise: usize,
    output: usize,
}

/// Consecutive output rows of an image, computed strip by strip.
#[derive(Clone, Copy)]
struct RowRange {
    first: usize,
    strip_rows: usize,
}

impl InvertedBottleneck {
    pub(crate) fn new(expand: Option<Conv2d>, depthwise: DepthwiseConv2d, project: Conv2d) -> Self {
        Self { expand, depthwise, project, sizes: Sizes::default() }
    }

    /// Input rows that `rows` output rows read.
    fn input_rows(&self, rows: usize) -> usize {
        let window = self.depthwise.params.window;
        let last = (rows.max(1) - 1).saturating_mul(window.stride[0]);
        last.saturating_add(window.effective_kernel(0)).min(self.sizes.input[0])
    }

    /// Elements of the expanded rows for `rows` output rows.
    fn expanded_len(&self, rows: usize) -> usize {
        let row = if self.expand.is_some() { self.sizes.row.expanded } else { 0 };
        self.input_rows(rows).saturating_mul(row)
    }

    /// Elements of the intermediate tensors for `rows` output rows.
    fn intermediate_len(&self, rows: usize) -> usize {
        self.expanded_len(rows).saturating_add(rows.saturating_mul(self.sizes.row.depthwise))
    }

    /// Computes consecutive output rows of one image.
    fn run_rows(
        &self,
        workers: Option<&dyn Workers>,
        x: &[f32],
        RowRange { first, strip_rows }: RowRange,
        out: &mut [f32],
        memory: &mut [f32],
    ) -> Result<(), Error> {
        let Sizes { input, output, row, .. } = self.sizes;
        let window = self.depthwise.params.window;
        let expanded_len = self.expanded_len(strip_rows);
        let (expanded, depthwise) =
            memory.split_at_mut_checked(expanded_len).ok_or(SHAPE_MISMATCH)?;
        // Expanded rows form a ring buffer, because consecutive strips share some of them.
        let ring_rows = expanded.len().checked_div(row.expanded).unwrap_or(0);
        let mut expanded_end = 0;
        for (at, out) in out.chunks_mut(strip_rows * row.output).enumerate() {
            let (start, count) = (first + at * strip_rows, out.len() / row.output);
            let top = start * window.stride[0];
            let from = top.saturating_sub(window.padding_before[0]).min(input[0]);
            let end = top + (count - 1) * window.stride[0] + window.effective_kernel(0);
            let to = end.saturating_sub(window.padding_before[0]).clamp(from, input[0]);
            let (source, first_row) = if let Some(expand) = &self.expand {
                let mut next = expanded_end.clamp(from, to);
                while next < to {
                    let slot = next.checked_rem(ring_rows).ok_or(SHAPE_MISMATCH)?;
                    let fresh = (to - next).min(ring_rows - slot);
                    let x = x.get(next * row.input..(next + fresh) * row.input);
                    let to = &mut expanded[slot * row.expanded..(slot + fresh) * row.expanded];
                    expand.pointwise(workers, x.ok_or(SHAPE_MISMATCH)?, to)?;
                    next += fresh;
                }
                expanded_end = to;
                (&*expanded, from.checked_rem(ring_rows).unwrap_or(0))
            } else {
                (x.get(from * row.expanded..to * row.expanded).ok_or(SHAPE_MISMATCH)?, 0)
            };
            let depthwise = depthwise.get_mut(..count * row.depthwise).ok_or(SHAPE_MISMATCH)?;
            let padding_top = window.padding_before[0].saturating_sub(top);
            let sizes = ([to - from, input[1]], [count, output[1]]);
            let conv = DepthwiseNhwc {
                first_row,
                padding: [padding_top, window.padding_before[1]],
                ..self.depthwise.convolution(source, 1, sizes.0, sizes.1)
            };
            self.depthwise.compute(Isa::best(), workers, conv, depthwise)?;
            self.project.pointwise(workers, depthwise, out)?;
        }
        Ok(())
    }
}

impl Operator for InvertedBottleneck {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = *unary_input(inputs)?;
        let expanded = match &mut self.expand {
            Some(expand) => expand.reshape(&[input], budget)?,
            None => input,
        };
        let depthwise = self.depthwise.reshape(&[expanded], budget)?;
        let out = self.project.reshape(&[depthwise], budget)?;
        let [_, height, width, channels] = expanded.nhwc()?;
        let [_, rows, cols, outputs] = out.nhwc()?;
        self.sizes = Sizes {
            input: [height, width],
            output: [rows, cols],
            row: RowLens {
                input: width * input[3],
                expanded: width * channels,
                depthwise: cols * channels,
                output: cols * outputs,
            },
            strip_rows: 1,
        };
        let is_small = |rows: &usize| self.intermediate_len(*rows) <= MAX_STRIP_ELEMENTS;
        self.sizes.strip_rows = (2..=rows).take_while(is_small).last().unwrap_or(1);
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data::<f32>()?, output_as::<f32>(out)?);
        let Sizes { input, output, row, strip_rows } = self.sizes;
        let (x_len, out_len) = (input[0] * row.input, output[0] * row.output);
        if out_len == 0 || x_len == 0 {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        let threads = parallel::threads(cx.workers);
        // A small image is a single strip: threads share each convolution, and no row is expanded
        // twice. Otherwise each thread computes its own strips.
        let is_single = self.intermediate_len(output[0]) <= MAX_SINGLE_STRIP_ELEMENTS;
        let (threads, strip_rows) =
            if is_single { (1, output[0]) } else { (threads.min(output[0]), strip_rows) };
        let inner_workers = if threads > 1 { None } else { cx.workers };
        let thread_rows = output[0].div_ceil(threads);
        let len = self.intermediate_len(strip_rows).max(1);
        let memory = grow(&mut cx.scratch.floats, len * threads, &mut cx.scratch.budget)?;
        let failed = AtomicBool::new(false);
        for (x, out) in x.chunks_exact(x_len).zip(out.chunks_exact_mut(out_len)) {
            let out = Chunks { data: out, chunk_len: thread_rows * row.output };
            let memory = Chunks { data: &mut *memory, chunk_len: len };
            parallel::for_each_chunk_pair(cx.workers, out, memory, |part, out, memory| {
                let rows = RowRange { first: part * thread_rows, strip_rows };
                if self.run_rows(inner_workers, x, rows, out, memory).is_err() {
                    failed.store(true, Relaxed);
                }
            });
        }
        if failed.into_inner() { Err(SHAPE_MISMATCH) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conv2d_params::{Conv2dKind, Conv2dParams},
        pack::{depthwise::DepthwiseF32, weight_cache::WeightPacker},
        testing::{self, close, floats, same_window},
        window::Window,
    };

    const CLAMP: (f32, f32) = (-1.0, 2.0);

    fn run(op: &mut dyn Operator, x: &[f32], shape: Shape, threads: usize) -> (Vec<f32>, Shape) {
        testing::run(op, x, shape, f32::NAN, threads)
    }

    fn pointwise(inputs: usize, outputs: usize) -> Conv2d {
        let params = Conv2dParams {
            kind: Conv2dKind::Standard,
            window: same_window(1, 1),
            groups: 1,
            group_input_channels: inputs,
            group_output_channels: outputs,
        };
        let (filter, bias) = (floats(inputs * outputs), floats(outputs));
        let packer = WeightPacker::default();
        Conv2d::new(&packer, params, &filter, Some(&bias), CLAMP.into()).unwrap()
    }

    fn depthwise(groups: usize, window: Window) -> DepthwiseConv2d {
        let params = Conv2dParams {
            kind: Conv2dKind::Depthwise,
            window,
            groups,
            group_input_channels: 1,
            group_output_channels: 1,
        };
        let (filter, bias) = (floats(groups * window.taps()), floats(groups));
        let packer = WeightPacker::default();
        let packed = DepthwiseF32::new(&packer, &params, &filter, Some(&bias)).unwrap();
        DepthwiseConv2d { params, packed, activation: CLAMP.into() }
    }

    #[test]
    fn strips_match_the_separate_convolutions() {
        // Input and expanded channels, rows, columns, kernel, stride; two images.
        let cases = [
            (8, 100, 31, 29, 3, 1),
            (8, 100, 31, 29, 3, 2),
            (5, 37, 61, 50, 5, 2),
            (3, 20, 7, 9, 3, 1),
            (4, 64, 40, 41, 1, 3),
        ];
        for (channels, expanded, rows, cols, kernel, stride) in cases {
            let shape = Shape::of([2, rows, cols, channels]);
            let x = floats(shape.numel().unwrap());
            let window = same_window(kernel, stride);
            let (a, a_shape) = run(&mut pointwise(channels, expanded), &x, shape, 1);
            let (b, b_shape) = run(&mut depthwise(expanded, window), &a, a_shape, 1);
            let (expected, _) = run(&mut pointwise(expanded, 11), &b, b_shape, 1);
            for threads in [1, 2, 3] {
                let fused = |expand: Option<Conv2d>| {
                    let (depthwise, project) =
                        (depthwise(expanded, window), pointwise(expanded, 11));
                    InvertedBottleneck::new(expand, depthwise, project)
                };
                let mut with_expand = fused(Some(pointwise(channels, expanded)));
                close(&run(&mut with_expand, &x, shape, threads).0, &expected);
                close(&run(&mut fused(None), &a, a_shape, threads).0, &expected);
            }
        }
    }
}
