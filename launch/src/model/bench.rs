//! `afferent model bench`: times the variants of a package and remembers the fastest.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use afferent_core::Tensor;
use afferent_package::{ModelPackage, Variant};
use afferent_runtime::{
    Input, Model, ModelOptions,
    program::{MethodPlan, Value},
};
use anyhow::{Context, bail};
use clap::Args;

use crate::{App, log};

/// Times the variants of a package that run on this machine and remembers the fastest, which nodes
/// load from then on.
///
/// Without this, the first variant of model.yaml whose backend is available is loaded. The choice is
/// kept in the cache of the user for this package and this processor. The parameter `backend` of a
/// node goes before it.
#[derive(Args)]
#[command(after_help = "Example:
  afferent model bench pipelines/models/depth")]
pub(crate) struct BenchArgs {
    /// Folder of the package
    package: PathBuf,
    /// Number of timed runs of each variant, after two others
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print the times only
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn bench(app: &App, args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let package = ModelPackage::open(&args.package)?;
    let options = app.models();
    for (key, variants) in package.manifest.all_programs() {
        let best = fastest(&package, &key, variants, options, args.repeat)?;
        let Some(best) = best else {
            bail!("{}: no variant of {key} runs on this machine", args.package.display());
        };
        if args.dry_run {
            continue;
        }
        let remembered = package.remember(&key, &best.file, options);
        let path = remembered.context("cannot remember the choice")?;
        let path = path.context("there is no home folder: set XDG_CACHE_HOME")?;
        log::progress(format_args!("{key}: {} from now on ({})", best.file, path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Times all variants, prints a line for each, and returns the fastest.
fn fastest<'v>(
    package: &ModelPackage,
    key: &str,
    variants: &'v [Variant],
    options: &ModelOptions,
    repeat: u32,
) -> anyhow::Result<Option<&'v Variant>> {
    let mut best: Option<(f64, &Variant)> = None;
    for variant in variants {
        let (file, backend) = (&variant.file, &variant.backend);
        let result = match ModelPackage::can_run(variant, options) {
            true => time(package, variant, options, repeat).map_err(|error| format!("{error:#}")),
            false => Err(options
                .unavailable(&variant.backend)
                .unwrap_or_else(|| "not available on this machine".to_owned())),
        };
        let line = match &result {
            Ok((load_ms, run_us)) => {
                format!("load {load_ms:.1} ms, run {:.3} ms", run_us / 1e3)
            }
            Err(reason) => reason.clone(),
        };
        crate::print(&format!("{key}: {file} ({backend}): {line}\n"))?;
        if let Ok((_, run_us)) = result
            && best.is_none_or(|(least, _)| run_us < least)
        {
            best = Some((run_us, variant));
        }
    }
    Ok(best.map(|(_, variant)| variant))
}

/// Time to load in milliseconds, and median time of a run in microseconds.
fn time(
    package: &ModelPackage,
    variant: &Variant,
    options: &ModelOptions,
    repeat: u32,
) -> anyhow::Result<(f64, f64)> {
    let start = Instant::now();
    let mut model = package.open_one(variant, options)?;
    let names: Vec<String> = model.file().program().method_names().map(str::to_owned).collect();
    let first = names.iter().find(|name| *name == "forward").or_else(|| names.first());
    let method = first.context("the program has no method")?;
    model.load_method(method)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let inputs = inputs(&model, method)?;
    let mut times = Vec::new();
    for at in 0..repeat + 2 {
        let start = Instant::now();
        let given: Vec<Input<'_>> = inputs.iter().map(Given::as_input).collect();
        let outputs = model.run(method, &given)?;
        // Results on a device are read back, as most nodes do.
        for index in 0..outputs.len() {
            outputs.get(index)?;
        }
        if at >= 2 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((load_ms, times[times.len() / 2]))
}

/// Input of a method.
enum Given {
    Tensor(Tensor),
    Int(i64),
    Double(f64),
    Bool(bool),
    None,
}

impl Given {
    fn as_input(&self) -> Input<'_> {
        match self {
            Self::Tensor(tensor) => Input::Tensor(tensor.view()),
            Self::Int(value) => Input::Int(*value),
            Self::Double(value) => Input::Double(*value),
            Self::Bool(value) => Input::Bool(*value),
            Self::None => Input::None,
        }
    }
}

/// Zeros of the largest sizes, and the numbers of the program.
fn inputs(model: &Model, method: &str) -> anyhow::Result<Vec<Given>> {
    let plan: MethodPlan<'_> = model.file().method(method)?;
    let given = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            let mut tensor = Tensor::try_zeros(meta.layout.dtype, &sizes)?;
            tensor.set_dim_order(meta.layout.dim_order)?;
            anyhow::Ok(Given::Tensor(tensor))
        }
        Value::Int(value) => Ok(Given::Int(value)),
        Value::Double(value) => Ok(Given::Double(value)),
        Value::Bool(value) => Ok(Given::Bool(value)),
        _ => Ok(Given::None),
    };
    plan.inputs().iter().map(given).collect()
}
