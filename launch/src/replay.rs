//! `afferent replay`: runs a graph again on a recording.

use std::{path::PathBuf, process::ExitCode};

use afferent_engine::{ClockKind, Observer, Report, RunOptions, Threads};
use afferent_record::{Compare, Recording, Skipped, StreamVerdict};
use afferent_spec::{Checked, LoadOptions, PlacementOptions, counted};
use anyhow::ensure;
use clap::Args;

use crate::{
    App,
    graph_file::GraphFile,
    log,
    run::{ended, log_failures, stop_on_ctrl_c},
    table::aligned,
};

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A recording, from `afferent run --record`
    recording: PathBuf,
    #[command(flatten)]
    file: GraphFile,
    /// Compare the packets of every node with the recording; fail if they differ
    #[arg(long)]
    check: bool,
    /// Also execute nodes with effects, such as tools, loudspeakers and files that are written;
    /// otherwise their recorded packets are sent
    #[arg(long)]
    execute: bool,
    /// Run everything on one thread
    #[arg(long)]
    single_thread: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn replay(app: App, args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    check_order(args)?;
    let app = args.file.configure(app);
    let options = LoadOptions {
        without_sources: true,
        placement: PlacementOptions { here: true, ..PlacementOptions::default() },
        ..LoadOptions::default()
    };
    let loaded = args.file.load(&app, options)?;
    let Some(mut checked) = loaded else { return Ok(ExitCode::FAILURE) };
    let recording = Recording::open(&args.recording)?;
    let app = match recording.start() {
        Some(start) => app.service(start),
        None => app,
    };
    let path = args.recording.display();
    if let Some(reason) = recording.cut() {
        ensure!(!args.check, "{path} cannot be checked: it ends early: {reason}");
        log::warning(format_args!("{path} ends early: {reason}"));
    }
    let is_empty = recording.streams().iter().all(|stream| stream.packets == 0);
    ensure!(!(args.check && is_empty), "{path} cannot be checked: it holds no packets");
    for name in recording.changed_files(&checked.graph) {
        log::warning(format_args!("{name} has another content than when this was recorded"));
    }
    if args.check && recording.has_calls() {
        return repeat(&app, args, &recording, &checked);
    }
    let replaced = recording.replace_nodes(&mut checked.graph, args.execute)?;
    let compare = Compare::new(&checked.graph, args.check.then_some(&recording))?;
    let options = RunOptions {
        threads: if args.single_thread { Threads::Single } else { Threads::Auto },
        clock: ClockKind::Virtual,
        observers: vec![compare.clone() as std::sync::Arc<dyn Observer>],
        ..RunOptions::default()
    };
    let session = app.start(&checked.graph, options)?;
    stop_on_ctrl_c(&session, true)?;
    let (report, failed) = ended(session.wait())?;
    let verdicts = compare.verdicts();
    // A replaced source sends the recorded packets.
    let is_source = |verdict: &&StreamVerdict| {
        let node = verdict.output.split_once('.').map_or("", |(node, _)| node);
        replaced.iter().any(|name| name == node)
    };
    show(args, &report, &verdicts)?;
    log_failures(&report);
    if args.check && verdicts.iter().filter(|v| !is_source(v)).all(|v| v.recorded.is_none()) {
        log::error("the recording holds only sources: there is nothing to compare");
        return Ok(ExitCode::FAILURE);
    }
    let code = if args.check { differing(&verdicts) } else { ExitCode::SUCCESS };
    Ok(if failed { ExitCode::FAILURE } else { code })
}

/// Checks a recording of a run on the real clock, which cannot be repeated as a whole: repeats the
/// recorded calls node by node.
fn repeat(
    app: &App,
    args: &ReplayArgs,
    recording: &Recording,
    checked: &Checked,
) -> anyhow::Result<ExitCode> {
    ensure!(
        !args.execute,
        "--execute: the check of a run on the real clock never executes nodes with effects"
    );
    let verdicts = recording.repeat(&checked.graph, &app.open_cx())?;
    if args.json {
        crate::print(&format!("{}\n", serde_json::json!({ "streams": verdicts })))?;
    } else {
        crate::print(&aligned(&stream_rows(args, &verdicts)))?;
    }
    if verdicts.iter().all(|verdict| verdict.skipped.is_some() || verdict.recorded.is_none()) {
        log::error(
            "the recording holds no stream that can be repeated: there is nothing to compare",
        );
        return Ok(ExitCode::FAILURE);
    }
    let incomplete = |verdict: &&StreamVerdict| verdict.skipped == Some(Skipped::Incomplete);
    if let Some(StreamVerdict { output, .. }) = verdicts.iter().find(incomplete) {
        log::error(format_args!("{output} {}", Skipped::Incomplete));
        return Ok(ExitCode::FAILURE);
    }
    Ok(differing(&verdicts))
}

/// Reports streams that differ from the recording.
fn differing(verdicts: &[StreamVerdict]) -> ExitCode {
    let differs = |verdict: &&StreamVerdict| {
        verdict.skipped.is_none() && verdict.recorded.is_some() && !verdict.is_equal()
    };
    let differing = verdicts.iter().filter(differs).count();
    if differing == 0 {
        return ExitCode::SUCCESS;
    }
    let (count, verb) =
        (counted(differing, "stream"), if differing == 1 { "differs" } else { "differ" });
    log::error(format_args!("{count} {verb} from the recording"));
    ExitCode::FAILURE
}

/// Refuses swapped arguments.
fn check_order(args: &ReplayArgs) -> anyhow::Result<()> {
    let (recording, graph) = (&args.recording, &args.file.graph);
    ensure!(
        !Recording::is_recording(graph) || Recording::is_recording(recording),
        "the recording comes first: afferent replay {} {}",
        graph.display(),
        recording.display()
    );
    Ok(())
}

fn show(args: &ReplayArgs, report: &Report, verdicts: &[StreamVerdict]) -> anyhow::Result<()> {
    if args.json {
        let json = serde_json::json!({"summary": report, "streams": verdicts});
        return crate::print(&format!("{json}\n"));
    }
    let mut text = String::new();
    report.write_summary(&mut text)?;
    crate::print(&format!("\n{}\n\n{}", text.trim_end(), aligned(&stream_rows(args, verdicts))))
}

/// Rows of the table of streams.
fn stream_rows(args: &ReplayArgs, verdicts: &[StreamVerdict]) -> Vec<[String; 4]> {
    let mut rows = vec![["stream", "packets", "SHA-256", ""].map(str::to_owned)];
    rows.extend(verdicts.iter().map(|verdict| {
        let state = match (args.check, verdict.recorded, verdict.difference) {
            (false, ..) => String::new(),
            _ if let Some(skipped) = verdict.skipped => skipped.to_string(),
            (true, None, _) => "not recorded".to_owned(),
            (true, Some(_), None) => "as recorded".to_owned(),
            (true, Some(recorded), Some(difference)) => match difference.at {
                Some(at) => format!(
                    "differs from packet {} at {:.6} s on, {recorded} were recorded",
                    difference.packet,
                    at.as_secs_f64()
                ),
                None => format!("ends, {recorded} were recorded"),
            },
        };
        let hash = verdict.hash.get(..16).unwrap_or_default().to_owned();
        [verdict.output.clone(), verdict.packets.to_string(), hash, state]
    }));
    rows
}
