//! What a program may cost: memory, instructions and time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use afferent_runtime::{ModelOptions, RunOptions};
use afferent_simd::pool;
use clap::Args;

/// Limits for a program that nobody vouches for.
#[derive(Args)]
pub(super) struct Limits {
    /// MiB that a method may plan, and again as many that it may ask for while it runs
    #[arg(long, default_value_t = 4096, value_name = "MIB", value_parser = megabytes())]
    memory_limit: usize,
    /// Instructions of one call; an endless loop ends here
    #[arg(long, default_value_t = RunOptions::INSTRUCTION_LIMIT, value_name = "N")]
    instruction_limit: u64,
    /// Seconds for all calls together, looked at between instructions; without it there is no limit
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: Option<u64>,
}

/// As many as can be counted in bytes.
fn megabytes() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    let most = u64::try_from(usize::MAX >> 20).unwrap_or(u64::MAX);
    clap::value_parser!(u64).range(1..=most).map(|number| usize::try_from(number).unwrap_or(0))
}

/// As many threads as a team may have.
pub(super) fn threads() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    clap::value_parser!(u8).range(1..=i64::from(pool::MAX_THREADS)).map(usize::from)
}

impl Limits {
    /// `options` with these limits.
    pub(super) fn of_model(&self, options: ModelOptions) -> ModelOptions {
        let Self { instruction_limit, .. } = *self;
        ModelOptions { memory_limit: self.memory_limit << 20, instruction_limit, ..options }
    }

    /// Options of one call.
    pub(super) fn of_run<'r>(&self, canceled: &'r AtomicBool) -> RunOptions<'r> {
        let Self { instruction_limit, .. } = *self;
        RunOptions { canceled: Some(canceled), instruction_limit, ..RunOptions::default() }
    }

    /// The flag that ends a run, which is set once the time is over.
    pub(super) fn start(&self) -> Arc<AtomicBool> {
        let canceled = Arc::new(AtomicBool::new(false));
        if let Some(seconds) = self.time_limit {
            let flag = Arc::clone(&canceled);
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(seconds));
                flag.store(true, Ordering::Relaxed);
            });
        }
        canceled
    }
}
