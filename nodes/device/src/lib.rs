//! Devices: one node per file.
/// Every node of this crate, alphabetical.
pub const NODES: &[afferent_graph::NodeDef] = &[];
