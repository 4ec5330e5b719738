//! The threads of the process that share the work of one operator.
//!
//! A model that asks for more than one thread gets a team. All teams share the same helpers, which
//! sleep until a run begins, and wait awake for a bounded time after it and between its operators:
//! steps that follow each other find them awake. Work is claimed piece by piece, also by the caller,
//! so that a helper that the system does not run costs time and never a stall. Who finds the
//! helpers busy works alone.

#![expect(unsafe_code, reason = "lends the work of a call to other threads until it returns")]

use std::{
    cell::UnsafeCell,
    collections::BTreeMap,
    hint,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, Thread},
};

use afferent_core::Workers;

/// Pauses of a helper behind its last work before it sleeps: some ten microseconds.
const PAUSES: usize = 2000;

/// The most threads of a team.
pub const MAX_THREADS: u8 = 64;

/// Threads for a model that asks for `threads` of them: at most [`MAX_THREADS`], and no more than
/// the system starts; [`Workers::threads`] says how many. None when that is only the caller's own.
pub fn workers(threads: usize) -> Option<&'static dyn Workers> {
    static TEAMS: Mutex<BTreeMap<usize, &'static Team>> = Mutex::new(BTreeMap::new());
    let wanted = threads.min(MAX_THREADS.into()).saturating_sub(1);
    let threads = 1 + CREW.grow(wanted);
    if threads < 2 {
        return None;
    }
    let team =
        *lock(&TEAMS).entry(threads).or_insert_with(|| Box::leak(Box::new(Team { threads })));
    Some(team)
}

struct Team {
    threads: usize,
}

// SAFETY: `Crew::run` gives out each number below `pieces` once, and waits for all calls, also when
// one of them panics; alone, the caller makes them one after the other.
unsafe impl Workers for Team {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        CREW.run(self.threads - 1, pieces, work);
    }

    fn wake(&self) {
        CREW.wake(self.threads - 1);
    }
}

static CREW: Crew = Crew {
    helpers: Mutex::new(Vec::new()),
    turn: Mutex::new(()),
    job: UnsafeCell::new(None),
    open: AtomicBool::new(false),
    inside: AtomicUsize::new(0),
    next: AtomicUsize::new(0),
    failed: AtomicBool::new(false),
};

/// The helpers, and the job that they may take pieces of.
struct Crew {
    helpers: Mutex<Vec<Thread>>,
    /// Held by the caller whose job it is.
    turn: Mutex<()>,
    /// Written while the job is closed and nobody is inside.
    job: UnsafeCell<Option<Job>>,
    /// Whether the job may be entered.
    open: AtomicBool,
    /// Helpers that entered and did not leave.
    inside: AtomicUsize,
    /// The next piece to claim.
    next: AtomicUsize,
    /// Whether a piece panicked on a helper.
    failed: AtomicBool,
}

// SAFETY: `job` is written by the holder of `turn` while the job is closed and nobody is inside,
// and read by those inside while it is open.
unsafe impl Sync for Crew {}

#[derive(Clone, Copy)]
struct Job {
    work: &'static (dyn Fn(usize) + Sync),
    pieces: usize,
}

impl Crew {
    /// Starts helpers until there are `count`, or the system gives no more: how many of those there
    /// are.
    fn grow(&'static self, count: usize) -> usize {
        let mut helpers = lock(&self.helpers);
        while helpers.len() < count {
            let name = format!("afferent-{}", helpers.len() + 1);
            let Ok(handle) = thread::Builder::new().name(name).spawn(|| self.serve()) else {
                break;
            };
            helpers.push(handle.thread().clone());
        }
        helpers.len().min(count)
    }

    fn wake(&self, count: usize) {
        lock(&self.helpers).iter().take(count).for_each(Thread::unpark);
    }

    /// What a helper does, for ever.
    fn serve(&self) {
        let mut pauses = 0;
        loop {
            if self.open.load(SeqCst) && self.help() {
                pauses = 0;
            } else if pauses < PAUSES {
                pauses += 1;
                hint::spin_loop();
            } else {
                pauses = 0;
                thread::park();
            }
        }
    }

    /// Takes pieces of the open job; whether there were any.
    fn help(&self) -> bool {
        self.inside.fetch_add(1, SeqCst);
        let mut helped = false;
        // Whoever closes the job waits until nobody is inside, and this helper is.
        if self.open.load(SeqCst) {
            // SAFETY: the job is open while this helper is inside, so that nobody writes it.
            let job = unsafe { *self.job.get() };
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                job.is_some_and(|job| self.take_pieces(job))
            }));
            helped = result.unwrap_or_else(|_| {
                self.failed.store(true, SeqCst);
                true
            });
        }
        self.inside.fetch_sub(1, SeqCst);
        helped
    }

    fn take_pieces(&self, job: Job) -> bool {
        let mut took = false;
        loop {
            let piece = self.next.fetch_add(1, SeqCst);
            if piece >= job.pieces {
                return took;
            }
            took = true;
            (job.work)(piece);
        }
    }

    fn run(&self, helpers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            // A piece that panicked left nothing behind.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return (0..pieces).for_each(work),
        };
        // SAFETY: only the lifetime differs; `Closing` keeps this call from ending, also by a
        // panic, before nobody can reach the work any more.
        let work = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work)
        };
        let job = Job { work, pieces };
        // SAFETY: the last holder of the turn closed the job and saw everybody leave.
        unsafe { *self.job.get() = Some(job) };
        self.next.store(0, SeqCst);
        self.failed.store(false, SeqCst);
        self.open.store(true, SeqCst);
        let closing = Closing(self);
        self.wake(helpers.min(pieces.saturating_sub(1)));
        self.take_pieces(job);
        drop(closing);
        assert!(!self.failed.load(SeqCst), "a piece of work panicked on another thread");
    }
}

/// Closes the job and waits until nobody is inside.
struct Closing<'c>(&'c Crew);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.open.store(false, SeqCst);
        let mut pauses = 0;
        while self.0.inside.load(SeqCst) > 0 {
            pauses += 1;
            if pauses < PAUSES { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        let team = workers(3).unwrap();
        assert_eq!(team.threads(), 3);
        for pieces in [0, 1, 2, 3, 50] {
            for _ in 0..50 {
                let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                team.wake();
                team.run(pieces, &|piece| {
                    counts[piece].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|count| count.load(SeqCst) == 1));
            }
        }
    }

    #[test]
    fn one_thread_needs_no_team() {
        assert!(workers(1).is_none() && workers(0).is_none());
    }

    #[test]
    fn work_may_have_work() {
        let team = workers(2).unwrap();
        let count = AtomicUsize::new(0);
        team.run(4, &|_| {
            team.run(3, &|_| {
                count.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(count.load(SeqCst), 12);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let team = workers(2).unwrap();
        let fails = AssertUnwindSafe(|| team.run(4, &|piece| assert_ne!(piece, 2)));
        let result = panic::catch_unwind(fails);
        assert!(result.is_err());
        team.run(2, &|_| ());
    }
}
