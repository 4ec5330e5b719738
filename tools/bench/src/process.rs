//! Memory, CPU time and context switches of processes from `/proc`; starts `afferent`.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// Command `afferent run GRAPH --json`, with `program` or the program next to this one.
pub(crate) fn afferent_run(program: Option<&Path>, graph: &Path) -> Result<Command> {
    let default = || anyhow::Ok(std::env::current_exe()?.with_file_name("afferent"));
    let program = program.map_or_else(default, |program| Ok(program.to_owned()))?;
    let path = program.display();
    ensure!(program.is_file(), "{path} does not exist; run cargo build --release -p afferent");
    let mut command = Command::new(program);
    command.arg("run").arg(graph).arg("--json");
    Ok(command)
}

/// Resident memory of this process in bytes. Does not allocate, so it can run while allocations are
/// counted.
pub(crate) fn resident_bytes() -> Result<u64> {
    let mut text = [0; 4096];
    let mut file = File::open("/proc/self/status").context("this benchmark needs Linux /proc")?;
    let length = file.read(&mut text)?;
    Ok(field(std::str::from_utf8(&text[..length])?, "VmRSS:")? * 1024)
}

/// CPU time of process `id` in seconds, with a resolution of 10 ms.
pub(crate) fn cpu_seconds_of(id: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The program name in parentheses may contain any characters.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<f64, _>>().context("/proc has no CPU time")?;
    // USER_HZ is 100 on all architectures.
    Ok(ticks / 100.0)
}

/// Resident memory of process `id` in bytes.
pub(crate) fn resident_bytes_of(id: u32) -> Result<u64> {
    Ok(field(&fs::read_to_string(format!("/proc/{id}/status"))?, "VmRSS:")? * 1024)
}

/// Process that the process `parent` has started.
pub(crate) fn child_of(parent: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    children
        .flat_map(|text| {
            text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()
        })
        .next()
}

/// Peak resident memory of process `id` in bytes.
pub(crate) fn peak_bytes(id: u32) -> Result<u64> {
    Ok(field(&fs::read_to_string(format!("/proc/{id}/status"))?, "VmHWM:")? * 1024)
}

/// Waits for the end of `child`. Returns its peak resident memory in bytes, which is read `every` so often.
pub(crate) fn poll_peak(child: &mut Child, every: Duration) -> Result<u64> {
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = peak.max(peak_bytes(child.id()).unwrap_or(0));
        thread::sleep(every);
    }
    Ok(peak)
}

/// Starts a new measurement of the peak resident memory of this process.
pub(crate) fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of the memory")
}

/// CPU usage of threads since their start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuUsage {
    /// Voluntary context switches. Each ends with a wake-up.
    pub(crate) sleeps: u64,
    /// CPU time.
    pub(crate) cpu_ns: u64,
}

/// CPU usage of all threads of this process except the calling one.
pub(crate) fn other_threads() -> Result<CpuUsage> {
    let own = fs::read_link("/proc/thread-self").context("this benchmark needs Linux /proc")?;
    let mut used = CpuUsage::default();
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
    fn used_memory_is_resident() {
        let before = resident_bytes().unwrap();
        let bytes = black_box(vec![1_u8; 64 << 20]);
        assert!(resident_bytes().unwrap() >= before + (32 << 20), "{}", bytes.len());
    }

    #[test]
    fn context_switches_are_counted() {
        let (request, requests) = mpsc::channel::<()>();
        let (response, responses) = mpsc::channel();
        let other = thread::spawn(move || {
            while requests.recv().is_ok() {
                response.send(()).unwrap();
            }
        });
        let sleeps = || other_threads().map_or(0, |used| used.sleeps);
        // Repeat, because the count falls when threads of other tests end.
        let grows = (0..100).any(|_| {
            let before = sleeps();
            for _ in 0..10 {
                request.send(()).unwrap();
                responses.recv().unwrap();
            }
            sleeps() > before
        });
        assert!(grows);
        drop(request);
        other.join().unwrap();
    }
}
