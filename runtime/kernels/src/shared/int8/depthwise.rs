//! Depthwise convolutions: each output channel reads one input channel.

#![expect(unsafe_code, reason = "reads channels through checked offsets")]

use super::{
    dsp::{self, Tap},
    image::Image,
    per_channel::PerChannel,
    window::Window,
};

/// Depthwise convolution of images.
pub(crate) struct Depthwise<'a> {
    pub(crate) input: &'a [i8],
    pub(crate) image: Image,
    /// Height and width of the output.
    pub(crate) output: [usize; 2],
    pub(crate) window: Window,
    /// Weights: height and width of the window, output channels.
    pub(crate) weights: &'a [i8],
    /// Output channels of an input channel.
    pub(crate) multiplier: usize,
    pub(crate) parameters: PerChannel<'a>,
}

impl Depthwise<'_> {
    /// Words of memory for the taps.
    pub(crate) fn words(&self) -> usize {
        2 * self.window.kernel[0] * self.window.kernel[1]
    }

    /// Computes all output positions. `memory` has [`Depthwise::words`] words.
    pub(crate) fn run(&self, out: &mut [i8], memory: &mut [u32]) {
        let channels = self.image.channels * self.multiplier;
        let [height, width] = self.output;
        let (memory, _) = memory.as_chunks_mut::<2>();
        let mut targets = out.chunks_exact_mut(channels.max(1));
        for batch in 0..self.image.batch {
            for y in 0..height {
                for x in 0..width {
                    let Some(target) = targets.next() else { return };
                    let count = self.taps(batch, [y, x], memory);
                    self.position(memory.get(..count).unwrap_or_default(), target);
                }
            }
        }
    }

    /// Finds the taps of one output position that read the input, and returns their number.
    fn taps(&self, batch: usize, at: [usize; 2], taps: &mut [Tap]) -> usize {
        let Window { kernel, stride, padding, dilation } = self.window;
        let [size_y, size_x] = self.image.size;
        let (channels, outputs) = (self.image.channels, self.image.channels * self.multiplier);
        let (rows, columns) =
            (self.window.taps(0, at[0], size_y), self.window.taps(1, at[1], size_x));
        let (step, width) = (dilation[1] * channels, columns[1] - columns[0]);
        let mut rest = taps;
        let mut count = 0;
        for tap_y in rows[0]..rows[1] {
            let y = at[0] * stride[0] + tap_y * dilation[0] - padding[0];
            let x = at[1] * stride[1] + columns[0] * dilation[1] - padding[1];
            let mut from = ((batch * size_y + y) * size_x + x) * channels;
            let mut weight = (tap_y * kernel[1] + columns[0]) * outputs;
            let Some((row, others)) = rest.split_at_mut_checked(width) else { return count };
            let is_inside = from + width.saturating_sub(1) * step + channels <= self.input.len()
                && weight + width * outputs <= self.weights.len();
            if !is_inside {
                return count;
            }
            for tap in row {
                *tap = dsp::tap(self.input, from, self.weights, weight);
                (from, weight) = (from + step, weight + outputs);
            }
            (rest, count) = (others, count + width);
        }
        count
    }

    /// Computes the channels of one output position.
    fn position(&self, taps: &[Tap], target: &mut [i8]) {
        #[cfg(afferent_mve)]
        {
            let is_shared = self.image.channels == 1;
            let is_direct = self.multiplier == 1 || is_shared;
            let is_whole = target.len().is_multiple_of(8) && !taps.is_empty();
            if let Some(bias) = self.parameters.bias
                && is_direct
                && is_whole
            {
                let (input, parameters) = (self.input, &self.parameters);
                // SAFETY: `taps` has checked that all channels of a tap exist, and the parameters
                // have an element for each output channel.
                unsafe { super::mve::depthwise(taps, input, parameters, bias, is_shared, target) };
                return;
            }
        }
        let (groups, rest) = target.as_chunks_mut::<4>();
        let whole = 4 * groups.len();
        if self.multiplier == 1 || self.multiplier.is_multiple_of(4) {
            for (group, target) in groups.iter_mut().enumerate() {
                let sums = self.four(taps, 4 * group);
                self.parameters.quantize_four(group, sums, target);
            }
            for (at, out) in rest.iter_mut().enumerate() {
                *out = self.quantize(whole + at, self.one(taps, whole + at));
            }
        } else {
            for (channel, out) in target.iter_mut().enumerate() {
                *out = self.quantize(channel, self.one(taps, channel));
            }
        }
    }

    /// Sums of the products of the four output channels from `first`. They read four input
    /// channels, or one.
    #[inline]
    fn four(&self, taps: &[Tap], first: usize) -> [i32; 4] {
        let offset = self.parameters.input_offset;
        if self.multiplier == 1 {
            let offset = dsp::both_halves(offset);
            // SAFETY: `taps` has checked that all channels of a tap exist, and four of them begin
            // at `first`.
            unsafe { dsp::four_channels(taps, self.input, self.weights, first, offset) }
        } else {
            let from = [first.checked_div(self.multiplier).unwrap_or_default(), first];
            // SAFETY: as above.
            unsafe { dsp::four_outputs(taps, self.input, self.weights, from, offset) }
        }
    }

    /// Sum of the products of output channel `channel`.
    fn one(&self, taps: &[Tap], channel: usize) -> i32 {
        let from = channel.checked_div(self.multiplier).unwrap_or_default();
        let [origin, weight_origin] = dsp::tap(self.input, 0, self.weights, 0);
        let mut sum = 0_i32;
        for &[x, weight] in taps {
            let at = |elements: &[i8], start: u32, more: usize| {
                elements.get(start as usize + more).copied().map_or(0, i32::from)
            };
            let x = at(self.input, x.wrapping_sub(origin), from);
            let w = at(self.weights, weight.wrapping_sub(weight_origin), channel);
            sum = sum.wrapping_add((x + self.parameters.input_offset) * w);
        }
        sum
    }

    /// Adds the bias of `channel` to `sum` and requantizes it.
    #[inline]
    fn quantize(&self, channel: usize, sum: i32) -> i8 {
        self.parameters.quantize(channel, sum.wrapping_add(self.parameters.bias(channel)))
    }
}
