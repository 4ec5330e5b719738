//! Graphs in several processes and on several machines, all in this process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "transport/faulty.rs"]
mod faulty;
#[path = "transport/machines.rs"]
mod machines;
#[path = "transport/nodes.rs"]
mod nodes;
#[path = "transport/partitions.rs"]
mod partitions;
