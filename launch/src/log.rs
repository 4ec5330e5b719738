//! Lines on standard error: what commands say, and the log of nodes and of the engine.

use std::{
    fmt::{self, Display},
    io::{Write, stderr},
    sync::atomic::{AtomicU8, Ordering},
};

use clap::Args;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

#[cfg(feature = "net")]
mod refusals;

/// Amount of log output.
#[derive(Args)]
pub(crate) struct Verbosity {
    /// Log more: -v adds the steps of a run, -vv details. The environment variable RUST_LOG, such
    /// as `afferent_engine=debug`, selects by module
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print only errors and results
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

/// Severity from which on [`error`], [`warning`] and [`note`] print.
static SHOWN: AtomicU8 = AtomicU8::new(NOTE);
const ERROR: u8 = 0;
const WARNING: u8 = 1;
const NOTE: u8 = 2;

impl Verbosity {
    /// Starts the log, unless the program has set its own subscriber.
    pub(crate) fn start(&self) {
        SHOWN.store(if self.quiet { ERROR } else { NOTE }, Ordering::Relaxed);
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, 2) => LevelFilter::DEBUG,
            (false, _) => LevelFilter::TRACE,
        };
        let named = std::env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty());
        let targets = named.as_deref().map(str::parse::<Targets>).transpose();
        if let Err(reason) = &targets {
            warning(format_args!("RUST_LOG is ignored: {reason}"));
        }
        let filter = targets.ok().flatten().unwrap_or_else(|| targets_at(level));
        let lines = tracing_subscriber::fmt::layer()
            // The layer would panic if standard error cannot be written.
            .log_internal_errors(false)
            .with_writer(stderr)
            .event_format(Lines);
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
        #[cfg(feature = "net")]
        let subscriber = subscriber
            .with(refusals::Refusals::default().with_filter(refusals::Refusals::targets()));
        let _ = subscriber.try_init();
    }
}

/// Filter for `level`. Lines of the transport about machines that are missing or back are logged
/// with warnings, and zenoh logs one level less than the rest.
fn targets_at(level: LevelFilter) -> Targets {
    let zenoh = match level.into_level() {
        Some(Level::TRACE) => LevelFilter::DEBUG,
        Some(Level::DEBUG) => LevelFilter::INFO,
        Some(Level::INFO) => LevelFilter::WARN,
        _ => LevelFilter::ERROR,
    };
    let transport = if level == LevelFilter::WARN { LevelFilter::INFO } else { level };
    let targets = Targets::new().with_default(level);
    let targets = targets.with_target("afferent_transport", transport).with_target("zenoh", zenoh);
    // They are told in other words.
    #[cfg(feature = "net")]
    let targets = targets.with_target(refusals::TARGET, LevelFilter::ERROR);
    targets
}

/// Format of a log line: as commands print, `warning: …`.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let severity = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, "{severity}: ")?;
        cx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Prints an error.
pub(crate) fn error(line: impl Display) {
    print(ERROR, "error: ", line);
}

/// Prints a warning.
pub(crate) fn warning(line: impl Display) {
    print(WARNING, "warning: ", line);
}

/// Prints a note.
pub(crate) fn note(line: impl Display) {
    print(NOTE, "note: ", line);
}

/// Prints what a command did.
pub(crate) fn progress(line: impl Display) {
    print(NOTE, "", line);
}

/// Prints diagnostics of a file, which name their severity.
pub(crate) fn diagnostics(text: impl Display, has_errors: bool) {
    print(if has_errors { ERROR } else { WARNING }, "", text);
}

/// Writes a line to standard error. Ignores write errors.
fn print(severity: u8, prefix: &str, line: impl Display) {
    if severity <= SHOWN.load(Ordering::Relaxed) {
        let _ = writeln!(stderr().lock(), "{prefix}{line}");
    }
}
