//! Limits of memory, instructions and time.

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
use clap::{Args, builder::TypedValueParser, value_parser};

/// Limits for an untrusted program.
#[derive(Args)]
pub(super) struct Limits {
    /// Limit in MiB of the planned memory of a method, and of its memory at run time
    #[arg(long, default_value_t = 4096, value_name = "MIB", value_parser = mebibytes())]
    memory_limit: usize,
    /// Maximum number of instructions of a run; ends endless loops
    #[arg(long, default_value_t = RunOptions::INSTRUCTION_LIMIT, value_name = "N")]
    instruction_limit: u64,
    /// Limit in seconds of all runs together, checked between instructions; unlimited by default
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..))]
    time_limit: Option<u64>,
}

/// Parser of a number of MiB whose bytes fit into `usize`.
fn mebibytes() -> impl TypedValueParser<Value = usize> {
    let max = u64::try_from(usize::MAX >> 20).unwrap_or(u64::MAX);
    value_parser!(u64).range(1..=max).map(|number| usize::try_from(number).unwrap_or(0))
}

/// Parser of a number of threads that the pool supports.
pub(super) fn threads() -> impl TypedValueParser<Value = usize> {
    value_parser!(u8).range(1..=i64::from(pool::MAX_THREADS)).map(usize::from)
}

impl Limits {
    /// Applies the limits to the options of a model.
    pub(super) fn model_options(&self, options: ModelOptions) -> ModelOptions {
        let Self { instruction_limit, .. } = *self;
        ModelOptions { memory_limit: self.memory_limit << 20, instruction_limit, ..options }
    }

    /// Options of a run. `canceled` is the flag of [`Limits::start_timer`].
    pub(super) fn run_options<'r>(&self, canceled: &'r AtomicBool) -> RunOptions<'r> {
        let Self { instruction_limit, .. } = *self;
        RunOptions { canceled: Some(canceled), instruction_limit, ..RunOptions::default() }
    }

    /// Starts the time limit and returns the flag that it sets.
    pub(super) fn start_timer(&self) -> Arc<AtomicBool> {
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
