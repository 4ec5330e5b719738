//! Robustness against damaged programs, compared with the official runtime.

use std::{
    collections::BTreeMap,
    env::current_exe,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread::sleep,
    time::{Duration, Instant},
};

use afferent_runtime::{Model, ModelFile, ModelOptions};
use afferent_tests_hostile::{
    execute::{self, Tally, allowance},
    mutate::corrupted,
    seeds::{Seed, programs, seeds},
};
use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    allocations, bench_target,
    peer::{self, PeerOption},
    table::Table,
};

/// Crashes and hangs caused by damaged programs.
///
/// Takes the programs of the conformance tests that need no data file and damages one to four bytes
/// of each. Every damaged program is loaded and run in a separate process with 4 GiB of address
/// space. A process that ends without a result or an error has crashed; a process that exceeds
/// `--seconds` hangs. Afferent runs every method three times, with at most 2000 instructions and
/// memory for 64 times the file size plus 1 MiB; exceeding this limit counts as a large allocation.
/// The peer runs the method `forward` once, on zeros.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    peer: PeerOption,
    /// Number of damaged files.
    #[arg(long, default_value_t = 450)]
    files: usize,
    /// Random seed of the damage.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time limit of a process in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Loads and runs one program within limits; run in a new process.
#[derive(Debug, clap::Args)]
pub(crate) struct OnceOptions {
    program: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut seeds = seeds("model.pte");
    seeds.retain(|seed| !programs().join(&seed.name).join("model.ptd").exists());
    let folder = TempDir::with_prefix("afferent-bench-")?;
    let title = format!("{} files with one to four damaged bytes", options.files);
    let mut table = Table::new(title, COLUMNS);
    let mut runtimes = vec![("afferent", None)];
    match options.peer.program.as_deref() {
        Some(peer) => runtimes.push(("official, default load", Some(peer))),
        None => table.note(peer::SKIPPED),
    }
    let inputs: BTreeMap<&str, Vec<PathBuf>> =
        seeds.iter().map(|seed| (seed.name.as_str(), inputs(seed, folder.path()))).collect();
    let path = folder.path().join("model.pte");
    let limit = Duration::from_secs(options.seconds);
    for (name, peer) in runtimes {
        let mut attempt = |(seed, bytes): (&Seed, Vec<u8>)| {
            fs::write(&path, bytes)?;
            let words = match peer {
                Some(peer) => peer::command(peer, &path, &inputs[seed.name.as_str()], 1, 0),
                None => own_command(&path)?,
            };
            outcome(&words, folder.path(), limit)
        };
        let valid = seeds.iter().map(|seed| (seed, seed.bytes.clone()));
        let valid: Outcomes = valid.map(&mut attempt).collect::<Result<_>>()?;
        table.row(valid.row(format!("{name}: {} valid files", seeds.len())));
        let damaged = corrupted(&seeds, options.files, options.seed);
        let damaged: Outcomes = damaged.map(&mut attempt).collect::<Result<_>>()?;
        table.row(damaged.row(format!("{name}: damaged files")));
        if !damaged.crashes.is_empty() {
            let causes = damaged.crashes.iter().map(|(cause, count)| format!("{count} × {cause}"));
            table.note(format!("{name}: {}", causes.collect::<Vec<_>>().join(", ")));
        }
    }
    Ok(vec![table])
}

/// Loads and runs a program. Returns an error if no method completes.
pub(crate) fn once(options: &OnceOptions) -> Result<()> {
    let bytes = fs::read(&options.program)?;
    allocations::limit(allowance(bytes.len()));
    let tally = execute::program(&bytes, 1);
    allocations::limit(usize::MAX);
    let Tally { rejected, failed, completed, .. } = tally;
    ensure!(completed > 0, "{rejected} methods were rejected, {failed} runs failed");
    Ok(())
}

const COLUMNS: &[&str] = &["runtime", "results", "errors", "crashes", "hangs", "large allocations"];

/// Outcome of running a program.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Result,
    Error,
    Crash(String),
    Hang,
    LargeAllocation,
}

/// Number of programs by outcome.
#[derive(Debug, Default)]
struct Outcomes {
    results: usize,
    errors: usize,
    /// Number of crashes by exit status.
    crashes: BTreeMap<String, usize>,
    hangs: usize,
    large_allocations: usize,
}

impl FromIterator<Outcome> for Outcomes {
    fn from_iter<I: IntoIterator<Item = Outcome>>(list: I) -> Self {
        let mut outcomes = Self::default();
        for outcome in list {
            *match outcome {
                Outcome::Result => &mut outcomes.results,
                Outcome::Error => &mut outcomes.errors,
                Outcome::Crash(status) => outcomes.crashes.entry(status).or_default(),
                Outcome::Hang => &mut outcomes.hangs,
                Outcome::LargeAllocation => &mut outcomes.large_allocations,
            } += 1;
        }
        outcomes
    }
}

impl Outcomes {
    fn row(&self, name: String) -> Vec<String> {
        let crashes = self.crashes.values().sum();
        let counts = [self.results, self.errors, crashes, self.hangs, self.large_allocations];
        [name].into_iter().chain(counts.map(|count| count.to_string())).collect()
    }
}

/// Input files for `forward`, filled with zeros; empty if the peer does not support the dtypes.
fn inputs(seed: &Seed, folder: &Path) -> Vec<PathBuf> {
    let folder = folder.join(&seed.name);
    let write = || {
        let file = ModelFile::from_bytes(&seed.name, &seed.bytes)?;
        let model = Model::new(file, ModelOptions::new(afferent_kernels::KERNELS));
        fs::create_dir(&folder)?;
        bench_target::write(&bench_target::zeros(&model)?, &folder)
    };
    write().unwrap_or_default()
}

fn own_command(program: &Path) -> Result<Vec<String>> {
    let own = current_exe()?.display().to_string();
    Ok(vec![own, "damaged-once".to_owned(), program.display().to_string()])
}

/// Runs `command` for at most `limit`.
fn outcome(command: &[String], folder: &Path, limit: Duration) -> Result<Outcome> {
    const LIMITED: &str = "ulimit -c 0; ulimit -v 4194304; exec \"$@\"";
    let errors = folder.join("errors");
    let mut child = Command::new("sh")
        .args(["-c", LIMITED, "sh"])
        .args(command)
        .stdout(File::create(folder.join("output"))?)
        .stderr(File::create(&errors)?)
        .spawn()
        .context("cannot start sh")?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Outcome::Hang);
        }
        sleep(Duration::from_millis(1));
    };
    let errors = fs::read(errors)?;
    Ok(classify(status, &String::from_utf8_lossy(&errors)))
}

fn classify(status: ExitStatus, errors: &str) -> Outcome {
    match status.code() {
        Some(0) => Outcome::Result,
        Some(1) => Outcome::Error,
        // Message of the Rust runtime before it aborts.
        _ if errors.contains("memory allocation of") => Outcome::LargeAllocation,
        _ => Outcome::Crash(status.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, limit: Duration, expected: Outcome) {
        let folder = TempDir::with_prefix("afferent-bench-").unwrap();
        let words = ["sh", "-c", script].map(str::to_owned);
        assert_eq!(outcome(&words, folder.path(), limit).unwrap(), expected, "{script}");
    }

    #[test]
    fn outcomes_are_classified() {
        const LONG: Duration = Duration::from_secs(60);
        check("echo result", LONG, Outcome::Result);
        check("exit 1", LONG, Outcome::Error);
        check("exit 101", LONG, Outcome::Crash("exit status: 101".to_owned()));
        check("kill -SEGV $$", LONG, Outcome::Crash("signal: 11 (SIGSEGV)".to_owned()));
        let script = "echo memory allocation of 9 bytes failed >&2; kill -ABRT $$";
        check(script, LONG, Outcome::LargeAllocation);
        check("exec sleep 60", Duration::from_millis(1), Outcome::Hang);
    }
}
