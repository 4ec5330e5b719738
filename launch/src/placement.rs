//! Options of placement: machines and processes.

use afferent_spec::{LoadOptions, PlacementOptions};
use clap::Args;

#[derive(Args)]
pub(crate) struct PlacementArgs {
    /// Run all nodes in this process: ignore `machine` and `process` of the graph file
    #[arg(long)]
    here: bool,
}

impl PlacementArgs {
    /// Options of loading a graph; with `here`, all nodes run in this process.
    pub(crate) fn options(&self, here: bool) -> LoadOptions {
        let placement = PlacementOptions { here: here || self.here };
        LoadOptions { placement, ..LoadOptions::default() }
    }
}
