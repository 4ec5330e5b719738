//! Graphs made by chance, and faults that come by chance.
//!
//! A seed that fails is printed; `AFFERENT_SEED=N` tries it alone. `AFFERENT_GRAPHS=N` and
//! `AFFERENT_FAULTS=N` say how many are tried.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a seed that fails is printed from where it fails")]

mod faults;
mod graphs;
mod nodes;
mod seeds;
mod written;
