//! Vision nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`ImageView`] | converts images to another size and pixel format |
//! | [`Track`] | gives detected objects numbers that last from image to image |
//!
//! Begin with `track.rs`. `boxes.rs` has boxes in an image, their overlap and non-maximum suppression;
//! `fit.rs` fits images to another size; `pixels.rs` gives images to the kernel for images.
//! `assignment.rs` pairs two lists at the lowest cost.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod assignment;
pub mod boxes;
pub mod fit;
mod image_view;
pub mod pixels;
mod track;

use afferent_graph::{NodeDef, NodeEntry};

pub use image_view::{ImageView, ImageViewParams, Resampling, ViewFormat};
pub use track::{Track, TrackParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[NodeDef::of::<ImageView>, NodeDef::of::<Track>];
