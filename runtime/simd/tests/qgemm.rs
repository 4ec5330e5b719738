//! Quantized GEMM compared with plain loops, on every instruction set of this machine, with extreme
//! values.

#[path = "support/int8.rs"]
mod int8;
#[path = "support/offsets.rs"]
mod support;

use std::array;

use afferent_simd::{
    Isa, SizeError,
    igemm::{InputRows, OutputRows, PADDING_OFFSET, WeightShape},
    qgemm::{
        q4::{self, CHUNK_LEN, ChunkedShape, Q4Gemm},
        q8::{
            Q8Gemm, ZeroPoint, interleave, pack, packed_len, panel_cols, scratch_len,
            supports_prepared,
        },
        requantize::{DequantizeF32, RequantizeInt8},
    },
};
use int8::{bytes, requantize};
use support::offsets;

fn interleaved<T: Copy + Default>(isa: Isa, columns: &[T]) -> Vec<T> {
    let mut all = vec![T::default(); columns.len().next_multiple_of(panel_cols(isa))];
    interleave(isa, columns, &mut all);
    all
}

/// Packs row-major weights.
fn packed(isa: Isa, WeightShape { inner, cols }: WeightShape, weights: &[i8]) -> Vec<i8> {
    let mut packed = vec![0; packed_len(isa, WeightShape { inner, cols }).unwrap_or_default()];
    let column = |col: usize, first: usize, to: &mut [i8]| {
        (first..).zip(to).for_each(|(k, to)| *to = weights[k * cols + col]);
    };
    pack(isa, WeightShape { inner, cols }, column, &mut packed);
    packed
}

/// Rows, columns, taps, channels.
const SHAPES: [(usize, usize, usize, usize); 12] = [
    (1, 1, 1, 1),
    (1, 70, 1, 96),
    (7, 17, 3, 5),
    (13, 40, 9, 4),
    (30, 8, 1, 33),
    (50, 33, 9, 3),
    (400, 16, 1, 160),
    (9, 20, 4, 700),
    (25, 48, 3, 48),
    (14, 24, 3, 72),
    (13, 4, 9, 32),
    (27, 80, 3, 96),
];

#[test]
fn int8_weights() {
    for isa in Isa::available() {
        for (case, (rows, cols, taps, channels)) in (0..).zip(SHAPES) {
            let (inner, seed) = (taps * channels, case);
            let x = bytes(25 * channels, seed);
            let weights = bytes(inner * cols, seed + 1);
            let offsets = offsets(rows, taps, 25, channels);
            let packed = packed(isa, WeightShape { inner, cols }, &weights);
            let bias: Vec<i32> = (0..cols as i32).map(|col| col * 100 - 1000).collect();
            let scale: Vec<f32> =
                (0..cols).map(|col| (1.0 + col as f32) / (40_000.0 * inner as f32)).collect();
            let zeros: Vec<i8> = (0..rows).map(|row| (row % 256) as i8).collect();
            let sum = |row: usize, col: usize, zero: i8| -> i32 {
                let one = |k: usize| match offsets[row * taps + k / channels] {
                    PADDING_OFFSET => 0,
                    offset => {
                        let x = i32::from(x[offset as usize + k % channels]) - i32::from(zero);
                        x * i32::from(weights[k * cols + col])
                    }
                };
                (0..inner).map(one).sum()
            };
            let product = Q8Gemm {
                x: &x,
                is_prepared: false,
                zero_point: ZeroPoint::PerTensor((case as i16 * 30 - 128) as i8),
                input_rows: InputRows::Indirect { offsets: &offsets, taps },
                rows,
                channels,
                weights: &packed,
                cols,
            };
            let mut scratch = vec![0; scratch_len(isa, WeightShape { inner, cols }, rows, 1)];
            for clamp in [(-300.0, 300.0), (-100.0, 90.0)] {
                let (biases, scales) = (interleaved(isa, &bias), interleaved(isa, &scale));
                let epilogue =
                    RequantizeInt8 { bias: &biases, scale: &scales, clamp, zero_point: 5 };
                let mut out = vec![99_i8; rows * (cols + 2) + 1];
                let to = OutputRows { data: &mut out, offset: 1, row_stride: cols + 2 };
                product.run(isa, &epilogue, to, &mut scratch, None).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, col) =
                        (index.wrapping_sub(1) / (cols + 2), (index + cols + 1) % (cols + 2));
                    let wanted = if index == 0 || col >= cols {
                        99
                    } else {
                        let sum = sum(row, col, (case as i16 * 30 - 128) as i8) + bias[col];
                        requantize(sum, scale[col], clamp, 5)
                    };
                    assert_eq!(i32::from(*found), wanted, "{isa:?}, case {case}, {row}, {col}");
                }
            }
            let product = Q8Gemm { zero_point: ZeroPoint::PerRow(&zeros), ..product };
            let (numbers, scales) = (vec![0.5; cols], interleaved(isa, &scale));
            let steps: Vec<f32> = (0..rows).map(|row| row as f32 / 8.0).collect();
            let numbers = interleaved(isa, &numbers);
            let epilogue = DequantizeF32 {
                row_scale: &steps,
                scale: &scales,
                bias: &numbers,
                clamp: (-9.0, 9.0),
            };
            let mut out = vec![0.0_f32; rows * cols];
            let to = OutputRows { data: &mut out, offset: 0, row_stride: cols };
            product.run(isa, &epilogue, to, &mut scratch, None).unwrap();
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
    let InputRows::Indirect { offsets, .. } = product.input_rows else { panic!("indirect rows") };
    if offsets.contains(&PADDING_OFFSET) || !supports_prepared(isa, channels) {
        refuse(Q8Gemm { is_prepared: true, ..product }, rows * cols, words);
    }
    refuse(product, rows * cols, words - 1);
    refuse(Q8Gemm { weights: &weights[1..], ..product }, rows * cols, words);
    let zero_point = ZeroPoint::PerRow(&zeros[1..]);
    refuse(Q8Gemm { zero_point, ..product }, rows * cols, words);
}

#[test]
fn int4_weights() {
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
