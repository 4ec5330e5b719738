//! `afferent test`: runs scenarios and prints failed expectations.

use std::{
    fs,
    io::{IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use afferent_engine::Threads;
use afferent_scenario::{Case, Options, Outcome, Runner, junit, load};
use anyhow::{Context, anyhow};
use clap::Args;

use crate::{App, output::Output};

/// Help text below the arguments.
const EXAMPLE: &str = "\
A scenario says what a user does, and what a graph must do then:

  afferent: 1
  scenario: lights
  graph: ../live_captions.yaml
  turns:
    - say: \"turn on the kitchen lights\"
      expect:
        - event: asr.transcript
          where: {event: final, text_contains: kitchen}
          within: 800ms
    - say: \"stop\"
      after: {event: asr.transcript, where: {event: final}, delay: 200ms}
      expect: [{event: asr.transcript, where: {text_contains: lights}, absent: true}]

It runs on the virtual clock, twice, and both runs must send the same packets. docs/scenarios.md
describes the format; pipelines/scenarios has examples.";

#[derive(Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct TestArgs {
    /// Scenario files (YAML), or folders of such
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Run only the cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// List the cases and run none
    #[arg(long)]
    list: bool,
    /// Number of runs of each case; all must send the same packets
    #[arg(long, value_name = "N", default_value_t = 2)]
    repeat: usize,
    /// Run everything on one thread
    #[arg(long)]
    single_thread: bool,
    /// Write the outcomes to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print a JSON line for each case
    #[arg(long)]
    json: bool,
    /// Cache of speech from espeak-ng; defaults to a folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

pub(crate) fn test(app: &App, args: &TestArgs) -> anyhow::Result<ExitCode> {
    let Some(cases) = cases(args)? else { return Ok(ExitCode::FAILURE) };
    if args.list {
        let lines = cases.iter().map(|case| format!("{}: {}\n", case.location.file(), case.name));
        crate::print(&lines.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if cases.is_empty() {
        return Err(match &args.filter {
            Some(filter) => anyhow!("no case has {filter:?} in its name; `--list` shows them"),
            None => anyhow!("there is no case to run"),
        });
    }
    let defaults = Options::default();
    let options = Options {
        threads: if args.single_thread { Threads::Single } else { Threads::Auto },
        repeat: args.repeat,
        cache: args.cache.clone().unwrap_or(defaults.cache),
    };
    // A file that cannot be written is an error before the first case.
    let report = args.junit.as_deref().map(Output::open).transpose()?;
    let services = app.open_cx();
    let mut runner = Runner::new(app.catalog(), &services, options);
    let mut outcomes = Vec::new();
    for case in &cases {
        let outcome = runner.run(case);
        show(args, &outcome)?;
        outcomes.push(outcome);
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if !args.json {
        let real: Duration = outcomes.iter().map(|outcome| outcome.real).sum();
        let (passed, real) = (outcomes.len() - failed, real.as_secs_f64());
        crate::print(&format!("\n{passed} passed, {failed} failed, in {real:.1} s\n"))?;
    }
    if let Some(report) = report {
        let text = junit(&outcomes).map_err(|error| anyhow!("no JUnit of this: {error}"))?;
        report.write(text.as_bytes())?;
    }
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Cases of all files that match the filter; `None` after printing the faults of a file.
fn cases(args: &TestArgs) -> anyhow::Result<Option<Vec<Case>>> {
    let (mut cases, mut is_sound) = (Vec::new(), true);
    for path in &args.scenarios {
        for file in files(path)? {
            match load(&file) {
                Ok(found) => cases.extend(found),
                Err(faults) => {
                    let faults = faults.render(stderr().is_terminal());
                    crate::log::diagnostics(format_args!("{faults}\n"), true);
                    is_sound = false;
                }
            }
        }
    }
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter.as_str()));
    }
    Ok(is_sound.then_some(cases))
}

/// The file, or the YAML files of the folder sorted by name.
fn files(path: &PathBuf) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.clone()]);
    }
    let failed = || format!("cannot read {}", path.display());
    let entries = fs::read_dir(path).with_context(failed)?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn show(args: &TestArgs, outcome: &Outcome) -> anyhow::Result<()> {
    if args.json {
        return crate::print(&format!("{}\n", serde_json::to_string(outcome)?));
    }
    let verdict = if outcome.passed() { "ok    " } else { "FAILED" };
    let Outcome { name, length, real, .. } = outcome;
    let (length, real) = (length.as_secs_f64(), real.as_secs_f64());
    let mut text = format!("{verdict}  {name}  {length:.2} s in {real:.2} s\n");
    if !outcome.passed() {
        let faults = outcome.render(std::io::stdout().is_terminal());
        text += &format!("\n{faults}\n\n");
    }
    crate::print(&text)
}
