//! `afferent model run`: runs one method on NPY files and times it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use afferent_inspect::{OwnedValue, npy};
use afferent_runtime::{Input, ModelOutputs, Output, RunOptions};
use afferent_simd::pool;
use anyhow::Context;
use clap::Args;

use super::{
    CacheArgs, ProgramFile,
    input::Inputs,
    limits::{Limits, threads},
    profile::{Profile, ProfileFile},
};
use crate::App;

/// Runs one method on NPY files and prints its times as one JSON object: `load_ms`, and minimum,
/// median and 99th percentile of the timed runs in microseconds.
///
/// With --next, a run is a sequence of calls of a method with state. Each run continues with the
/// state that the last one left.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model run model.pte --input x.npy --output-dir out
  afferent model run model.pte --method decode --input tokens.npy --input 5 --repeat 100 --warmup 10
  afferent model run vad.pte --input a.npy --next --input b.npy --output-dir out
  afferent model run model.pte --input x.npy --repeat 10 --profile model.etdp
    then, in Python: executorch.devtools.Inspector(etdump_path=\"model.etdp\").print_data_tabular()")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Method to run
    #[arg(long, default_value = "forward", value_name = "NAME")]
    method: String,
    #[command(flatten)]
    inputs: Inputs,
    /// Write the outputs of the last run to output_0.npy, output_1.npy, … in this folder; with
    /// --next, those of each call in its folder call_0, call_1, …
    ///
    /// The number is the index of the output. Ints are written as i8, doubles as f8 and booleans
    /// as b1, of rank 0; bf16 as f4. Strings and none are not written.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Number of timed runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Number of runs before the timed ones
    #[arg(long, default_value_t = 0)]
    warmup: u32,
    /// Number of threads of kernels
    #[arg(long, default_value_t = 1, value_parser = threads())]
    threads: usize,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: Limits,
    /// Write the time of each instruction to this file: an ETDump for ExecuTorch's Inspector
    /// (.etdp), or mean times (.json)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

pub(crate) fn run(app: &App, args: &RunArgs) -> anyhow::Result<ExitCode> {
    // A file that cannot be written ends the command before the model is loaded.
    let profile = args.profile.as_deref().map(ProfileFile::open).transpose()?;
    let origin = Instant::now();
    let file = args.program.open(app)?;
    let method = Instant::now();
    let model_options = args.limits.model_options(app.models().clone());
    let mut model = args.cache.load(Arc::clone(&file), &args.method, model_options)?;
    let load_ms = origin.elapsed().as_secs_f64() * 1e3;
    let profile = profile.map(|file| Profile::new(file, origin, method));

    let plan = file.method(&args.method)?;
    let calls = args.inputs.parse(&plan)?;
    let calls: Vec<Vec<Input<'_>>> =
        calls.iter().map(|call| call.iter().map(OwnedValue::as_input).collect()).collect();
    let observer = profile.as_ref().map(Profile::observer);
    let workers = pool::workers(args.threads);
    let canceled = args.limits.start_timer();
    let options = RunOptions { observer, workers, ..args.limits.run_options(&canceled) };
    for _ in 0..args.warmup {
        for inputs in &calls {
            model.run_with(&args.method, inputs, &RunOptions { observer: None, ..options })?;
        }
    }
    let end_call = |start: Instant| {
        let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
        profile.iter().for_each(|profile| profile.end_run(start));
        elapsed_us
    };
    let mut times_us = Vec::with_capacity(args.repeat as usize);
    for _ in 1..args.repeat {
        let mut run_us = 0.0;
        for inputs in &calls {
            let start = Instant::now();
            model.run_with(&args.method, inputs, &options)?;
            run_us += end_call(start);
        }
        times_us.push(run_us);
    }
    let (mut last_us, mut scalars) = (0.0, Vec::new());
    for (at, inputs) in calls.iter().enumerate() {
        let start = Instant::now();
        let outputs = model.run_with(&args.method, inputs, &options)?;
        last_us += end_call(start);
        scalars.extend(scalar_outputs(&outputs));
        if let Some(folder) = &args.output_dir {
            let call = (calls.len() > 1).then(|| folder.join(format!("call_{at}")));
            write_outputs(&outputs, call.as_deref().unwrap_or(folder))?;
        }
    }
    times_us.push(last_us);
    times_us.sort_by(f64::total_cmp);
    crate::print(&format!("{}\n", summary(load_ms, &times_us, scalars)))?;
    if let Some(profile) = profile {
        profile.write(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_outputs(outputs: &ModelOutputs<'_>, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for at in 0..outputs.len() {
        let output = outputs.get(at)?;
        let path = folder.join(format!("output_{at}.npy"));
        match (output, OwnedValue::of_scalar(output)) {
            (Output::Tensor(view), _) => npy::write(&path, &view)?,
            (_, Some(scalar)) => npy::write(&path, &scalar.view())?,
            _ => {}
        }
    }
    Ok(())
}

/// Outputs that are not tensors.
fn scalar_outputs(outputs: &ModelOutputs<'_>) -> Vec<serde_json::Value> {
    let scalar = |at| match outputs.get(at) {
        Ok(Output::Int(value)) => Some(value.into()),
        Ok(Output::Double(value)) => Some(value.into()),
        Ok(Output::Bool(value)) => Some(value.into()),
        Ok(Output::Str(text)) => Some(text.into()),
        _ => None,
    };
    (0..outputs.len()).filter_map(scalar).collect()
}

/// JSON object that the command prints: times, and outputs that are not tensors.
fn summary(load_ms: f64, sorted_us: &[f64], scalars: Vec<serde_json::Value>) -> serde_json::Value {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let mut summary = serde_json::json!({
        "load_ms": round(load_ms),
        "min_us": round(sorted_us[0]),
        "median_us": round(sorted_us[sorted_us.len() / 2]),
        "p99_us": round(sorted_us[sorted_us.len() * 99 / 100]),
        "repeat": sorted_us.len(),
    });
    if let (false, Some(object)) = (scalars.is_empty(), summary.as_object_mut()) {
        object.insert("scalars".to_owned(), scalars.into());
    }
    summary
}
