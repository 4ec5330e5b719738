//! What the threads of one run have in common.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use afferent_graph::Timestamp;

use crate::{
    Failure, FailureKind, Handled, InterruptHandle, Observer, StopHandle, clock::Clock,
    metrics::budget::Meter,
};
use afferent_spec::CheckedGraph;

pub(crate) struct Shared {
    pub(crate) graph: Arc<CheckedGraph>,
    pub(crate) clock: Clock,
    pub(crate) interrupt: InterruptHandle,
    pub(crate) stop: StopHandle,
    /// Sources stop at this time.
    pub(crate) end: Option<Timestamp>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    /// For each thread the node that it is calling, for when it does not come back.
    pub(crate) calling: Vec<Arc<AtomicUsize>>,
    /// Set by a thread that had to drop what was under way.
    pub(crate) cut: AtomicBool,
    /// Nodes that send to nobody and have not ended.
    pub(crate) sinks: AtomicUsize,
    /// Nodes that did not end well.
    pub(crate) failures: Mutex<Vec<Failure>>,
    /// Of each budget.
    pub(crate) meters: Vec<Arc<Meter>>,
}

impl Shared {
    pub(crate) fn fail(&self, failure: Failure) {
        self.observers.iter().for_each(|observer| observer.failed(&failure));
        if failure.handled == Handled::Stopped {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        }
    }

    /// A thread has panicked outside its nodes, and its nodes are gone.
    pub(crate) fn lose(&self, group: usize, node: String, message: String) {
        if let Some(lockstep) = &self.clock.lockstep {
            lockstep.leave(group);
        }
        self.stop.stop();
        let (kind, handled) = (FailureKind::Panic, Handled::Stopped);
        let failure = Failure { node, kind, message, handled };
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }

    /// A node that sends to nobody has ended. Once all have, what still runs runs for nobody: a run
    /// with failures is stopped, in others sources end. On the virtual clock they go on, so that they
    /// send the same in every run.
    pub(crate) fn sink_ended(&self) {
        if self.sinks.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if !self.failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.stop.stop();
        } else if self.clock.lockstep.is_none() {
            self.stop.complete();
        }
    }
}
