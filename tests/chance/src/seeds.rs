//! Which seeds are tried, and what happens when one fails or hangs.

use std::{
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A seed that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The number in an environment variable.
pub(crate) fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("the variable is a number"))
}

/// Calls `try_one` with so many seeds, or with the only one that is asked for.
pub(crate) fn each(count: u64, mut try_one: impl FnMut(u64)) {
    let seeds = number("AFFERENT_SEED").map_or(0..count, |seed| seed..seed + 1);
    let watchdog = Watchdog::default();
    for seed in seeds {
        let _named = Named(seed);
        watchdog.begin(seed);
        try_one(seed);
    }
}

/// Prints its seed when a test fails with it.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed with AFFERENT_SEED={}", self.0);
        }
    }
}

/// Ends the process when a seed takes too long: a thread that hangs cannot be ended.
#[derive(Default)]
struct Watchdog {
    present: Arc<Mutex<Option<(u64, Instant)>>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    fn begin(&self, seed: u64) {
        let before = self.present.lock().unwrap().replace((seed, Instant::now()));
        if before.is_none() {
            let (present, done) = (self.present.clone(), self.done.clone());
            thread::spawn(move || watch(&present, &done));
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn watch(present: &Mutex<Option<(u64, Instant)>>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
        let late = present.lock().unwrap().filter(|(_, begin)| begin.elapsed() > LIMIT);
        if let Some((seed, _)) = late {
            eprintln!("hangs with AFFERENT_SEED={seed}");
            std::process::abort();
        }
    }
}
