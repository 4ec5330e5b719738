//! Winograd convolutions compared with direct sums.

use super::*;
use crate::{
    Activation,
    epilogue::BiasActivation,
    igemm::{WeightShape, pack, packed_len, panel_cols},
    pool,
    qgemm::requantize::DequantizeF32,
};

/// Pseudorandom numbers from -1 to 1.
fn noise(len: usize, seed: usize) -> Vec<f32> {
    let mut state = seed as u32 * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Input pixel of a kernel element of an output pixel; `None` in the padding.
fn source(shape: &ConvShape, pixel: usize, tap: usize) -> Option<usize> {
    let ConvShape { input, output, padding, .. } = *shape;
    let padded = [pixel / output[1] % output[0] + tap / 3, pixel % output[1] + tap % 3];
    let [row, col] =
        [0, 1].map(|dim| padded[dim].checked_sub(padding[dim]).filter(|at| *at < input[dim]));
    Some((pixel / output[1] / output[0] * input[0] + row?) * input[1] + col?)
}

/// Maximum error on `isa`, relative to the largest output.
fn relative_error(isa: Isa, shape: ConvShape, threads: usize) -> f64 {
    let ConvShape { batch, input, output, in_channels, out_channels: cols, .. } = shape;
    let inner = KERNEL_TAPS * in_channels;
    let x = noise(batch * input[0] * input[1] * in_channels, 1);
    let (kernels, mut bias) = (noise(cols * inner, 2), noise(cols, 3));
    let mut weights = vec![0.0; packed_len(isa, WeightShape { inner, cols }).unwrap()];
    let weight = |k: usize, col: usize| kernels[col * inner + k];
    pack(isa, WeightShape { inner, cols }, weight, &mut weights);
    bias.resize(cols.next_multiple_of(panel_cols(isa, cols)), 0.0);
    let activation = Activation::from((-1.0, f32::INFINITY));
    let epilogue = BiasActivation { bias: &bias, activation };
    let zeros = vec![0.0; in_channels];
    let conv = WinogradF32 { x: &x, zeros: &zeros, weights: &weights, epilogue };
    let mut out = vec![f32::NAN; batch * output[0] * output[1] * cols];
    let mut scratch = vec![f32::NAN; shape.scratch_len(Kind::F32, isa, threads).unwrap()];
    conv.run(&shape, isa, &mut out, &mut scratch, pool::workers(threads)).unwrap();
    let (mut max_error, mut max_output) = (0.0_f64, 0.0_f64);
    for (index, found) in out.iter().enumerate() {
        let (pixel, col) = (index / cols, index % cols);
        let mut sum = f64::from(bias[col]);
        for tap in 0..KERNEL_TAPS {
            let Some(pixel) = source(&shape, pixel, tap) else { continue };
            let x = &x[pixel * in_channels..][..in_channels];
            let kernel = &kernels[(col * KERNEL_TAPS + tap) * in_channels..];
            sum += x.iter().zip(kernel).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        }
        max_error = max_error.max((f64::from(*found) - sum.max(-1.0)).abs());
        max_output = max_output.max(sum.abs());
    }
    assert!(!max_error.is_nan() && !out.iter().any(|x| x.is_nan()));
    max_error / max_output
}

/// True if the int8 convolution on `isa` is exact.
fn int8_outputs_are_exact(isa: Isa, shape: ConvShape, zero_point: i8, threads: usize) -> bool {
    let ConvShape { batch, input, output, in_channels, out_channels: cols, .. } = shape;
    let bytes = |len: usize, seed: usize| -> Vec<i8> {
        noise(len, seed).into_iter().map(|x| (x * 140.0) as i8).collect()
    };
    let inner = KERNEL_TAPS * in_channels;
    let x = bytes(batch * input[0] * input[1] * in_channels, 1);
    let kernels = bytes(cols * inner, 2);
    let mut weights = vec![0; q8::packed_len(isa, WeightShape { inner, cols }).unwrap()];
    let column = |col: usize, first: usize, to: &mut [i8]| {
        to.copy_from_slice(&kernels[col * inner + first..][..to.len()]);
    };
    q8::pack(isa, WeightShape { inner, cols }, column, &mut weights);
    let pixels = batch * output[0] * output[1];
    let padded_cols = cols.next_multiple_of(q8::panel_cols(isa));
    let (row_scale, scale) = (vec![1.0; pixels], vec![1.0; padded_cols]);
    let bias = vec![0.0; padded_cols];
    let clamp = (f32::NEG_INFINITY, f32::INFINITY);
    let epilogue = DequantizeF32 { row_scale: &row_scale, scale: &scale, bias: &bias, clamp };
    let zero_points = vec![zero_point; in_channels];
    let (zero_points, weights) = (&zero_points[..], &weights[..]);
    let conv = WinogradQ8 { x: &x, zero_points, weights, epilogue: &epilogue };
    let mut out = vec![f32::NAN; pixels * cols];
    let mut scratch = vec![f32::NAN; shape.scratch_len(Kind::Q8, isa, threads).unwrap()];
    conv.run(&shape, isa, &mut out, &mut scratch, pool::workers(threads)).unwrap();
    out.iter().enumerate().all(|(index, found)| {
        let (pixel, col) = (index / cols, index % cols);
        let sum: i32 = (0..inner)
            .map(|k| {
                let source = source(&shape, pixel, k / in_channels);
                let x = source.map_or(zero_point, |pixel| x[pixel * in_channels + k % in_channels]);
                (i32::from(x) - i32::from(zero_point)) * i32::from(kernels[col * inner + k])
            })
            .sum();
        *found == sum as f32
    })
}

/// Shape with padding on all four sides: above and left, below and right.
fn shape(
    batch: usize,
    input: [usize; 2],
    [before, after]: [[usize; 2]; 2],
    in_channels: usize,
    out_channels: usize,
) -> ConvShape {
    let output = [0, 1].map(|dim| input[dim] + before[dim] + after[dim] - 2);
    ConvShape { batch, input, output, padding: before, in_channels, out_channels }
}

#[test]
fn f32_outputs_match_direct_sums() {
    for shape in [
        shape(1, [8, 8], [[1, 1], [1, 1]], 16, 32),
        shape(2, [7, 7], [[1, 1], [1, 1]], 70, 40),
        shape(1, [5, 11], [[0, 2], [2, 0]], 3, 5),
        shape(3, [3, 3], [[0, 0], [0, 0]], 1, 1),
        shape(1, [1, 1], [[1, 1], [1, 1]], 9, 100),
        shape(1, [30, 29], [[1, 1], [1, 1]], 130, 17),
        shape(2, [37, 50], [[1, 0], [0, 1]], 20, 33),
        shape(1, [21, 24], [[1, 1], [1, 1]], 512, 20),
    ] {
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let error = relative_error(isa, shape, threads);
                assert!(error < 1e-5, "{isa:?} {shape:?} {threads}: {error}");
            }
        }
    }
}

#[test]
fn int8_outputs_match_direct_sums() {
    for (shape, zero_point) in [
        (shape(1, [8, 8], [[1, 1], [1, 1]], 64, 64), 0),
        (shape(2, [7, 7], [[1, 1], [1, 1]], 200, 40), -128),
        (shape(1, [5, 11], [[0, 2], [2, 0]], 4, 5), 127),
        (shape(3, [3, 3], [[0, 0], [0, 0]], 12, 1), 3),
        (shape(1, [1, 1], [[1, 1], [1, 1]], 20, 100), -7),
        (shape(2, [37, 50], [[1, 0], [0, 1]], 20, 33), 9),
        (shape(1, [21, 24], [[1, 1], [1, 1]], 132, 20), -128),
        (shape(1, [9, 10], [[1, 1], [1, 1]], 8, 48), 5),
        (shape(1, [9, 10], [[1, 1], [1, 1]], 40, 16), -3),
        (shape(1, [6, 5], [[1, 1], [1, 1]], 24, 8), 77),
    ] {
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let is_exact = int8_outputs_are_exact(isa, shape, zero_point, threads);
                assert!(is_exact, "{isa:?} {shape:?} {threads}");
            }
        }
    }
}

#[test]
fn the_largest_exact_accumulators_are_right() {
    // All weights and inputs at the ends of their range, with the same and with opposite signs.
    let in_channels = 112;
    let shape = ConvShape {
        batch: 1,
        input: [6, 6],
        output: [4, 4],
        padding: [0; 2],
        in_channels,
        out_channels: 3,
    };
    let inner = KERNEL_TAPS * in_channels;
    let columns = [vec![-128; inner], vec![127; inner]];
    for isa in Isa::available() {
        assert!(columns.iter().all(|column| is_exact(isa, column)));
        assert!(!is_exact(isa, &vec![-128; 1029]));
        let mut weights = vec![0; q8::packed_len(isa, WeightShape { inner, cols: 3 }).unwrap()];
        let column = |col: usize, first: usize, to: &mut [i8]| {
            to.copy_from_slice(&columns[col % 2][first..][..to.len()]);
        };
        q8::pack(isa, WeightShape { inner, cols: 3 }, column, &mut weights);
        let padded_cols = q8::panel_cols(isa);
        let (row_scale, scale) = (vec![1.0; 16], vec![1.0; padded_cols]);
        let bias = vec![0.0; padded_cols];
        let clamp = (f32::NEG_INFINITY, f32::INFINITY);
        let epilogue = DequantizeF32 { row_scale: &row_scale, scale: &scale, bias: &bias, clamp };
        for (x, zero_point) in [(127, -128), (-128, 127)] {
            let (x, zero_points) = (vec![x; 36 * in_channels], vec![zero_point; in_channels]);
            let (zero_points, weights) = (&zero_points[..], &weights[..]);
            let conv = WinogradQ8 { x: &x, zero_points, weights, epilogue: &epilogue };
            let mut out = vec![f32::NAN; 48];
            let len = shape.scratch_len(Kind::Q8, isa, 1).unwrap();
            conv.run(&shape, isa, &mut out, &mut vec![f32::NAN; len], None).unwrap();
            let difference = f32::from(x[0]) - f32::from(zero_point);
            for (index, found) in out.into_iter().enumerate() {
                let sum = f32::from(columns[index % 3 % 2][0]) * difference * inner as f32;
                assert_eq!(found, sum, "{isa:?}");
            }
        }
    }
}
