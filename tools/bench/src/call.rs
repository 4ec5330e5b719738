//! Call overhead of a method with one instruction, and of an instruction in a longer method,
//! compared with the official runtime.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    bench_target::BenchTarget,
    callgrind,
    peer::{self, PeerOption},
    table::{Table, format_number},
    timing,
};

/// Program with one `aten::add.out` on four elements.
pub(crate) const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs/add/model.pte");

/// Two numbers of calls. The difference of their instruction counts excludes startup.
const CALLS: (usize, usize) = (100, 2100);

/// Call overhead of the runtime.
///
/// Calls a method with a single `add` of four elements, in rounds that alternate with the peer.
/// `batched` is the time of many calls divided by their number. `clocked` is the median time of
/// single calls between two clock reads, as the peer measures. Both include binding two inputs and
/// reading the output.
///
/// With `--long`, also measures another method and divides by its number of instructions;
/// `tools/bench/export_calls.py FILE` writes one with 200 instructions.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    peer: PeerOption,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Calls per round.
    #[arg(long, default_value_t = 20_000)]
    repeat: usize,
    /// Program with many small instructions to measure as well.
    #[arg(long, value_name = "FILE")]
    long: Option<PathBuf>,
    /// Count the machine instructions of a call with Valgrind as well.
    #[arg(long)]
    callgrind: bool,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut target = BenchTarget::open(PROGRAM.as_ref())?;
    let title = format!("call of a method with one add, {} rounds", options.rounds);
    let mut tables = vec![times(title, &mut target, 1, options.repeat, options)?];
    if options.callgrind {
        tables.push(instructions(&target, options)?);
    }
    if let Some(path) = options.long.as_deref() {
        tables.push(long(path, options)?);
    }
    Ok(tables)
}

/// Table with the times of a call, divided by `parts`.
fn times(
    title: String,
    target: &mut BenchTarget,
    parts: usize,
    repeat: usize,
    options: &Options,
) -> Result<Table> {
    let program = options.peer.program.as_deref();
    let times = target.times(program, options.rounds, repeat)?;
    let clock = timing::median(timing::each(repeat, || Ok::<_, anyhow::Error>(()))?);
    let mut table = Table::new(title, &["runtime", "batched ns", "clocked ns"]);
    let ns = |micros: f64| format_number(micros * 1e3 / parts as f64);
    table.row(["afferent".to_owned(), ns(times.batched), ns(times.clocked)]);
    match times.peer {
        Some(peer) => {
            table.row(["official runtime".to_owned(), "-".to_owned(), ns(peer.clocked)]);
            let name = "afferent / official, median of rounds".to_owned();
            table.row([name, "-".to_owned(), format_number(peer.ratio)]);
        }
        None => table.note(peer::SKIPPED),
    }
    table.note(format!("clocked times include two clock reads: {} ns", ns(clock)));
    Ok(table)
}

/// Time of one instruction of the program at `path`.
fn long(path: &Path, options: &Options) -> Result<Table> {
    let mut target = BenchTarget::open(path)?;
    let count = target.model.file().method("forward")?.num_instructions().max(1);
    let title = format!("one of {count} instructions of a method, {} rounds", options.rounds);
    times(title, &mut target, count, options.repeat / count + 1, options)
}

fn instructions(target: &BenchTarget, options: &Options) -> Result<Table> {
    let mut table = Table::new("machine instructions of a call", &["runtime", "instructions"]);
    let own = callgrind::per_call(CALLS, |calls| callgrind::own_command(target, calls))?;
    table.row(["afferent".to_owned(), format!("{own:.0}")]);
    match options.peer.program.as_deref() {
        Some(program) => {
            let peer = callgrind::per_call(CALLS, |calls| Ok(target.peer_command(program, calls)))?;
            table.row(["official runtime, with clock reads".to_owned(), format!("{peer:.0}")]);
        }
        None => table.note(peer::SKIPPED),
    }
    Ok(table)
}
