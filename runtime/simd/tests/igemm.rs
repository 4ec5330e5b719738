//! IGEMM compared with plain loops, on every instruction set of this machine.

#[path = "support/integers.rs"]
mod integers;
#[path = "support/offsets.rs"]
mod support;

use afferent_core::{bf16, f16};
use afferent_simd::{
    Activation, Isa, SizeError,
    epilogue::BiasActivation,
    igemm::{
        Fixed24, HalfFormat, Igemm, InputRows, OutputRows, PADDING_OFFSET, PackedWeights,
        WeightShape, pack, pack_columns, packed_len, panel_cols,
    },
    pool,
};
use integers::integer;
use support::offsets;

/// Packs contiguous columns to 16 bits; `None` if panels are one vector wide.
fn pack_half(isa: Isa, half: HalfFormat, inner: usize, columns: &[f32]) -> Option<Vec<u32>> {
    let (cols, width) = (columns.len() / inner, 2 * isa.lanes());
    let mut all = vec![0; HalfFormat::packed_len(isa, WeightShape { inner, cols })?];
    let weight = |k: usize, col: usize| columns.get(col * inner + k).copied().unwrap_or(0.0);
    let mut floats = vec![0.0; 2 * all.len()];
    pack(isa, WeightShape { inner, cols: cols.next_multiple_of(width) }, weight, &mut floats);
    half.pack(isa, &floats, &mut all);
    Some(all)
}

/// Packs contiguous columns to 24 bits; `None` if panels are one vector wide or the weights are not
/// suitable.
fn pack_fixed24(isa: Isa, inner: usize, columns: &[f32]) -> Option<Vec<u32>> {
    let (cols, width) = (columns.len() / inner, 2 * isa.lanes());
    let mut all = vec![u32::MAX; Fixed24::packed_len(isa, WeightShape { inner, cols })?];
    let mut scratch = vec![f32::NAN; Fixed24::scratch_len(isa, inner)];
    let weight = |k: usize, col: usize| columns.get(col * inner + k).copied().unwrap_or(0.0);
    let panel = |first: usize, to: &mut [f32]| {
        pack(isa, WeightShape { inner, cols: width }, |k, col| weight(k, first + col), to);
    };
    Fixed24::pack(isa, WeightShape { inner, cols }, panel, &mut scratch, &mut all).then_some(all)
}

/// Format of packed weights.
#[derive(Debug, Clone, Copy)]
enum Format {
    F32,
    Half(HalfFormat),
    Fixed24,
}

impl Format {
    /// Packs contiguous columns to words; empty for `f32`.
    fn words(self, isa: Isa, inner: usize, columns: &[f32]) -> Option<Vec<u32>> {
        match self {
            Self::F32 => Some(Vec::new()),
            Self::Half(half) => pack_half(isa, half, inner, columns),
            Self::Fixed24 => pack_fixed24(isa, inner, columns),
        }
    }

    /// Packed weights, and the same without their first element.
    fn weights<'w>(
        self,
        isa: Isa,
        shape: WeightShape,
        floats: &'w [f32],
        words: &'w [u32],
    ) -> (PackedWeights<'w>, PackedWeights<'w>) {
        match self {
            Self::F32 => (PackedWeights::F32(floats), PackedWeights::F32(&floats[1..])),
            Self::Half(half) => {
                (PackedWeights::Half(half, words), PackedWeights::Half(half, &words[1..]))
            }
            Self::Fixed24 => {
                let short = WeightShape { inner: shape.inner - 1, ..shape };
                let [all, less] = [shape, short].map(|shape| {
                    PackedWeights::Fixed24(Fixed24::new(isa, shape, words).expect("words fit"))
                });
                assert!(Fixed24::new(isa, shape, &words[1..]).is_none());
                (all, less)
            }
        }
    }

    /// The value that `weight` is rounded to, except for 24 bits.
    fn rounded(self, weight: f32) -> f32 {
        match self {
            Self::F32 | Self::Fixed24 => weight,
            Self::Half(HalfFormat::Bf16) => bf16::from_f32(weight).to_f32(),
            Self::Half(HalfFormat::F16) => f16::from_f32(weight).to_f32(),
        }
    }
}

#[test]
fn every_weight_format() {
    for isa in Isa::available() {
        for (rows, cols, taps, channels) in [
            (1, 1, 1, 1),
            (7, 17, 3, 5),
            (13, 40, 9, 4),
            (30, 8, 1, 33),
            (1, 600, 2, 11),
            (1, 40, 1, 14_000),
        ] {
            let inner = taps * channels;
            let x: Vec<f32> = (0..20 * channels).map(|at| integer(at) as f32 / 16.0).collect();
            let columns: Vec<f32> =
                (0..inner * cols).map(|at| (integer(at + 3) as f32 + 0.5) / 63.0).collect();
            let shape = WeightShape { inner, cols };
            let mut weights = vec![0.0; packed_len(isa, shape).unwrap()];
            pack_columns(isa, shape, |col| &columns[col * inner..][..inner], &mut weights);
            let mut same = vec![1.0; weights.len()];
            pack(isa, shape, |k, col| columns[col * inner + k], &mut same);
            assert_eq!(weights, same);
            let offsets = offsets(rows, taps, 20, channels);
            let zeros = vec![0.0; channels];
            let bias: Vec<f32> =
                (0..cols.next_multiple_of(panel_cols(isa, cols))).map(|at| at as f32).collect();
            let activation = Activation { clamp: (-20.0, 20.0), hardswish: rows % 2 == 1 };
            let epilogue = BiasActivation { bias: &bias, activation };
            for format in [
                Format::F32,
                Format::Half(HalfFormat::Bf16),
                Format::Half(HalfFormat::F16),
                Format::Fixed24,
            ] {
                let Some(words) = format.words(isa, inner, &columns) else {
                    assert!(cols <= isa.lanes(), "{isa:?}, {format:?}");
                    continue;
                };
                let (weights, less) = format.weights(isa, shape, &weights, &words);
                let input_rows = InputRows::Indirect { offsets: &offsets, taps };
                let reverse_panels = channels % 2 == 1;
                let x = &x[..];
                let product = Igemm {
                    x,
                    zeros: &zeros,
                    input_rows,
                    rows,
                    channels,
                    weights,
                    cols,
                    reverse_panels,
                };
                let mut scratch = vec![f32::NAN; product.scratch_len(isa, 2)];
                let mut out = vec![f32::NAN; rows * cols];
                let to = OutputRows { data: &mut out, offset: 0, row_stride: cols };
                product.run(isa, epilogue, to, &mut scratch, pool::workers(2)).unwrap();
                for (index, found) in out.iter().enumerate() {
                    let (row, col) = (index / cols, index % cols);
                    let mut sum = col as f64;
                    for k in 0..inner {
                        let from = offsets[row * taps + k / channels];
                        if from != PADDING_OFFSET {
                            let weight = f64::from(format.rounded(columns[col * inner + k]));
                            sum += f64::from(x[from as usize + k % channels]) * weight;
                        }
                    }
                    let mut wanted = sum.clamp(-20.0, 20.0);
                    if activation.hardswish {
                        wanted *= (wanted + 3.0).clamp(0.0, 6.0) / 6.0;
                    }
                    let miss = (f64::from(*found) - wanted).abs();
                    assert!(miss < 1e-3, "{isa:?}, {format:?}: {found}, not {wanted}");
                }
                assert_short_slices_are_refused(isa, product, less, epilogue, &mut out);
            }
        }
    }
}

/// Slices that are one element too short are refused.
fn assert_short_slices_are_refused(
    isa: Isa,
    product: Igemm<'_>,
    less: PackedWeights<'_>,
    epilogue: BiasActivation<'_>,
    out: &mut [f32],
) {
    let Igemm { cols, channels, .. } = product;
    let mut scratch = vec![f32::NAN; product.scratch_len(isa, 1)];
    let run = |product: Igemm<'_>, out: &mut [f32], scratch: &mut [f32]| {
        let out = OutputRows { data: out, offset: 0, row_stride: cols };
        product.run(isa, epilogue, out, scratch, None)
    };
    let InputRows::Indirect { offsets, .. } = product.input_rows else { panic!("indirect rows") };
    let short = Igemm { x: &product.x[..channels * 3], ..product };
    let refused = run(short, out, &mut scratch).is_err();
    assert!(
        refused || offsets.iter().all(|at| *at == PADDING_OFFSET || (*at as usize) < channels * 3)
    );
    let (len, required) = (out.len() - 1, out.len());
    let short = SizeError::Length { slice: "out", len, required };
    assert_eq!(run(product, &mut out[1..], &mut scratch), Err(short));
    assert!(run(Igemm { weights: less, ..product }, out, &mut scratch).is_err());
    if let Some((_, less)) = scratch.split_last_mut() {
        assert!(run(product, out, less).is_err());
    }
}

#[test]
fn rows_with_an_aliasing_stride_are_computed_with_and_without_a_copy() {
    for isa in Isa::available() {
        for (rows, cols, channels, apart) in
            [(9, 64, 1024, 1024), (8, 64, 1024, 1024), (31, 100, 30, 2048), (15, 70, 1008, 1024)]
        {
            let x: Vec<f32> =
                (0..(rows - 1) * apart + channels).map(|at| integer(at) as f32).collect();
            let columns: Vec<f32> =
                (0..channels * cols).map(|at| (integer(at + 3) as f32 + 0.5) / 63.0).collect();
            let mut floats =
                vec![0.0; packed_len(isa, WeightShape { inner: channels, cols }).unwrap()];
            let column = |col: usize| &columns[col * channels..][..channels];
            pack_columns(isa, WeightShape { inner: channels, cols }, column, &mut floats);
            let words = pack_fixed24(isa, channels, &columns).unwrap();
            let words = Fixed24::new(isa, WeightShape { inner: channels, cols }, &words).unwrap();
            let bias = vec![0.0; cols.next_multiple_of(panel_cols(isa, cols))];
            let activation = (f32::NEG_INFINITY, f32::INFINITY).into();
            let epilogue = BiasActivation { bias: &bias, activation };
            for weights in [PackedWeights::F32(&floats), PackedWeights::Fixed24(words)] {
                let input_rows = InputRows::Strided { stride: apart };
                let (x, zeros, reverse_panels) = (&x[..], &[][..], false);
                let product =
                    Igemm { x, zeros, input_rows, rows, channels, weights, cols, reverse_panels };
                for (threads, less) in [(1, 0), (2, 0), (1, 1)] {
                    let mut scratch = vec![f32::NAN; product.scratch_len(isa, threads)];
                    // One element less is too short for the copy, but not for unpacked weights.
                    let len = scratch.len().saturating_sub(less);
                    let scratch = &mut scratch[..len];
                    let mut out = vec![f32::NAN; rows * cols];
                    let to = OutputRows { data: &mut out, offset: 0, row_stride: cols };
                    let copies = rows >= 9;
                    let written = product.run(isa, epilogue, to, scratch, pool::workers(threads));
                    if less == 1 && !copies && len > 0 {
                        assert!(written.is_err());
                        continue;
                    }
                    written.unwrap();
                    for (at, found) in out.iter().enumerate() {
                        let row = &x[at / cols * apart..][..channels];
                        let products =
                            row.iter().zip(column(at % cols)).map(|(x, y)| f64::from(x * y));
                        let (wanted, most) =
                            products.fold((0.0, 0.0), |(sum, most), x| (sum + x, most + x.abs()));
                        let miss = (f64::from(*found) - wanted).abs();
                        assert!(miss <= 1e-5 * most, "{isa:?}, {rows} rows: {found}, not {wanted}");
                    }
                }
            }
        }
    }
}

#[test]
fn errors_of_24_bit_weights_are_bounded() {
    // With a scaled identity as input, each row of the output is a row of the weights.
    let (inner, cols) = (70, 133);
    let value = |k: usize, col: usize| match (k, col) {
        (0, 3) => -1.0,
        (0, 4) => 1.0 - f32::EPSILON / 2.0,
        (_, 5) => 0.0,
        (_, 6) => -0.25,
        _ => {
            (((k * 7919 + col * 104_729) % 10_007) as f32 / 5003.5 - 1.0) / (1 << (col % 9)) as f32
        }
    };
    let columns: Vec<f32> = (0..cols * inner).map(|at| value(at % inner, at / inner)).collect();
    let large = 2.0_f32.powi(120);
    let identity: Vec<f32> =
        (0..inner * inner).map(|at| if at / inner == at % inner { large } else { 0.0 }).collect();
    for isa in Isa::available() {
        let words = pack_fixed24(isa, inner, &columns).unwrap();
        let weights =
            PackedWeights::Fixed24(Fixed24::new(isa, WeightShape { inner, cols }, &words).unwrap());
        let bias = vec![0.0; cols.next_multiple_of(panel_cols(isa, cols))];
        let activation = Activation::from((f32::NEG_INFINITY, f32::INFINITY));
        let epilogue = BiasActivation { bias: &bias, activation };
        for rows in [1, 2, inner] {
            let mut out = vec![f32::NAN; rows * cols];
            for first in (0..inner).step_by(rows) {
                let product = Igemm {
                    x: &identity[first * inner..],
                    zeros: &[],
                    input_rows: InputRows::Strided { stride: inner },
                    rows,
                    channels: inner,
                    weights,
                    cols,
                    reverse_panels: first % 2 == 1,
                };
                let to = OutputRows { data: &mut out, offset: 0, row_stride: cols };
                let mut scratch = vec![f32::NAN; product.scratch_len(isa, 1)];
                product.run(isa, epilogue, to, &mut scratch, None).unwrap();
                for (at, found) in out.iter().enumerate() {
                    let (k, col) = (first + at / cols, at % cols);
                    let column = &columns[col * inner..][..inner];
                    let most = column.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                    // Half a step, and the rounding of the integer with its lowest byte.
                    let miss = (found / large - column[k]).abs() / most.max(f32::MIN_POSITIVE);
                    assert!(miss <= 1.1 * f32::EPSILON, "{isa:?}, row {k}, column {col}: {found}");
                }
            }
        }
    }
}

#[test]
fn weights_not_suitable_for_24_bits_are_refused() {
    let (inner, cols) = (50, 40);
    let columns = vec![0.5; inner * cols];
    for isa in Isa::available().filter(|isa| isa.lanes() < cols) {
        assert!(pack_fixed24(isa, inner, &columns).is_some(), "{isa:?}");
        for other in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, 1e4, 0.0] {
            let mut columns = columns.clone();
            columns[inner * 33 + 7] = other;
            assert!(pack_fixed24(isa, inner, &columns).is_none(), "{isa:?}: {other}");
        }
        assert!(pack_fixed24(isa, inner, &vec![1e-40; inner * cols]).is_none(), "{isa:?}");
        // A single zero in a long column is accepted.
        let mut long = vec![0.5; 4 * inner * cols];
        long[inner * 33 + 7] = 0.0;
        assert!(pack_fixed24(isa, 4 * inner, &long).is_some(), "{isa:?}");
        assert!(pack_fixed24(isa, inner, &vec![0.0; inner * cols]).is_some(), "{isa:?}");
    }
}
