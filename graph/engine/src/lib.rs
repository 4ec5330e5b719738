//! Runs checked graphs.
//!
//! [`Session::start`] plans the threads, opens the nodes and connects them; [`Session::wait`]
//! returns a [`Report`]. Begin with `session.rs`, then `scheduler/worker.rs` (the loop of a thread)
//! and `scheduler/node.rs` (one call of a node).
//!
//! | module | holds |
//! |---|---|
//! | `session` | a running graph: start, stop, wait |
//! | `scheduler` | threads, calls of nodes, fused chains, wiring |
//! | `plan` | which nodes share a thread; sizes of pools |
//! | `run` | options, errors and the state that the threads of a run share |
//! | `sync` | synchronizers |
//! | `edge` | queues, ports, timestamps of streams |
//! | `border` | edges that lead to other processes |
//! | `metrics` | counters, histograms, budgets, reports |
//! | `clock` | real and virtual time, source generations |
//! | `supervision` | restarts, interrupts, stops |
//! | `sys` | threads, locks, wakes and clocks of the operating system |
//!
//! **Invariant:** a run loses no packet without counting it.
//! **Invariant:** in steady state nothing is allocated for a packet.

mod border;
mod clock;
mod edge;
#[cfg(all(test, shuttle))]
mod interleavings;
mod metrics;
mod plan;
mod run;
mod scheduler;
mod session;
mod supervision;
mod sync;
mod sys;

pub use border::{
    Border, BorderEnds, Budgets, Incoming, Outgoing, SentWatermark, SessionClock, ToSend,
};
pub use clock::ClockKind;
pub use metrics::{
    report::{
        BudgetReport, EdgeCounts, EdgeReport, Failure, FailureKind, Handled, JoinCounts,
        MachineReport, NodeReport, PathReport, PoolReport, Report, RunEnd, Spread,
    },
    summary::duration_text,
};
pub use plan::{
    Plan,
    pools::{PoolPlan, pools},
    weight::{Reweighed, weigh},
};
pub use run::{
    board::WatchHandle,
    error::RunError,
    options::{CallCause, CallSpan, Observer, RunOptions, Threads},
};
pub use scheduler::opener::Opener;
pub use session::{Session, run};
pub use supervision::{Restarts, interrupt::InterruptHandle, stop::StopHandle};
pub use sys::thread_schedule::lower_priority;
