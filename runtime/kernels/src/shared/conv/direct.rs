//! Convolutions computed a row of outputs at a time, for any strides.

use afferent_core::{Error, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    conv::{Geometry, Operands, Steps},
};

/// The most outputs of a row that are summed up at a time.
const ROW: usize = 128;

/// One row of outputs: its batch item, its channel, and its place in the outer spatial dimensions.
#[derive(Debug, Clone, Copy)]
struct Row {
    item: usize,
    group: usize,
    channel: usize,
    place: [usize; 2],
}

/// Outputs `start..start + len` of a row. Output `i` of them has its sum at
/// `i % phases * (ROW / phases) + i / phases`, so that those with the same phase are neighbours.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    len: usize,
    phases: usize,
}

/// Input elements that one element of the kernel meets: `count` from `from` on, one step apart,
/// whose products go to the sums from `to` on.
#[derive(Debug, Clone, Copy)]
struct TapSpan {
    to: usize,
    from: usize,
    count: usize,
}

/// Writes a convolution.
pub(crate) fn forward<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Steps,
) {
    for_each_row(g, |row| {
        for start in (0..g.output[2]).step_by(ROW) {
            let span = Span { start, len: ROW.min(g.output[2] - start), phases: 1 };
            let sums = span_sums(g, tensors, row, span, false);
            store(&sums, row, span, g, out, to);
        }
    });
}

/// Writes a transposed convolution.
pub(crate) fn transposed<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Steps,
) {
    // With more phases than sums, each output has a phase of its own.
    let phases = g.stride[2].min(ROW);
    let whole = ROW - ROW % phases;
    for_each_row(g, |row| {
        for start in (0..g.output[2]).step_by(whole) {
            let span = Span { start, len: whole.min(g.output[2] - start), phases };
            let sums = span_sums(g, tensors, row, span, true);
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
                        f(Row { item, group, channel, place: [depth, height] });
                    }
                }
            }
        }
    }
}

/// The sums of the outputs of `span`.
fn span_sums<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    row: Row,
    span: Span,
    is_transposed: bool,
) -> [T::Acc; ROW] {
    let Operands { x, x_steps, weight, w_steps, .. } = *tensors;
    let mut sums = [tensors.initial_accumulator(row.group * g.out_channels + row.channel); ROW];
    if g.in_channels == 0 {
        return sums;
    }
    let meet = |dim, tap, at| {
        if is_transposed { source(g, dim, tap, at) } else { forward_source(g, dim, tap, at) }
    };
    for depth in 0..g.kernel[0] {
        let Some(x_depth) = meet(0, depth, row.place[0]) else { continue };
        for height in 0..g.kernel[1] {
            let Some(x_height) = meet(1, height, row.place[1]) else { continue };
            for width in 0..g.kernel[2] {
                let meeting = if is_transposed {
                    transposed_meeting(g, width, span)
                } else {
                    forward_meeting(g, width, span)
                };
                let stride = if is_transposed { 1 } else { g.stride[2] };
                let step = stride.saturating_mul(x_steps.space[2]);
                let x_at = row.item * x_steps.outer
                    + x_depth * x_steps.space[0]
                    + x_height * x_steps.space[1]
                    + meeting.from * x_steps.space[2];
                let w_at =
                    depth * w_steps.space[0] + height * w_steps.space[1] + width * w_steps.space[2];
                let to = sums.get_mut(meeting.to..meeting.to + meeting.count).unwrap_or(&mut []);
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
                    let factor = weight[w_out * w_steps.outer + w_in * w_steps.channel + w_at];
                    add_products(to, &x[x_channel * x_steps.channel + x_at..], step, factor);
                }
            }
        }
    }
    sums
}

/// Adds `factor` times each element of `x` to `sums`.
fn add_products<T: Operand>(sums: &mut [T::Acc], x: &[T], step: usize, factor: T) {
    let factor = factor.widen();
    let add = |(sum, x): (&mut T::Acc, &T)| *sum = sum.add(factor.mul(x.widen()));
    match step {
        1 => sums.iter_mut().zip(x).for_each(add),
        2 => {
            let (pairs, last) = x.as_chunks::<2>();
            let (paired, rest) = sums.split_at_mut(pairs.len().min(sums.len()));
            paired.iter_mut().zip(pairs.iter().map(|[x, _]| x)).for_each(add);
            rest.iter_mut().zip(last).for_each(add);
        }
        _ => sums.iter_mut().zip(x.iter().step_by(step.max(1))).for_each(add),
    }
}

/// The input position along `dim` that the kernel element `tap` meets for the output `at`.
fn forward_source(g: &Geometry, dim: usize, tap: usize, at: usize) -> Option<usize> {
    let padded = at * g.stride[dim] + tap * g.dilation[dim];
    padded.checked_sub(g.padding[dim]).filter(|&at| at < g.input[dim])
}

/// The input position along `dim` that the kernel element `tap` spreads to the output `at`.
fn source(g: &Geometry, dim: usize, tap: usize, at: usize) -> Option<usize> {
    let spread = (at + g.padding[dim]).checked_sub(tap * g.dilation[dim])?;
    let at = spread / g.stride[dim];
    (spread.is_multiple_of(g.stride[dim]) && at < g.input[dim]).then_some(at)
}

fn forward_meeting(g: &Geometry, tap: usize, span: Span) -> TapSpan {
    let (stride, padding, offset) = (g.stride[2], g.padding[2], tap * g.dilation[2]);
    let before = padding.saturating_sub(offset).div_ceil(stride);
    let end = (g.input[2] + padding).saturating_sub(offset).div_ceil(stride);
    let first = before.max(span.start);
    let last = end.min(span.start + span.len);
    let count = last.saturating_sub(first);
    let from = (first * stride + offset).saturating_sub(padding);
    TapSpan { to: first - span.start, from: if count > 0 { from } else { 0 }, count }
}

fn transposed_meeting(g: &Geometry, tap: usize, span: Span) -> TapSpan {
    let (stride, padding, offset) = (g.stride[2], g.padding[2], tap * g.dilation[2]);
    // The first input element whose product lands in the span or after it.
    let from = (span.start + padding).saturating_sub(offset).div_ceil(stride);
    let none = TapSpan { to: 0, from: 0, count: 0 };
    let Some(landing) = from.checked_mul(stride).and_then(|at| at.checked_add(offset)) else {
        return none;
    };
    let Some(first) = landing.checked_sub(padding + span.start).filter(|&at| at < span.len) else {
        return none;
    };
    let count = (span.len - first).div_ceil(stride).min(g.input[2].saturating_sub(from));
    let to = first % span.phases * (ROW / span.phases) + first / span.phases;
    TapSpan { to, from: if count > 0 { from } else { 0 }, count }
}

/// Writes the sums of a span.
fn store<T: Operand>(
    sums: &[T::Acc; ROW],
    row: Row,
    span: Span,
    g: &Geometry,
    out: &mut [T],
    to: Steps,
) {
    let channel = row.group * g.out_channels + row.channel;
    let at = row.item * to.outer
        + channel * to.channel
        + row.place[0] * to.space[0]
        + row.place[1] * to.space[1]
        + span.start * to.space[2];
    if (span.phases, to.space[2]) == (1, 1) {
        for (place, sum) in out[at..].iter_mut().zip(&sums[..span.len]) {
            *place = sum.to_element();
        }
        return;
    }
    let places = out[at..].iter_mut().step_by(to.space[2].max(1)).take(span.len);
    if span.phases == 1 {
        for (place, sum) in places.zip(sums) {
            *place = sum.to_element();
        }
        return;
    }
    let len = ROW / span.phases;
    for (i, place) in places.enumerate() {
        *place = sums[i % span.phases * len + i / span.phases].to_element();
    }
}

/// Writes a convolution of one output for each input channel, where channels are innermost in
/// input and output.
pub(crate) fn channels_last_depthwise<T: Operand>(
    cx: &mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Steps,
) -> Result<(), Error> {
    let Operands { x, x_steps, .. } = *tensors;
    let weights = weights_by_tap(cx, g, tensors)?;
    let weight_steps = [g.kernel[1] * g.kernel[2], g.kernel[2], 1];
    for item in 0..g.batch {
        for place in 0..g.positions() {
            let (rest, width) = (place / g.output[2], place % g.output[2]);
            let place = [rest / g.output[1], rest % g.output[1], width];
            for first in (0..g.groups).step_by(ROW) {
                let len = ROW.min(g.groups - first);
                let mut sums = [T::Acc::default(); ROW];
                for (channel, sum) in (first..).zip(&mut sums[..len]) {
                    *sum = tensors.initial_accumulator(channel);
                }
                for_each_tap(g, place, |tap, from| {
                    let x = &x[item * x_steps.outer + first + dot(from, x_steps.space)..];
                    let factors = &weights[dot(tap, weight_steps) * g.groups + first..];
                    for ((sum, x), factor) in sums[..len].iter_mut().zip(x).zip(factors) {
                        *sum = sum.add(factor.widen().mul(x.widen()));
                    }
                });
                let at = item * to.outer + first + dot(place, to.space);
                for (place, sum) in out[at..].iter_mut().zip(&sums[..len]) {
                    *place = sum.to_element();
                }
            }
        }
    }
    Ok(())
}

/// The weights of a depthwise convolution in scratch memory, channels innermost.
fn weights_by_tap<'c, T: Operand>(
    cx: &'c mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
) -> Result<&'c [T], Error> {
    let steps = tensors.w_steps;
    let weights = cx.scratch::<T>(tensors.weight.len())?;
    let mut rows = weights.chunks_mut(g.groups);
    for depth in 0..g.kernel[0] {
        for height in 0..g.kernel[1] {
            for width in 0..g.kernel[2] {
                let from = &tensors.weight[dot([depth, height, width], steps.space)..];
                let from = from.iter().step_by(steps.outer.max(1));
                let row = rows.next().unwrap_or(&mut []);
                row.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }
    Ok(weights)
}

/// Calls `f` for each element of the kernel that meets an input element, and where.
fn for_each_tap(g: &Geometry, place: [usize; 3], mut f: impl FnMut([usize; 3], [usize; 3])) {
    for depth in 0..g.kernel[0] {
        let Some(x_depth) = forward_source(g, 0, depth, place[0]) else { continue };
        for height in 0..g.kernel[1] {
            let Some(x_height) = forward_source(g, 1, height, place[1]) else { continue };
            for width in 0..g.kernel[2] {
                if let Some(x_width) = forward_source(g, 2, width, place[2]) {
                    f([depth, height, width], [x_depth, x_height, x_width]);
                }
            }
        }
    }
}

fn dot(place: [usize; 3], steps: [usize; 3]) -> usize {
    place.iter().zip(steps).map(|(&at, step)| at * step).sum()
}
