//! Graphs made by chance, and faults that come by chance.
//!
//! A seed that fails is printed; `AFFERENT_SEED=N` tries it alone. `AFFERENT_GRAPHS=N` and
//! `AFFERENT_FAULTS=N` say how many are tried.
#![cfg(test)]

mod faults;
mod graphs;
mod nodes;
mod seeds;
mod written;
