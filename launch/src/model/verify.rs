//! `afferent model verify`: runs the test cases of a bundled program.

use std::process::ExitCode;

use afferent_inspect::{Difference, TestCaseResult, verify as run_test_cases};
use clap::Args;

use super::{
    ProgramFile,
    compare::{COLUMNS, ToleranceArgs, cells},
};
use crate::{
    App,
    table::{aligned, figure},
};

/// Runs the test cases that the exporter bundled with a program, and compares the outputs with
/// those of eager PyTorch. Each case starts from the state after loading.
///
/// The exit status is 1 if an output is outside the tolerance or a case fails.
#[derive(Args)]
#[command(after_help = "Examples:
  afferent model verify model.bpte
  afferent model verify model.bpte --method encode --rtol 1e-3 --atol 1e-4
  afferent model verify model.bpte --json | jq '.[] | select(.ok | not)'")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    program: ProgramFile,
    /// Run only the cases of this method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn verify(app: &App, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let file = args.program.open(app)?;
    let tolerance = args.tolerance.tolerance();
    let results = run_test_cases(&file, app.models(), args.method.as_deref(), tolerance)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&results)?)
    } else {
        table(&results)
    };
    crate::print(&text)?;
    let all_ok = results.iter().all(|result| result.ok);
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(results: &[TestCaseResult]) -> String {
    let head = ["method", "case", "output", "result"].into_iter().chain(COLUMNS);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for result in results {
        let output = result.output.map_or_else(|| "all".to_owned(), |output| output.to_string());
        let word = if result.ok { "ok" } else { "WRONG" };
        let mut row = vec![result.method.clone(), result.case.to_string(), output, word.to_owned()];
        row.extend(result.difference.iter().flat_map(cells));
        row.extend(result.error.clone());
        rows.push(row);
    }
    let mut text = aligned(&rows);
    let passed = results.iter().filter(|result| result.ok).count();
    text += &format!("{passed} of {} results are within tolerance\n", results.len());
    text += &largest_difference(results, "absolute", |difference| difference.max_abs);
    text += &largest_difference(results, "relative", |difference| difference.max_rel);
    text
}

/// Line with the largest difference by a measure; empty if no output was compared.
fn largest_difference(
    results: &[TestCaseResult],
    name: &str,
    measure: fn(&Difference) -> f64,
) -> String {
    let compared = results
        .iter()
        .filter_map(|result| Some((result, result.output?, measure(result.difference.as_ref()?))));
    let largest = compared.max_by(|(.., a), (.., b)| a.total_cmp(b));
    let Some((TestCaseResult { method, case, .. }, output, value)) = largest else {
        return String::new();
    };
    let size = figure(value);
    format!("largest {name} difference: {size}, in output {output} of case {case} of {method}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_failed_outputs_and_the_largest_difference() {
        let difference = Difference {
            shape: "f32[2]".to_owned(),
            elements: 2,
            max_abs: 0.5,
            mean_abs: 0.25,
            max_rel: 1.0,
            snr_db: 20.0,
            cosine: 0.9,
            outside: 1,
            first: None,
        };
        let result = TestCaseResult {
            method: "forward".to_owned(),
            case: 3,
            output: Some(0),
            ok: false,
            difference: Some(difference),
            error: None,
        };
        let text = table(&[result]);
        assert!(text.contains("WRONG") && text.contains("0 of 1 results"), "{text}");
        let line = "largest absolute difference: 0.500, in output 0 of case 3 of forward";
        assert!(text.contains(line), "{text}");
    }
}
