//! Where each part of a graph is written.
//!
//! Everything is absent for a graph that was built in Rust.

use std::collections::{BTreeMap, BTreeSet};

use crate::Place;

/// Where the parts of a graph are written. Lists are in the order of the graph's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The key `nodes`, or the start of the file.
    pub(crate) nodes_key: Option<Place>,
    pub(crate) nodes: Vec<NodePlaces>,
    pub(crate) budgets: Vec<(PortPlaces, PortPlaces)>,
    pub(crate) waterfall: Vec<PortPlaces>,
    /// The key `waterfall`.
    pub(crate) waterfall_key: Option<Place>,
    /// `on`, and each of `cancels`.
    pub(crate) interrupt: (PortPlaces, Vec<Place>),
    /// The key `interrupt`.
    pub(crate) interrupt_key: Option<Place>,
    /// Nodes that the profile removes, with the name of the profile.
    pub(crate) removed: Vec<(String, String)>,
}

/// Where the parts of a node are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodePlaces {
    pub(crate) name: Option<Place>,
    pub(crate) kind: Option<Place>,
    pub(crate) on_error: Option<Place>,
    /// Of each input stream.
    pub(crate) inputs: Vec<InputPlaces>,
    /// Key and value of each setting.
    pub(crate) params: BTreeMap<String, (Place, Place)>,
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
pub(crate) struct InputPlaces {
    /// The name of the input, where it is given.
    pub(crate) port: Option<Place>,
    pub(crate) from: PortPlaces,
    pub(crate) on_full: Option<Place>,
    pub(crate) queue: Option<Place>,
    pub(crate) max_age: Option<Place>,
    pub(crate) sync: Option<Place>,
    pub(crate) timeout: Option<Place>,
    pub(crate) in_flight: Option<Place>,
}

/// Where `node.port` is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortPlaces {
    pub(crate) node: Option<Place>,
    /// Of the whole when the port is not given.
    pub(crate) port: Option<Place>,
    /// Whether it could not be read, which must not be reported again.
    pub(crate) reported: bool,
}
