//! A graph in several processes and on several machines.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use afferent_engine::{Border, Report, RunError, RunOptions, Session};
use afferent_graph::SessionStart;
use afferent_record::Waterfall;
use afferent_spec::CheckedGraph;
use afferent_transport::{Process, Processes, Program, Transport, Witness};
use anyhow::Context;
use clap::Args;

use crate::App;

/// Reads the figures of a run; waits at most this long for threads and processes.
pub(crate) type ReadFigures = Arc<dyn Fn(Duration) -> Report + Send + Sync>;

/// Longest wait of a process for its own threads, when another one asks for its figures.
const PATIENCE: Duration = Duration::from_millis(150);

/// A running graph, in this process or in several.
pub(crate) struct Running {
    pub(crate) session: Session,
    spread: Option<Spread>,
}

/// Connections to the other processes and machines, and in the main process of a machine its
/// processes.
pub(crate) struct Spread {
    transport: Arc<Transport>,
    role: Option<Process>,
    processes: Option<Arc<Processes>>,
    #[cfg(feature = "net")]
    _net: Option<afferent_transport::net::Net>,
}

/// Options of the connections to other machines.
#[derive(Args)]
pub(crate) struct NetArgs {
    /// Folder with the certificates of this machine, which `afferent keys` makes
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// Accept connections to other machines that are not encrypted (tcp/)
    #[arg(long)]
    insecure: bool,
}

/// Partition that this process runs, with what its parent told it.
pub(crate) struct Role {
    /// Partition that the main process assigned.
    partition: Option<usize>,
    /// Connection to the main process, until it is used.
    process: Option<Process>,
}

impl Role {
    /// Role of this process, by what its parent told it.
    pub(crate) fn of_this_process() -> anyhow::Result<Self> {
        let process = Process::inherited()?;
        Ok(Self { partition: process.as_ref().map(|process| process.partition), process })
    }

    /// True for the process that was started by the user.
    pub(crate) fn is_main(&self) -> bool {
        self.partition.is_none()
    }

    /// Path of an output file of this process: the names of the machine and of the process go ahead
    /// of the extension, except for the first machine and main processes.
    pub(crate) fn file(&self, path: &Path, graph: &CheckedGraph) -> PathBuf {
        let partition = graph.partitions.get(self.partition.or(graph.machine).unwrap_or(0));
        let Some(partition) = partition else { return path.to_owned() };
        let machine = graph.machines.get(partition.machine).filter(|_| partition.machine > 0);
        let path = machine.map_or(path.to_owned(), |machine| named(path, &machine.name));
        match partition.process.as_deref() {
            Some(name) => named(&path, name),
            None => path,
        }
    }
}

/// `path` with `.name` ahead of its extension.
fn named(path: &Path, name: &str) -> PathBuf {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => path.with_extension(format!("{name}.{extension}")),
        None => path.with_extension(name),
    }
}

impl Running {
    /// Starts a graph in this process, and if it is spread in its other processes.
    pub(crate) fn start(
        app: &App,
        graph: &CheckedGraph,
        mut options: RunOptions,
        mut spread: Option<Spread>,
        start: SessionStart,
        waterfall: Option<&Arc<Waterfall>>,
    ) -> anyhow::Result<Self> {
        if let Some(spread) = &mut spread {
            spread.connect(start)?;
            options.border = Some(spread.transport.clone() as Arc<dyn Border>);
            if let Some(waterfall) = waterfall {
                spread.draw(waterfall, &mut options);
            }
        }
        let session = app.start(graph, options).inspect_err(|error| {
            if let Some(spread) = &spread {
                spread.transport.abort(&error.to_string());
            }
        })?;
        if let Some(Spread { transport, .. }) = &spread {
            let watch = session.watch_handle();
            transport.read_figures_by(move || watch.read(PATIENCE));
        }
        Ok(Self { session, spread })
    }

    /// Reads the figures of all processes.
    pub(crate) fn read_figures(&self) -> ReadFigures {
        match &self.spread {
            Some(Spread { transport, .. }) => {
                let transport = transport.clone();
                Arc::new(move |patience| transport.figures(patience))
            }
            None => {
                let watch = self.session.watch_handle();
                Arc::new(move |patience| watch.read(patience))
            }
        }
    }

    /// Waits for the end in all processes.
    pub(crate) fn wait(self) -> Result<Report, RunError> {
        let ended = self.session.wait();
        let Some(Spread { transport, processes, .. }) = &self.spread else { return ended };
        let report = match ended {
            Ok(report) => report,
            Err(RunError::Failed(report)) => *report,
            Err(error) => return Err(error),
        };
        let report = transport.finish(report);
        if let Some(processes) = processes {
            processes.finish();
        }
        match report.failures.is_empty() {
            true => Ok(report),
            false => Err(RunError::Failed(Box::new(report))),
        }
    }
}

impl Spread {
    /// Prepares the part of `graph` that this process runs; `None` if it runs the whole graph.
    pub(crate) fn prepare(
        graph: &CheckedGraph,
        role: &mut Role,
        args: &NetArgs,
    ) -> anyhow::Result<Option<Self>> {
        if graph.partitions.len() < 2 {
            return Ok(None);
        }
        let (partition, incarnation) = match &role.process {
            Some(process) => (process.partition, process.incarnation),
            None => (own_machine(graph)?, 0),
        };
        let transport = Transport::new(graph, partition, incarnation)?;
        #[cfg(feature = "net")]
        let net = net(&transport, graph, role, args)?;
        #[cfg(not(feature = "net"))]
        without_net(graph, args)?;
        Ok(Some(Self {
            transport,
            role: role.process.take(),
            processes: None,
            #[cfg(feature = "net")]
            _net: net,
        }))
    }

    /// Start of the session: that of the main process and of the first machine, which is `own` if
    /// this process is both.
    pub(crate) fn session_start(&self, own: SessionStart) -> anyhow::Result<SessionStart> {
        let unix_ns = match &self.role {
            Some(process) => process.unix_ns,
            None => self.transport.agree(own.unix_ns).map_err(anyhow::Error::msg)?,
        };
        Ok(SessionStart { unix_ns })
    }

    /// Connects to the main process, or starts the other processes of this machine.
    fn connect(&mut self, start: SessionStart) -> anyhow::Result<()> {
        match self.role.take() {
            Some(process) => process.connect(&self.transport)?,
            None => {
                let program = Program::current().context("the path of this program is unknown")?;
                let processes = Processes::start(&self.transport, program, start.unix_ns)?;
                self.processes = Some(processes);
            }
        }
        Ok(())
    }

    /// Draws outputs of every process: the first one draws, and the others tell it.
    fn draw(&self, waterfall: &Arc<Waterfall>, options: &mut RunOptions) {
        if self.transport.is_first() {
            let waterfall = waterfall.clone();
            self.transport.reached_by(move |output, now, header| {
                waterfall.reach(output, now, header);
            });
        } else {
            options.observers.push(Witness::new(&self.transport));
        }
    }
}

/// Index of this machine in a graph of several, which the user has to name.
fn own_machine(graph: &CheckedGraph) -> anyhow::Result<usize> {
    if graph.machines.len() < 2 {
        return Ok(0);
    }
    let names: Vec<_> = graph.machines.iter().map(|machine| machine.name.as_str()).collect();
    graph.machine.with_context(|| {
        format!(
            "the graph runs on several machines: say which one this is, --machine {}, or run all \
             nodes here with --here",
            names.join(" or --machine ")
        )
    })
}

#[cfg(feature = "net")]
fn net(
    transport: &Arc<Transport>,
    graph: &CheckedGraph,
    role: &Role,
    args: &NetArgs,
) -> anyhow::Result<Option<afferent_transport::net::Net>> {
    use afferent_transport::net::NetOptions;
    if graph.machines.len() < 2 || !role.is_main() {
        return Ok(None);
    }
    let options = NetOptions { keys: args.keys.clone(), insecure: args.insecure };
    Ok(Some(transport.connect_machines(&options)?))
}

#[cfg(not(feature = "net"))]
fn without_net(graph: &CheckedGraph, args: &NetArgs) -> anyhow::Result<()> {
    let needs = graph.machines.len() > 1 || args.keys.is_some() || args.insecure;
    anyhow::ensure!(
        !needs,
        "this program was built without connections to other machines: build it with `cargo build \
         --release --features net`, or run all nodes here with --here"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_processes_have_names_of_their_own() {
        let check = |path: &str, expected: &str| {
            assert_eq!(named(Path::new(path), "gpu"), Path::new(expected));
        };
        check("out/run.mcap", "out/run.gpu.mcap");
        check("run", "run.gpu");
    }
}
