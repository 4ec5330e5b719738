//! Log lines of failures, with a limited rate.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{Failure, FailureKind, Handled};

/// Logs failures: the first of each node and kind, then at most one per [`FailureLog::PERIOD`] with
/// the number of those between.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    known: HashMap<(String, FailureKind), Known>,
}

#[derive(Debug)]
struct Known {
    logged: Instant,
    /// Failures since then.
    unlogged: u64,
}

impl FailureLog {
    /// Minimum time between two lines of a node and kind.
    const PERIOD: Duration = Duration::from_secs(10);

    pub(crate) fn log(&mut self, failure: &Failure) {
        let Some(line) = self.line(failure, Instant::now()) else { return };
        match failure.handled {
            Handled::Stopped => tracing::error!("{line}"),
            Handled::Restarted | Handled::Degraded => tracing::warn!("{line}"),
        }
    }

    /// Line for a failure at `now`; `None` if it is only counted.
    fn line(&mut self, failure: &Failure, now: Instant) -> Option<String> {
        let at_s = failure.at_ns as f64 / 1e9;
        let handled = match failure.handled {
            Handled::Stopped => "stopped",
            Handled::Restarted => "restarted",
            Handled::Degraded => "continues",
        };
        let mut line = format!("{failure} (at {at_s:.3} s, {handled})");
        match self.known.get_mut(&(failure.node.clone(), failure.kind)) {
            None => {
                let known = Known { logged: now, unlogged: 0 };
                self.known.insert((failure.node.clone(), failure.kind), known);
            }
            Some(known) => {
                let is_last = failure.handled == Handled::Stopped;
                if !is_last && now.duration_since(known.logged) < Self::PERIOD {
                    known.unlogged += 1;
                    return None;
                }
                if known.unlogged > 0 {
                    let unlogged = known.unlogged;
                    line += &format!(", and {unlogged} more since the last line");
                }
                *known = Known { logged: now, unlogged: 0 };
            }
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_are_counted_between_lines() {
        let mut log = FailureLog::default();
        let failure = |kind, handled| Failure {
            node: "asr".to_owned(),
            kind,
            at_ns: 1_234_567_890,
            message: "the model is gone".to_owned(),
            handled,
        };
        let error = failure(FailureKind::Error, Handled::Restarted);
        let start = Instant::now();
        let first = log.line(&error, start);
        let text = "node asr: the model is gone (at 1.235 s, restarted)";
        assert_eq!(first.as_deref(), Some(text));
        for ms in [1, 9_999] {
            assert_eq!(log.line(&error, start + Duration::from_millis(ms)), None);
        }
        let panic = log.line(&failure(FailureKind::Panic, Handled::Degraded), start);
        let expected = "node asr panicked: the model is gone (at 1.235 s, continues)";
        assert_eq!(panic.as_deref(), Some(expected));
        let later = log.line(&error, start + FailureLog::PERIOD).unwrap();
        assert_eq!(later, format!("{text}, and 2 more since the last line"));
        let last = log.line(&failure(FailureKind::Error, Handled::Stopped), start);
        assert_eq!(last.unwrap(), "node asr: the model is gone (at 1.235 s, stopped)");
    }
}
