//! A running graph: start, stop, wait.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use afferent_graph::{OpenCx, SessionStart, Timestamp};

use crate::{
    Border, BorderEnds, Budgets, ClockKind, Failure, FailureKind, Handled, Incoming,
    InterruptHandle, Outgoing, Plan, Report, RunError, RunOptions, SessionClock, StopHandle,
    clock::{Clock, lockstep::Lockstep},
    edge::RemoteEdge,
    metrics::budget::{self, Tell},
    run::{
        board::{Board, WatchHandle},
        snapshot,
        state::Shared,
    },
    scheduler::{
        export,
        node::Runner,
        opener::panic_text,
        wiring::{self, Connected, Wiring},
        worker::Worker,
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

/// A running graph. Dropping it stops the graph without waiting for the end.
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
    /// The run was asked to stop.
    Stopping,
    /// A thread has ended; `None` if it panicked outside of its nodes.
    Ended(usize, Option<Vec<Runner>>),
}

impl Session {
    /// Opens every node of `graph`, then starts them.
    ///
    /// `cx` has the services of the nodes; its `name` is replaced by that of each node. Without a
    /// [`SessionStart`], that of the clock is added.
    ///
    /// # Errors
    /// Every [`RunError`] but [`RunError::Failed`]; nodes that were open are closed again.
    pub fn start(graph: &CheckedGraph, cx: &OpenCx, options: RunOptions) -> Result<Self, RunError> {
        wiring::check_ports(graph)?;
        wiring::check_partitions(graph, &options)?;
        let border = options.border.clone();
        let is_here = |node| border.as_ref().is_none_or(|border| border.is_here(node));
        let plan = Plan::partition(graph, options.threads, is_here).map_err(|node_indices| {
            let name = |node_index: usize| graph.nodes[node_index].name.clone();
            RunError::Cycle { nodes: node_indices.into_iter().map(name).collect() }
        })?;
        let nodes = match cx.services.need::<SessionStart>() {
            Ok(_) => wiring::open(graph, cx, is_here)?,
            Err(_) => {
                let services = cx.services.clone().with(options.clock.session_start());
                wiring::open(graph, &OpenCx { services, ..cx.clone() }, is_here)?
            }
        };
        for observer in &options.observers {
            observer.begin().map_err(RunError::Observer)?;
        }
        let start = match &border {
            Some(border) => border.begin().map_err(RunError::Border)?,
            None => Instant::now(),
        };
        let wakers: Vec<_> = plan.groups.iter().map(|_| Arc::new(Waker::default())).collect();
        let interrupt = wiring::interrupt(graph, &plan, &options, &wakers);
        let meters = budget::meters(graph, |index| tell_of_budget(graph, border.as_ref()?, index));
        let needs_watermark_of = wiring::needs_watermark_of(graph, &plan);
        let wiring =
            Wiring { graph, plan: &plan, options: &options, interrupt, meters, needs_watermark_of };
        let connected = wiring.connect(nodes, &wakers);
        let (tell, events) = mpsc::channel();
        let shared = Arc::new(shared(&connected, &wakers, &wiring, start, tell.clone()));
        if let Some(border) = &border {
            border.connect(border_ends(&shared, &connected));
        }
        let groups = connected.groups;
        let (threads, notices, grace) = (Vec::new(), Vec::new(), options.grace);
        let board = Arc::new(Board::new(wakers.clone()));
        let mut session = Self { shared, board, events, threads, plan, grace, notices };
        // No thread sends before every thread can be woken.
        let go = Arc::new(OnceLock::new());
        let (notice, notices) = mpsc::channel();
        let downstream = session.plan.threads_downstream(graph);
        for (index, (runners, waker)) in groups.into_iter().zip(wakers).enumerate() {
            let members =
                session.plan.groups[index].iter().map(|node_index| &graph.nodes[*node_index]);
            let schedule = Schedule::merged(members.map(|node| &node.schedule));
            let shared = session.shared.clone();
            let worker = Worker::new(
                index,
                runners,
                waker.clone(),
                (shared, session.board.clone()),
                schedule.spin,
            );
            let name = &graph.nodes[session.plan.groups[index][0]].name;
            let slice = downstream[index].map(time_slice::before);
            let start = Start { schedule, slice, notice: notice.clone(), go: go.clone() };
            match spawn(name, worker, start, tell.clone()) {
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

    /// Handle to stop the run from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.shared.stop.clone()
    }

    /// Handle to interrupt the run from another thread.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.shared.interrupt.clone()
    }

    /// Requests of the graph that this machine refuses; the run continues without them.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Handle to read the figures of the run from another thread.
    pub fn watch_handle(&self) -> WatchHandle {
        WatchHandle::new(self.shared.clone(), self.board.clone())
    }

    /// Waits until every node has ended, then closes them, sources first.
    ///
    /// After a stop it waits at most for [`RunOptions::drain`] and [`RunOptions::grace`]. A node
    /// that does not return from a call is reported and abandoned with its thread.
    ///
    /// # Errors
    /// [`RunError::Failed`], with the report, if a node failed.
    pub fn wait(mut self) -> Result<Report, RunError> {
        let mut groups: Vec<Option<Vec<Runner>>> = self.threads.iter().map(|_| None).collect();
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().map(Some).collect();
        while threads.iter().any(Option::is_some) {
            match self.next_event() {
                Some(Event::Stopping) => {}
                Some(Event::Ended(index, runners)) => {
                    groups[index] = runners;
                    // The thread has sent its last event, so joining does not block.
                    drop(threads[index].take().map(JoinHandle::join));
                }
                None => break,
            }
        }
        for (index, _) in threads.iter().enumerate().filter(|(_, thread)| thread.is_some()) {
            let (node_index, start_ns) = self.shared.current_calls[index].read();
            let now = self.shared.clock.moment();
            let in_call = Duration::from_nanos(now.real_ns.saturating_sub(start_ns));
            let in_call_s = in_call.as_secs_f64();
            let message =
                format!("it has been in a call for {in_call_s:.1} s; its thread is abandoned");
            let node = self.shared.graph.nodes[node_index].name.clone();
            let (kind, at_ns, handled) = (FailureKind::Stuck, now.session_ns(), Handled::Stopped);
            self.shared.fail(Failure { node, kind, at_ns, message, handled });
        }
        for (index, runners) in groups.iter().enumerate() {
            // The last answer of a lost or abandoned thread remains.
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

    /// Next event; `None` if a thread is overdue. Stops the run at its end on the real clock: a
    /// thread whose node does not return from a call cannot.
    fn next_event(&self) -> Option<Event> {
        let shared = &self.shared;
        if let (None, Some(end), None) =
            (shared.stop.deadline(), shared.end, &shared.clock.lockstep)
        {
            match self.events.recv_timeout(end.since(shared.clock.moment().now)) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => shared.stop.stop(),
            }
        }
        let Some(cut) = shared.stop.deadline() else { return self.events.recv().ok() };
        let left = (cut + self.grace).saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // After `wait` there is nothing left to stop.
        if !self.threads.is_empty() {
            self.shared.stop.stop();
        }
    }
}

/// Tells `border` of packets at the ends of a budget, if one of them is in another process.
fn tell_of_budget(graph: &CheckedGraph, border: &Arc<dyn Border>, index: usize) -> Option<Tell> {
    let budget = &graph.budgets[index];
    let is_here = [budget.from, budget.to].iter().all(|end| border.is_here(end.node));
    let border = Arc::downgrade(border);
    (!is_here).then(|| -> Tell {
        Box::new(move |starts, trace, real_ns| {
            let border = border.upgrade();
            border.is_some_and(|border| border.passed(index, starts, trace, real_ns))
        })
    })
}

/// Ends of the edges to and from other processes.
fn border_ends(shared: &Arc<Shared>, connected: &Connected) -> BorderEnds {
    let clock = {
        let (shared, slewed) = (shared.clone(), shared.clone());
        let now = move || shared.clock.moment().now;
        SessionClock::new(now, move |error_ns| slewed.clock.slew(error_ns))
    };
    let outgoing = |(edge, queue): &(usize, Arc<RemoteEdge>)| Outgoing {
        edge: *edge,
        queue: queue.clone(),
        clock: clock.clone(),
        interrupt: shared.interrupt.clone(),
        on_end: {
            let shared = shared.clone();
            Box::new(move || shared.sink_ended())
        },
        // No sink waits for a feedback edge.
        ended: AtomicBool::new(shared.graph.edges[*edge].feedback),
    };
    let incoming = |(edge, queue): &(usize, _)| Incoming { edge: *edge, queue: Arc::clone(queue) };
    BorderEnds {
        outgoing: connected.outgoing.iter().map(outgoing).collect(),
        incoming: connected.incoming.iter().map(incoming).collect(),
        interrupt: shared.interrupt.clone(),
        stop: shared.stop.clone(),
        budgets: Budgets(shared.meters.clone()),
        clock,
    }
}

fn shared(
    Connected { groups, outgoing, .. }: &Connected,
    wakers: &[Arc<Waker>],
    wiring: &Wiring<'_>,
    start: Instant,
    tell: Sender<Event>,
) -> Shared {
    let (options, interrupt) = (wiring.options, wiring.interrupt.clone());
    let border = options.border.as_ref().map(Arc::downgrade);
    let end = options.duration.map(|duration| Timestamp::ZERO + duration);
    let lockstep = match options.clock {
        ClockKind::Real => None,
        ClockKind::Virtual => Some(Lockstep::new(wakers.to_vec(), interrupt.clone(), end)),
    };
    let is_forth = |(index, _): &&(usize, _)| !wiring.graph.edges[*index].feedback;
    let ends = outgoing.iter().filter(is_forth);
    let sinks = groups.iter().flatten().filter(|runner| runner.is_sink);
    Shared {
        graph: Arc::new(wiring.graph.clone()),
        // A sink of another process ends the edge that leads there.
        sinks: AtomicUsize::new(sinks.count() + ends.count()),
        outgoing: outgoing.clone(),
        clock: Clock::new(start, lockstep, options.border.is_some()),
        interrupt,
        // Without a waiting caller, the receiver is gone.
        stop: StopHandle::new(options.drain, wakers.to_vec(), move || {
            drop(tell.send(Event::Stopping));
            if let Some(border) = border.as_ref().and_then(Weak::upgrade) {
                border.stopped();
            }
        }),
        end,
        observers: options.observers.clone(),
        current_calls: groups.iter().map(|_| Arc::default()).collect(),
        cut: AtomicBool::new(false),
        failures: Mutex::new(Vec::new()),
        failure_log: Mutex::default(),
        meters: wiring.meters.clone(),
    }
}

/// Start of a thread: reports refused settings, then waits for `go`.
struct Start {
    schedule: Schedule,
    slice: Option<Duration>,
    notice: Sender<Vec<String>>,
    go: Arc<OnceLock<bool>>,
}

/// Starts a thread for `worker`, named after its first node.
fn spawn(
    name: &str,
    worker: Worker,
    start: Start,
    tell: Sender<Event>,
) -> io::Result<JoinHandle<()>> {
    let node = name.to_owned();
    thread::Builder::new().name(node.clone()).spawn(move || {
        let Start { schedule, slice, notice, go } = start;
        if let Some(slice) = slice {
            time_slice::request(slice);
        }
        // The receiver exists until all threads have reported.
        drop(notice.send(thread_schedule::apply(&schedule, &node)));
        drop(notice);
        if !*go.wait() {
            return;
        }
        let (index, shared) = (worker.watch.thread, worker.shared.clone());
        let result = catch_unwind(AssertUnwindSafe(|| worker.run()));
        let runners = result.map_err(|panic| {
            // Panics of nodes are caught one by one; this one comes from an observer.
            let message = format!("its thread, outside of a call: {}", panic_text(&*panic));
            shared.lose(index, node, message);
        });
        drop(tell.send(Event::Ended(index, runners.ok())));
    })
}
