//! Reading the figures of a run in progress.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Report, RunEnd,
    run::{
        snapshot::{self, Figures},
        state::Shared,
    },
    sys::{
        threading::{Condvar, Mutex, MutexGuard},
        wake::Waker,
    },
};

/// Reads the figures of a running graph from another thread.
///
/// Figures belong to the threads that count them. A reader asks, and each thread answers between
/// two calls, so nothing is shared or locked without a reader.
#[derive(Clone)]
pub struct WatchHandle {
    shared: Arc<Shared>,
    board: Arc<Board>,
}

/// Figures that the threads publish on request.
pub(crate) struct Board {
    wakers: Vec<Arc<Waker>>,
    /// Last answer of each thread.
    told: Mutex<Vec<Option<Figures>>>,
    changed: Condvar,
}

impl Board {
    pub(crate) fn new(wakers: Vec<Arc<Waker>>) -> Self {
        let told = Mutex::new(wakers.iter().map(|_| None).collect());
        Self { wakers, told, changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Option<Figures>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the figures of thread `group`.
    pub(crate) fn tell(&self, group: usize, figures: Figures) {
        let mut told = self.lock();
        told[group] = Some(figures);
        self.wakers[group].told();
        drop(told);
        self.changed.notify_all();
    }

    /// Asks every thread that has not ended, and waits for all answers, at most for `patience`.
    pub(crate) fn ask(&self, patience: Duration) -> MutexGuard<'_, Vec<Option<Figures>>> {
        let until = Instant::now() + patience;
        let mut told = self.lock();
        for (waker, told) in self.wakers.iter().zip(&*told) {
            if !told.as_ref().is_some_and(|figures| figures.last) {
                waker.ask();
            }
        }
        while self.wakers.iter().any(|waker| waker.is_asked()) {
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
    pub(crate) fn new(shared: Arc<Shared>, board: Arc<Board>) -> Self {
        Self { shared, board }
    }

    /// Current figures; [`Report::end`] is [`RunEnd::Running`].
    ///
    /// A thread answers between two calls. If a call lasts longer than `patience`, the report shows
    /// the last answer of that thread.
    pub fn read(&self, patience: Duration) -> Report {
        let told = self.board.ask(patience);
        snapshot::report(&self.shared, &told, RunEnd::Running)
    }
}
