//! Speed of single operators: portable kernels alone, or exported programs.

mod programs;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor, find_kernel};
use anyhow::{Context, Result};

use crate::{
    peer::PeerOption,
    table::{Table, format_number},
    timing,
};

/// Speed of single operators, on one thread.
///
/// Without a folder, calls each portable kernel on `f32` tensors without a program. Results are
/// medians over batches of calls. `GFLOP/s` counts a multiplication and an addition as two
/// operations; `GB/s` counts each element read or written once.
///
/// With a folder, runs each method of the programs that `tools/bench/export_operators.py FOLDER`
/// writes, in alternating rounds with the peer, and counts the ratios above 1.0 and 1.1.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the programs.
    folder: Option<PathBuf>,
    #[command(flatten)]
    peer: PeerOption,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measure only methods whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Time for each row, in milliseconds.
    #[arg(long, default_value_t = 300)]
    milliseconds: u64,
}

/// Argument of a kernel.
enum Value {
    /// Input tensor of this shape.
    In(&'static [usize]),
    /// Output tensor of this shape.
    Out(&'static [usize]),
    None,
    Ints(&'static [i64]),
    Number(Scalar),
}

use Value::{In, Ints, None as Absent, Number, Out};

/// Kernel with arguments of one shape.
struct Case {
    what: &'static str,
    shape: &'static str,
    /// Operator name and overload.
    kernel: (&'static str, &'static str),
    /// Multiplications and additions of a call, if the kernel is compute-bound.
    flops: Option<f64>,
    arguments: Vec<Value>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    if let Some(folder) = &options.folder {
        return programs::run(options, folder);
    }
    let title = "portable kernels, f32, one thread";
    let mut table = Table::new(title, &["operator", "shape", "µs", "GFLOP/s", "GB/s"]);
    for case in cases() {
        let (micros, bytes) = measure(&case, Duration::from_millis(options.milliseconds))
            .with_context(|| format!("{} {}", case.what, case.shape))?;
        let flops = case.flops.map_or(f64::NAN, |flops| flops / micros / 1e3);
        let bandwidth = bytes as f64 / micros / 1e3;
        let numbers = [micros, flops, bandwidth].map(format_number);
        let names = [case.what, case.shape].map(str::to_owned);
        table.row(names.into_iter().chain(numbers));
    }
    Ok(vec![table])
}

fn cases() -> Vec<Case> {
    vec![
        matmul("64 x 64 x 64", [&[64, 64], &[64, 64], &[64, 64]]),
        matmul("256 x 256 x 256", [&[256, 256], &[256, 256], &[256, 256]]),
        linear("1 x 256 -> 256", [&[1, 256], &[256, 256], &[256], &[1, 256]]),
        linear("32 x 256 -> 256", [&[32, 256], &[256, 256], &[256], &[32, 256]]),
        conv(
            "conv2d 3x3",
            "32 -> 32, 28 x 28",
            1,
            [&[1, 32, 28, 28], &[32, 32, 3, 3], &[1, 32, 28, 28]],
        ),
        conv(
            "depthwise 3x3",
            "64, 56 x 56",
            64,
            [&[1, 64, 56, 56], &[64, 1, 3, 3], &[1, 64, 56, 56]],
        ),
        softmax("1 x 1000", &[1, 1000]),
        softmax("128 x 512", &[128, 512]),
        add("65536", [&[65_536], &[65_536]]),
        add("256 x 256 + 256", [&[256, 256], &[256]]),
        layer_norm("128 x 512", &[128, 512], [&[512], &[128, 1]]),
    ]
}

type Shape = &'static [usize];

fn int(value: i64) -> Value {
    Number(Scalar::Int(value))
}

fn case(
    what: &'static str,
    shape: &'static str,
    name: &'static str,
    arguments: Vec<Value>,
) -> Case {
    Case { what, shape, kernel: (name, "out"), flops: None, arguments }
}

fn matmul(shape: &'static str, [a, b, c]: [Shape; 3]) -> Case {
    let flops = Some(2.0 * (a[0] * a[1] * b[1]) as f64);
    Case { flops, ..case("mm", shape, "aten::mm", vec![In(a), In(b), Out(c)]) }
}

fn linear(shape: &'static str, [x, w, b, y]: [Shape; 4]) -> Case {
    let flops = Some(2.0 * (x[0] * w[0] * w[1]) as f64);
    Case { flops, ..case("linear", shape, "aten::linear", vec![In(x), In(w), In(b), Out(y)]) }
}

fn conv(what: &'static str, shape: &'static str, groups: i64, [x, w, y]: [Shape; 3]) -> Case {
    let flops = Some(2.0 * (y.iter().product::<usize>() * w[1] * w[2] * w[3]) as f64);
    let (one, none) = (|| Ints(&[1, 1]), Ints(&[0, 0]));
    let is_transposed = Number(Scalar::Bool(false));
    let (stride, padding, dilation) = (one(), one(), one());
    let geometry = [stride, padding, dilation, is_transposed, none, int(groups)];
    let mut arguments = vec![In(x), In(w), Absent];
    arguments.extend(geometry);
    arguments.push(Out(y));
    Case { flops, ..case(what, shape, "aten::convolution", arguments) }
}

fn softmax(shape: &'static str, x: Shape) -> Case {
    let half_to_float = Number(Scalar::Bool(false));
    case("softmax", shape, "aten::_softmax", vec![In(x), int(-1), half_to_float, Out(x)])
}

fn add(shape: &'static str, [a, b]: [Shape; 2]) -> Case {
    case("add", shape, "aten::add", vec![In(a), In(b), int(1), Out(a)])
}

fn layer_norm(shape: &'static str, x: Shape, [scale, mean]: [Shape; 2]) -> Case {
    let (over, epsilon) = (Ints(&[512]), Number(Scalar::Double(1e-5)));
    let inputs = [In(x), over, In(scale), In(scale), epsilon];
    let outputs = [Out(x), Out(mean), Out(mean)];
    let arguments = inputs.into_iter().chain(outputs).collect();
    case("layer_norm", shape, "aten::native_layer_norm", arguments)
}

/// Median time of a call in microseconds, and the bytes that it reads and writes.
fn measure(case: &Case, time: Duration) -> Result<(f64, usize)> {
    let kernel = find_kernel(afferent_kernels::KERNELS, case.kernel.0, case.kernel.1);
    let kernel = kernel.with_context(|| format!("no kernel {}", case.kernel.0))?;
    let mut tensors: Vec<Tensor> = Vec::new();
    for value in &case.arguments {
        if let In(sizes) | Out(sizes) = value {
            tensors.push(filled(sizes)?);
        }
    }
    let bytes = tensors.iter().map(|tensor| tensor.view().bytes().len()).sum();
    let mut remaining = tensors.iter_mut();
    let mut arguments = Vec::new();
    for value in &case.arguments {
        let mut next = || remaining.next().context("each tensor argument has a tensor");
        arguments.push(match value {
            In(_) => Argument::Tensor(next()?),
            Out(_) => Argument::Out(next()?),
            Absent => Argument::None,
            Ints(items) => Argument::Ints(items.to_vec()),
            Number(scalar) => Argument::Scalar(*scalar),
        });
    }
    let mut call = Call::new(kernel);
    // The first call allocates memory; the next ones determine the size of a batch of 1 ms.
    call.run(&mut arguments)?;
    let micros = timing::batch(2, || call.run(&mut arguments))?;
    let size = (1e3 / micros).clamp(1.0, 1e5) as usize;
    let (start, mut batches) = (Instant::now(), Vec::new());
    while start.elapsed() < time || batches.len() < 3 {
        batches.push(timing::batch(size, || call.run(&mut arguments))?);
    }
    Ok((timing::median(batches), bytes))
}

/// Tensor filled with small numbers, none of them denormal.
fn filled(sizes: &[usize]) -> Result<Tensor> {
    let mut tensor = Tensor::zeros(ScalarType::Float, sizes);
    for (at, element) in tensor.data_mut::<f32>()?.iter_mut().enumerate() {
        *element = (at % 17) as f32 * 0.125 - 1.0;
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs() {
        for case in cases() {
            let measured = measure(&case, Duration::ZERO);
            assert!(measured.is_ok_and(|(micros, _)| micros > 0.0), "{} {}", case.what, case.shape);
        }
    }
}
