//! Starts the other processes of a machine, and starts them again when they end unexpectedly.

use std::{
    env,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, Weak},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::Restarts;
use afferent_graph::Timestamp;
use afferent_spec::{CheckedGraph, OnError, Restart};

use crate::{Transport, TransportError, local, lock};

/// Environment variable that tells a process which partition it runs.
const VARIABLE: &str = "AFFERENT_PROCESS";

/// Time that a process has to end by itself after its connection has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// This process, if another one started it to run a partition.
#[derive(Debug)]
pub struct Process {
    /// Index of the partition.
    pub partition: usize,
    /// Number of times that it was started again.
    pub incarnation: u32,
    /// Start of the session, in nanoseconds since the UNIX epoch.
    pub unix_ns: u64,
    socket: OwnedFd,
}

impl Process {
    /// Reads what [`Processes`] told this process; `None` if it was started otherwise. Standard
    /// input, which was the connection, is empty afterwards.
    ///
    /// # Errors
    /// If the variable or standard input are not those of [`Processes`].
    pub fn inherited() -> io::Result<Option<Self>> {
        let Some(value) = env::var_os(VARIABLE) else { return Ok(None) };
        let wrong = |what: &str| {
            let value = value.display();
            io::Error::other(format!("{VARIABLE}={value}: {what}; unset it to run a graph"))
        };
        let text = value.to_str().ok_or_else(|| wrong("it is not text"))?;
        let mut numbers = text.split(':').map(str::parse::<u64>);
        let mut number = || numbers.next().and_then(Result::ok);
        let (Some(partition), Some(incarnation), Some(unix_ns)) = (number(), number(), number())
        else {
            return Err(wrong("it is not a partition, an incarnation and a time"));
        };
        let socket = local::inherited()?
            .ok_or_else(|| wrong("standard input is not the connection to the main process"))?;
        Ok(Some(Self {
            partition: usize::try_from(partition)
                .map_err(|_| wrong("the partition is too large"))?,
            incarnation: u32::try_from(incarnation).unwrap_or(u32::MAX),
            unix_ns,
            socket,
        }))
    }

    /// Connects `transport` to the main process.
    ///
    /// # Errors
    /// [`TransportError::Process`].
    pub fn connect(self, transport: &Arc<Transport>) -> Result<(), TransportError> {
        let main = transport.graph.partitions.get(self.partition).map_or(0, |found| found.machine);
        transport.connect_local(main, self.socket).map_err(|error| TransportError::Process {
            process: transport.graph.partition_name(main),
            reason: error.to_string(),
        })
    }
}

/// Program and arguments that run a partition: those of this process.
#[derive(Debug, Clone)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments.
    pub args: Vec<OsString>,
}

impl Program {
    /// This program with its own arguments.
    ///
    /// # Errors
    /// If the system does not tell its path.
    pub fn current() -> io::Result<Self> {
        Ok(Self { path: env::current_exe()?, args: env::args_os().skip(1).collect() })
    }
}

/// The other processes of this machine.
pub struct Processes {
    transport: Arc<Transport>,
    program: Program,
    unix_ns: u64,
    start: Instant,
    children: Mutex<Vec<Option<Running>>>,
    own: Weak<Self>,
}

/// A process.
struct Running {
    child: Option<Child>,
    incarnation: u32,
    restarts: Restarts,
    policy: Option<Restart>,
}

impl Processes {
    /// Starts a process for each partition of the machine but the main one, and connects
    /// `transport` to them. `unix_ns` is the civil time of the start of the session.
    ///
    /// # Errors
    /// [`TransportError::Process`].
    pub fn start(
        transport: &Arc<Transport>,
        program: Program,
        unix_ns: u64,
    ) -> Result<Arc<Self>, TransportError> {
        let graph = &transport.graph;
        let children = (0..graph.partitions.len()).map(|partition| {
            let found = &graph.partitions[partition];
            let is_own = found.process.is_some() && found.machine == transport.here;
            is_own.then(|| Running {
                child: None,
                incarnation: 0,
                restarts: Restarts::default(),
                policy: policy(graph, partition),
            })
        });
        let children = Mutex::new(children.collect());
        let processes = Arc::new_cyclic(|own| Self {
            transport: transport.clone(),
            program,
            unix_ns,
            start: Instant::now(),
            children,
            own: own.clone(),
        });
        let own = Arc::downgrade(&processes);
        transport.gone_by(move |partition| {
            own.upgrade().is_some_and(|processes| processes.gone(partition))
        });
        let own = processes.children().iter().map(Option::is_some).collect::<Vec<_>>();
        for (partition, _) in own.iter().enumerate().filter(|(_, is_own)| **is_own) {
            processes.spawn(partition).map_err(|error| TransportError::Process {
                process: graph.partition_name(partition),
                reason: format!("it cannot be started: {error}"),
            })?;
        }
        Ok(processes)
    }

    fn children(&self) -> MutexGuard<'_, Vec<Option<Running>>> {
        lock(&self.children)
    }

    /// Starts the process of `partition` and connects to it.
    fn spawn(&self, partition: usize) -> io::Result<()> {
        let (ours, theirs) = local::pair()?;
        let mut children = self.children();
        let Some(running) = &mut children[partition] else { return Ok(()) };
        let (incarnation, unix_ns) = (running.incarnation, self.unix_ns);
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.args).stdin(Stdio::from(theirs));
        command.env(VARIABLE, format!("{partition}:{incarnation}:{unix_ns}"));
        running.child = Some(command.spawn()?);
        drop(children);
        // Closes this process's copy of the other end.
        drop(command);
        self.transport.connect_local(partition, ours)
    }

    /// Waits for the end of the processes, and kills those that do not end.
    pub fn finish(&self) {
        let children: Vec<_> = self
            .children()
            .iter_mut()
            .flatten()
            .filter_map(|running| running.child.take())
            .collect();
        for child in children {
            drop(end(child));
        }
    }

    /// The connection to the process of `partition` has ended; true if it is started again.
    fn gone(&self, partition: usize) -> bool {
        let child = {
            let mut children = self.children();
            let running = children.get_mut(partition).and_then(Option::as_mut);
            running.and_then(|running| running.child.take())
        };
        let Some(child) = child else { return false };
        let name = self.transport.graph.partition_name(partition);
        let ended = end(child).map_or_else(|error| error.to_string(), |status| text(&status));
        let now = Timestamp::ZERO + self.start.elapsed();
        let again = {
            let mut children = self.children();
            let Some(running) = children.get_mut(partition).and_then(Option::as_mut) else {
                return false;
            };
            running.incarnation += 1;
            running.policy.and_then(|policy| running.restarts.next(policy, now))
        };
        let Some(at) = again else {
            tracing::error!("process {name} {ended}");
            return false;
        };
        let delay = at.since(now);
        tracing::warn!("process {name} {ended}; it is started again in {delay:?}");
        let own = self.own.clone();
        let restart = move || {
            thread::sleep(delay);
            let Some(processes) = own.upgrade() else { return };
            if let Err(error) = processes.spawn(partition) {
                tracing::error!("process {name} cannot be started: {error}");
            }
        };
        thread::Builder::new().name("restart".to_owned()).spawn(restart).is_ok()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for running in self.children().iter_mut().flatten() {
            if let Some(mut child) = running.child.take() {
                drop(child.kill());
                drop(child.wait());
            }
        }
    }
}

/// Restart policy of a process: the most patient one of its nodes.
fn policy(graph: &CheckedGraph, partition: usize) -> Option<Restart> {
    let nodes = graph.nodes.iter().filter(|node| node.partition == partition);
    let policies = nodes.filter_map(|node| match node.on_error {
        OnError::Restart(policy) => Some(policy),
        OnError::Stop | OnError::Degrade(_) => None,
    });
    policies.max_by_key(|policy| policy.limit)
}

/// Waits for the end of a process whose connection has ended, and kills it if it does not end.
fn end(mut child: Child) -> io::Result<ExitStatus> {
    let limit = Instant::now() + EXIT_TIMEOUT;
    while Instant::now() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()
}

/// The end of a process in words.
fn text(status: &ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended before the graph".to_owned(),
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
