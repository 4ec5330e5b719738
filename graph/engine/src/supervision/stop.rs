//! Ending a run early.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crate::sys::wake::Waker;

/// Ends a run: sources stop, what is under way is finished, then the nodes are closed.
///
/// Clones end the same run. Meant for a Ctrl-C handler that runs on a thread of its own.
#[derive(Clone)]
pub struct StopHandle(Arc<Stop>);

pub(crate) struct Stop {
    asked: OnceLock<Instant>,
    drain: Duration,
    wakers: Vec<Arc<Waker>>,
    /// Tells whoever waits for the end of the run.
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

    /// Asks the run to end and returns at once. Asking again changes nothing.
    pub fn stop(&self) {
        if self.0.asked.set(Instant::now()).is_ok() {
            self.0.wakers.iter().for_each(|waker| waker.stop());
            (self.0.tell)();
        }
    }

    /// Ends the sources of a run that nobody has asked to end. What is under way takes its time.
    pub(crate) fn complete(&self) {
        self.0.wakers.iter().for_each(|waker| waker.complete());
    }

    /// Whether the run has been asked to end.
    pub fn is_asked(&self) -> bool {
        self.0.asked.get().is_some()
    }

    /// When draining is cut short, once the run has been asked to end; `None` also for never.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.asked.get().and_then(|asked| asked.checked_add(self.0.drain))
    }

    /// Whether the time for draining is over.
    pub(crate) fn is_cut(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }
}
