//! Iterates over seeds, and reports the seed of a failure or a hang.

use std::{
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Time limit of a seed.
const SEED_TIMEOUT: Duration = Duration::from_secs(60);

/// Number in an environment variable.
pub(crate) fn env_number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("the variable is a number"))
}

/// Calls `test` with the seeds 0 to `count`, or only with `AFFERENT_SEED` if it is set.
pub(crate) fn for_each(count: u64, mut test: impl FnMut(u64)) {
    let seeds = env_number("AFFERENT_SEED").map_or(0..count, |seed| seed..seed + 1);
    let watchdog = Watchdog::default();
    for seed in seeds {
        let _reporter = SeedReporter(seed);
        watchdog.start(seed);
        test(seed);
    }
}

/// Prints the seed if the test panics.
struct SeedReporter(u64);

impl Drop for SeedReporter {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed with AFFERENT_SEED={}", self.0);
        }
    }
}

/// Aborts the process if a seed exceeds its time limit. A hanging thread cannot be stopped.
#[derive(Default)]
struct Watchdog {
    /// Running seed and its start time.
    current: Arc<Mutex<Option<(u64, Instant)>>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    fn start(&self, seed: u64) {
        let previous = self.current.lock().unwrap().replace((seed, Instant::now()));
        if previous.is_none() {
            let (current, done) = (self.current.clone(), self.done.clone());
            thread::spawn(move || watch(&current, &done));
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn watch(current: &Mutex<Option<(u64, Instant)>>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
        let late = current.lock().unwrap().filter(|(_, start)| start.elapsed() > SEED_TIMEOUT);
        if let Some((seed, _)) = late {
            eprintln!("hangs with AFFERENT_SEED={seed}");
            std::process::abort();
        }
    }
}
