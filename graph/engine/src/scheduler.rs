//! Threads of a run, and the calls of their nodes.

pub(crate) mod export;
pub(crate) mod node;
pub(crate) mod opener;
pub(crate) mod ready;
pub(crate) mod wiring;
pub(crate) mod worker;
