//! Locations of the parts of a graph.
//!
//! All are absent for a graph built in Rust.

use std::collections::{BTreeMap, BTreeSet};

use crate::Location;

/// Locations of the parts of a graph. Lists are in the order of the graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locations {
    /// The key `nodes`, or the start of the file.
    pub(crate) nodes_key: Option<Location>,
    pub(crate) machines: Vec<MachineLocations>,
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

/// Locations of the parts of a machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineLocations {
    pub(crate) name: Option<Location>,
    pub(crate) listen: Option<Location>,
    pub(crate) address: Option<Location>,
}

/// Locations of the parts of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeLocations {
    pub(crate) name: Option<Location>,
    pub(crate) kind: Option<Location>,
    pub(crate) on_error: Option<Location>,
    pub(crate) thread: Option<Location>,
    pub(crate) machine: Option<Location>,
    pub(crate) process: Option<Location>,
    /// Locations of each input stream.
    pub(crate) inputs: Vec<InputLocations>,
    /// Key and value of each setting.
    pub(crate) params: BTreeMap<String, (Location, Location)>,
    /// Parts with reported faults, which are not reported again.
    pub(crate) reported: Reported,
}

impl NodeLocations {
    /// Location of the value of a parameter, or else of the name of the node.
    pub(crate) fn value(&self, param: &str) -> Option<&Location> {
        self.params.get(param).map(|(_, value)| value).or(self.name.as_ref())
    }
}

/// Parts of a node with faults found by reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reported {
    /// The node type.
    pub(crate) kind: bool,
    /// At least one input stream.
    pub(crate) inputs: bool,
    /// These parameters.
    pub(crate) params: BTreeSet<String>,
    /// All parameters.
    pub(crate) all_params: bool,
}

/// Locations of the parts of an input stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputLocations {
    /// Name of the input, if given.
    pub(crate) port: Option<Location>,
    pub(crate) from: PortLocations,
    pub(crate) on_full: Option<Location>,
    pub(crate) queue: Option<Location>,
    pub(crate) max_age: Option<Location>,
    pub(crate) sync: Option<Location>,
    pub(crate) timeout: Option<Location>,
    pub(crate) in_flight: Option<Location>,
    pub(crate) on_loss: Option<Location>,
    pub(crate) loss_timeout: Option<Location>,
}

/// Location of a `node.port`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortLocations {
    pub(crate) node: Option<Location>,
    /// Location of the whole if the port is not given.
    pub(crate) port: Option<Location>,
    /// True if it could not be read, which was reported.
    pub(crate) reported: bool,
}
