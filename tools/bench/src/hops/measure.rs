//! What is measured about a chain, whatever it is made of.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use crate::allocations;

/// What is sent through a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Packets that are measured.
    pub(super) packets: usize,
    /// Time from one to the next; as fast as possible when absent.
    pub(super) period: Option<Duration>,
}

/// Samples of sound in a packet: a millisecond at 16 kHz.
const SAMPLES: usize = 16;

/// What travels: a little sound, and when it left the node before while that is measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    pub(super) samples: Vec<f32>,
    pub(super) left: Option<Instant>,
}

impl Block {
    /// The packet number `at`; `timed` says whether its hops are measured.
    pub(super) fn fill(&mut self, at: usize, timed: bool) {
        self.samples.resize(SAMPLES, 0.0);
        self.samples.fill(at as f32);
        self.left = timed.then(Instant::now);
    }
}

/// Figures of one run.
#[derive(Debug)]
pub(super) struct Figures {
    /// Times of hops, in nanoseconds.
    pub(super) hops: Histogram<u64>,
    pub(super) hops_a_packet: usize,
    pub(super) packets: usize,
    pub(super) dropped: u64,
    /// Of all threads, from the first packet that is measured to the last.
    pub(super) allocations: u64,
    /// From the first packet that is measured until the last has arrived.
    pub(super) took: Duration,
}

impl Figures {
    pub(super) fn ns_per_hop(&self) -> f64 {
        self.took.as_nanos() as f64 / (self.packets * self.hops_a_packet) as f64
    }
}

/// The run that is measured: nodes are made from settings alone, so they reach it here.
static RUN: Mutex<Option<State>> = Mutex::new(None);

struct State {
    hops: Histogram<u64>,
    /// Time and allocations when the first packet left.
    began: (Instant, u64),
    /// When the last packet arrived.
    ended: (Instant, u64),
}

fn state() -> MutexGuard<'static, Option<State>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `run`, one at a time, and takes together what its parts measured.
pub(super) fn collect<E>(
    load: Load,
    hops_a_packet: usize,
    run: impl FnOnce() -> Result<u64, E>,
) -> Result<Figures, E> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = (Instant::now(), 0);
    *state() = Some(State { hops: histogram(), began: now, ended: now });
    let dropped = run()?;
    let State { hops, began, ended } =
        state().take().unwrap_or(State { hops: histogram(), began: now, ended: now });
    Ok(Figures {
        hops,
        hops_a_packet,
        packets: load.packets,
        dropped,
        allocations: ended.1 - began.1,
        took: ended.0 - began.0,
    })
}

/// The first packet that is measured is about to leave.
pub(super) fn begin() {
    let mut state = state();
    if let Some(state) = state.as_mut() {
        state.began = (Instant::now(), allocations::count());
    }
}

/// The last packet has arrived.
pub(super) fn end() {
    let now = (Instant::now(), allocations::count());
    if let Some(state) = state().as_mut() {
        state.ended = now;
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid")
}

/// The receiving end of one hop; it adds what it measured to the run when it is dropped.
#[derive(Debug)]
pub(super) struct Arrivals {
    times: Histogram<u64>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { times: histogram() }
    }

    /// A block has arrived that left at the time `left`; the time at which it leaves again.
    pub(super) fn count(&mut self, left: Option<Instant>) -> Option<Instant> {
        let (left, now) = (left?, Instant::now());
        self.times.saturating_record((now - left).as_nanos() as u64);
        Some(now)
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        if let Some(state) = state().as_mut() {
            // Both have the same bounds.
            let _ = state.hops.add(&self.times);
        }
    }
}
