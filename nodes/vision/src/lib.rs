//! Vision nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`Track`] | gives detected objects numbers that last from image to image |
//!
//! Begin with `track.rs`. `boxes.rs` has boxes in an image, their overlap and non-maximum suppression;
//! `assignment.rs` pairs two lists at the lowest cost.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod assignment;
pub mod boxes;
mod track;

use afferent_graph::{NodeDef, NodeEntry};

pub use track::{Track, TrackParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[NodeDef::of::<Track>];
