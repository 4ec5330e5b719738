//! Writes the calls of a run as a trace for `chrome://tracing` and Perfetto.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use afferent_engine::{CallSpan, Failure, Observer};
use afferent_spec::CheckedGraph;
use serde::Serialize;
use serde_json::{json, to_writer};

use crate::{NewFile, lock};

/// Maximum number of calls that wait to be written. Calls beyond it are dropped and counted.
const MAX_QUEUED_CALLS: usize = 65_536;

/// Writes a trace in the JSON format of `chrome://tracing`. It has a bar for each call on the
/// thread that ran it, an arrow from call to call along each source packet, and a mark for each
/// failure.
///
/// Pass it to [`RunOptions::observers`], and call [`TraceFile::finish`] at the end.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct TraceFile {
    path: PathBuf,
    title: String,
    nodes: Vec<String>,
    /// Present until the run starts.
    file: Mutex<Option<NewFile>>,
    /// Present during the run.
    queue: Mutex<Option<SyncSender<Event>>>,
    writer: Mutex<Option<JoinHandle<io::Result<u64>>>>,
    dropped: AtomicU64,
}

enum Event {
    Call {
        node: usize,
        thread: usize,
        input: Option<String>,
        trace: u64,
        real_ns: (u64, u64),
        model_ns: u64,
    },
    Failure(Failure),
}

/// Result of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Calls written to the file.
    pub calls: u64,
    /// Calls dropped because the queue was full.
    pub dropped: u64,
    /// Reason why writing stopped early.
    pub error: Option<String>,
}

impl TraceFile {
    /// Creates the file `path` and its parent folders for a run of `graph`. Existing content is
    /// kept until the run starts.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, graph: &CheckedGraph) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            path: path.to_owned(),
            title: graph.name.clone(),
            nodes: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            file: Mutex::new(Some(NewFile::open(path)?)),
            queue: Mutex::default(),
            writer: Mutex::default(),
            dropped: AtomicU64::new(0),
        }))
    }

    /// Truncates the file and starts the writer thread.
    fn start(&self, file: NewFile) -> io::Result<()> {
        let out = BufWriter::new(file.begin()?);
        let (names, title) = (self.nodes.clone(), self.title.clone());
        let (queue, events) = sync_channel(MAX_QUEUED_CALLS);
        let writer = thread::Builder::new().name("trace".to_owned()).spawn(move || {
            let mut writer =
                Writer { out, names, threads: HashMap::new(), calls: 0, flows: HashSet::new() };
            writer.write(&title, &events).map(|()| writer.calls)
        })?;
        *lock(&self.queue) = Some(queue);
        *lock(&self.writer) = Some(writer);
        Ok(())
    }

    /// Writes the queued calls and finishes the file.
    pub fn finish(&self) -> TraceReport {
        drop(lock(&self.queue).take());
        let writer = lock(&self.writer).take();
        let (calls, error) = match writer.map(JoinHandle::join) {
            None => (0, None),
            Some(Ok(Ok(calls))) => (calls, None),
            Some(Ok(Err(error))) => (0, Some(error.to_string())),
            Some(Err(_)) => (0, Some("the trace writer thread panicked".to_owned())),
        };
        TraceReport { calls, dropped: self.dropped.load(Ordering::Relaxed), error }
    }

    fn queue(&self, event: Event) {
        let queue = lock(&self.queue);
        if queue.as_ref().is_none_or(|queue| queue.try_send(event).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Observer for TraceFile {
    fn begin(&self) -> Result<(), String> {
        let file = lock(&self.file).take();
        let started = file.map_or(Ok(()), |file| self.start(file));
        started.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn called(&self, call: &CallSpan<'_>) {
        let Some(node) = self.nodes.iter().position(|name| name == call.node) else { return };
        let CallSpan { thread, input, trace, real_ns, model_ns, .. } = *call;
        self.queue(Event::Call {
            node,
            thread,
            input: input.map(str::to_owned),
            trace,
            real_ns,
            model_ns,
        });
    }

    fn failed(&self, failure: &Failure) {
        self.queue(Event::Failure(failure.clone()));
    }
}

struct Writer {
    out: BufWriter<File>,
    names: Vec<String>,
    /// First node called on each thread.
    threads: HashMap<usize, usize>,
    calls: u64,
    /// Traces of the source packets seen so far.
    flows: HashSet<u64>,
}

/// Maximum number of source packets whose arrows are tracked at the same time.
const MAX_FLOWS: usize = 4096;

impl Writer {
    fn write(&mut self, title: &str, events: &Receiver<Event>) -> io::Result<()> {
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        to_writer(
            &mut self.out,
            &json!({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": title}}),
        )?;
        let mut last_ns = 0;
        while let Ok(event) = events.recv() {
            match event {
                Event::Call { node, thread, input, trace, real_ns, model_ns } => {
                    last_ns = real_ns.1;
                    if self.threads.insert(thread, node).is_none() {
                        let name = format!("{thread}: {}", self.names[node]);
                        self.event(&json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}}))?;
                    }
                    let (begin, end) = (real_ns.0 as f64 / 1e3, real_ns.1 as f64 / 1e3);
                    let name = &self.names[node];
                    let args =
                        json!({"input": input, "trace": trace, "model_us": model_ns as f64 / 1e3});
                    let call = json!({"ph": "X", "name": name, "cat": "call", "pid": 1, "tid": thread, "ts": begin, "dur": end - begin, "args": args});
                    self.event(&call)?;
                    self.calls += 1;
                    if trace != 0 {
                        if self.flows.len() >= MAX_FLOWS {
                            self.flows.clear();
                        }
                        let is_first = self.flows.insert(trace);
                        // An arrow attaches to the bar that encloses it.
                        let phase = if is_first { "s" } else { "t" };
                        let flow = json!({"ph": phase, "name": "packet", "cat": "packet", "id": trace, "pid": 1, "tid": thread, "ts": f64::midpoint(begin, end)});
                        self.event(&flow)?;
                    }
                }
                Event::Failure(failure) => {
                    let mark = json!({"ph": "i", "s": "g", "name": failure.to_string(), "cat": "failure", "pid": 1, "tid": 0, "ts": last_ns as f64 / 1e3});
                    self.event(&mark)?;
                }
            }
        }
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }

    fn event(&mut self, event: &serde_json::Value) -> io::Result<()> {
        self.out.write_all(b",\n")?;
        to_writer(&mut self.out, event)?;
        Ok(())
    }
}
