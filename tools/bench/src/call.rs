//! The time of one call of a method with one instruction, and of one instruction of a longer
//! method, against the official runtime.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    callgrind,
    peer::{self, PeerOption},
    subject::Subject,
    table::{Table, figure},
    timing,
};

/// The program that is called: one `aten::add.out` on four numbers.
pub(crate) const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs/add/model.pte");

/// Few calls and many, whose instructions are compared.
const CALLS: (usize, usize) = (100, 2100);

/// Time of a call: what the runtime adds to the arithmetic.
///
/// A method with a single `add` of four numbers is called over and over, in rounds that alternate
/// with the peer. `batched` is the time of many calls divided by their number. `clocked` is the
/// median of calls between two clock reads, which is how the peer measures: compare these two.
/// Either includes binding two inputs and reading the output.
///
/// The same for the method of `--long`, divided by the number of its instructions;
/// `tools/bench/export_calls.py FILE` makes one of 200.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    peer: PeerOption,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Calls in a round.
    #[arg(long, default_value_t = 20_000)]
    repeat: usize,
    /// A program with many small instructions, to be measured too.
    #[arg(long, value_name = "FILE")]
    long: Option<PathBuf>,
    /// Count the instructions of a call too, with Valgrind.
    #[arg(long)]
    callgrind: bool,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut subject = Subject::open(PROGRAM.as_ref())?;
    let title = format!("a call of a method with one add, {} rounds", options.rounds);
    let mut tables = vec![times(title, &mut subject, 1, options.repeat, options)?];
    if options.callgrind {
        tables.push(instructions(&subject, options)?);
    }
    if let Some(path) = options.long.as_deref() {
        tables.push(long(path, options)?);
    }
    Ok(tables)
}

/// A table of the times of a call, each divided by `parts`.
fn times(
    title: String,
    subject: &mut Subject,
    parts: usize,
    repeat: usize,
    options: &Options,
) -> Result<Table> {
    let program = options.peer.program.as_deref();
    let times = subject.times(program, options.rounds, repeat)?;
    let clock = timing::median(timing::each(repeat, || Ok::<_, anyhow::Error>(()))?);
    let mut table = Table::new(title, &["runtime", "batched ns", "clocked ns"]);
    let ns = |micros: f64| figure(micros * 1e3 / parts as f64);
    table.row(["afferent".to_owned(), ns(times.batched), ns(times.clocked)]);
    match times.peer {
        Some(peer) => {
            table.row(["official runtime".to_owned(), "-".to_owned(), ns(peer.clocked)]);
            let name = "afferent / official, median of the rounds".to_owned();
            table.row([name, "-".to_owned(), figure(peer.ratio)]);
        }
        None => table.note(peer::SKIPPED),
    }
    table.note(format!("two clock reads, in every clocked figure: {} ns", ns(clock)));
    Ok(table)
}

/// The time of one instruction of the program at `path`.
fn long(path: &Path, options: &Options) -> Result<Table> {
    let mut subject = Subject::open(path)?;
    let count = subject.model.file().method("forward")?.num_instructions().max(1);
    let title = format!("one of the {count} instructions of a method, {} rounds", options.rounds);
    times(title, &mut subject, count, options.repeat / count + 1, options)
}

fn instructions(subject: &Subject, options: &Options) -> Result<Table> {
    let mut table = Table::new("instructions of the same call", &["runtime", "instructions"]);
    let own = callgrind::per_call(CALLS, |calls| callgrind::own_command(subject, calls))?;
    table.row(["afferent".to_owned(), format!("{own:.0}")]);
    match options.peer.program.as_deref() {
        Some(program) => {
            let peer =
                callgrind::per_call(CALLS, |calls| Ok(subject.peer_command(program, calls)))?;
            table.row(["official runtime, with its clock reads".to_owned(), format!("{peer:.0}")]);
        }
        None => table.note(peer::SKIPPED),
    }
    Ok(table)
}
