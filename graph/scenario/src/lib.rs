//! Scenarios: turns of a simulated user, and expectations on the graph.
//!
//! | modules                        | hold                                                    |
//! |--------------------------------|---------------------------------------------------------|
//! | `spec`, `read`                 | the parsed form of a scenario, and its reader            |
//! | `sound`, `espeak`, `payload`   | speech of the simulated user, and packets to send        |
//! | `prepare`                      | the graph with replaced sources                          |
//! | `source`, `witness`, `stage`   | a run: its sources, its observer, and their shared state |
//! | `state`                        | the script of a run, and its progress                    |
//! | `judge`                        | evaluation of expectations                               |
//! | `run`, `outcome`, `junit`      | execution of cases, and their outcomes                   |
//!
//! A case runs on the virtual clock, where time advances only when every thread is idle. A turn
//! that starts after an event therefore starts at the same sample in every run. This is checked by
//! comparing every packet of every run.
//!
//! **Invariant:** a decision of a source depends only on packets sent before the current time.

mod espeak;
mod judge;
mod junit;
mod outcome;
mod payload;
mod prepare;
mod read;
mod run;
mod sound;
mod source;
mod spec;
mod stage;
mod state;
mod witness;

pub use junit::junit;
pub use outcome::{Fault, Happened, Outcome};
pub use read::{load, parse};
pub use run::{Options, Runner};
pub use spec::Case;
