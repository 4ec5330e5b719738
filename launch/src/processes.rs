//! A graph in several processes of one machine.

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

/// Connections to the other processes, and in the main process the processes themselves.
struct Spread {
    transport: Arc<Transport>,
    processes: Option<Arc<Processes>>,
}

/// Partition that this process runs, with what its parent told it.
pub(crate) struct Role {
    process: Option<Process>,
}

impl Role {
    /// Role of this process, by what its parent told it.
    pub(crate) fn of_this_process() -> anyhow::Result<Self> {
        Ok(Self { process: Process::inherited()? })
    }

    /// True for the process that was started by the user.
    pub(crate) fn is_main(&self) -> bool {
        self.process.is_none()
    }

    /// Start of the session: that of the main process.
    pub(crate) fn session_start(&self) -> Option<SessionStart> {
        self.process.as_ref().map(|process| SessionStart { unix_ns: process.unix_ns })
    }

    /// Path of an output file of this process: the name of the process goes ahead of the extension.
    pub(crate) fn file(&self, path: &Path, graph: &CheckedGraph) -> PathBuf {
        let partition = self.process.as_ref().and_then(|own| graph.partitions.get(own.partition));
        match partition.and_then(|partition| partition.process.as_deref()) {
            Some(name) => named(path, name),
            None => path.to_owned(),
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
    /// Starts a graph, and the other processes of a graph that names some.
    pub(crate) fn start(
        app: &App,
        graph: &CheckedGraph,
        mut options: RunOptions,
        role: Role,
        start: SessionStart,
        waterfall: Option<&Arc<Waterfall>>,
    ) -> anyhow::Result<Self> {
        let is_spread = graph.partitions.len() > 1 && graph.machines.len() < 2;
        let is_real = options.clock == afferent_engine::ClockKind::Real;
        let spread = (is_spread && is_real).then(|| spread(graph, role, start)).transpose()?;
        options.border = spread.as_ref().map(|spread| spread.transport.clone() as Arc<dyn Border>);
        if let (Some(Spread { transport, processes }), Some(waterfall)) = (&spread, waterfall) {
            if processes.is_some() {
                let waterfall = waterfall.clone();
                transport.reached_by(move |output, now, header| {
                    waterfall.reach(output, now, header);
                });
            } else {
                options.observers.push(Witness::new(transport));
            }
        }
        let session = app.start(graph, options)?;
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
        let Some(Spread { transport, processes }) = self.spread else { return ended };
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

fn spread(graph: &CheckedGraph, role: Role, start: SessionStart) -> anyhow::Result<Spread> {
    let Some(process) = role.process else {
        let transport = Transport::new(graph, 0, 0)?;
        let program = Program::current().context("the path of this program is unknown")?;
        let processes = Processes::start(&transport, program, start.unix_ns)?;
        return Ok(Spread { transport, processes: Some(processes) });
    };
    let transport = Transport::new(graph, process.partition, process.incarnation)?;
    process.connect(&transport)?;
    Ok(Spread { transport, processes: None })
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
