//! `afferent merge`: one recording of the recordings of several processes.

use std::{path::PathBuf, process::ExitCode};

use afferent_record::merge;
use afferent_spec::counted;
use anyhow::ensure;
use clap::Args;

use crate::log;

#[derive(Args)]
pub(crate) struct MergeArgs {
    /// Recordings of the processes of one run
    #[arg(required = true, num_args = 2..)]
    recordings: Vec<PathBuf>,
    /// Recording to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let is_input = args
        .recordings
        .iter()
        .any(|path| same_file::is_same_file(path, &args.output).is_ok_and(|is| is));
    ensure!(!is_input, "{} would be overwritten: choose another --output", args.output.display());
    let report = merge(&args.recordings, &args.output)?;
    for (path, reason) in &report.cut {
        log::warning(format_args!("{} ends early: {reason}", path.display()));
    }
    let (messages, streams) = (report.messages, counted(report.streams, "stream"));
    let path = args.output.display();
    log::progress(format_args!("merged {messages} packets and calls of {streams} in {path}"));
    Ok(ExitCode::SUCCESS)
}
