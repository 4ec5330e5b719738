//! Thread pool of the process: splits the tasks of one operator between threads.
//!
//! A model that asks for more than one thread gets a [`Workers`] handle. All handles share the same
//! worker threads. A worker sleeps until a job starts. After a job it spins for a bounded time, so
//! that it is awake when the next operator follows soon. Tasks are claimed one at a time, also by
//! the calling thread, so that a worker that the operating system does not schedule never stalls a
//! job. If another caller's job is running, a caller runs its tasks alone.

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

/// Spin-loop iterations of a worker after its last task before it sleeps: about 10 µs.
const MAX_SPINS: usize = 2000;

/// Maximum threads of a handle.
pub const MAX_THREADS: u8 = 64;

/// Returns a handle for `threads` threads, including the calling thread; `None` if that is one.
///
/// The number is limited to [`MAX_THREADS`] and to the threads that the operating system starts;
/// [`Workers::threads`] returns it.
pub fn workers(threads: usize) -> Option<&'static dyn Workers> {
    static HANDLES: Mutex<BTreeMap<usize, &'static Handle>> = Mutex::new(BTreeMap::new());
    let wanted = threads.min(MAX_THREADS.into()).saturating_sub(1);
    let threads = 1 + POOL.grow(wanted);
    if threads < 2 {
        return None;
    }
    let handle =
        *lock(&HANDLES).entry(threads).or_insert_with(|| Box::leak(Box::new(Handle { threads })));
    Some(handle)
}

/// A share of the pool.
struct Handle {
    /// Including the calling thread.
    threads: usize,
}

// SAFETY: `Pool::run` passes each index below `tasks` once, and returns after all calls have
// returned, also if one of them panics. Without workers, the calling thread runs them in order.
unsafe impl Workers for Handle {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        POOL.run(self.threads - 1, tasks, task);
    }

    fn wake(&self) {
        POOL.wake(self.threads - 1);
    }
}

static POOL: Pool = Pool {
    threads: Mutex::new(Vec::new()),
    caller: Mutex::new(()),
    job: UnsafeCell::new(None),
    is_open: AtomicBool::new(false),
    active: AtomicUsize::new(0),
    next_task: AtomicUsize::new(0),
    has_panicked: AtomicBool::new(false),
};

/// Worker threads, and the job whose tasks they claim.
struct Pool {
    threads: Mutex<Vec<Thread>>,
    /// Held by the thread whose job is running.
    caller: Mutex<()>,
    /// Written while the job is closed and no worker is active.
    job: UnsafeCell<Option<Job>>,
    /// True while workers may start on the job.
    is_open: AtomicBool,
    /// Workers that have started on the job and not finished.
    active: AtomicUsize,
    /// Next task to claim.
    next_task: AtomicUsize,
    /// True if a task panicked on a worker.
    has_panicked: AtomicBool,
}

// SAFETY: `job` is written by the holder of `caller` while the job is closed and no worker is
// active. It is read by active workers while the job is open.
unsafe impl Sync for Pool {}

#[derive(Clone, Copy)]
struct Job {
    task: &'static (dyn Fn(usize) + Sync),
    tasks: usize,
}

impl Pool {
    /// Starts workers until there are `count` or the operating system refuses; returns how many of
    /// those exist.
    fn grow(&'static self, count: usize) -> usize {
        let mut threads = lock(&self.threads);
        while threads.len() < count {
            let name = format!("afferent-{}", threads.len() + 1);
            let Ok(handle) = thread::Builder::new().name(name).spawn(|| self.work()) else {
                break;
            };
            threads.push(handle.thread().clone());
        }
        threads.len().min(count)
    }

    fn wake(&self, count: usize) {
        lock(&self.threads).iter().take(count).for_each(Thread::unpark);
    }

    /// Main loop of a worker. Never returns.
    fn work(&self) {
        let mut spins = 0;
        loop {
            if self.is_open.load(SeqCst) && self.join_job() {
                spins = 0;
            } else if spins < MAX_SPINS {
                spins += 1;
                hint::spin_loop();
            } else {
                spins = 0;
                thread::park();
            }
        }
    }

    /// Runs tasks of the open job on a worker; returns true if there were any.
    fn join_job(&self) -> bool {
        self.active.fetch_add(1, SeqCst);
        let mut has_run = false;
        // The caller closes the job and then waits until no worker is active. This worker already
        // counts as active.
        if self.is_open.load(SeqCst) {
            // SAFETY: the job is open and this worker is active, so that no thread writes it.
            let job = unsafe { *self.job.get() };
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                job.is_some_and(|job| self.run_tasks(job))
            }));
            has_run = result.unwrap_or_else(|_| {
                self.has_panicked.store(true, SeqCst);
                true
            });
        }
        self.active.fetch_sub(1, SeqCst);
        has_run
    }

    /// Claims and runs tasks until none is left; returns true if there were any.
    fn run_tasks(&self, job: Job) -> bool {
        let mut has_run = false;
        loop {
            let task = self.next_task.fetch_add(1, SeqCst);
            if task >= job.tasks {
                return has_run;
            }
            has_run = true;
            (job.task)(task);
        }
    }

    fn run(&self, workers: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let _caller = match self.caller.try_lock() {
            Ok(guard) => guard,
            // A panic of a task leaves no invalid state.
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return (0..tasks).for_each(task),
        };
        // SAFETY: only the lifetime changes. `CloseJob` keeps this call from returning or unwinding
        // before all workers have stopped using the task.
        let task = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(task)
        };
        let job = Job { task, tasks };
        // SAFETY: the previous holder of `caller` closed its job and waited until no worker was
        // active.
        unsafe { *self.job.get() = Some(job) };
        self.next_task.store(0, SeqCst);
        self.has_panicked.store(false, SeqCst);
        self.is_open.store(true, SeqCst);
        let close_job = CloseJob(self);
        self.wake(workers.min(tasks.saturating_sub(1)));
        self.run_tasks(job);
        drop(close_job);
        assert!(!self.has_panicked.load(SeqCst), "a task panicked on another thread");
    }
}

/// Closes the job when dropped, and waits until no worker is active.
struct CloseJob<'c>(&'c Pool);

impl Drop for CloseJob<'_> {
    fn drop(&mut self) {
        self.0.is_open.store(false, SeqCst);
        let mut spins = 0;
        while self.0.active.load(SeqCst) > 0 {
            spins += 1;
            if spins < MAX_SPINS { hint::spin_loop() } else { thread::yield_now() }
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
    fn every_task_runs_once() {
        let workers = workers(3).unwrap();
        assert_eq!(workers.threads(), 3);
        for tasks in [0, 1, 2, 3, 50] {
            for _ in 0..50 {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                workers.wake();
                workers.run(tasks, &|task| {
                    counts[task].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|count| count.load(SeqCst) == 1));
            }
        }
    }

    #[test]
    fn one_thread_needs_no_handle() {
        assert!(workers(1).is_none() && workers(0).is_none());
    }

    #[test]
    fn tasks_may_run_tasks() {
        let workers = workers(2).unwrap();
        let count = AtomicUsize::new(0);
        workers.run(4, &|_| {
            workers.run(3, &|_| {
                count.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(count.load(SeqCst), 12);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let workers = workers(2).unwrap();
        let panics = AssertUnwindSafe(|| workers.run(4, &|task| assert_ne!(task, 2)));
        let result = panic::catch_unwind(panics);
        assert!(result.is_err());
        workers.run(2, &|_| ());
    }
}
