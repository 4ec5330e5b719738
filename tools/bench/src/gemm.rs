//! GEMM in `f32`, compared with the crate `rten-gemm`.

use std::time::Instant;

use afferent_simd::{
    Isa,
    gemm::{Dim, Gemm, MatrixStrides, Output, StridedOperand},
};
use anyhow::{Context, Result, ensure};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_tensor::NdTensorView;

use crate::{
    table::{Table, format_number},
    timing,
};

/// Speed of `f32` GEMM, compared with `rten-gemm`, on one thread.
///
/// Each round runs every GEMM with Afferent, with `rten-gemm`, and with `rten-gemm` and a prepacked
/// right matrix. Afferent packs in every call, because the weights of programs without a delegate
/// are not known to be constant. `GFLOP/s` counts a multiplication and an addition as two operations.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Time for each GEMM in a round, in milliseconds.
    #[arg(long, default_value_t = 30)]
    milliseconds: u64,
}

/// Rows, inner dimension and columns: square matrices, linear layers, and 1 × 1 convolutions of
/// MobileNetV2 with one column for each pixel.
const SHAPES: [[usize; 3]; 9] = [
    [64, 64, 64],
    [256, 256, 256],
    [512, 512, 512],
    [1, 512, 512],
    [1, 1024, 1024],
    [128, 768, 768],
    [96, 16, 12_544],
    [24, 144, 3136],
    [320, 960, 49],
];

/// Maximum difference of two results, for inputs from -1 to 1.
const TOLERANCE: f32 = 1e-3;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = [
        "rows x inner x cols",
        "afferent GFLOP/s",
        "rten GFLOP/s",
        "rten prepacked GFLOP/s",
        "afferent / rten",
        "afferent / rten prepacked",
    ];
    let isa = Isa::best();
    let title = format!("f32 GEMM, one thread, {isa:?}, {} rounds", options.rounds);
    let mut table = Table::new(title, &columns);
    // Parallel loops run in the pool in which they start.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for shape in SHAPES {
        let row = pool.install(|| measure(isa, shape, options));
        table.row(row.with_context(|| format!("GEMM {}", name(shape)))?);
    }
    Ok(vec![table])
}

fn name([rows, inner, cols]: [usize; 3]) -> String {
    format!("{rows} x {inner} x {cols}")
}

fn measure(isa: Isa, shape: [usize; 3], options: &Options) -> Result<[String; 6]> {
    let [rows, inner, cols] = shape;
    let mut random = fastrand::Rng::with_seed(7);
    let mut matrix = |len| -> Vec<f32> { (0..len).map(|_| random.f32() * 2.0 - 1.0).collect() };
    let (a, b) = (matrix(rows * inner), matrix(inner * cols));
    let product = Gemm {
        a: StridedOperand::new(&a, Dim { len: rows, stride: inner }, Dim { len: inner, stride: 1 })
            .context("the rows fit")?,
        b: StridedOperand::new(&b, Dim { len: cols, stride: 1 }, Dim { len: inner, stride: cols })
            .context("the columns fit")?,
        rows,
        inner,
        cols,
        alpha: 1.0,
        addend: None,
        clamp: None,
    };
    let (product, strides) = product.oriented(isa, MatrixStrides { row: cols, col: 1 });
    let mut scratch = vec![0.0; product.scratch_len(isa, 1)];
    let own = |data: &mut [f32]| {
        let out = Output { data, strides };
        let result = match product.is_gemv() {
            true => product.run_gemv(isa, out),
            false => product.run(isa, out, &mut scratch, None),
        };
        result.context("lengths fit")
    };

    let executor = GemmExecutor::<f32>::new();
    let (left, right) = (
        NdTensorView::from_data([rows, inner], a.as_slice()),
        NdTensorView::from_data([inner, cols], b.as_slice()),
    );
    let packed = executor.prepack_b(right.view());
    let theirs = |out: &mut [f32], right: GemmInputB<'_, f32>| -> Result<()> {
        executor
            .gemm(out, GemmInputA::Unpacked(left.view()), right, GemmOptions::default())
            .map_err(|error| anyhow::anyhow!("{error:?}"))
    };

    let mut results = [(); 3].map(|()| vec![0.0; rows * cols]);
    let [first, second, third] = &mut results;
    let mut calls: [Box<dyn FnMut() -> Result<()> + '_>; 3] = [
        {
            let mut own = own;
            Box::new(move || own(first))
        },
        Box::new(|| theirs(second, GemmInputB::Unpacked(right.view()))),
        Box::new(|| theirs(third, GemmInputB::Packed(&packed))),
    ];
    let mut times = [(); 3].map(|()| Vec::with_capacity(options.rounds));
    let mut repeats = [1; 3];
    for (call, repeat) in calls.iter_mut().zip(&mut repeats) {
        call()?;
        let start = Instant::now();
        call()?;
        let once = timing::micros(start.elapsed()).max(0.1);
        *repeat = (options.milliseconds as f64 * 1e3 / once).ceil() as usize;
    }
    for _ in 0..options.rounds {
        for ((call, times), repeat) in calls.iter_mut().zip(&mut times).zip(repeats) {
            times.push(timing::batch(repeat, call)?);
        }
    }
    drop(calls);
    for other in &results[1..] {
        let differences = results[0].iter().zip(other).map(|(own, other)| (own - other).abs());
        let largest = differences.fold(0.0, f32::max);
        ensure!(largest <= TOLERANCE, "the results differ by {largest:e}");
    }
    let speed = |times: &[f64]| {
        let flops = 2.0 * (rows * inner * cols) as f64;
        format_number(flops / timing::median(times.to_vec()) / 1e3)
    };
    let ratio = |other: &[f64]| {
        let ratios = times[0].iter().zip(other).map(|(own, other)| other / own);
        format_number(timing::median(ratios.collect()))
    };
    let [own, plain, packed] = times.each_ref().map(|times| speed(times));
    Ok([name(shape), own, plain, packed, ratio(&times[1]), ratio(&times[2])])
}
