//! Indirect products and depthwise convolutions against plain loops, on every instruction set.

#[path = "taps/places.rs"]
mod taps;

use afferent_core::{bf16, f16};
use afferent_simd::{
    Activation, Isa,
    channels::Channels,
    indirect::{
        Biased, Half, Indirect, Place, Places, Weights, ZEROS, pack, pack_columns, packed_len,
        panel,
    },
    pool,
};
use taps::places;

/// Small numbers, the same every time.
fn number(at: usize) -> i32 {
    (at * 7919 % 251) as i32 - 125
}

/// Packed weights of 16 bits, of columns that lie one after the other; none where panels are one
/// vector wide.
fn halves(isa: Isa, half: Half, inner: usize, columns: &[f32]) -> Option<Vec<u32>> {
    let (cols, width) = (columns.len() / inner, 2 * isa.lanes());
    let mut all = vec![0; Half::packed_len(isa, inner, cols)?];
    let weight = |k: usize, col: usize| columns.get(col * inner + k).copied().unwrap_or(0.0);
    let mut numbers = vec![0.0; 2 * all.len()];
    pack(isa, (inner, cols.next_multiple_of(width)), weight, &mut numbers);
    half.pack(isa, &numbers, &mut all);
    Some(all)
}

#[test]
fn sums_of_numbers() {
    for isa in Isa::available() {
        for (rows, cols, taps, channels) in [
            (1, 1, 1, 1),
            (7, 17, 3, 5),
            (13, 40, 9, 4),
            (30, 8, 1, 33),
            (1, 300, 2, 11),
            (1, 40, 1, 14_000),
        ] {
            let inner = taps * channels;
            let x: Vec<f32> = (0..20 * channels).map(|at| number(at) as f32 / 16.0).collect();
            let columns: Vec<f32> =
                (0..inner * cols).map(|at| number(at + 3) as f32 / 63.0).collect();
            let mut weights = vec![0.0; packed_len(isa, inner, cols).unwrap()];
            pack_columns(isa, (inner, cols), |col| &columns[col * inner..][..inner], &mut weights);
            let mut same = vec![1.0; weights.len()];
            pack(isa, (inner, cols), |k, col| columns[col * inner + k], &mut same);
            assert_eq!(weights, same);
            let at = places(rows, taps, 20, channels);
            let zeros = vec![0.0; channels];
            let bias: Vec<f32> =
                (0..cols.next_multiple_of(panel(isa, cols))).map(|at| at as f32).collect();
            let then = Activation { clamp: (-20.0, 20.0), hardswish: rows % 2 == 1 };
            let end = Biased { bias: &bias, then };
            for half in [None, Some(Half::Bf16), Some(Half::F16)] {
                let some = half.map(|half| (half, halves(isa, half, inner, &columns)));
                let weights = match &some {
                    None => Weights::Numbers(&weights),
                    Some((half, Some(words))) => Weights::Halves(*half, words),
                    Some((_, None)) => continue,
                };
                let places = Places::Taps { at: &at, taps };
                let product =
                    Indirect { x: &x, zeros: &zeros, places, rows, channels, weights, cols };
                let mut out = vec![f32::NAN; rows * cols];
                let place = Place { data: &mut out, at: 0, step: cols };
                product.write(isa, end, place, pool::workers(2)).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, col) = (index / cols, index % cols);
                    let mut sum = col as f64;
                    for k in 0..inner {
                        let from = at[row * taps + k / channels];
                        if from != ZEROS {
                            let weight = columns[col * inner + k];
                            let weight = match half {
                                None => weight,
                                Some(Half::Bf16) => bf16::from_f32(weight).to_f32(),
                                Some(Half::F16) => f16::from_f32(weight).to_f32(),
                            };
                            sum += f64::from(x[from as usize + k % channels]) * f64::from(weight);
                        }
                    }
                    let mut wanted = sum.clamp(-20.0, 20.0);
                    if then.hardswish {
                        wanted *= (wanted + 3.0).clamp(0.0, 6.0) / 6.0;
                    }
                    let miss = (f64::from(*found) - wanted).abs();
                    assert!(miss < 1e-3, "{isa:?}, {half:?}: {found}, not {wanted}");
                }
                // What does not fit is refused.
                let short = Indirect { x: &x[..channels * 3], ..product };
                let place = Place { data: &mut out, at: 0, step: cols };
                let refused = short.write(isa, end, place, None).is_none();
                assert!(
                    refused || at.iter().all(|at| *at == ZEROS || (*at as usize) < channels * 3)
                );
                let place = Place { data: &mut out[1..], at: 0, step: cols };
                assert_eq!(product.write(isa, end, place, None), None);
                if let Weights::Halves(half, words) = weights {
                    let weights = Weights::Halves(half, &words[1..]);
                    let place = Place { data: &mut out, at: 0, step: cols };
                    assert_eq!(Indirect { weights, ..product }.write(isa, end, place, None), None);
                }
            }
        }
    }
}

#[test]
fn kernels_of_single_channels() {
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
                (0..2 * input[0] * input[1] * channels).map(|at| number(at) as f32).collect();
            let taps = kernel[0] * kernel[1];
            let weights: Vec<f32> = (0..taps * channels).map(|at| number(at + 9) as f32).collect();
            let bias = vec![2.0; channels];
            let conv = Channels {
                x: &x,
                batch: 2,
                channels,
                input,
                output,
                kernel,
                stride,
                dilation,
                padding,
                weights: &weights,
                bias: &bias,
            };
            let mut out = vec![f32::NAN; 2 * output[0] * output[1] * channels];
            let open = Activation::from((f32::NEG_INFINITY, f32::INFINITY));
            conv.write(isa, open, &mut out, None).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (channel, pixel) = (index % channels, index / channels);
                let (col, row) = (pixel % output[1], pixel / output[1] % output[0]);
                let picture = pixel / (output[0] * output[1]);
                let mut sum = 2.0;
                for tap in 0..taps {
                    let source = |dim: usize, at: usize, tap: usize| {
                        let padded = at * stride[dim] + tap * dilation[dim];
                        padded.checked_sub(padding[dim]).filter(|at| *at < input[dim])
                    };
                    let place =
                        source(0, row, tap / kernel[1]).zip(source(1, col, tap % kernel[1]));
                    if let Some((y, at)) = place {
                        let from = ((picture * input[0] + y) * input[1] + at) * channels + channel;
                        sum += x[from] * weights[tap * channels + channel];
                    }
                }
                assert_eq!(*found, sum, "{isa:?}, channel {channel}, row {row}, column {col}");
            }
            assert_eq!(conv.write(isa, open, &mut out[1..], None), None);
            for dim in 0..2 {
                let (mut still, mut folded) = (conv, conv);
                (still.stride[dim], folded.dilation[dim]) = (0, 0);
                assert_eq!(still.write(isa, open, &mut out, None), None);
                assert_eq!(folded.write(isa, open, &mut out, None), None);
            }
        }
    }
}
