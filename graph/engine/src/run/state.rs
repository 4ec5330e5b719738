//! State that the threads of a run share.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use afferent_graph::Timestamp;

use crate::{
    Failure, FailureKind, Handled, InterruptHandle, Observer, StopHandle,
    clock::Clock,
    edge::RemoteEdge,
    metrics::budget::Meter,
    supervision::{current_call::CurrentCall, failure_log::FailureLog},
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
    /// Call that each thread is in.
    pub(crate) current_calls: Vec<Arc<CurrentCall>>,
    /// Set by a thread that dropped packets in flight.
    pub(crate) cut: AtomicBool,
    /// Edges to other processes, by their index.
    pub(crate) outgoing: Vec<(usize, Arc<RemoteEdge>)>,
    /// Number of sinks that have not ended.
    pub(crate) sinks: AtomicUsize,
    /// Failures of nodes.
    pub(crate) failures: Mutex<Vec<Failure>>,
    pub(crate) failure_log: Mutex<FailureLog>,
    /// Meters of the budgets.
    pub(crate) meters: Vec<Arc<Meter>>,
}

impl Shared {
    pub(crate) fn fail(&self, failure: Failure) {
        self.observers.iter().for_each(|observer| observer.failed(&failure));
        self.keep(failure);
    }

    /// Logs a failure, and adds it to the report if its node has stopped.
    fn keep(&self, failure: Failure) {
        self.failure_log.lock().unwrap_or_else(PoisonError::into_inner).log(&failure);
        if failure.handled == Handled::Stopped {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        }
    }

    /// A thread panicked outside of its nodes; its nodes are lost.
    pub(crate) fn lose(&self, group: usize, node: String, message: String) {
        if let Some(lockstep) = &self.clock.lockstep {
            lockstep.leave(group);
        }
        self.stop.stop();
        let (kind, handled) = (FailureKind::Panic, Handled::Stopped);
        let at_ns = self.clock.moment().session_ns();
        // No observer is told: the panic may come from one.
        self.keep(Failure { node, kind, at_ns, message, handled });
    }

    /// A sink has ended. After the last one, no remaining output has a receiver: a run with
    /// failures is stopped, in others the sources end. On the virtual clock sources continue, so
    /// that they send the same packets in every run.
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
