//! `afferent model verify`: runs the test cases of a bundled program.

use std::{process::ExitCode, sync::Arc};

use afferent_runtime::{Input, Model, ModelFile, ModelOptions, program::TestCase};
use anyhow::bail;
use clap::Args;
use serde::Serialize;

use crate::App;

use super::{
    ProgramFile,
    compare::{Difference, ToleranceArgs, compare},
    input::Given,
};
use crate::table::{aligned, figure};

/// Runs the test cases that the exporter bundled with a program, and compares the results with
/// those of eager PyTorch. Every case starts from the state after loading.
///
/// The exit status is 1 when a result is outside of the tolerance or a case cannot be run.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model verify model.bpte
  afferent model verify model.bpte --method encode --rtol 1e-3 --atol 1e-4
  afferent model verify model.bpte --json | jq '.[] | select(.ok | not)'")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Only the cases of this method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What became of one output, or of a case as a whole.
#[derive(Serialize)]
struct Verdict {
    method: String,
    case: usize,
    /// Absent where the case failed as a whole.
    output: Option<usize>,
    ok: bool,
    #[serde(flatten)]
    difference: Option<Difference>,
    error: Option<String>,
}

pub(crate) fn verify(app: &App, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let file = args.program.open()?;
    let verdicts = verdicts(&file, app.models(), args.method.as_deref(), args.tolerance)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&verdicts)?)
    } else {
        text(&verdicts)
    };
    crate::print(&text)?;
    let wrong = verdicts.iter().any(|verdict| !verdict.ok);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the cases of `method`, or of all.
///
/// # Errors
/// There are none.
fn verdicts(
    file: &Arc<ModelFile>,
    models: &ModelOptions,
    method: Option<&str>,
    tolerance: ToleranceArgs,
) -> anyhow::Result<Vec<Verdict>> {
    let Some(bundled) = file.bundled() else {
        bail!(
            "{}: holds no test cases; bundle them with executorch.devtools.BundledProgram, or run \
             the program with `afferent model run`",
            file.path().display()
        );
    };
    let chosen = |name: &str| method.is_none_or(|method| method == name);
    let mut verdicts = Vec::new();
    for suite in bundled.suites().filter(|suite| chosen(suite.method)) {
        let mut model = Model::new(Arc::clone(file), models.clone());
        for (case, test) in suite.cases().enumerate() {
            let verdict = |output, difference: Option<Difference>, error: Option<String>| Verdict {
                method: suite.method.to_owned(),
                case,
                output,
                ok: error.is_none() && difference.as_ref().is_none_or(|found| found.outside == 0),
                difference,
                error,
            };
            let results = run(&mut model, suite.method, &test, tolerance);
            match results {
                Ok(results) => {
                    verdicts.extend(results.into_iter().enumerate().map(|(output, result)| {
                        match result {
                            Ok(difference) => verdict(Some(output), Some(difference), None),
                            Err(error) => verdict(Some(output), None, Some(error.to_string())),
                        }
                    }))
                }
                Err(error) => verdicts.push(verdict(None, None, Some(format!("{error:#}")))),
            }
        }
    }
    if verdicts.is_empty() {
        let methods: Vec<&str> = bundled.suites().map(|suite| suite.method).collect();
        bail!("{}: no such test cases; it has some of {methods:?}", file.path().display());
    }
    Ok(verdicts)
}

/// Runs one case: how far each output is from what is expected.
fn run(
    model: &mut Model,
    method: &str,
    case: &TestCase<'_>,
    tolerance: ToleranceArgs,
) -> anyhow::Result<Vec<anyhow::Result<Difference>>> {
    let inputs: Vec<Given> = case.inputs().map(Given::bundled).collect::<Result<_, _>>()?;
    let expected: Vec<Given> = case.expected().map(Given::bundled).collect::<Result<_, _>>()?;
    let inputs: Vec<Input<'_>> = inputs.iter().map(Given::input).collect();
    model.load_method(method)?;
    model.reset();
    let outputs = model.run(method, &inputs)?;
    if expected.is_empty() {
        bail!("it ran, but the bundle holds no expected outputs");
    }
    if outputs.len() != expected.len() {
        bail!("{} outputs, but {} are expected", outputs.len(), expected.len());
    }
    let expected = expected.iter().enumerate();
    Ok(expected.map(|(at, value)| compare(&outputs.get(at)?, &value.output(), tolerance)).collect())
}

fn text(verdicts: &[Verdict]) -> String {
    let head = ["method", "case", "output", "verdict"].into_iter().chain(Difference::COLUMNS);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for verdict in verdicts {
        let output = verdict.output.map_or_else(|| "all".to_owned(), |output| output.to_string());
        let word = if verdict.ok { "ok" } else { "WRONG" };
        let mut row =
            vec![verdict.method.clone(), verdict.case.to_string(), output, word.to_owned()];
        row.extend(verdict.difference.iter().flat_map(Difference::cells));
        row.extend(verdict.error.clone());
        rows.push(row);
    }
    let mut text = aligned(&rows);
    let right = verdicts.iter().filter(|verdict| verdict.ok).count();
    text += &format!("{right} of {} results are within tolerance\n", verdicts.len());
    let largest = |measure: Measure| {
        let all =
            verdicts.iter().filter_map(|verdict| Some((verdict, verdict.difference.as_ref()?)));
        all.max_by(|(_, a), (_, b)| measure(a).total_cmp(&measure(b)))
    };
    let measures: [(&str, Measure); 2] =
        [("absolute", |found| found.max_abs), ("relative", |found| found.max_rel)];
    for (name, measure) in measures {
        if let Some((Verdict { method, case, output: Some(output), .. }, found)) = largest(measure)
        {
            let size = figure(measure(found));
            text += &format!(
                "largest {name} difference: {size}, in output {output} of case {case} of {method}\n"
            );
        }
    }
    text
}

/// One figure of a difference.
type Measure = fn(&Difference) -> f64;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] =
        include_bytes!("../../../tests/conformance/data/programs/bundled/model.bpte");

    fn check(bytes: &[u8]) -> Vec<Verdict> {
        let file = ModelFile::from_bytes("model.bpte", bytes).unwrap();
        verdicts(&file, App::new().models(), None, ToleranceArgs::default()).unwrap()
    }

    #[test]
    fn the_exported_bundle_is_right() {
        let verdicts = check(FILE);
        assert_eq!(verdicts.len(), 1);
        assert!(verdicts[0].ok, "{}", text(&verdicts));
        assert_eq!(verdicts[0].difference.as_ref().unwrap().elements, 6);
    }

    #[test]
    fn a_changed_expectation_is_wrong_at_its_place() {
        let file = ModelFile::from_bytes("model.bpte", FILE).unwrap();
        let case = file.bundled().unwrap().suites().next().unwrap().cases().next().unwrap();
        let expected = match case.expected().next() {
            Some(afferent_runtime::program::TestValue::Tensor(_, data)) => data.to_vec(),
            other => panic!("{other:?} is a tensor"),
        };
        let at = (0..FILE.len()).find(|&at| FILE[at..].starts_with(&expected)).unwrap();
        let mut changed = FILE.to_vec();
        changed[at + 12..at + 16].copy_from_slice(&100.0_f32.to_le_bytes());
        let verdicts = check(&changed);
        assert!(!verdicts[0].ok);
        let first = verdicts[0].difference.as_ref().unwrap().first.as_ref().unwrap();
        assert_eq!((first.index.as_slice(), first.expected), (&[1, 1][..], 100.0));
        let text = text(&verdicts);
        assert!(text.contains("WRONG") && text.contains("0 of 1 results"), "{text}");
    }

    #[test]
    fn a_bare_program_holds_no_cases() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/conformance/data/programs/bundled/model.pte"
        );
        let file = ModelFile::open(path, &[]).unwrap();
        let Err(error) = verdicts(&file, App::new().models(), None, ToleranceArgs::default())
        else {
            panic!()
        };
        assert!(error.to_string().contains("holds no test cases"), "{error}");
    }
}
