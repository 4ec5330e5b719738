//! Randomized tests of the engine: random graphs, and random faults in running graphs.
//!
//! | module            | contents                                                       |
//! |-------------------|----------------------------------------------------------------|
//! | `random_graphs`   | checks and runs random graph files                             |
//! | `graph_file`      | generator of graph files                                       |
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
mod random_graphs;
mod seeds;
