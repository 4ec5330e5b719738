//! From a graph file to a running graph.
//!
//! | modules                                   | hold                                              |
//! |-------------------------------------------|---------------------------------------------------|
//! | `spec`, `checked`                         | a graph as written, and without faults            |
//! | `yaml`, `load`                            | a graph file, its profiles and overrides          |
//! | `check`, `suggest`, `diagnostic`          | every fault of a graph in one pass, with its place |
//! | `draw`                                    | the graph as Mermaid, DOT and SVG                 |
//! | `plan`, `weigh`, `schedule`, `slice`, `pools`, `options` | threads, memory, and how a run goes |
//! | `run`, `runner`, `group`                  | a running graph, on its threads or in one         |
//! | `edge`, `queue`, `wire`, `wake`, `ready`, `collect` | packets between nodes and threads       |
//! | `clock`, `stopwatch`, `lockstep`          | time: real, or virtual                            |
//! | `shared`, `threading`, `interrupt`, `stop` | what threads share; what cuts work short         |
//! | `sync`, `join`                            | packets of several streams in one call            |
//! | `stamp`, `life`                           | headers of packets; time that begins anew         |
//! | `supervision`                             | what happens when a node fails                    |
//! | `budget`                                  | times from port to port                           |
//! | `metrics`, `times`, `collect`, `watch`, `report`, `summary`, `prometheus` | what was measured |
//!
//! **Invariant:** a run loses no packet without counting it.
//! **Invariant:** in steady state nothing is allocated for a packet.

mod budget;
mod check;
mod checked;
mod clock;
mod collect;
mod diagnostic;
mod draw;
mod edge;
mod error;
mod figures;
mod group;
mod interrupt;
mod join;
mod life;
mod load;
mod lockstep;
mod metrics;
#[cfg(all(test, shuttle))]
mod model;
mod opener;
mod options;
mod origin;
mod plan;
mod pools;
mod ports;
mod prometheus;
mod queue;
mod ready;
mod report;
mod run;
mod runner;
mod schedule;
mod shared;
mod slice;
mod spec;
mod stamp;
mod stop;
mod stopwatch;
mod suggest;
mod summary;
mod supervision;
mod sync;
mod threading;
mod times;
mod wake;
mod watch;
mod weigh;
mod wire;
pub mod yaml;

pub use check::{Checked, check, load_and_check};
pub use checked::{CheckedBudget, CheckedGraph, CheckedNode, Edge, EdgePolicy, End};
pub use clock::ClockKind;
pub use diagnostic::{Diagnostic, Diagnostics, Place, Severity, counted};
pub use draw::{DrawFormat, UnknownFormat, draw};
pub use error::RunError;
pub use interrupt::InterruptHandle;
pub use load::{LoadOptions, Loaded, change_node, load, parse};
pub use options::{CallSpan, Observer, RunOptions};
pub use origin::Origin;
pub use plan::{Plan, Threads};
pub use pools::{PoolPlan, pools};
pub use report::{
    BudgetReport, EdgeCounts, EdgeReport, Failure, FailureKind, Handled, JoinCounts, NodeReport,
    PathReport, PoolReport, Report, RunEnd, Spread,
};
pub use run::{Session, run};
pub use schedule::Schedule;
pub use spec::{Budget, Graph, InputConfig, Interrupt, NodeConfig, PortRef};
pub use stop::StopHandle;
pub use supervision::{Degrade, OnError, Restart};
pub use sync::{OnTimeFault, SyncPolicy};
pub use watch::WatchHandle;
pub use weigh::{Reweighed, weigh};
