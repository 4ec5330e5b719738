//! Nodes for the motion of a body and the space around it.
//!
//! | node | purpose |
//! |---|---|
//! | [`Activity`] | counts steps and tells walking from running |
//! | [`ImuSource`] | reads inertial measurements from a file |
//! | [`Orientation`] | estimates the orientation of an inertial measurement unit |
//!
//! Begin with `orientation.rs`. `step_counter.rs` finds steps in the acceleration; `frames.rs` has
//! transforms between coordinate frames; `imu_file.rs` reads
//! CSV files; `rate.rs` measures the rate of an input.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod activity;
pub mod frames;
mod imu_file;
mod imu_source;
mod orientation;
mod rate;
pub mod step_counter;

use afferent_graph::{NodeDef, NodeEntry};

pub use activity::{Activity, ActivityParams};
pub use imu_source::{ImuSource, ImuSourceParams};
pub use orientation::{Orientation, OrientationParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] =
    &[NodeDef::of::<Activity>, NodeDef::of::<ImuSource>, NodeDef::of::<Orientation>];
