//! Options of placement: machines and processes.

use std::path::PathBuf;

use afferent_spec::{LoadOptions, PlacementOptions};
use clap::Args;

#[derive(Args)]
pub(crate) struct PlacementArgs {
    /// Run all nodes in this process: ignore `machine` and `process` of the graph file
    #[arg(long)]
    here: bool,
    /// Name of this machine in the graph file
    #[arg(long, value_name = "NAME", conflicts_with = "here")]
    machine: Option<String>,
    /// Address under which a machine is reached, `robot=quic/10.0.0.2:7450`; may be given several
    /// times
    #[arg(long, value_name = "NAME=ADDRESS")]
    at: Vec<String>,
    /// Addresses of machines (YAML): `machines: {robot: {listen: ..., address: ...}}`
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
}

impl PlacementArgs {
    /// Options of loading a graph; with `here`, all nodes run in this process.
    pub(crate) fn options(&self, here: bool) -> LoadOptions {
        let placement = PlacementOptions {
            here: here || self.here,
            machine: self.machine.clone(),
            at: self.at.clone(),
            machines: self.machines.clone(),
        };
        LoadOptions { placement, ..LoadOptions::default() }
    }
}
