//! Options of placement: machines and processes.

use std::path::{Path, PathBuf};

use afferent_spec::{CheckedGraph, LoadOptions, PlacementOptions};
use anyhow::ensure;
use clap::Args;

/// Addresses of the machines of a graph.
#[derive(Args)]
pub(crate) struct AddressArgs {
    /// Address under which a machine is reached, `robot=quic/10.0.0.2:7450`; may be given several
    /// times
    #[arg(long, value_name = "NAME=ADDRESS")]
    at: Vec<String>,
    /// Addresses of machines (YAML): `machines: {robot: {listen: ..., address: ...}}`
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
}

impl AddressArgs {
    /// Placement of the graph file, with these addresses.
    pub(crate) fn placement(&self) -> PlacementOptions {
        let (at, machines) = (self.at.clone(), self.machines.clone());
        PlacementOptions { at, machines, ..PlacementOptions::default() }
    }
}

/// Fails unless `graph`, of the file `path`, has the machine `name` of an option.
pub(crate) fn check_machine(
    graph: &CheckedGraph,
    path: &Path,
    (option, name): (&str, &str),
) -> anyhow::Result<()> {
    let names: Vec<_> = graph.machines.iter().map(|machine| machine.name.as_str()).collect();
    let (path, all) = (path.display(), names.join(", "));
    ensure!(names.contains(&name), "{option} {name}: the machines of {path} are {all}");
    Ok(())
}

#[derive(Args)]
pub(crate) struct PlacementArgs {
    /// Run all nodes in this process: ignore `machine` and `process` of the graph file
    #[arg(long)]
    here: bool,
    /// Name of this machine in the graph file
    #[arg(long, value_name = "NAME", conflicts_with = "here")]
    machine: Option<String>,
    #[command(flatten)]
    addresses: AddressArgs,
}

impl PlacementArgs {
    /// Options of loading a graph; with `here`, all nodes run in this process.
    pub(crate) fn options(&self, here: bool) -> LoadOptions {
        let placement = PlacementOptions {
            here: here || self.here,
            machine: self.machine.clone(),
            ..self.addresses.placement()
        };
        LoadOptions { placement, ..LoadOptions::default() }
    }
}
