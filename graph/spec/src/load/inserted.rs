//! Subgraph while it is inserted into the outer graph.

use crate::{
    Graph, InputConfig, Location, PortRef,
    load::locations::{InputLocations, Locations},
};

/// Names of the inputs or outputs of a subgraph, with the ports of its nodes that they stand for.
pub(crate) type Exports = Vec<(String, Vec<PortRef>)>;

/// A subgraph while its nodes are inserted into the outer graph.
pub(crate) struct Subgraph {
    /// Its node in the outer graph.
    pub(crate) name: String,
    /// Its input streams and their locations.
    pub(crate) inputs: Vec<(InputConfig, InputLocations)>,
    /// Its inputs and outputs; `None` if the file could not be read.
    pub(crate) ports: Option<[Exports; 2]>,
    /// Its budgets, waterfall and interrupt, until the outer graph takes them.
    pub(crate) watched: Option<Watched>,
    pub(crate) location: Location,
}

/// Budgets, waterfall and interrupt of a subgraph, with the full names of its nodes.
pub(crate) struct Watched {
    /// The subgraph without its nodes.
    pub(crate) graph: Graph,
    pub(crate) locations: Locations,
}

impl Watched {
    /// Takes them from `graph`, which is the node `name` of the outer graph.
    pub(crate) fn new(name: &str, mut graph: Graph, locations: Locations) -> Self {
        let within = |node: &mut String| *node = format!("{name}/{node}");
        let port = |port: &mut PortRef| within(&mut port.node);
        for budget in &mut graph.budgets {
            port(&mut budget.from);
            port(&mut budget.to);
        }
        graph.waterfall.iter_mut().for_each(port);
        if let Some(interrupt) = &mut graph.interrupt {
            port(&mut interrupt.on);
            interrupt.cancels.iter_mut().for_each(within);
        }
        Self { graph, locations }
    }
}
