//! Options, errors, and the state that the threads of a run share.

pub(crate) mod board;
pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod snapshot;
pub(crate) mod state;
