//! `afferent run`: runs a graph and shows what happened.

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use afferent_engine::{ClockKind, Report, RunError, RunOptions, Session, Threads};
use afferent_graph::{Param, ParamKind, ParamValue};
use anyhow::{Context, anyhow};
use clap::Args;

use crate::{catalogue::services, graph::GraphFile};

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    file: GraphFile,
    /// Stop after this time on the clock of the session, such as 10s or 2min
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Write what was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Use a virtual clock: sources that keep time run as fast as the machine can, and the result
    /// is the same every time
    #[arg(long = "virtual")]
    virtual_clock: bool,
    /// Run everything on one thread
    #[arg(long)]
    single_thread: bool,
    /// Exit with a failure when a budget of the graph is not kept, or was not measured
    #[arg(long)]
    enforce_budget: bool,
    /// Print events and the summary as JSON lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let duration = args.duration.as_deref().map(parse_duration).transpose()?;
    let Some(mut checked) = args.file.load() else { return Ok(ExitCode::FAILURE) };
    if args.json {
        for node in checked.graph.nodes.iter_mut().filter(|node| node.def.name == "event_log") {
            node.params.insert("format".to_owned(), ParamValue::Text("json".to_owned()));
        }
    }
    let options = RunOptions {
        threads: if args.single_thread { Threads::Single } else { Threads::Auto },
        clock: if args.virtual_clock { ClockKind::Virtual } else { ClockKind::Real },
        duration,
        ..RunOptions::default()
    };
    let session = Session::start(&checked.graph, &services(), options)?;
    stop_on_ctrl_c(&session)?;
    match session.wait() {
        Ok(report) => {
            finish(args, &report)?;
            Ok(enforce_budget(args, &report))
        }
        Err(RunError::Failed(report)) => {
            finish(args, &report)?;
            for failure in &report.failures {
                eprintln!("error: {failure}");
            }
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}

/// The first Ctrl-C lets the graph finish what is under way; the second ends the process.
fn stop_on_ctrl_c(session: &Session) -> anyhow::Result<()> {
    let stop = session.stop_handle();
    ctrlc::set_handler(move || {
        if stop.is_asked() {
            std::process::exit(130);
        }
        eprintln!("stopping; press Ctrl-C again to end at once");
        stop.stop();
    })
    .context("cannot listen to Ctrl-C")
}

fn finish(args: &RunArgs, report: &Report) -> anyhow::Result<()> {
    if let Some(path) = &args.stats {
        let json = serde_json::to_string_pretty(report)?;
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        crate::print(&format!("{}\n", serde_json::json!({"summary": report})))?;
    } else {
        let mut text = String::new();
        report.write_summary(&mut text)?;
        crate::print(&format!("\n{}\n", text.trim_end()))?;
    }
    Ok(())
}

/// Names the budgets that were not kept, where that matters.
fn enforce_budget(args: &RunArgs, report: &Report) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for budget in report.budgets.iter().filter(|budget| args.enforce_budget && !budget.kept) {
        let why = if budget.measured == 0 { "was never measured" } else { "was not kept" };
        eprintln!("error: the budget from {} to {} {why}", budget.from, budget.to);
        code = ExitCode::FAILURE;
    }
    code
}

/// A time as graph files write it.
fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    let param = Param {
        name: "duration",
        kind: ParamKind::Duration,
        default: None,
        optional: false,
        range: None,
        unit: "",
        help: "",
    };
    match param.parse(text) {
        Ok(ParamValue::Duration(duration)) => Ok(duration),
        Ok(_) => Err(anyhow!("--duration: {text:?} is not a time")),
        Err(error) => Err(anyhow!("--duration: {error}")),
    }
}
