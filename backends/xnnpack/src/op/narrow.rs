//! Convolutions over pictures of few channels.
//!
//! Rows of the picture are copied with their padding, so that what a row of the kernel meets lies
//! in one piece.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use afferent_core::{Element, Error, Workers};
use afferent_simd::{
    igemm::{InputRows, OutputRows},
    parallel::{self, Chunks},
};

use super::{Cx, Input, Op, conv::Sizes, elements, only, some};
use crate::{
    graph::ConvKind,
    shape::{MISFIT, Room, Shape, TOO_LARGE},
};

/// Numbers of the picture that are copied at a time.
const COPIED: usize = 12 * 1024;

/// The most channels of a picture.
const CHANNELS: usize = 8;

/// A convolution whose patches may lie anywhere.
pub(crate) trait Patches: Send + Sync {
    /// What is convolved, and what the results are.
    type Number: Element;

    fn sizes(&self) -> &Sizes;

    /// What zero is stored as.
    fn zero(&self) -> Self::Number;

    /// Words of memory for so many patches.
    fn memory(&self, count: usize) -> usize;

    /// The convolution of so many patches, whose places are without zeros.
    ///
    /// # Errors
    /// When something does not fit its slice.
    fn patches(
        &self,
        x: &[Self::Number],
        count: usize,
        places: InputRows<'_>,
        out: OutputRows<'_, Self::Number>,
        memory: &mut [i32],
    ) -> Result<(), Error>;
}

/// A convolution of a picture of few channels.
pub(crate) struct Narrow<C> {
    conv: C,
    /// Rows and columns of the picture, and of the result.
    input: [usize; 2],
    output: [usize; 2],
    /// Numbers of a row with its padding.
    row: usize,
    /// Rows of the result that are computed together, and of the picture that they meet.
    strip: [usize; 2],
    /// Of a strip.
    places: Vec<u32>,
}

/// Whether [`Narrow`] computes convolutions of these sizes.
pub(crate) fn fits(sizes: &Sizes) -> bool {
    sizes.kind == ConvKind::Plain
        && sizes.groups == 1
        && sizes.inputs <= CHANNELS
        && sizes.window.kernel[1] > 1
        && sizes.window.dilation[1] == 1
}

impl<C: Patches> Narrow<C> {
    pub(crate) fn new(conv: C) -> Self {
        Self { conv, input: [0; 2], output: [0; 2], row: 0, strip: [1; 2], places: Vec::new() }
    }

    /// The rows of a picture's result from `first` on.
    fn rows(
        &self,
        x: &[C::Number],
        first: usize,
        out: &mut [C::Number],
        memory: &mut [i32],
    ) -> Option<()> {
        let (Sizes { window, inputs, outputs, .. }, zero) = (*self.conv.sizes(), self.conv.zero());
        let (copy, memory) = memory.split_at_mut_checked(self.copied())?;
        let copy: &mut [C::Number] = bytemuck::cast_slice_mut(copy);
        let (row, width) = (self.row, self.input[1] * inputs);
        let left = window.before[1] * inputs;
        for (at, out) in out.chunks_mut(self.strip[0] * self.output[1] * outputs).enumerate() {
            let top = (first + at * self.strip[0]) * window.stride[0];
            for (line, to) in copy.chunks_exact_mut(row).take(self.strip[1]).enumerate() {
                let from = (top + line).checked_sub(window.before[0]);
                let from = from.filter(|from| *from < self.input[0]);
                let to_picture = to.get_mut(left..left + width)?;
                match from {
                    Some(from) => {
                        to_picture.copy_from_slice(x.get(from * width..(from + 1) * width)?);
                        to[..left].fill(zero);
                        to[left + width..].fill(zero);
                    }
                    None => to.fill(zero),
                }
            }
            let (pixels, taps) = (out.len() / outputs, window.kernel[0]);
            let places = InputRows::Indirect { offsets: self.places.get(..pixels * taps)?, taps };
            let out = OutputRows { data: out, offset: 0, row_stride: outputs };
            self.conv.patches(copy, pixels, places, out, memory).ok()?;
        }
        Some(())
    }

    /// Words that rows of the picture are copied to.
    fn copied(&self) -> usize {
        (self.strip[1] * self.row * size_of::<C::Number>()).div_ceil(size_of::<i32>())
    }
}

impl<C: Patches> Op for Narrow<C> {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let Sizes { window, inputs, .. } = *self.conv.sizes();
        let out = self.conv.sizes().output(input)?;
        let [batch, height, width, _] = input.picture()?;
        let [_, rows, cols, _] = out.picture()?;
        let padded = width + window.before[1] + window.after[1];
        let tall = height + window.before[0] + window.after[0];
        let all = Shape::of([batch, tall, padded, inputs]);
        all.numel()?;
        Shape::of([rows, cols, window.kernel[0]]).numel()?;
        let row = padded * inputs;
        let reach = |strip: usize| (strip - 1) * window.stride[0] + window.span(0);
        let small = |strip: &usize| reach(*strip) * row <= COPIED;
        let strip = (2..=rows).take_while(small).last().unwrap_or(1);
        (self.input, self.output) = ([height, width], [rows, cols]);
        (self.row, self.strip) = (row, [strip, reach(strip)]);
        self.places.clear();
        let len = strip * cols * window.kernel[0];
        room.take::<u32>(len)?;
        self.places.try_reserve_exact(len).map_err(|_| TOO_LARGE)?;
        for (at, col) in (0..strip).flat_map(|at| (0..cols).map(move |col| (at, col))) {
            let tap = |i: usize| at * window.stride[0] + i * window.dilation[0];
            let left = col * window.stride[1] * inputs;
            self.places.extend((0..window.kernel[0]).map(|i| (tap(i) * row + left) as u32));
        }
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, out) = (only(inputs)?.data()?, elements(out)?);
        let Sizes { inputs, outputs, .. } = *self.conv.sizes();
        let line = self.output[1] * outputs;
        let (before, after) = (self.input[0] * self.input[1] * inputs, self.output[0] * line);
        if before == 0 || after == 0 {
            return if out.is_empty() { Ok(()) } else { Err(MISFIT) };
        }
        let strips = self.output[0].div_ceil(self.strip[0]);
        let threads = cx.workers.map_or(1, Workers::threads).min(strips);
        let share = strips.div_ceil(threads) * self.strip[0];
        let len = self.copied() + self.conv.memory(self.strip[0] * self.output[1]);
        let buffer = some(&mut cx.scratch.words, len * threads, &mut cx.scratch.room)?;
        let failed = AtomicBool::new(false);
        for (x, out) in x.chunks_exact(before).zip(out.chunks_exact_mut(after)) {
            let out = Chunks { data: out, chunk_len: share * line };
            let memory = Chunks { data: &mut *buffer, chunk_len: len };
            parallel::for_each_chunk_pair(cx.workers, out, memory, |part, out, memory| {
                if self.rows(x, part * share, out, memory).is_none() {
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
        op::{
            integer::{Bias, Integer, Layout, StaticPatches, Stored, Weights},
            keep::Keep,
            trial,
        },
        shape::Window,
    };

    fn run(op: &mut dyn Op, x: &[i8], shape: Shape, threads: usize) -> Vec<i8> {
        trial::run(op, x, shape, 0, threads).0
    }

    #[test]
    fn integers_are_what_the_convolution_gives() {
        let bytes = |len: usize| (0..len).map(|at| (at * 7919 + 13) as i8).collect::<Vec<_>>();
        for (inputs, outputs, size, kernel, stride) in
            [(3, 16, 40, 3, 2), (3, 70, 33, 7, 2), (1, 5, 50, 5, 1), (4, 33, 16, 16, 16)]
        {
            let (from, clamp, to) = (3, (-100.0, 90.0), 5);
            let window = Window {
                kernel: [kernel; 2],
                stride: [stride; 2],
                dilation: [1; 2],
                before: [kernel / 2; 2],
                after: [kernel / 2; 2],
            };
            let sizes = Sizes { kind: ConvKind::Plain, window, groups: 1, inputs, outputs };
            let integers = bytes(outputs * kernel * kernel * inputs);
            let (scales, bias) = (vec![1e-4; outputs], vec![9; outputs]);
            let conv = || {
                let weights = Weights { integers: &integers, scales: &scales, transposed: false };
                let stored = Stored::Static { from, clamp, to };
                let layout = Layout::Patches(sizes);
                Integer::new(&Keep::default(), layout, &weights, &Bias::Integers(&bias), stored)
                    .unwrap()
            };
            let shape = Shape::of([2, size, size, inputs]);
            let x = bytes(shape.numel().unwrap());
            let expected = run(&mut conv(), &x, shape, 1);
            for threads in [1, 2] {
                let patches = StaticPatches { of: conv(), sizes, from, clamp, to };
                assert!(fits(&sizes));
                assert!(run(&mut Narrow::new(patches), &x, shape, threads) == expected);
            }
        }
    }
}
