//! Stopping a run.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crate::sys::wake::Waker;

/// Stops a run: sources end, packets in flight are handled, then the nodes are closed.
///
/// Clones stop the same run. Intended for a Ctrl-C handler on a thread of its own.
#[derive(Clone)]
pub struct StopHandle(Arc<Stop>);

pub(crate) struct Stop {
    asked: OnceLock<Instant>,
    drain: Duration,
    wakers: Vec<Arc<Waker>>,
    /// Notifies the caller that waits for the end of the run.
    tell: Box<dyn Fn() + Send + Sync>,
}

impl StopHandle {
    pub(crate) fn new(
        drain: Duration,
        wakers: Vec<Arc<Waker>>,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Stop { asked: OnceLock::new(), drain, wakers, tell: Box::new(tell) }))
    }

    /// Asks the run to stop, and returns at once. Repeated calls have no effect.
    pub fn stop(&self) {
        if self.0.asked.set(Instant::now()).is_ok() {
            self.0.wakers.iter().for_each(|waker| waker.stop());
            (self.0.tell)();
        }
    }

    /// Ends the sources of a run that was not asked to stop. Draining has no time limit.
    pub(crate) fn complete(&self) {
        self.0.wakers.iter().for_each(|waker| waker.complete());
    }

    /// True if the run was asked to stop.
    pub fn is_asked(&self) -> bool {
        self.0.asked.get().is_some()
    }

    /// Time limit of draining, after the run was asked to stop; `None` for no limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.asked.get().and_then(|asked| asked.checked_add(self.0.drain))
    }

    /// True if the time limit of draining has passed.
    pub(crate) fn is_cut(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }
}
