//! `afferent replay`: runs a graph again on a recording.

use std::{path::PathBuf, process::ExitCode};

use afferent_engine::{ClockKind, Observer, Report, RunOptions, Threads};
use afferent_record::{Compare, Recording, StreamVerdict};
use clap::Args;

use crate::{
    App,
    graph_file::GraphFile,
    run::{ended, stop_on_ctrl_c},
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
    /// Run everything on one thread
    #[arg(long)]
    single_thread: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn replay(app: App, args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let app = args.file.configure(app);
    let Some(mut checked) = args.file.load_with(&app, true)? else { return Ok(ExitCode::FAILURE) };
    let recording = Recording::open(&args.recording)?;
    if let Some(reason) = recording.cut() {
        let path = args.recording.display();
        crate::say(format_args!("warning: {path} ends early: {reason}"));
    }
    for name in recording.changed_files(&checked.graph) {
        crate::say(format_args!("warning: {name} has another content than when this was recorded"));
    }
    let replaced = recording.replace_sources(&mut checked.graph)?;
    let compare = Compare::new(&checked.graph, args.check.then_some(&recording))?;
    let options = RunOptions {
        threads: if args.single_thread { Threads::Single } else { Threads::Auto },
        clock: ClockKind::Virtual,
        observers: vec![compare.clone() as std::sync::Arc<dyn Observer>],
        ..RunOptions::default()
    };
    let session = app.start(&checked.graph, options)?;
    stop_on_ctrl_c(&session)?;
    let (report, failed) = ended(session.wait())?;
    let verdicts = compare.verdicts();
    // A replaced source sends the recorded packets.
    let is_source = |verdict: &&StreamVerdict| {
        let node = verdict.output.split_once('.').map_or("", |(node, _)| node);
        replaced.iter().any(|name| name == node)
    };
    let differs = |verdict: &&StreamVerdict| verdict.recorded.is_some() && !verdict.is_equal();
    let differing = verdicts.iter().filter(|verdict| args.check && differs(verdict)).count();
    show(args, &report, &verdicts)?;
    for failure in &report.failures {
        crate::say(format_args!("error: {failure}"));
    }
    if args.check && verdicts.iter().filter(|v| !is_source(v)).all(|v| v.recorded.is_none()) {
        crate::say("error: the recording holds only sources: there is nothing to compare");
        return Ok(ExitCode::FAILURE);
    }
    if differing > 0 {
        crate::say(format_args!("error: {differing} streams differ from the recording"));
    }
    Ok(if failed || differing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(args: &ReplayArgs, report: &Report, verdicts: &[StreamVerdict]) -> anyhow::Result<()> {
    if args.json {
        let json = serde_json::json!({"summary": report, "streams": verdicts});
        return crate::print(&format!("{json}\n"));
    }
    let mut text = String::new();
    report.write_summary(&mut text)?;
    let mut rows = vec![["stream", "packets", "SHA-256", ""].map(str::to_owned)];
    rows.extend(verdicts.iter().map(|verdict| {
        let state = match (args.check, verdict.recorded, verdict.difference) {
            (false, ..) => String::new(),
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
    crate::print(&format!("\n{}\n\n{}", text.trim_end(), aligned(&rows)))
}
