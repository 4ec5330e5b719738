//! Edges of a graph across processes and machines.
//!
//! A graph file names the machine and the process of a node. Each process runs the nodes of its partition in a
//! session of its own, and a [`Transport`] carries the packets of the edges between them. Edges keep
//! their policies, their order and their counters: what leaves the queue of the sender is
//! acknowledged, dropped with a reason, or counted as lost.
//!
//! | module | holds |
//! |---|---|
//! | `transport` | the part of a graph in this process; start, end and loss of the others |
//! | `edges` | the two ends of an edge |
//! | `window` | counters of the ends, without input and output |
//! | `frame` | messages as bytes |
//! | `link` | what a connection has to do |
//! | `local` | connection within a machine: shared memory and a socket |
//! | `remote` | connection between machines: order, repetition and clocks over any wire |
//! | `net` | that wire: zenoh, with the feature `net` |
//! | `processes` | starts the other processes of the machine, and starts them again |
//! | `witness` | tells the first process of packets for the waterfall |
//! | `clock` | the monotonic clock that the processes of a machine share |
//! | `report`, `shape`, `control` | reports of all processes, comparison of graphs, control messages |

mod clock;
mod control;
mod edges;
pub mod frame;
pub mod link;
pub mod local;
#[cfg(feature = "net")]
pub mod net;
mod processes;
pub mod remote;
mod report;
mod shape;
mod transport;
pub mod window;
mod witness;

pub use clock::monotonic_ns;
pub use processes::{Process, Processes, Program};
pub use transport::{Transport, TransportError};
pub use witness::Witness;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A panic of another thread leaves the state consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
