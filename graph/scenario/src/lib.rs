//! Scenarios: what a user does, and what a graph must do then.
//!
//! | modules                        | hold                                                    |
//! |--------------------------------|---------------------------------------------------------|
//! | `spec`, `read`                 | a scenario as it is written, and how it is read          |
//! | `sound`, `espeak`, `payload`   | what the user says, and packets that a scenario sends    |
//! | `prepare`                      | the graph with its sources replaced                      |
//! | `source`, `witness`, `stage`   | a run: what is sent, what is seen, what follows from it  |
//! | `judge`                        | whether what is expected has happened                    |
//! | `run`, `outcome`, `junit`      | cases, one after the other, and what came of them        |
//!
//! A case runs on the virtual clock, where time moves only when every thread rests. A turn that
//! begins after an event therefore begins at the same sample in every run, which is checked: every
//! packet of every run is compared.
//!
//! **Invariant:** what a source decides at a time depends only on what was sent before that time.

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
mod witness;

pub use junit::junit;
pub use outcome::{Fault, Happened, Outcome};
pub use read::{load, parse};
pub use run::{Options, Runner};
pub use spec::Case;
