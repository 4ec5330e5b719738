//! `afferent model diff`: compares the outputs of two programs.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_runtime::{Input, ModelFile};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use super::{
    AccessArgs,
    compare::{Difference, ToleranceArgs, compare},
    input::{given, random},
    instance,
};
use crate::table::aligned;

/// Runs one method of two programs on the same inputs, and says how far the outputs of the second
/// are from those of the first: for example of a quantized or delegated variant from the original.
///
/// Without --input the inputs are random, of the shapes that the first program declares: floats
/// from -1 to 1, bytes of any value, other integers from 0 to 3. The exit status is 1 when an
/// output is outside of the tolerance.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model diff model.pte model_int8.pte --rtol 0.05 --atol 0.05
  afferent model diff portable.pte xnnpack.pte --input image.npy
  afferent model diff a.pte b.pte --method decode --seed 7 --json")]
pub(crate) struct DiffArgs {
    /// The program whose outputs are taken as right
    reference: PathBuf,
    /// The program that is compared with it
    other: PathBuf,
    /// Data file (.ptd) of both programs; may be given several times
    #[arg(long, value_name = "FILE")]
    ptd: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Method to run
    #[arg(long, default_value = "forward", value_name = "NAME")]
    method: String,
    /// Input: an NPY file, or int:N, double:X, bool:true, none; once for each input, in order
    #[arg(long, value_name = "X.npy")]
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

/// What became of one output.
#[derive(Serialize)]
struct Verdict {
    output: usize,
    ok: bool,
    #[serde(flatten)]
    difference: Option<Difference>,
    error: Option<String>,
}

pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let open = |path: &PathBuf| -> anyhow::Result<Arc<ModelFile>> {
        Ok(ModelFile::open_with(path, &args.ptd, args.access.access())?)
    };
    let file = open(&args.reference)?;
    let (mut reference, mut other) = (instance(file.clone()), instance(open(&args.other)?));
    let plan = file.method(&args.method)?;
    let inputs = match args.input.as_slice() {
        [] => random(&plan, args.seed)?,
        texts => given(texts, &plan)?,
    };
    let inputs: Vec<Input<'_>> = inputs.iter().map(|given| given.input()).collect();
    let failed = |path: &PathBuf| path.display().to_string();
    let expected = reference.run(&args.method, &inputs).with_context(|| failed(&args.reference))?;
    let found = other.run(&args.method, &inputs).with_context(|| failed(&args.other))?;
    if expected.len() != found.len() {
        bail!("the programs give {} and {} outputs", expected.len(), found.len());
    }
    let verdict = |output| {
        let compare = || compare(&found.get(output)?, &expected.get(output)?, args.tolerance);
        match compare() {
            Ok(found) => {
                Verdict { output, ok: found.outside == 0, difference: Some(found), error: None }
            }
            Err(error) => {
                Verdict { output, ok: false, difference: None, error: Some(error.to_string()) }
            }
        }
    };
    let verdicts: Vec<Verdict> = (0..expected.len()).map(verdict).collect();
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&verdicts)?)
    } else {
        text(&verdicts)
    };
    crate::print(&text)?;
    let same = verdicts.iter().all(|verdict| verdict.ok);
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(verdicts: &[Verdict]) -> String {
    let head = ["output", "verdict"].into_iter().chain(Difference::COLUMNS);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for verdict in verdicts {
        let word = if verdict.ok { "ok" } else { "DIFFERS" };
        let mut row = vec![verdict.output.to_string(), word.to_owned()];
        row.extend(verdict.difference.iter().flat_map(Difference::cells));
        row.extend(verdict.error.clone());
        rows.push(row);
    }
    aligned(&rows)
}
