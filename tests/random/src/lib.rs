//! Randomized tests of the engine: random graphs, and random faults in running graphs.
//!
//! | module            | contents                                                       |
//! |-------------------|----------------------------------------------------------------|
//! | `random_graphs`   | checks and runs random graph files                             |
//! | `graph_file`      | generator of graph files                                       |
//! | `partitions`      | runs random graphs in several partitions                       |
//! | `nodes`           | nodes of the random graphs                                     |
//! | `fault_injection` | injects faults into running graphs                             |
//! | `seeds`           | iterates over seeds, reports failures and hangs                |
//!
//! A failing test prints its seed; `AFFERENT_SEED=N` runs that seed alone. `AFFERENT_GRAPHS=N` and
//! `AFFERENT_FAULTS=N` set the number of graphs and faults.
#![cfg(test)]

mod fault_injection;
mod graph_file;
mod nodes;
#[cfg(target_os = "linux")]
mod partitions;
mod random_graphs;
mod seeds;
