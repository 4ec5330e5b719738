//! `afferent model diff`: compares the outputs of two programs.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_inspect::{OutputComparison, diff as diff_models, random_inputs};
use afferent_runtime::{Model, ModelFile};
use anyhow::Context;
use clap::Args;

use super::{
    AccessArgs,
    compare::{COLUMNS, ToleranceArgs, cells},
    input::parse_inputs,
};
use crate::{App, table::aligned};

/// Runs one method of two programs on the same inputs, and compares the outputs of the second with
/// those of the first, for example of a quantized or delegated variant with those of the original.
///
/// Without --input the inputs are random, of the shapes in the first program: floats from -1 to 1,
/// bytes of any value, other integers from 0 to 3. The exit status is 1 if an output is outside the
/// tolerance.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model diff model.pte model_int8.pte --rtol 0.05 --atol 0.05
  afferent model diff portable.pte xnnpack.pte --input image.npy
  afferent model diff a.pte b.pte --method decode --seed 7 --json")]
pub(crate) struct DiffArgs {
    /// Program with the expected outputs
    reference: PathBuf,
    /// Program to compare with it
    other: PathBuf,
    /// Data file (.ptd) of both programs; may be given several times
    #[arg(long, value_name = "FILE")]
    ptd: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Method to run
    #[arg(long, default_value = "forward", value_name = "NAME")]
    method: String,
    /// Input: an NPY file, a number, true or false, or none; once for each input, in order
    #[arg(long, value_name = "X.npy", allow_negative_numbers = true)]
    input: Vec<String>,
    /// Seed of the random inputs
    #[arg(long, default_value_t = 0, conflicts_with = "input")]
    seed: u64,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn diff(app: &App, args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let open = |path: &PathBuf| -> anyhow::Result<Arc<ModelFile>> {
        Ok(ModelFile::open_with(path, &args.ptd, args.access.file_access())?)
    };
    let (reference, other) = (open(&args.reference)?, open(&args.other)?);
    let plan = reference.method(&args.method)?;
    let inputs = match args.input.as_slice() {
        [] => random_inputs(&plan, args.seed).context("pass the inputs with --input")?,
        texts => parse_inputs(texts, &plan)?,
    };
    let [mut reference, mut other] =
        [reference, other].map(|file| Model::new(file, app.models().clone()));
    let tolerance = args.tolerance.tolerance();
    let outputs = diff_models(&mut reference, &mut other, &args.method, &inputs, tolerance)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&outputs)?)
    } else {
        table(&outputs)
    };
    crate::print(&text)?;
    let all_ok = outputs.iter().all(|output| output.ok);
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(outputs: &[OutputComparison]) -> String {
    let head = ["output", "result"].into_iter().chain(COLUMNS);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for output in outputs {
        let result = if output.ok { "ok" } else { "DIFFERS" };
        let mut row = vec![output.output.to_string(), result.to_owned()];
        row.extend(output.difference.iter().flat_map(cells));
        row.extend(output.error.clone());
        rows.push(row);
    }
    aligned(&rows)
}
