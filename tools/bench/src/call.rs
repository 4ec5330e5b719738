//! The time of one call of a method with one instruction, against the official runtime.

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

/// Time of a call: what the runtime adds to the arithmetic.
///
/// A method with a single `add` of four numbers is called over and over, in rounds that alternate
/// with the peer. `batched` is the time of many calls divided by their number. `clocked` is the
/// median of calls between two clock reads, which is how the peer measures: compare these two.
/// Either includes binding two inputs and reading the output.
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
    /// Count the instructions of a call too, with Valgrind.
    #[arg(long)]
    callgrind: bool,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut subject = Subject::open(PROGRAM.as_ref())?;
    let program = options.peer.program.as_deref();
    let times = subject.times(program, options.rounds, options.repeat)?;
    let clock = timing::median(timing::each(options.repeat, || Ok::<_, anyhow::Error>(()))?);

    let title = format!("a call of a method with one add, {} rounds", options.rounds);
    let mut table = Table::new(title, &["runtime", "batched ns", "clocked ns"]);
    let ns = |micros: f64| figure(micros * 1e3);
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
    let mut tables = vec![table];
    if options.callgrind {
        tables.push(instructions(&subject, options)?);
    }
    Ok(tables)
}

fn instructions(subject: &Subject, options: &Options) -> Result<Table> {
    let mut table = Table::new("instructions of the same call", &["runtime", "instructions"]);
    let own = callgrind::per_call(|calls| callgrind::own_command(subject, calls))?;
    table.row(["afferent".to_owned(), format!("{own:.0}")]);
    match options.peer.program.as_deref() {
        Some(program) => {
            let peer = callgrind::per_call(|calls| Ok(subject.peer_command(program, calls)))?;
            table.row(["official runtime, with its clock reads".to_owned(), format!("{peer:.0}")]);
        }
        None => table.note(peer::SKIPPED),
    }
    Ok(table)
}
