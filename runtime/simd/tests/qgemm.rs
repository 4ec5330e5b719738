//! Products of integers against plain loops, on every instruction set, extreme values included.

#[path = "support/offsets.rs"]
mod support;

use std::array;

use afferent_simd::{
    Isa, SizeError,
    conv::depthwise_nhwc_q8::{self, DepthwiseNhwcQ8, KernelShape},
    igemm::{InputRows, OutputRows, PADDING_OFFSET, WeightShape},
    pool,
    qgemm::{
        q4::{self, CHUNK_LEN, ChunkedShape, Q4Gemm},
        q8::{Q8Gemm, ZeroPoint, interleave, pack, packed_len, panel_cols, scratch_len},
        requantize::{DequantizeF32, RequantizeInt8},
    },
};
use support::offsets;

/// Integers that depend on `seed`: any, or only the least and the greatest.
fn bytes(len: usize, seed: u32) -> Vec<i8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 9) as i8
    };
    let ends = |x: i8| if x < 0 { i8::MIN } else { i8::MAX };
    match seed % 4 {
        0 => vec![i8::MIN; len],
        1 => (0..len).map(|_| ends(next())).collect(),
        _ => (0..len).map(|_| next()).collect(),
    }
}

fn zipped<T: Copy + Default>(isa: Isa, columns: &[T]) -> Vec<T> {
    let mut all = vec![T::default(); columns.len().next_multiple_of(panel_cols(isa))];
    interleave(isa, columns, &mut all);
    all
}

/// Weights of so many rows and columns, packed.
fn packed(isa: Isa, WeightShape { inner, cols }: WeightShape, weights: &[i8]) -> Vec<i8> {
    let mut packed = vec![0; packed_len(isa, WeightShape { inner, cols }).unwrap_or_default()];
    let column = |col: usize, first: usize, to: &mut [i8]| {
        (first..).zip(to).for_each(|(k, to)| *to = weights[k * cols + col]);
    };
    pack(isa, WeightShape { inner, cols }, column, &mut packed);
    packed
}

/// What is stored for a sum.
fn rounded(sum: i32, scale: f32, clamp: (f32, f32), zero_point: i32) -> i32 {
    let value = (sum as f32 * scale).clamp(clamp.0, clamp.1).round_ties_even() as i32;
    (value + zero_point).clamp(-128, 127)
}

const SHAPES: [(usize, usize, usize, usize); 8] = [
    (1, 1, 1, 1),
    (1, 70, 1, 96),
    (7, 17, 3, 5),
    (13, 40, 9, 4),
    (30, 8, 1, 33),
    (50, 33, 9, 3),
    (400, 16, 1, 160),
    (9, 20, 4, 700),
];

#[test]
fn products_with_bytes() {
    for isa in Isa::available() {
        for (case, (rows, cols, taps, channels)) in (0..).zip(SHAPES) {
            let (inner, seed) = (taps * channels, case);
            let x = bytes(25 * channels, seed);
            let weights = bytes(inner * cols, seed + 1);
            let at = offsets(rows, taps, 25, channels);
            let packed = packed(isa, WeightShape { inner, cols }, &weights);
            let bias: Vec<i32> = (0..cols as i32).map(|col| col * 100 - 1000).collect();
            let scale: Vec<f32> =
                (0..cols).map(|col| (1.0 + col as f32) / (40_000.0 * inner as f32)).collect();
            let zeros: Vec<i8> = (0..rows).map(|row| (row % 256) as i8).collect();
            let sum = |row: usize, col: usize, zero: i8| -> i32 {
                let one = |k: usize| match at[row * taps + k / channels] {
                    PADDING_OFFSET => 0,
                    place => {
                        let x = i32::from(x[place as usize + k % channels]) - i32::from(zero);
                        x * i32::from(weights[k * cols + col])
                    }
                };
                (0..inner).map(one).sum()
            };
            let product = Q8Gemm {
                x: &x,
                zero_point: ZeroPoint::PerTensor((case as i16 * 30 - 128) as i8),
                input_rows: InputRows::Indirect { offsets: &at, taps },
                rows,
                channels,
                weights: &packed,
                cols,
            };
            let mut scratch = vec![0; scratch_len(isa, WeightShape { inner, cols }, rows, 1)];
            for clamp in [(-300.0, 300.0), (-100.0, 90.0)] {
                let (biases, scales) = (zipped(isa, &bias), zipped(isa, &scale));
                let epilogue =
                    RequantizeInt8 { bias: &biases, scale: &scales, clamp, zero_point: 5 };
                let mut out = vec![99_i8; rows * (cols + 2) + 1];
                let place = OutputRows { data: &mut out, offset: 1, row_stride: cols + 2 };
                product.run(isa, &epilogue, place, &mut scratch, None).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, col) =
                        (index.wrapping_sub(1) / (cols + 2), (index + cols + 1) % (cols + 2));
                    let wanted = if index == 0 || col >= cols {
                        99
                    } else {
                        let sum = sum(row, col, (case as i16 * 30 - 128) as i8) + bias[col];
                        rounded(sum, scale[col], clamp, 5)
                    };
                    assert_eq!(i32::from(*found), wanted, "{isa:?}, case {case}, {row}, {col}");
                }
            }
            let product = Q8Gemm { zero_point: ZeroPoint::PerRow(&zeros), ..product };
            let (numbers, scales) = (vec![0.5; cols], zipped(isa, &scale));
            let steps: Vec<f32> = (0..rows).map(|row| row as f32 / 8.0).collect();
            let numbers = zipped(isa, &numbers);
            let epilogue = DequantizeF32 {
                row_scale: &steps,
                scale: &scales,
                bias: &numbers,
                clamp: (-9.0, 9.0),
            };
            let mut out = vec![0.0_f32; rows * cols];
            let place = OutputRows { data: &mut out, offset: 0, row_stride: cols };
            product.run(isa, &epilogue, place, &mut scratch, None).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (row, col) = (index / cols, index % cols);
                let sum = sum(row, col, zeros[row]) as f32;
                let wanted = (sum * steps[row] * scale[col] + 0.5).clamp(-9.0, 9.0);
                assert!((found - wanted).abs() < 1e-5, "{isa:?}, case {case}: {found}, {wanted}");
            }
            assert_short_slices_are_refused(isa, product, &epilogue, &mut out);
        }
    }
}

/// Slices that are one element too short are refused.
fn assert_short_slices_are_refused(
    isa: Isa,
    product: Q8Gemm<'_>,
    epilogue: &DequantizeF32<'_>,
    out: &mut [f32],
) {
    let Q8Gemm { rows, channels, cols, weights, .. } = product;
    let InputRows::Indirect { taps, .. } = product.input_rows else { panic!("indirect rows") };
    let ZeroPoint::PerRow(zeros) = product.zero_point else { panic!("a zero point per row") };
    let shape = WeightShape { inner: taps * channels, cols };
    let words = scratch_len(isa, shape, rows, 1);
    let mut refuse = |product: Q8Gemm<'_>, len: usize, words: usize| {
        let out = OutputRows { data: &mut out[..len], offset: 0, row_stride: cols };
        assert!(product.run(isa, epilogue, out, &mut vec![0; words], None).is_err());
    };
    refuse(product, rows * cols - 1, words);
    refuse(product, rows * cols, words - 1);
    refuse(Q8Gemm { weights: &weights[1..], ..product }, rows * cols, words);
    let zero_point = ZeroPoint::PerRow(&zeros[1..]);
    refuse(Q8Gemm { zero_point, ..product }, rows * cols, words);
}

#[test]
fn depthwise_convolutions() {
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
                let places: Vec<u32> =
                    (0..rows * taps)
                        .map(|at| {
                            if at % 7 == 3 { PADDING_OFFSET } else { (at * 5 % 12 * count) as u32 }
                        })
                        .collect();
                let mut packed =
                    vec![
                        0;
                        depthwise_nhwc_q8::packed_len(isa, KernelShape { taps, channels: count })
                            .unwrap()
                    ];
                let weight = |tap: usize, channel: usize| weights[tap * count + channel];
                depthwise_nhwc_q8::pack(
                    isa,
                    KernelShape { taps, channels: count },
                    weight,
                    &mut packed,
                );
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
                    offsets: &places,
                    taps,
                    channels: count,
                    weights: &packed,
                };
                let mut out = vec![0; rows * count];
                conv.run(isa, &epilogue, &mut out, None).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, channel) = (index / count, index % count);
                    let one = |tap: usize| {
                        let x = match places[row * taps + tap] {
                            PADDING_OFFSET => zeros[channel],
                            place => x[place as usize + channel],
                        };
                        i32::from(x) * i32::from(weight(tap, channel))
                    };
                    let sum = bias[channel] + (0..taps).map(one).sum::<i32>();
                    let wanted = rounded(sum, scale[channel], clamp, -7);
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
fn depthwise_pictures() {
    let [height, width] = [9_usize, 23];
    for isa in Isa::available() {
        for (count, stride) in [(32, 1), (40, 2), (96, 1), (600, 1), (33, 3)] {
            let x = bytes(height * width * count, 3);
            let weights = bytes(9 * count, 4);
            let weight = |tap: usize, channel: usize| weights[tap * count + channel];
            let mut packed =
                vec![
                    0;
                    depthwise_nhwc_q8::packed_len(isa, KernelShape { taps: 9, channels: count })
                        .unwrap()
                ];
            depthwise_nhwc_q8::pack(
                isa,
                KernelShape { taps: 9, channels: count },
                weight,
                &mut packed,
            );
            let (rows, cols) = (height.div_ceil(stride), width.div_ceil(stride));
            let place = |at: usize| {
                let (result, tap) = (at / 9, at % 9);
                let row = (result / cols * stride + tap / 3).wrapping_sub(1);
                let col = (result % cols * stride + tap % 3).wrapping_sub(1);
                let inside = row < height && col < width;
                if inside { ((row * width + col) * count) as u32 } else { PADDING_OFFSET }
            };
            let places: Vec<u32> = (0..rows * cols * 9).map(place).collect();
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
                offsets: &places,
                taps: 9,
                channels: count,
                weights: &packed,
            };
            let mut out = vec![0; rows * cols * count];
            conv.run(isa, &epilogue, &mut out, pool::workers(2)).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (row, channel) = (index / count, index % count);
                let one = |tap: usize| {
                    let x = match places[row * 9 + tap] {
                        PADDING_OFFSET => -5,
                        place => x[place as usize + channel],
                    };
                    i32::from(x) * i32::from(weight(tap, channel))
                };
                let sum = bias[channel] + (0..9).map(one).sum::<i32>();
                let wanted = rounded(sum, scale[channel], clamp, 0);
                assert_eq!(i32::from(*found), wanted, "{isa:?}, {count}, {stride}, {index}");
            }
        }
    }
}

#[test]
fn products_with_nibbles() {
    for isa in Isa::available() {
        for (case, (rows, cols, chunks)) in
            (0..).zip([(1, 1, 1), (1, 70, 3), (3, 33, 2), (4, 40, 1), (70, 19, 5), (5, 8, 40)])
        {
            let inner = chunks * CHUNK_LEN;
            let x = bytes(rows * inner, case);
            let weights: Vec<i8> = bytes(inner * cols, case + 1).iter().map(|x| x >> 4).collect();
            let weight = |k: usize, col: usize| weights[k * cols + col];
            let mut packed = vec![0; q4::packed_len(isa, ChunkedShape { chunks, cols }).unwrap()];
            let factor = |chunk: usize, col: usize| (1 + chunk + col) as f32 / 1024.0;
            let raw = |chunk: usize, col: usize| {
                let nibble = |k: usize| (weight(chunk * CHUNK_LEN + k, col) + 8).cast_unsigned();
                let raw = array::from_fn(|at| nibble(2 * at) | nibble(2 * at + 1) << 4);
                (raw, factor(chunk, col))
            };
            let mut unscaled = vec![0.0; cols];
            q4::pack(isa, ChunkedShape { chunks, cols }, raw, &mut packed, &mut unscaled);
            let whole = cols.next_multiple_of(isa.lanes());
            let scales: Vec<f32> = (0..whole).map(|col| 1.0 + col as f32 / 16.0).collect();
            for (col, sum) in unscaled.iter().enumerate() {
                let one = |k: usize| f32::from(weight(k, col)) * factor(k / CHUNK_LEN, col);
                let wanted: f32 = (0..inner).map(one).sum();
                assert!((sum - wanted).abs() <= 1e-3, "{isa:?}, case {case}, {col}");
            }
            unscaled.resize(whole, 0.0);
            let sums: Vec<f32> = unscaled.iter().zip(&scales).map(|(a, b)| a * b).collect();
            let chunk =
                |chunk: usize, row: usize| &x[row * inner + chunk * CHUNK_LEN..][..CHUNK_LEN];
            let each = |chunk_at| (0..rows).flat_map(move |row| chunk(chunk_at, row));
            let by_chunks: Vec<i8> = (0..chunks).flat_map(each).copied().collect();
            let zero_points: Vec<f32> = (0..rows).map(|row| (row % 256) as f32 - 100.0).collect();
            let sum = |chunk: &[i8]| -8 * chunk.iter().map(|x| i32::from(*x)).sum::<i32>();
            let offsets: Vec<i32> = by_chunks.chunks(CHUNK_LEN).map(sum).collect();
            let steps: Vec<f32> = (0..rows).map(|row| 0.25 + row as f32 / 64.0).collect();
            let bias = vec![1.5; whole];
            let product = Q4Gemm {
                x: &by_chunks,
                chunk_offsets: &offsets,
                zero_points: &zero_points,
                row_scale: &steps,
                chunks,
                cols,
                weights: &packed,
                scale: &scales,
                column_sums: &sums,
                bias: &bias,
                clamp: (-1e6, 1e6),
            };
            let mut out = vec![0.0; rows * cols];
            product.run(isa, &mut out, None).unwrap();
            for (index, found) in out.iter().enumerate() {
                let (row, col) = (index / cols, index % cols);
                let one = |k: usize| {
                    let x = f64::from(x[row * inner + k]) - f64::from(zero_points[row]);
                    x * f64::from(weight(k, col))
                        * f64::from(factor(k / CHUNK_LEN, col) * scales[col])
                };
                let terms = (0..inner).map(one);
                let size: f64 = terms.clone().map(f64::abs).sum();
                let wanted = terms.sum::<f64>() * f64::from(steps[row]) + 1.5;
                let error = (f64::from(*found) - wanted.clamp(-1e6, 1e6)).abs();
                assert!(
                    error <= 1e-6 * size * f64::from(steps[row]) + 1e-4,
                    "{isa:?}, case {case}: {found}, not {wanted}"
                );
            }
            let len = by_chunks.len();
            let short = SizeError::Length { slice: "x", len: len - 1, required: len };
            let product_of_less = Q4Gemm { x: &by_chunks[1..], ..product };
            assert_eq!(product_of_less.run(isa, &mut out, None), Err(short));
            let product_of_less = Q4Gemm { scale: &scales[1..], ..product };
            assert!(product_of_less.run(isa, &mut out, None).is_err());
        }
    }
}
