//! Small graphs run by the engine: what arrives, in which order, and what is counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budgets;
mod bursts;
mod ends;
mod failures;
mod flow;
mod headers;
mod interrupts;
mod joins;
mod kit;
mod policies;
mod rewinds;
mod stops;
mod supervision;
mod timers;
mod virtual_time;
mod watched;
