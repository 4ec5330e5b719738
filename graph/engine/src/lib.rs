//! From a graph file to a running graph.

mod checked;
mod clock;
mod collect;
mod edge;
mod group;
mod lockstep;
mod metrics;
mod options;
mod plan;
mod queue;
mod ready;
mod report;
mod run;
mod runner;
mod shared;
mod spec;
mod stop;
mod summary;
mod wake;
mod wire;

pub use checked::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
pub use clock::ClockKind;
pub use options::{Observer, RunOptions};
pub use plan::{Plan, Threads};
pub use report::{
    EdgeCounts, EdgeReport, Failure, FailureKind, NodeReport, Report, RunEnd, Spread,
};
pub use run::{RunError, Session, run};
pub use shared::EpochHandle;
pub use spec::{Graph, InputSpec, NodeSpec};
pub use stop::StopHandle;
