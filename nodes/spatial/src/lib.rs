//! Nodes for the motion of a body and the space around it.
//!
//! | node | purpose |
//! |---|---|
//! | [`Activity`] | counts steps and tells walking from running |
//! | [`Orientation`] | estimates the orientation of an inertial measurement unit |
//!
//! Begin with `orientation.rs`. `step_counter.rs` finds steps in the acceleration; `frames.rs` has
//! transforms between coordinate frames; `rate.rs` measures the rate of an input.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod activity;
pub mod frames;
mod orientation;
mod rate;
pub mod step_counter;

use afferent_graph::{NodeDef, NodeEntry};

pub use activity::{Activity, ActivityParams};
pub use orientation::{Orientation, OrientationParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[NodeDef::of::<Activity>, NodeDef::of::<Orientation>];
