//! What Linux knows about processes: memory, processor time, sleeps; and how ours is started.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// `afferent run GRAPH --json`, by `program` or by the one beside this one.
pub(crate) fn afferent_run(program: Option<&Path>, graph: &Path) -> Result<Command> {
    let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("afferent"));
    let program = program.map_or_else(beside, |program| Ok(program.to_owned()))?;
    let shown = program.display();
    ensure!(program.is_file(), "{shown} is not there: cargo build --release -p afferent");
    let mut command = Command::new(program);
    command.arg("run").arg(graph).arg("--json");
    Ok(command)
}

/// Resident memory in bytes. Allocates nothing, so that it can be asked for while allocations are
/// counted.
pub(crate) fn resident_bytes() -> Result<u64> {
    let mut text = [0; 4096];
    let mut file = File::open("/proc/self/status").context("needs Linux's /proc")?;
    let length = file.read(&mut text)?;
    Ok(field(std::str::from_utf8(&text[..length])?, "VmRSS:")? * 1024)
}

/// The time that process `id` has spent on processors, in seconds, to a hundredth.
pub(crate) fn cpu_seconds_of(id: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name of the program, in brackets, may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<f64, _>>().context("/proc has no processor time")?;
    // Linux tells it in hundredths on every machine.
    Ok(ticks / 100.0)
}

/// The memory that process `id` has resident, in bytes.
pub(crate) fn resident_bytes_of(id: u32) -> Result<u64> {
    Ok(field(&fs::read_to_string(format!("/proc/{id}/status"))?, "VmRSS:")? * 1024)
}

/// The most memory that process `id` had resident so far, in bytes.
pub(crate) fn peak_bytes(id: u32) -> Result<u64> {
    Ok(field(&fs::read_to_string(format!("/proc/{id}/status"))?, "VmHWM:")? * 1024)
}

/// What the other threads of this process have used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// Times that a thread went to sleep by itself, each of which ends with a wake.
    pub(crate) sleeps: u64,
    /// Time on a processor.
    pub(crate) cpu_ns: u64,
}

/// Of all threads but the one that asks.
pub(crate) fn other_threads() -> Result<Used> {
    let own = fs::read_link("/proc/thread-self").context("needs Linux's /proc")?;
    let mut used = Used::default();
    for task in fs::read_dir("/proc/self/task")? {
        let task: PathBuf = task?.path();
        if task.file_name() == own.file_name() {
            continue;
        }
        let status = fs::read_to_string(task.join("status"))?;
        used.sleeps += field(&status, "voluntary_ctxt_switches:")?;
        let times = fs::read_to_string(task.join("schedstat"))?;
        let time = times.split_whitespace().next().and_then(|time| time.parse::<u64>().ok());
        used.cpu_ns += time.context("schedstat has no time")?;
    }
    Ok(used)
}

fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("/proc has no {name}"))
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, sync::mpsc, thread};

    use super::*;

    #[test]
    fn memory_that_is_used_is_resident() {
        let before = resident_bytes().unwrap();
        let bytes = black_box(vec![1_u8; 64 << 20]);
        assert!(resident_bytes().unwrap() >= before + (32 << 20), "{}", bytes.len());
    }

    #[test]
    fn a_thread_that_sleeps_is_counted() {
        let (work, todo) = mpsc::channel::<()>();
        let (tell, done) = mpsc::channel();
        let other = thread::spawn(move || {
            while todo.recv().is_ok() {
                tell.send(()).unwrap();
            }
        });
        let sleeps = || other_threads().map_or(0, |used| used.sleeps);
        // Threads of other tests that end take what they have slept with them.
        let grows = (0..100).any(|_| {
            let before = sleeps();
            for _ in 0..10 {
                work.send(()).unwrap();
                done.recv().unwrap();
            }
            sleeps() > before
        });
        assert!(grows);
        drop(work);
        other.join().unwrap();
    }
}
