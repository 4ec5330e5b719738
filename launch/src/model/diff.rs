//! `afferent model diff`: compares the outputs of two programs.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use afferent_runtime::{Input, Model, ModelFile};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use crate::App;

use super::{
    AccessArgs,
    compare::{Difference, ToleranceArgs, compare},
    input::{Given, given, random},
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

pub(crate) fn diff(app: &App, args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let open = |path: &PathBuf| -> anyhow::Result<Arc<ModelFile>> {
        Ok(ModelFile::open_with(path, &args.ptd, args.access.access())?)
    };
    let (reference, other) = (open(&args.reference)?, open(&args.other)?);
    let plan = reference.method(&args.method)?;
    let inputs = match args.input.as_slice() {
        [] => random(&plan, args.seed)?,
        texts => given(texts, &plan)?,
    };
    let [mut reference, mut other] =
        [reference, other].map(|file| Model::new(file, app.models().clone()));
    let verdicts = verdicts(&mut reference, &mut other, &args.method, &inputs, args.tolerance)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&verdicts)?)
    } else {
        text(&verdicts)
    };
    crate::print(&text)?;
    let same = verdicts.iter().all(|verdict| verdict.ok);
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs both programs, and compares output by output.
fn verdicts(
    reference: &mut Model,
    other: &mut Model,
    method: &str,
    inputs: &[Given],
    tolerance: ToleranceArgs,
) -> anyhow::Result<Vec<Verdict>> {
    let inputs: Vec<Input<'_>> = inputs.iter().map(Given::input).collect();
    let names = [&*reference, &*other].map(|model| model.file().path().display().to_string());
    let [reference_name, other_name] = names;
    let expected = reference.run(method, &inputs).context(reference_name)?;
    let found = other.run(method, &inputs).context(other_name)?;
    if expected.len() != found.len() {
        bail!("the programs give {} and {} outputs", expected.len(), found.len());
    }
    let verdict = |output| {
        let compare = || compare(&found.get(output)?, &expected.get(output)?, tolerance);
        match compare() {
            Ok(found) => {
                Verdict { output, ok: found.outside == 0, difference: Some(found), error: None }
            }
            Err(error) => {
                Verdict { output, ok: false, difference: None, error: Some(error.to_string()) }
            }
        }
    };
    Ok((0..expected.len()).map(verdict).collect())
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

#[cfg(test)]
mod tests {
    use afferent_core::Tensor;

    use super::*;

    fn open(name: &str) -> Arc<ModelFile> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/data/programs");
        ModelFile::open(format!("{folder}/{name}/model.pte"), &[]).unwrap()
    }

    #[test]
    fn a_program_equals_itself_and_no_other() {
        let inputs = random(&open("mlp").method("forward").unwrap(), 1).unwrap();
        let model = |name| Model::new(open(name), App::new().models().clone());
        let (mut mlp, mut same, mut other) = (model("mlp"), model("mlp"), model("linear"));
        let tolerance = ToleranceArgs::default();
        let same = verdicts(&mut mlp, &mut same, "forward", &inputs, tolerance).unwrap();
        assert!(!same.is_empty() && same.iter().all(|verdict| verdict.ok), "{}", text(&same));
        assert!(verdicts(&mut mlp, &mut other, "forward", &inputs, tolerance).is_err());
    }

    #[test]
    fn weights_in_another_place_give_other_results() {
        let reference = open("mlp");
        let mut bytes = std::fs::read(reference.path()).unwrap();
        let constant =
            reference.method("forward").unwrap().values().find_map(|value| match value {
                afferent_runtime::program::Value::Tensor(meta) => match meta.data {
                    afferent_runtime::program::TensorData::Constant(data) => Some(data.to_vec()),
                    _ => None,
                },
                _ => None,
            });
        let constant = constant.unwrap();
        let at = (0..bytes.len()).find(|&at| bytes[at..].starts_with(&constant)).unwrap();
        bytes[at..at + 4].copy_from_slice(&10.0_f32.to_le_bytes());
        let other = ModelFile::from_bytes("changed.pte", &bytes).unwrap();
        let inputs = random(&reference.method("forward").unwrap(), 1).unwrap();
        let tolerance = ToleranceArgs::default();
        let [mut reference, mut other] =
            [reference, other].map(|file| Model::new(file, App::new().models().clone()));
        let found = verdicts(&mut reference, &mut other, "forward", &inputs, tolerance).unwrap();
        let difference = found[0].difference.as_ref().unwrap();
        assert!(!found[0].ok && difference.outside > 0 && difference.max_abs > 0.0);
        assert!(difference.snr_db.is_finite() && difference.cosine < 1.0);
    }

    #[test]
    fn a_seed_gives_the_same_inputs_again() {
        let file = open("mlp");
        let bytes = |seed| match &random(&file.method("forward").unwrap(), seed).unwrap()[0] {
            Given::Tensor(tensor) => Tensor::view(tensor).bytes().to_vec(),
            _ => panic!("it takes a tensor"),
        };
        assert_eq!(bytes(7), bytes(7));
        assert_ne!(bytes(7), bytes(8));
    }
}
