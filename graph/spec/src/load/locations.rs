//! Where each part of a graph is written.
//!
//! Everything is absent for a graph that was built in Rust.

use std::collections::{BTreeMap, BTreeSet};

use crate::Location;

/// Where the parts of a graph are written. Lists are in the order of the graph's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locations {
    /// The key `nodes`, or the start of the file.
    pub(crate) nodes_key: Option<Location>,
    pub(crate) nodes: Vec<NodeLocations>,
    pub(crate) budgets: Vec<(PortLocations, PortLocations)>,
    pub(crate) waterfall: Vec<PortLocations>,
    /// The key `waterfall`.
    pub(crate) waterfall_key: Option<Location>,
    /// `on`, and each of `cancels`.
    pub(crate) interrupt: (PortLocations, Vec<Location>),
    /// The key `interrupt`.
    pub(crate) interrupt_key: Option<Location>,
    /// Nodes that the profile removes, with the name of the profile.
    pub(crate) removed: Vec<(String, String)>,
}

/// Where the parts of a node are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeLocations {
    pub(crate) name: Option<Location>,
    pub(crate) kind: Option<Location>,
    pub(crate) on_error: Option<Location>,
    /// Of each input stream.
    pub(crate) inputs: Vec<InputLocations>,
    /// Key and value of each setting.
    pub(crate) params: BTreeMap<String, (Location, Location)>,
    /// What is known to be wrong already and must not be reported again.
    pub(crate) reported: Reported,
}

/// Parts of a node with faults that reading found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reported {
    /// What it is.
    pub(crate) kind: bool,
    /// At least one input stream.
    pub(crate) inputs: bool,
    /// These settings.
    pub(crate) params: BTreeSet<String>,
    /// All settings.
    pub(crate) all_params: bool,
}

/// Where the parts of an input stream are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputLocations {
    /// The name of the input, where it is given.
    pub(crate) port: Option<Location>,
    pub(crate) from: PortLocations,
    pub(crate) on_full: Option<Location>,
    pub(crate) queue: Option<Location>,
    pub(crate) max_age: Option<Location>,
    pub(crate) sync: Option<Location>,
    pub(crate) timeout: Option<Location>,
    pub(crate) in_flight: Option<Location>,
}

/// Where `node.port` is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortLocations {
    pub(crate) node: Option<Location>,
    /// Of the whole when the port is not given.
    pub(crate) port: Option<Location>,
    /// Whether it could not be read, which must not be reported again.
    pub(crate) reported: bool,
}
