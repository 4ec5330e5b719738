//! Convolutions compared with plain loops, on every instruction set of this machine.

use afferent_simd::{
    Isa, SizeError,
    conv::{Conv, Geometry, Strides},
};

/// Small integers, whose sums are exact in any order.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

/// Strides of an NCHW tensor, or of an NHWC tensor if `channels_last` is true.
fn steps(channels: usize, sizes: [usize; 3], channels_last: bool) -> Strides {
    let [_, height, width] = sizes;
    let positions = sizes.iter().product::<usize>();
    let (channel, step) = if channels_last { (1, channels) } else { (positions, 1) };
    let spatial = [height * width * step, width * step, step];
    Strides { outer: channels * positions, channel, spatial }
}

fn at(steps: Strides, outer: usize, channel: usize, position: [usize; 3]) -> usize {
    let spatial: usize = position.iter().zip(steps.spatial).map(|(at, step)| at * step).sum();
    outer * steps.outer + channel * steps.channel + spatial
}

fn positions(sizes: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [depth, height, width] = sizes;
    (0..depth * height * width).map(move |i| [i / width / height, i / width % height, i % width])
}

/// Element of the output at a position.
fn expected(conv: &Conv<'_>, item: usize, output: usize, position: [usize; 3]) -> f32 {
    let g = &conv.geometry;
    let mut sum = conv.bias.map_or(0.0, |bias| bias[output]);
    for channel in 0..g.in_channels {
        for tap in positions(g.kernel) {
            let mut from = [0; 3];
            let mut inside = true;
            for dim in 0..3 {
                let padded = position[dim] * g.stride[dim] + tap[dim] * g.dilation[dim];
                inside &= (g.padding[dim]..g.padding[dim] + g.input[dim]).contains(&padded);
                from[dim] = padded.wrapping_sub(g.padding[dim]);
            }
            if inside {
                let x_channel = output / g.out_channels * g.in_channels + channel;
                sum += conv.x[at(conv.x_strides, item, x_channel, from)]
                    * conv.weight[at(conv.weight_strides, output, channel, tap)];
            }
        }
    }
    conv.clamp.map_or(sum, |(low, high)| sum.clamp(low, high))
}

#[track_caller]
fn check(mut g: Geometry) {
    for dim in 0..3 {
        let span = g.dilation[dim] * (g.kernel[dim] - 1) + 1;
        g.output[dim] = (g.input[dim] + 2 * g.padding[dim] - span) / g.stride[dim] + 1;
    }
    let (channels, outputs) = (g.groups * g.in_channels, g.groups * g.out_channels);
    let x = numbers(g.batch * channels * g.input.iter().product::<usize>(), 1);
    let weight = numbers(outputs * g.in_channels * g.taps(), 2);
    let bias = numbers(outputs, 3);
    for layout in 0..8 {
        let conv = Conv {
            geometry: g,
            x: &x,
            x_strides: steps(channels, g.input, layout & 1 > 0),
            weight: &weight,
            weight_strides: steps(g.in_channels, g.kernel, layout & 2 > 0),
            bias: (layout & 4 > 0).then_some(&bias),
            clamp: (layout == 7).then_some((-30.0, 40.0)),
        };
        let to = steps(outputs, g.output, layout & 1 > 0);
        let mut all = vec![0.0; g.batch * outputs * g.positions()];
        for item in 0..g.batch {
            for output in 0..outputs {
                for position in positions(g.output) {
                    all[at(to, item, output, position)] = expected(&conv, item, output, position);
                }
            }
        }
        for isa in Isa::available() {
            let mut scratch = vec![f32::NAN; conv.scratch_len(isa, to, 1).expect("it fits")];
            let mut out = vec![f32::NAN; all.len()];
            conv.run(isa, &mut out, to, &mut scratch, None).expect("lengths fit");
            assert_eq!(out, all, "{isa:?} layout {layout} {g:?}");
        }
    }
}

const PLAIN: Geometry = Geometry {
    batch: 1,
    groups: 1,
    in_channels: 3,
    out_channels: 5,
    input: [1, 9, 11],
    kernel: [1, 3, 3],
    output: [0; 3],
    stride: [1; 3],
    padding: [0; 3],
    dilation: [1; 3],
};

#[test]
fn strides_padding_and_dilation() {
    check(PLAIN);
    check(Geometry { padding: [0, 1, 1], ..PLAIN });
    check(Geometry { padding: [0, 3, 4], ..PLAIN });
    check(Geometry { stride: [1, 2, 2], padding: [0, 1, 1], ..PLAIN });
    check(Geometry { stride: [1, 3, 2], dilation: [1, 2, 3], padding: [0, 2, 3], ..PLAIN });
    check(Geometry { batch: 2, groups: 2, padding: [0, 1, 1], ..PLAIN });
    check(Geometry { kernel: [1, 1, 1], ..PLAIN });
    check(Geometry { kernel: [1, 1, 1], stride: [1, 2, 2], ..PLAIN });
    check(Geometry { kernel: [1, 5, 2], ..PLAIN });
}

#[test]
fn strides_larger_than_the_input() {
    let (g, huge) = (Geometry { input: [1, 3, 3], ..PLAIN }, usize::MAX / 2);
    check(Geometry { stride: [1, 1, huge], ..g });
    check(Geometry { stride: [1, huge, 1], ..g });
    check(Geometry { stride: [1, huge, 1], groups: 2, in_channels: 1, out_channels: 1, ..g });
}

#[test]
fn one_and_three_dimensions() {
    check(Geometry { input: [4, 5, 6], kernel: [2, 3, 1], padding: [1, 1, 0], ..PLAIN });
    check(Geometry { input: [1, 1, 50], kernel: [1, 1, 3], padding: [0, 0, 1], ..PLAIN });
    check(Geometry { input: [1, 40, 1], kernel: [1, 3, 1], ..PLAIN });
    check(Geometry { input: [1, 1, 1], kernel: [1, 1, 1], ..PLAIN });
}

#[test]
fn depthwise() {
    let depthwise = Geometry { groups: 6, in_channels: 1, out_channels: 1, ..PLAIN };
    for stride in 1..=3 {
        for padding in 0..=2 {
            let (stride, padding) = ([1, stride, stride], [0, padding, padding]);
            check(Geometry { stride, padding, ..depthwise });
            check(Geometry { stride, padding, kernel: [1, 5, 4], batch: 2, ..depthwise });
        }
    }
    check(Geometry { dilation: [1, 2, 3], padding: [0, 2, 3], input: [1, 5, 40], ..depthwise });
    check(Geometry { stride: [1, 1, 2], dilation: [1, 1, 3], input: [1, 5, 40], ..depthwise });
    check(Geometry { out_channels: 2, groups: 3, ..depthwise });
}

#[test]
fn many_channels() {
    check(Geometry { in_channels: 90, out_channels: 30, padding: [0, 1, 1], ..PLAIN });
}

#[test]
fn short_slices_are_refused() {
    let g = Geometry { output: [1, 7, 9], in_channels: 1, out_channels: 1, ..PLAIN };
    let x = numbers(99, 1);
    let conv = Conv {
        geometry: g,
        x: &x,
        x_strides: steps(1, g.input, false),
        weight: &x[..9],
        weight_strides: steps(1, g.kernel, false),
        bias: None,
        clamp: None,
    };
    let to = steps(1, g.output, false);
    let isa = Isa::best();
    let len = conv.scratch_len(isa, to, 1).expect("it fits");
    let run = |conv: &Conv<'_>, out: usize, scratch: usize| {
        conv.run(isa, &mut vec![0.0; out], to, &mut vec![0.0; scratch], None)
    };
    assert_eq!(run(&conv, 63, len), Ok(()));
    assert!(run(&conv, 62, len).is_err());
    let short = SizeError::Length { slice: "scratch", len: len - 1, required: len };
    assert_eq!(run(&conv, 63, len - 1), Err(short));
    assert!(run(&Conv { x: &x[..98], ..conv }, 63, len).is_err());
    assert!(run(&Conv { weight: &x[..8], ..conv }, 63, len).is_err());
    assert!(run(&Conv { bias: Some(&[]), ..conv }, 63, len).is_err());
}
