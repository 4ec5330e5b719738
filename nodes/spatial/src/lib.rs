//! Nodes for the motion of a body and the space around it.
//!
//! | node | purpose |
//! |---|---|
//! | [`Activity`] | counts steps and tells walking from running |
//! | [`Lift`] | lifts detected objects from an image into space |
//! | [`Orientation`] | estimates the orientation of an inertial measurement unit |
//! | [`Planes`] | finds floors, walls and table tops in depth maps |
//! | [`SceneMemoryNode`] | remembers where things are, and answers where they are |
//! | [`SimulatedImu`] | simulates the measurements of a walking person |
//! | [`Transforms`] | sends the pose of one coordinate frame in another |
//!
//! Begin with `orientation.rs`. `step_counter.rs` finds steps in the acceleration; `frames.rs` has
//! transforms between coordinate frames; `plane_fit.rs` finds planes in a depth map; `rate.rs` measures the
//! rate of an input.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod activity;
mod activity_tools;
mod camera_view;
pub mod frames;
mod lift;
#[cfg(feature = "scene-memory")]
pub mod memory;
mod orientation;
mod plane_fit;
mod planes;
mod rate;
#[cfg(feature = "scene-memory")]
mod scene_memory;
mod simulated_imu;
mod static_frames;
pub mod step_counter;
mod transforms;

use afferent_graph::{NodeDef, NodeEntry};

pub use activity::{Activity, ActivityParams};
pub use lift::{Lift, LiftParams};
pub use orientation::{Orientation, OrientationParams};
pub use planes::{Planes, PlanesParams};
pub use simulated_imu::{SimulatedImu, SimulatedImuParams};
pub use transforms::{Transforms, TransformsParams};

#[cfg(feature = "scene-memory")]
pub use scene_memory::{MapFrame, SceneMemoryNode, SceneMemoryParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Activity>,
    NodeDef::of::<Lift>,
    NodeDef::of::<Orientation>,
    NodeDef::of::<Planes>,
    #[cfg(feature = "scene-memory")]
    NodeDef::of::<SceneMemoryNode>,
    NodeDef::of::<SimulatedImu>,
    NodeDef::of::<Transforms>,
];
