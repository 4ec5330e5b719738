//! Direct convolution for any strides, one row of outputs at a time.

use afferent_core::{Error, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    conv::{Geometry, Operands, Strides},
};

/// Maximum number of outputs of a row with accumulators at the same time.
const MAX_ROW_OUTPUTS: usize = 128;

/// Row of outputs: its batch item, group, channel, and position in depth and height.
#[derive(Debug, Clone, Copy)]
struct Row {
    item: usize,
    group: usize,
    channel: usize,
    outer: [usize; 2],
}

/// Outputs `start..start + len` of a row.
///
/// The accumulator of output `start + i` is at
/// `i % phases * (MAX_ROW_OUTPUTS / phases) + i / phases`: accumulators of the same phase are
/// contiguous.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    len: usize,
    phases: usize,
}

/// Outputs and inputs of one kernel element in a span: input `from + i * stride` contributes to
/// accumulator `to + i`, for `i` in `0..count`.
#[derive(Debug, Clone, Copy)]
struct TapSpan {
    to: usize,
    from: usize,
    count: usize,
}

/// Writes the convolution to `out`.
pub(crate) fn forward<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Strides,
) {
    for_each_row(g, |row| {
        for start in (0..g.output[2]).step_by(MAX_ROW_OUTPUTS) {
            let span = Span { start, len: MAX_ROW_OUTPUTS.min(g.output[2] - start), phases: 1 };
            let sums = span_accumulators(g, tensors, row, span, false);
            store(&sums, row, span, g, out, to);
        }
    });
}

/// Writes the transposed convolution to `out`.
pub(crate) fn transposed<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Strides,
) {
    // With a larger stride, each output of a span has its own phase.
    let phases = g.stride[2].min(MAX_ROW_OUTPUTS);
    let max_len = MAX_ROW_OUTPUTS - MAX_ROW_OUTPUTS % phases;
    for_each_row(g, |row| {
        for start in (0..g.output[2]).step_by(max_len) {
            let span = Span { start, len: max_len.min(g.output[2] - start), phases };
            let sums = span_accumulators(g, tensors, row, span, true);
            store(&sums, row, span, g, out, to);
        }
    });
}

fn for_each_row(g: &Geometry, mut f: impl FnMut(Row)) {
    if g.positions() == 0 {
        return;
    }
    for item in 0..g.batch {
        for group in 0..g.groups {
            for channel in 0..g.out_channels {
                for depth in 0..g.output[0] {
                    for height in 0..g.output[1] {
                        f(Row { item, group, channel, outer: [depth, height] });
                    }
                }
            }
        }
    }
}

/// Accumulators of the outputs of `span`.
fn span_accumulators<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    row: Row,
    span: Span,
    is_transposed: bool,
) -> [T::Acc; MAX_ROW_OUTPUTS] {
    let Operands { x, x_strides, weight, weight_strides, .. } = *tensors;
    let mut sums =
        [tensors.initial_accumulator(row.group * g.out_channels + row.channel); MAX_ROW_OUTPUTS];
    if g.in_channels == 0 {
        return sums;
    }
    let input_at = |dim, tap, at| {
        if is_transposed {
            transposed_source(g, dim, tap, at)
        } else {
            forward_source(g, dim, tap, at)
        }
    };
    for depth in 0..g.kernel[0] {
        let Some(x_depth) = input_at(0, depth, row.outer[0]) else { continue };
        for height in 0..g.kernel[1] {
            let Some(x_height) = input_at(1, height, row.outer[1]) else { continue };
            for width in 0..g.kernel[2] {
                let taps = if is_transposed {
                    transposed_span(g, width, span)
                } else {
                    forward_span(g, width, span)
                };
                let conv_stride = if is_transposed { 1 } else { g.stride[2] };
                let stride = conv_stride.saturating_mul(x_strides.spatial[2]);
                let x_at = row.item * x_strides.outer
                    + x_depth * x_strides.spatial[0]
                    + x_height * x_strides.spatial[1]
                    + taps.from * x_strides.spatial[2];
                let w_at = depth * weight_strides.spatial[0]
                    + height * weight_strides.spatial[1]
                    + width * weight_strides.spatial[2];
                let to = sums.get_mut(taps.to..taps.to + taps.count).unwrap_or(&mut []);
                if to.is_empty() {
                    continue;
                }
                for channel in 0..g.in_channels {
                    let x_channel = row.group * g.in_channels + channel;
                    let (w_out, w_in) = if is_transposed {
                        (x_channel, row.channel)
                    } else {
                        (row.group * g.out_channels + row.channel, channel)
                    };
                    let factor =
                        weight[w_out * weight_strides.outer + w_in * weight_strides.channel + w_at];
                    add_scaled(to, &x[x_channel * x_strides.channel + x_at..], stride, factor);
                }
            }
        }
    }
    sums
}

/// Adds `factor` times each element of `x` to `sums`.
fn add_scaled<T: Operand>(sums: &mut [T::Acc], x: &[T], stride: usize, factor: T) {
    let factor = factor.widen();
    let add = |(sum, x): (&mut T::Acc, &T)| *sum = sum.add(factor.mul(x.widen()));
    match stride {
        1 => sums.iter_mut().zip(x).for_each(add),
        2 => {
            let (pairs, last) = x.as_chunks::<2>();
            let (paired, rest) = sums.split_at_mut(pairs.len().min(sums.len()));
            paired.iter_mut().zip(pairs.iter().map(|[x, _]| x)).for_each(add);
            rest.iter_mut().zip(last).for_each(add);
        }
        _ => sums.iter_mut().zip(x.iter().step_by(stride.max(1))).for_each(add),
    }
}

/// Input position in dimension `dim` under kernel element `tap` at output position `at`; `None` in
/// the padding.
fn forward_source(g: &Geometry, dim: usize, tap: usize, at: usize) -> Option<usize> {
    let padded = at * g.stride[dim] + tap * g.dilation[dim];
    padded.checked_sub(g.padding[dim]).filter(|&at| at < g.input[dim])
}

/// Input position in dimension `dim` that kernel element `tap` of a transposed convolution scatters
/// to output position `at`.
fn transposed_source(g: &Geometry, dim: usize, tap: usize, at: usize) -> Option<usize> {
    let spread = (at + g.padding[dim]).checked_sub(tap * g.dilation[dim])?;
    let at = spread / g.stride[dim];
    (spread.is_multiple_of(g.stride[dim]) && at < g.input[dim]).then_some(at)
}

/// Span of kernel element `tap` in the outputs `span` of a convolution.
fn forward_span(g: &Geometry, tap: usize, span: Span) -> TapSpan {
    let (stride, padding, offset) = (g.stride[2], g.padding[2], tap * g.dilation[2]);
    let before = padding.saturating_sub(offset).div_ceil(stride);
    let end = (g.input[2] + padding).saturating_sub(offset).div_ceil(stride);
    let first = before.max(span.start);
    let last = end.min(span.start + span.len);
    let count = last.saturating_sub(first);
    let from = (first * stride + offset).saturating_sub(padding);
    TapSpan { to: first - span.start, from: if count > 0 { from } else { 0 }, count }
}

/// Span of kernel element `tap` in the outputs `span` of a transposed convolution.
fn transposed_span(g: &Geometry, tap: usize, span: Span) -> TapSpan {
    let (stride, padding, offset) = (g.stride[2], g.padding[2], tap * g.dilation[2]);
    // First input element that contributes to an output in or after the span.
    let from = (span.start + padding).saturating_sub(offset).div_ceil(stride);
    let none = TapSpan { to: 0, from: 0, count: 0 };
    let Some(scattered) = from.checked_mul(stride).and_then(|at| at.checked_add(offset)) else {
        return none;
    };
    let Some(first) = scattered.checked_sub(padding + span.start).filter(|&at| at < span.len)
    else {
        return none;
    };
    let count = (span.len - first).div_ceil(stride).min(g.input[2].saturating_sub(from));
    let to = first % span.phases * (MAX_ROW_OUTPUTS / span.phases) + first / span.phases;
    TapSpan { to, from: if count > 0 { from } else { 0 }, count }
}

/// Writes the accumulators of a span.
fn store<T: Operand>(
    sums: &[T::Acc; MAX_ROW_OUTPUTS],
    row: Row,
    span: Span,
    g: &Geometry,
    out: &mut [T],
    to: Strides,
) {
    let channel = row.group * g.out_channels + row.channel;
    let at = row.item * to.outer
        + channel * to.channel
        + row.outer[0] * to.spatial[0]
        + row.outer[1] * to.spatial[1]
        + span.start * to.spatial[2];
    if (span.phases, to.spatial[2]) == (1, 1) {
        for (y, sum) in out[at..].iter_mut().zip(&sums[..span.len]) {
            *y = sum.to_element();
        }
        return;
    }
    let outputs = out[at..].iter_mut().step_by(to.spatial[2].max(1)).take(span.len);
    if span.phases == 1 {
        for (y, sum) in outputs.zip(sums) {
            *y = sum.to_element();
        }
        return;
    }
    let len = MAX_ROW_OUTPUTS / span.phases;
    for (i, y) in outputs.enumerate() {
        *y = sums[i % span.phases * len + i / span.phases].to_element();
    }
}

/// Writes a depthwise convolution with one output channel per input channel. Input and output are
/// channels-last.
pub(crate) fn channels_last_depthwise<T: Operand>(
    cx: &mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Strides,
) -> Result<(), Error> {
    let Operands { x, x_strides, .. } = *tensors;
    let weights = weights_by_tap(cx, g, tensors)?;
    let weight_steps = [g.kernel[1] * g.kernel[2], g.kernel[2], 1];
    for item in 0..g.batch {
        for index in 0..g.positions() {
            let (rest, width) = (index / g.output[2], index % g.output[2]);
            let position = [rest / g.output[1], rest % g.output[1], width];
            for first in (0..g.groups).step_by(MAX_ROW_OUTPUTS) {
                let len = MAX_ROW_OUTPUTS.min(g.groups - first);
                let mut sums = [T::Acc::default(); MAX_ROW_OUTPUTS];
                for (channel, sum) in (first..).zip(&mut sums[..len]) {
                    *sum = tensors.initial_accumulator(channel);
                }
                for_each_tap(g, position, |tap, from| {
                    let x = &x[item * x_strides.outer + first + dot(from, x_strides.spatial)..];
                    let factors = &weights[dot(tap, weight_steps) * g.groups + first..];
                    for ((sum, x), factor) in sums[..len].iter_mut().zip(x).zip(factors) {
                        *sum = sum.add(factor.widen().mul(x.widen()));
                    }
                });
                let at = item * to.outer + first + dot(position, to.spatial);
                for (y, sum) in out[at..].iter_mut().zip(&sums[..len]) {
                    *y = sum.to_element();
                }
            }
        }
    }
    Ok(())
}

/// Copies the weights of a depthwise convolution to scratch memory, channels innermost.
fn weights_by_tap<'c, T: Operand>(
    cx: &'c mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
) -> Result<&'c [T], Error> {
    let steps = tensors.weight_strides;
    let weights = cx.scratch::<T>(tensors.weight.len())?;
    let mut rows = weights.chunks_mut(g.groups);
    for depth in 0..g.kernel[0] {
        for height in 0..g.kernel[1] {
            for width in 0..g.kernel[2] {
                let from = &tensors.weight[dot([depth, height, width], steps.spatial)..];
                let from = from.iter().step_by(steps.outer.max(1));
                let row = rows.next().unwrap_or(&mut []);
                row.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }
    Ok(weights)
}

/// Calls `f` for each kernel element over the input at output `position`: kernel index, input
/// position.
fn for_each_tap(g: &Geometry, position: [usize; 3], mut f: impl FnMut([usize; 3], [usize; 3])) {
    for depth in 0..g.kernel[0] {
        let Some(x_depth) = forward_source(g, 0, depth, position[0]) else { continue };
        for height in 0..g.kernel[1] {
            let Some(x_height) = forward_source(g, 1, height, position[1]) else { continue };
            for width in 0..g.kernel[2] {
                if let Some(x_width) = forward_source(g, 2, width, position[2]) {
                    f([depth, height, width], [x_depth, x_height, x_width]);
                }
            }
        }
    }
}

/// Offset of `index` in a tensor with the strides `strides`.
fn dot(index: [usize; 3], strides: [usize; 3]) -> usize {
    index.iter().zip(strides).map(|(&at, stride)| at * stride).sum()
}
