//! Reading the figures of a run while it goes on.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    CheckedGraph, Report, RunEnd,
    collect::{self, Figures},
    shared::Shared,
    wake::Waker,
};

/// Reads the figures of a running graph from elsewhere, as often as one likes.
///
/// Figures belong to the threads that count them. A reader asks, and each thread answers between
/// two calls of its nodes, so that nothing is shared or locked while nobody looks.
#[derive(Clone)]
pub struct WatchHandle(Arc<Shared>);

/// Where threads put their figures when somebody asks.
pub(crate) struct Board {
    wakers: Vec<Arc<Waker>>,
    asked: Vec<AtomicBool>,
    /// Of each thread, what it told last.
    told: Mutex<Vec<Option<Figures>>>,
    changed: Condvar,
}

impl Board {
    pub(crate) fn new(wakers: Vec<Arc<Waker>>) -> Self {
        let asked = wakers.iter().map(|_| AtomicBool::new(false)).collect();
        let told = Mutex::new(wakers.iter().map(|_| None).collect());
        Self { wakers, asked, told, changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Option<Figures>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody wants the figures of thread `group`.
    pub(crate) fn is_asked(&self, group: usize) -> bool {
        self.asked[group].load(Ordering::Acquire)
    }

    /// Puts up the figures of thread `group`.
    pub(crate) fn tell(&self, group: usize, figures: Figures) {
        let mut told = self.lock();
        told[group] = Some(figures);
        self.asked[group].store(false, Ordering::Release);
        drop(told);
        self.changed.notify_all();
    }

    /// Asks every thread that is not at its end, and waits for all answers, no longer than
    /// `patience`.
    fn ask(&self, patience: Duration) -> MutexGuard<'_, Vec<Option<Figures>>> {
        let until = Instant::now() + patience;
        let mut told = self.lock();
        for (group, asked) in self.asked.iter().enumerate() {
            if !told[group].as_ref().is_some_and(|figures| figures.last) {
                asked.store(true, Ordering::Release);
                self.wakers[group].ring();
            }
        }
        while self.asked.iter().any(|asked| asked.load(Ordering::Acquire)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(told, left);
            told = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        told
    }
}

impl WatchHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The graph that runs.
    pub fn graph(&self) -> &CheckedGraph {
        &self.0.graph
    }

    /// The figures up to now; [`Report::end`] is [`RunEnd::Running`].
    ///
    /// A thread answers between two calls. One that is in a call for longer than `patience` is
    /// shown as it was when it last answered.
    pub fn read(&self, patience: Duration) -> Report {
        let told = self.0.board.ask(patience);
        collect::report(&self.0, &told, RunEnd::Running)
    }
}
