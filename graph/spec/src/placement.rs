//! Placement: machines and processes of a graph, and edges between them.

use std::path::PathBuf;

use afferent_graph::choices;

choices! {
    /// Reaction of an edge between two partitions to the loss of its sender, by its words in graph
    /// files.
    pub enum OnLoss {
        /// The receiver waits until the sender is back, for the `loss_timeout` at most.
        Wait = "wait",
        /// The stream ends for the receiver.
        End = "end",
        /// The run stops on the machine of the receiver.
        Stop = "stop",
    }
}

#[expect(clippy::derivable_impls, reason = "`choices!` takes no attribute of a variant")]
impl Default for OnLoss {
    fn default() -> Self {
        Self::Wait
    }
}

/// A machine of a graph, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineConfig {
    /// Unique within the graph.
    pub name: String,
    /// Address that the machine listens on: `tcp/HOST:PORT` or `quic/HOST:PORT`.
    pub listen: Option<String>,
    /// Address under which the other machines reach it, in the same form. Graph files do not have
    /// it: it is a setting of the start.
    pub address: Option<String>,
    /// Settings for starting the machine from another one; graph files do not have them.
    pub remote: Remote,
}

/// Access to a machine, for a program that starts it from another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// Destination of ssh, `user@host`; `None` for the machine that starts the others.
    pub ssh: Option<String>,
    /// Folder of the graph on the machine, relative to the home folder of the user.
    pub dir: Option<String>,
    /// Program `afferent` on the machine.
    pub program: Option<String>,
}

/// Settings of the start that concern the placement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// True to run all nodes in this process: `machine` and `process` are ignored.
    pub here: bool,
    /// Machine that this program runs on.
    pub machine: Option<String>,
    /// Addresses under which machines are reached, `NAME=ADDRESS`. They override those of
    /// `machines`.
    pub at: Vec<String>,
    /// File with addresses, which override those of the graph file: `machines: {robot: {listen:
    /// quic/0.0.0.0:7450, address: quic/10.0.0.2:7450}}`. It may have the fields of [`Remote`] too.
    pub machines: Option<PathBuf>,
}

/// A machine of a checked graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// Address that the machine listens on: `tcp/HOST:PORT` or `quic/HOST:PORT`.
    pub listen: Option<String>,
    /// Address under which the other machines reach it, in the same form.
    pub address: Option<String>,
    /// Settings for starting the machine from another one.
    pub remote: Remote,
}

/// A process of a machine, which runs a part of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Index in `CheckedGraph::machines`; 0 for a graph without machines.
    pub machine: usize,
    /// Name of the process; `None` for the main process of the machine.
    pub process: Option<String>,
}

/// Partitions of the nodes `assigned`, each with its machine and process. Returns the partitions and
/// the index of each node's partition.
pub(crate) fn partitions<'n>(
    machines: usize,
    assigned: impl Iterator<Item = (usize, Option<&'n str>)>,
) -> (Vec<Partition>, Vec<usize>) {
    let main = |machine| Partition { machine, process: None };
    let mut partitions: Vec<Partition> = (0..machines.max(1)).map(main).collect();
    let indices = assigned.map(|(machine, process)| {
        let is_same =
            |known: &Partition| known.machine == machine && known.process.as_deref() == process;
        partitions.iter().position(is_same).unwrap_or_else(|| {
            partitions.push(Partition { machine, process: process.map(str::to_owned) });
            partitions.len() - 1
        })
    });
    let indices = indices.collect();
    (partitions, indices)
}

/// Name of a partition; `main` for the main process of a graph without machines.
pub(crate) fn partition_name(machine: Option<&str>, process: Option<&str>) -> String {
    match (machine, process) {
        (Some(machine), Some(process)) => format!("{machine}/{process}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "main".to_owned(),
    }
}
