//! Running a graph: start, stop, wait for the end.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

use afferent_graph::{OpenCx, Timestamp};

use crate::{
    ClockKind, Failure, FailureKind, Handled, InterruptHandle, Plan, Report, RunError, RunOptions,
    StopHandle,
    clock::{Clock, lockstep::Lockstep},
    metrics::budget,
    run::{
        board::{Board, WatchHandle},
        snapshot,
        state::Shared,
    },
    scheduler::{
        export,
        node::Runner,
        opener::panic_text,
        wiring::{self, Wiring},
        worker::Group,
    },
    sys::{
        thread_schedule,
        threading::thread::{self, JoinHandle},
        time_slice,
        wake::Waker,
    },
};
use afferent_spec::{CheckedGraph, Schedule};

/// Runs `graph` to its end.
///
/// # Errors
/// As [`Session::start`] and [`Session::wait`].
pub fn run(graph: &CheckedGraph, cx: &OpenCx, options: RunOptions) -> Result<Report, RunError> {
    Session::start(graph, cx, options)?.wait()
}

/// A graph that runs. Dropped, it stops the graph and does not wait for it.
pub struct Session {
    shared: Arc<Shared>,
    board: Arc<Board>,
    events: Receiver<Event>,
    threads: Vec<JoinHandle<()>>,
    plan: Plan,
    grace: Duration,
    notices: Vec<String>,
}

enum Event {
    /// Somebody asked the run to end.
    Stopping,
    /// A thread has ended; `None` when it panicked outside its nodes.
    Ended(usize, Option<Vec<Runner>>),
}

impl Session {
    /// Opens every node of `graph`, then starts them all.
    ///
    /// `cx` is what nodes may need to open; its `name` is replaced by that of each node.
    ///
    /// # Errors
    /// Every [`RunError`] but [`RunError::Failed`]; the nodes that were open are closed again.
    pub fn start(graph: &CheckedGraph, cx: &OpenCx, options: RunOptions) -> Result<Self, RunError> {
        wiring::check_ports(graph)?;
        let plan = Plan::new(graph, options.threads).map_err(|node_indices| {
            let name = |node_index: usize| graph.nodes[node_index].name.clone();
            RunError::Circle { nodes: node_indices.into_iter().map(name).collect() }
        })?;
        let nodes = wiring::open(graph, cx)?;
        for observer in &options.observers {
            observer.begin().map_err(RunError::Observer)?;
        }
        let wakers: Vec<_> = plan.groups.iter().map(|_| Arc::new(Waker::default())).collect();
        let interrupt = wiring::interrupt(graph, &plan, options.clock, &wakers);
        let meters = budget::meters(graph);
        let listens = wiring::listens(graph, &plan);
        let wiring =
            Wiring { graph, plan: &plan, options: &options, cx, interrupt, meters, listens };
        let groups = wiring.connect(nodes, &wakers);
        let (tell, events) = mpsc::channel();
        let shared = Arc::new(shared(&groups, &wakers, &wiring, tell.clone()));
        let (threads, notices, grace) = (Vec::new(), Vec::new(), options.grace);
        let board = Arc::new(Board::new(wakers.clone()));
        let mut session = Self { shared, board, events, threads, plan, grace, notices };
        // Nobody sends before everybody can be woken.
        let go = Arc::new(OnceLock::new());
        let (notice, notices) = mpsc::channel();
        let behind = session.plan.threads_behind(graph);
        for (index, (runners, waker)) in groups.into_iter().zip(wakers).enumerate() {
            let members =
                session.plan.groups[index].iter().map(|node_index| &graph.nodes[*node_index]);
            let schedule = Schedule::merged(members.map(|node| &node.schedule));
            let shared = session.shared.clone();
            let group = Group::new(
                index,
                runners,
                waker.clone(),
                (shared, session.board.clone()),
                schedule.spin,
            );
            let name = &graph.nodes[session.plan.groups[index][0]].name;
            let slice = behind[index].map(time_slice::before);
            let start = Start { schedule, slice, notice: notice.clone(), go: go.clone() };
            match spawn(name, group, start, tell.clone()) {
                Ok(thread) => {
                    waker.belongs_to(thread.thread().clone());
                    session.threads.push(thread);
                }
                Err(error) => {
                    let _ = go.set(false);
                    return Err(RunError::Thread(error));
                }
            }
        }
        drop(notice);
        session.notices = notices.iter().flatten().collect();
        let _ = go.set(true);
        Ok(session)
    }

    /// Ends the run from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        self.shared.stop.clone()
    }

    /// Interrupts the run from elsewhere.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.shared.interrupt.clone()
    }

    /// What this machine does not allow of what the graph asks for; the run does without.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Reads the figures of the run from elsewhere while it goes on.
    pub fn watch_handle(&self) -> WatchHandle {
        WatchHandle::new(self.shared.clone(), self.board.clone())
    }

    /// Waits until every node has ended, then closes them, sources first.
    ///
    /// After a stop it waits no longer than [`RunOptions::drain`] and [`RunOptions::grace`]: a
    /// node that does not return from a call is reported and left behind with its thread.
    ///
    /// # Errors
    /// [`RunError::Failed`] when a node failed; the report of the run is in it.
    pub fn wait(mut self) -> Result<Report, RunError> {
        let mut groups: Vec<Option<Vec<Runner>>> = self.threads.iter().map(|_| None).collect();
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().map(Some).collect();
        while threads.iter().any(Option::is_some) {
            match self.next_event() {
                Some(Event::Stopping) => {}
                Some(Event::Ended(index, runners)) => {
                    groups[index] = runners;
                    // It has said its last word; there is nothing to wait for.
                    drop(threads[index].take().map(JoinHandle::join));
                }
                None => break,
            }
        }
        for (index, _) in threads.iter().enumerate().filter(|(_, thread)| thread.is_some()) {
            let node_index = self.shared.calling[index].load(Ordering::Relaxed);
            let message = "it did not return from a call; its thread is left behind".to_owned();
            let node = self.shared.graph.nodes[node_index].name.clone();
            let (kind, handled) = (FailureKind::Stuck, Handled::Stopped);
            self.shared.fail(Failure { node, kind, message, handled });
        }
        for (index, runners) in groups.iter().enumerate() {
            // Of a thread that was lost or left behind stays what it told last.
            let Some(runners) = runners else { continue };
            let figures = export::figures(&self.shared.graph, index, runners, true);
            self.board.tell(index, figures);
        }
        let end = snapshot::end(&self.shared);
        let report = snapshot::report(&self.shared, &self.board.lock(), end);
        export::close(&self.plan.order, groups);
        match report.failures.is_empty() {
            true => Ok(report),
            false => Err(RunError::Failed(Box::new(report))),
        }
    }

    /// The next event; `None` when a thread is overdue.
    fn next_event(&self) -> Option<Event> {
        let Some(cut) = self.shared.stop.deadline() else { return self.events.recv().ok() };
        let left = (cut + self.grace).saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.stop.stop();
    }
}

fn shared(
    groups: &[Vec<Runner>],
    wakers: &[Arc<Waker>],
    wiring: &Wiring<'_>,
    tell: Sender<Event>,
) -> Shared {
    let (options, interrupt) = (wiring.options, wiring.interrupt.clone());
    let end = options.duration.map(|duration| Timestamp::ZERO + duration);
    let lockstep = match options.clock {
        ClockKind::Real => None,
        ClockKind::Virtual => Some(Lockstep::new(wakers.to_vec(), interrupt.clone(), end)),
    };
    let sinks = groups.iter().flatten().filter(|runner| runner.is_sink);
    Shared {
        graph: Arc::new(wiring.graph.clone()),
        sinks: AtomicUsize::new(sinks.count()),
        clock: Clock::new(lockstep),
        interrupt,
        // The receiver is gone when nobody waits.
        stop: StopHandle::new(options.drain, wakers.to_vec(), move || {
            drop(tell.send(Event::Stopping));
        }),
        end,
        observers: options.observers.clone(),
        calling: groups.iter().map(|_| Arc::default()).collect(),
        cut: AtomicBool::new(false),
        failures: Mutex::new(Vec::new()),
        meters: wiring.meters.clone(),
    }
}

/// How a thread begins: says what it is not allowed, then runs when `go` says so.
struct Start {
    schedule: Schedule,
    slice: Option<Duration>,
    notice: Sender<Vec<String>>,
    go: Arc<OnceLock<bool>>,
}

/// A thread for `group`, called after its first node.
fn spawn(
    name: &str,
    group: Group,
    start: Start,
    tell: Sender<Event>,
) -> io::Result<JoinHandle<()>> {
    let node = name.to_owned();
    thread::Builder::new().name(node.clone()).spawn(move || {
        let Start { schedule, slice, notice, go } = start;
        if let Some(slice) = slice {
            time_slice::request(slice);
        }
        // The receiver is there until all threads have told.
        drop(notice.send(thread_schedule::apply(&schedule, &node)));
        drop(notice);
        if !*go.wait() {
            return;
        }
        let (index, shared) = (group.watch.thread, group.shared.clone());
        let result = catch_unwind(AssertUnwindSafe(|| group.run()));
        let runners = result.map_err(|panic| {
            // Nodes are caught one by one; what is left is the observer.
            let message = format!("its thread, outside of a call: {}", panic_text(&*panic));
            shared.lose(index, node, message);
        });
        drop(tell.send(Event::Ended(index, runners.ok())));
    })
}
