//! Depthwise NHWC convolutions compared with plain loops, on every instruction set of this machine.

#[path = "support/int8.rs"]
mod int8;
#[path = "support/integers.rs"]
mod integers;

use afferent_simd::{
    Activation, Isa,
    conv::{
        depthwise_nhwc::DepthwiseNhwc,
        depthwise_nhwc_q8::{self, DepthwiseNhwcQ8, KernelShape},
    },
    epilogue::BiasActivation,
    igemm::PADDING_OFFSET,
    pool,
    qgemm::requantize::RequantizeInt8,
};
use int8::{bytes, requantize};
use integers::integer;

#[test]
fn f32_kernels_match_plain_loops() {
    for isa in Isa::available() {
        for (channels, kernel, stride, dilation, padding) in [
            (3, [3, 3], [1, 1], [1, 1], [1, 1]),
            (17, [3, 5], [2, 1], [1, 2], [2, 0]),
            (33, [2, 2], [2, 3], [3, 1], [3, 4]),
            (40, [3, 3], [1, 1], [2, 1], [0, 0]),
            (16, [3, 3], [2, 2], [1, 1], [1, 1]),
            (32, [5, 5], [1, 1], [1, 1], [2, 2]),
            (21, [5, 5], [2, 2], [1, 1], [2, 2]),
        ] {
            let input = [9, 17];
            let output: [usize; 2] = std::array::from_fn(|dim| {
                (input[dim] + 2 * padding[dim] - (kernel[dim] - 1) * dilation[dim] - 1)
                    / stride[dim]
                    + 1
            });
            let x: Vec<f32> =
                (0..2 * input[0] * input[1] * channels).map(|at| integer(at) as f32).collect();
            let taps = kernel[0] * kernel[1];
            let weights: Vec<f32> = (0..taps * channels).map(|at| integer(at + 9) as f32).collect();
            let bias = vec![2.0; channels];
            let conv = DepthwiseNhwc {
                x: &x,
                first_row: 0,
                batch: 2,
                channels,
                input,
                output,
                kernel,
                stride,
                dilation,
                padding,
                weights: &weights,
            };
            let mut out = vec![f32::NAN; 2 * output[0] * output[1] * channels];
            let activation = Activation::from((f32::NEG_INFINITY, f32::INFINITY));
            let open = BiasActivation { bias: &bias, activation };
            conv.run(isa, open, &mut out, None).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (channel, pixel) = (index % channels, index / channels);
                let (col, row) = (pixel % output[1], pixel / output[1] % output[0]);
                let image = pixel / (output[0] * output[1]);
                let mut sum = 2.0;
                for tap in 0..taps {
                    let position = |dim: usize, at: usize, tap: usize| {
                        let padded = at * stride[dim] + tap * dilation[dim];
                        padded.checked_sub(padding[dim]).filter(|at| *at < input[dim])
                    };
                    let source =
                        position(0, row, tap / kernel[1]).zip(position(1, col, tap % kernel[1]));
                    if let Some((y, at)) = source {
                        let from = ((image * input[0] + y) * input[1] + at) * channels + channel;
                        sum += x[from] * weights[tap * channels + channel];
                    }
                }
                assert_eq!(*found, sum, "{isa:?}, channel {channel}, row {row}, column {col}");
            }
            // The same rows in a ring buffer that starts at another row.
            let line = input[1] * channels;
            for (more, first_row) in [(0, 5), (3, 1), (3, 20)] {
                let mut ring = x.clone();
                ring.resize(x.len() + more * line, f32::NAN);
                ring.rotate_right(first_row * line);
                let mut same = vec![f32::NAN; out.len()];
                let conv = DepthwiseNhwc { x: &ring, first_row, ..conv };
                conv.run(isa, open, &mut same, None).unwrap();
                assert_eq!(same, out, "{isa:?}, {more} more rows, from row {first_row} on");
                let outside = DepthwiseNhwc { first_row: 2 * input[0] + more, ..conv };
                assert!(outside.run(isa, open, &mut same, None).is_err());
            }
            assert!(conv.run(isa, open, &mut out[1..], None).is_err());
            for dim in 0..2 {
                let (mut no_stride, mut no_dilation) = (conv, conv);
                (no_stride.stride[dim], no_dilation.dilation[dim]) = (0, 0);
                assert!(no_stride.run(isa, open, &mut out, None).is_err());
                assert!(no_dilation.run(isa, open, &mut out, None).is_err());
            }
        }
    }
}

#[test]
fn int8_kernels_of_many_sizes() {
    for isa in Isa::available() {
        for (case, (rows, taps, count)) in (0..).zip([
            (1, 9, 16),
            (7, 9, 40),
            (5, 25, 72),
            (4, 9, 3),
            (6, 4, 35),
            (3, 49, 32),
            (3, 25, 17),
        ]) {
            for seed in 0..4 {
                let x = bytes(12 * count, seed);
                let weights = bytes(taps * count, seed + case);
                let offset = |at: usize| match at % 7 {
                    3 => PADDING_OFFSET,
                    _ => (at * 5 % 12 * count) as u32,
                };
                let offsets: Vec<u32> = (0..rows * taps).map(offset).collect();
                let shape = KernelShape { taps, channels: count };
                let mut packed = vec![0; depthwise_nhwc_q8::packed_len(isa, shape).unwrap()];
                let weight = |tap: usize, channel: usize| weights[tap * count + channel];
                depthwise_nhwc_q8::pack(isa, shape, weight, &mut packed);
                let bias: Vec<i32> = (0..count as i32).map(|channel| 70 * channel).collect();
                let scale: Vec<f32> = (0..count).map(|at| (1 + at) as f32 / 1e6).collect();
                let zeros = bytes(count.max(32), seed + 2);
                let (biases, scales): (Vec<_>, Vec<_>) = (
                    depthwise_nhwc_q8::interleave(isa, &bias).collect(),
                    depthwise_nhwc_q8::interleave(isa, &scale).collect(),
                );
                let clamp = (-128.0, 120.0);
                let epilogue =
                    RequantizeInt8 { bias: &biases, scale: &scales, clamp, zero_point: -7 };
                let conv = DepthwiseNhwcQ8 {
                    x: &x,
                    zero_points: &zeros,
                    offsets: &offsets,
                    taps,
                    channels: count,
                    weights: &packed,
                };
                let mut out = vec![0; rows * count];
                conv.run(isa, &epilogue, &mut out, None).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, channel) = (index / count, index % count);
                    let product = |tap: usize| {
                        let x = match offsets[row * taps + tap] {
                            PADDING_OFFSET => zeros[channel],
                            offset => x[offset as usize + channel],
                        };
                        i32::from(x) * i32::from(weight(tap, channel))
                    };
                    let sum = bias[channel] + (0..taps).map(product).sum::<i32>();
                    let wanted = requantize(sum, scale[channel], clamp, -7);
                    assert_eq!(i32::from(*found), wanted, "{isa:?}, case {case}, {index}");
                }
                let short = DepthwiseNhwcQ8 { x: &x[count..], ..conv };
                assert!(short.run(isa, &epilogue, &mut out, None).is_err() || rows * taps < 12);
                assert!(conv.run(isa, &epilogue, &mut out[1..], None).is_err());
            }
        }
    }
}

#[test]
fn int8_3x3_kernels_share_columns() {
    let [height, width] = [9_usize, 23];
    for isa in Isa::available() {
        for (count, stride) in [(32, 1), (40, 2), (96, 1), (600, 1), (33, 3)] {
            let x = bytes(height * width * count, 3);
            let weights = bytes(9 * count, 4);
            let weight = |tap: usize, channel: usize| weights[tap * count + channel];
            let shape = KernelShape { taps: 9, channels: count };
            let mut packed = vec![0; depthwise_nhwc_q8::packed_len(isa, shape).unwrap()];
            depthwise_nhwc_q8::pack(isa, shape, weight, &mut packed);
            let (rows, cols) = (height.div_ceil(stride), width.div_ceil(stride));
            let offset = |at: usize| {
                let (pixel, tap) = (at / 9, at % 9);
                let row = (pixel / cols * stride + tap / 3).wrapping_sub(1);
                let col = (pixel % cols * stride + tap % 3).wrapping_sub(1);
                let inside = row < height && col < width;
                if inside { ((row * width + col) * count) as u32 } else { PADDING_OFFSET }
            };
            let offsets: Vec<u32> = (0..rows * cols * 9).map(offset).collect();
            let bias: Vec<i32> = (0..count as i32).map(|channel| 70 * channel).collect();
            let scale: Vec<f32> = (0..count).map(|at| (1 + at) as f32 / 1e7).collect();
            let (biases, scales): (Vec<_>, Vec<_>) = (
                depthwise_nhwc_q8::interleave(isa, &bias).collect(),
                depthwise_nhwc_q8::interleave(isa, &scale).collect(),
            );
            let clamp = (-128.0, 127.0);
            let epilogue = RequantizeInt8 { bias: &biases, scale: &scales, clamp, zero_point: 0 };
            let zeros = vec![-5; count];
            let conv = DepthwiseNhwcQ8 {
                x: &x,
                zero_points: &zeros,
                offsets: &offsets,
                taps: 9,
                channels: count,
                weights: &packed,
            };
            let mut out = vec![0; rows * cols * count];
            conv.run(isa, &epilogue, &mut out, pool::workers(2)).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (row, channel) = (index / count, index % count);
                let product = |tap: usize| {
                    let x = match offsets[row * 9 + tap] {
                        PADDING_OFFSET => -5,
                        offset => x[offset as usize + channel],
                    };
                    i32::from(x) * i32::from(weight(tap, channel))
                };
                let sum = bias[channel] + (0..9).map(product).sum::<i32>();
                let wanted = requantize(sum, scale[channel], clamp, 0);
                assert_eq!(i32::from(*found), wanted, "{isa:?}, {count}, {stride}, {index}");
            }
        }
    }
}
