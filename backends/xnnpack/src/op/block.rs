//! A convolution of each channel between two products, as mobile networks have them: expand,
//! convolve, project.
//!
//! It is computed some rows at a time, so that what lies between the three never leaves the cache.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use afferent_core::{Error, Workers};
use afferent_simd::{
    Isa,
    conv::depthwise_nhwc::DepthwiseNhwc,
    epilogue::BiasActivation,
    parallel::{self, Chunks},
};

use super::{Cx, Input, Op, conv::Conv, depthwise::Depthwise, elements, only, some};
use crate::shape::{MISFIT, Room, Shape};

/// Numbers between the convolutions that all rows together may take.
const WHOLE: usize = 128 * 1024;

/// Numbers between the convolutions that the rows of a strip should take, when there are several.
const STRIP: usize = 48 * 1024;

/// Two or three convolutions, one after the other.
pub(crate) struct Block {
    /// Of each pixel by itself.
    expand: Option<Conv>,
    middle: Depthwise,
    /// Of each pixel by itself.
    project: Conv,
    sizes: Sizes,
}

/// Sizes of a picture on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    /// Rows and columns before and after the convolution in the middle.
    input: [usize; 2],
    output: [usize; 2],
    /// Numbers of a row of the block's input, before and after the middle, and of the result.
    row: [usize; 4],
    /// Rows of the result that are computed together where they are not all.
    strip: usize,
}

impl Block {
    pub(crate) fn new(expand: Option<Conv>, middle: Depthwise, project: Conv) -> Self {
        Self { expand, middle, project, sizes: Sizes::default() }
    }

    /// Rows of the picture that so many rows of the result meet.
    fn reach(&self, rows: usize) -> usize {
        let window = self.middle.sizes.window;
        let last = (rows.max(1) - 1).saturating_mul(window.stride[0]);
        last.saturating_add(window.span(0)).min(self.sizes.input[0])
    }

    /// Numbers of memory before and after the middle for so many rows of the result.
    fn memory(&self, rows: usize) -> [usize; 2] {
        let Sizes { row, .. } = self.sizes;
        let expanded = if self.expand.is_some() { row[1] } else { 0 };
        [self.reach(rows).saturating_mul(expanded), rows.saturating_mul(row[2])]
    }

    /// The rows of a picture's result from `first` on, `strip` of them at a time.
    fn rows(
        &self,
        workers: Option<&dyn Workers>,
        x: &[f32],
        (first, strip): (usize, usize),
        out: &mut [f32],
        memory: &mut [f32],
    ) -> Result<(), Error> {
        let Sizes { input, output, row, .. } = self.sizes;
        let window = self.middle.sizes.window;
        let expanded = self.memory(strip)[0];
        let (expanded, deep) = memory.split_at_mut_checked(expanded).ok_or(MISFIT)?;
        // Rows go round in this memory, so that those which the next ones need too stay.
        let ring = expanded.len().checked_div(row[1]).unwrap_or(0);
        let mut have = 0;
        for (at, out) in out.chunks_mut(strip * row[3]).enumerate() {
            let (start, count) = (first + at * strip, out.len() / row[3]);
            let top = start * window.stride[0];
            let from = top.saturating_sub(window.before[0]).min(input[0]);
            let end = top + (count - 1) * window.stride[0] + window.span(0);
            let to = end.saturating_sub(window.before[0]).clamp(from, input[0]);
            let (source, first) = if let Some(expand) = &self.expand {
                let mut next = have.clamp(from, to);
                while next < to {
                    let place = next.checked_rem(ring).ok_or(MISFIT)?;
                    let fresh = (to - next).min(ring - place);
                    let x = x.get(next * row[0]..(next + fresh) * row[0]).ok_or(MISFIT)?;
                    let to = &mut expanded[place * row[1]..(place + fresh) * row[1]];
                    expand.pixels(workers, x, to)?;
                    next += fresh;
                }
                have = to;
                (&*expanded, from.checked_rem(ring).unwrap_or(0))
            } else {
                (x.get(from * row[1]..to * row[1]).ok_or(MISFIT)?, 0)
            };
            let deep = deep.get_mut(..count * row[2]).ok_or(MISFIT)?;
            let conv = DepthwiseNhwc {
                x: source,
                first_row: first,
                batch: 1,
                channels: self.middle.sizes.groups,
                input: [to - from, input[1]],
                output: [count, output[1]],
                kernel: window.kernel,
                stride: window.stride,
                dilation: window.dilation,
                padding: [window.before[0].saturating_sub(top), window.before[1]],
                weights: &self.middle.weights,
            };
            let (bias, activation) = (&self.middle.bias[..], self.middle.then);
            let epilogue = BiasActivation { bias, activation };
            conv.run(Isa::best(), epilogue, deep, workers).or(Err(MISFIT))?;
            self.project.pixels(workers, deep, out)?;
        }
        Ok(())
    }
}

fn sum(parts: [usize; 2]) -> usize {
    parts[0].saturating_add(parts[1])
}

impl Op for Block {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let input = *only(inputs)?;
        let expanded = match &mut self.expand {
            Some(expand) => expand.shape(&[input], room)?,
            None => input,
        };
        let deep = self.middle.shape(&[expanded], room)?;
        let out = self.project.shape(&[deep], room)?;
        let [_, height, width, channels] = expanded.picture()?;
        let [_, rows, cols, outputs] = out.picture()?;
        self.sizes = Sizes {
            input: [height, width],
            output: [rows, cols],
            row: [width * input[3], width * channels, cols * channels, cols * outputs],
            strip: 1,
        };
        let more = |strip: &usize| sum(self.memory(*strip)) <= STRIP;
        self.sizes.strip = (2..=rows).take_while(more).last().unwrap_or(1);
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data::<f32>()?, elements::<f32>(out)?);
        let Sizes { input, output, row, strip } = self.sizes;
        let (before, after) = (input[0] * row[0], output[0] * row[3]);
        if after == 0 || before == 0 {
            return if out.is_empty() { Ok(()) } else { Err(MISFIT) };
        }
        let threads = cx.workers.map_or(1, Workers::threads);
        // All rows together: threads share each convolution, and none computes rows of another.
        let whole = sum(self.memory(output[0])) <= WHOLE;
        let (threads, strip) = if whole { (1, output[0]) } else { (threads.min(output[0]), strip) };
        let inner = if threads > 1 { None } else { cx.workers };
        let share = output[0].div_ceil(threads);
        let len = sum(self.memory(strip)).max(1);
        let buffer = some(&mut cx.scratch.floats, len * threads, &mut cx.scratch.room)?;
        let failed = AtomicBool::new(false);
        for (x, out) in x.chunks_exact(before).zip(out.chunks_exact_mut(after)) {
            let out = Chunks { data: out, chunk_len: share * row[3] };
            let memory = Chunks { data: &mut *buffer, chunk_len: len };
            parallel::for_each_chunk_pair(cx.workers, out, memory, |part, out, memory| {
                if self.rows(inner, x, (part * share, strip), out, memory).is_err() {
                    failed.store(true, Relaxed);
                }
            });
        }
        if failed.into_inner() { Err(MISFIT) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::ConvKind,
        op::{
            conv,
            keep::Keep,
            narrow::Narrow,
            trial::{self, numbers},
        },
        shape::Window,
    };

    const CLAMP: (f32, f32) = (-1.0, 2.0);

    fn run(op: &mut dyn Op, x: &[f32], shape: Shape, threads: usize) -> (Vec<f32>, Shape) {
        trial::run(op, x, shape, f32::NAN, threads)
    }

    fn conv(inputs: usize, outputs: usize, window: Window) -> Conv {
        let sizes = conv::Sizes { kind: ConvKind::Plain, window, groups: 1, inputs, outputs };
        let weights = numbers(inputs * outputs * window.taps());
        Conv::new(&Keep::default(), sizes, &weights, Some(&numbers(outputs)), CLAMP.into()).unwrap()
    }

    fn window(kernel: usize, stride: usize) -> Window {
        let (kernel, padding) = ([kernel; 2], [kernel / 2; 2]);
        Window { kernel, stride: [stride; 2], dilation: [1; 2], before: padding, after: padding }
    }

    fn middle(groups: usize, window: Window) -> Depthwise {
        let sizes =
            conv::Sizes { kind: ConvKind::Depthwise, window, groups, inputs: 1, outputs: 1 };
        let (weights, bias) = (numbers(groups * window.taps()), numbers(groups));
        Depthwise::new(&Keep::default(), sizes, &weights, Some(&bias), CLAMP.into()).unwrap()
    }

    fn close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4;
        assert!(found.iter().zip(expected).all(close));
    }

    #[test]
    fn strips_are_what_the_convolutions_give() {
        // Two pictures: channels, those between, rows, columns, kernel, stride.
        let cases = [
            (8, 100, 31, 29, 3, 1),
            (8, 100, 31, 29, 3, 2),
            (5, 37, 61, 50, 5, 2),
            (3, 20, 7, 9, 3, 1),
            (4, 64, 40, 41, 1, 3),
        ];
        for (channels, between, rows, cols, kernel, stride) in cases {
            let shape = Shape::of([2, rows, cols, channels]);
            let x = numbers(shape.numel().unwrap());
            let window_of = window(kernel, stride);
            let one = window(1, 1);
            let (deep, deep_shape) = run(&mut conv(channels, between, one), &x, shape, 1);
            let (mid, mid_shape) = run(&mut middle(between, window_of), &deep, deep_shape, 1);
            let (expected, _) = run(&mut conv(between, 11, one), &mid, mid_shape, 1);
            for threads in [1, 2, 3] {
                let parts = (middle(between, window_of), conv(between, 11, one));
                let first = Some(conv(channels, between, one));
                let mut block = Block::new(first, parts.0, parts.1);
                close(&run(&mut block, &x, shape, threads).0, &expected);
                let parts = (middle(between, window_of), conv(between, 11, one));
                let mut block = Block::new(None, parts.0, parts.1);
                close(&run(&mut block, &deep, deep_shape, threads).0, &expected);
            }
        }
    }

    #[test]
    fn few_channels_are_what_the_convolution_gives() {
        for (channels, rows, cols, kernel, stride) in
            [(3, 224, 30, 3, 2), (1, 1, 600, 3, 2), (3, 64, 64, 16, 16), (8, 9, 11, 5, 1)]
        {
            let shape = Shape::of([2, rows, cols, channels]);
            let x = numbers(shape.numel().unwrap());
            let window = window(kernel, stride);
            let (expected, _) = run(&mut conv(channels, 20, window), &x, shape, 1);
            for threads in [1, 2] {
                let mut narrow = Narrow::new(conv(channels, 20, window));
                close(&run(&mut narrow, &x, shape, threads).0, &expected);
            }
        }
    }
}
