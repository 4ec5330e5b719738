//! Graphs, running graphs, and the streams that a program reads.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

use afferent::App;
use afferent_engine::{
    ClockKind, InterruptHandle, Observer, RunError, RunOptions, StopHandle, Threads, WatchHandle,
};
use afferent_graph::{Packet, PortKind, Timestamp};
use afferent_nodes_io::AppInputs;
use afferent_record::{RecordOptions, Recorder};
use afferent_spec::{CheckedGraph, Diagnostics, LoadOptions, check, parse};
use pyo3::{exceptions::PyTimeoutError, prelude::*, types::PyDict};

use crate::{app, error, lock, message::Message, not_forked};

/// Longest time without a look at signals such as Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// A checked graph.
#[pyclass(frozen, subclass, module = "afferent")]
pub(crate) struct Graph {
    graph: CheckedGraph,
    warnings: Vec<String>,
}

#[pymethods]
impl Graph {
    /// Reads and checks the graph file at `path`, or the text of one with `text`, whose paths are
    /// relative to `path`.
    ///
    /// `set` are parameters to change, as in `{"asr.beam": 2}`.
    #[new]
    #[pyo3(signature = (path, *, text=None, profile=None, set=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: Option<String>,
        profile: Option<String>,
        set: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let set = set.map_or(Ok(Vec::new()), |set| {
            let setting = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                let value = match value.extract::<bool>() {
                    Ok(value) => value.to_string(),
                    Err(_) => value.str()?.to_string(),
                };
                Ok(format!("{}={value}", name.str()?))
            };
            set.iter().map(setting).collect::<PyResult<Vec<_>>>()
        })?;
        let options = LoadOptions { profile, set, ..LoadOptions::default() };
        let checked = py.detach(|| load(&path, text.as_deref(), &options));
        let (graph, warnings) = checked.map_err(|faults| error::graph(&faults))?;
        Ok(Self { graph, warnings })
    }

    /// Name of the graph.
    #[getter]
    fn name(&self) -> &str {
        &self.graph.name
    }

    /// Warnings of the check.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Nodes with their kind, ports and payload types.
    #[getter]
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for node in &self.graph.nodes {
            let item = PyDict::new(py);
            item.set_item("use", &*node.def.name)?;
            for (name, kind) in [("inputs", PortKind::Input), ("outputs", PortKind::Output)] {
                let ports = PyDict::new(py);
                let all =
                    if kind == PortKind::Input { &node.def.inputs } else { &node.def.outputs };
                all.iter().try_for_each(|port| ports.set_item(&*port.name, &*port.ty))?;
                item.set_item(name, ports)?;
            }
            dict.set_item(&node.name, item)?;
        }
        Ok(dict)
    }

    /// Starts the graph.
    ///
    /// `streams` are outputs, as `node.output`, to read with `Run.stream` from the first packet on.
    /// With `virtual`, paced sources run as fast as the machine can. `record` is an MCAP file to
    /// write. `duration` is a time in seconds after which the run stops.
    #[pyo3(signature = (*, streams=vec![], r#virtual=false, single_thread=false, duration=None,
        record=None))]
    fn _start(
        &self,
        py: Python<'_>,
        streams: Vec<String>,
        r#virtual: bool,
        single_thread: bool,
        duration: Option<f64>,
        record: Option<PathBuf>,
    ) -> PyResult<Run> {
        not_forked()?;
        let duration = duration.map(Duration::try_from_secs_f64).transpose();
        let duration = duration.map_err(|reason| error::argument(format!("duration: {reason}")))?;
        let clock = if r#virtual { ClockKind::Virtual } else { ClockKind::Real };
        let start = clock.session_start();
        let recorder = record.map(|path| {
            let options = RecordOptions { start: Some(start), ..RecordOptions::default() };
            Recorder::create(&path, &self.graph, &options).map_err(error::recording)
        });
        let recorder = recorder.transpose()?;
        let outputs = Arc::new(Outputs { graph: ports(&self.graph), streams: RwLock::default() });
        // A virtual clock goes as fast as the graph: the program is not to lose packets.
        let capacity = if r#virtual { usize::MAX } else { CAPACITY };
        let opened = streams.iter().map(|name| outputs.open(name, capacity));
        let opened = opened.collect::<PyResult<Vec<_>>>()?;
        let observers: Vec<Arc<dyn Observer>> = recorder
            .iter()
            .map(|recorder| recorder.clone() as Arc<dyn Observer>)
            .chain([outputs.clone() as Arc<dyn Observer>])
            .collect();
        let options = RunOptions {
            threads: if single_thread { Threads::Single } else { Threads::Auto },
            clock,
            duration,
            observers,
            ..RunOptions::default()
        };
        let inputs = AppInputs::default();
        let app: App = app().clone().service(start).service(inputs.clone());
        let session = py.detach(|| app.start(&self.graph, options));
        let session = session.map_err(|error| error::run(&error))?;
        let state = Arc::new(State::default());
        let (stop, interrupt) = (session.stop_handle(), session.interrupt_handle());
        let watch = session.watch_handle();
        let (end, finished) = (state.clone(), outputs.clone());
        let waiter = thread::Builder::new().name("afferent wait".to_owned());
        waiter.spawn(move || {
            let result = session.wait();
            let written = recorder.map(|recorder| recorder.finish());
            let failed = written.and_then(|report| report.error);
            *lock(&end.result) = Some(Ended { result, recording: failed });
            finished.close();
            end.changed.notify_all();
        })?;
        Ok(Run { state, outputs, inputs, stop, interrupt, watch, opened: Mutex::new(opened) })
    }

    fn __repr__(&self) -> String {
        format!("Graph({:?}, {} nodes)", self.graph.name, self.graph.nodes.len())
    }
}

/// Packets that may wait in a stream before the oldest one is dropped.
const CAPACITY: usize = 256;

fn load(
    path: &Path,
    text: Option<&str>,
    options: &LoadOptions,
) -> Result<(CheckedGraph, Vec<String>), Diagnostics> {
    let checked = match text {
        None => app().load_with(path, options)?,
        Some(text) => {
            let loaded = parse(text, &path.join("graph.yaml"), options);
            check(&loaded, app().catalog(), &app().open_cx())?
        }
    };
    let warnings = checked.warnings.iter().map(|warning| warning.message.clone()).collect();
    Ok((checked.graph, warnings))
}

/// Outputs of a graph, as node and port.
fn ports(graph: &CheckedGraph) -> Vec<(String, String)> {
    let ports = graph.nodes.iter().flat_map(|node| {
        let outputs = node.def.outputs.iter();
        outputs.map(|port| (node.name.clone(), port.name.to_string()))
    });
    ports.collect()
}

/// A running graph.
#[pyclass(frozen, subclass, module = "afferent")]
pub(crate) struct Run {
    state: Arc<State>,
    outputs: Arc<Outputs>,
    inputs: AppInputs,
    stop: StopHandle,
    interrupt: InterruptHandle,
    watch: WatchHandle,
    /// Streams that were asked for at the start.
    opened: Mutex<Vec<Arc<Queue>>>,
}

#[derive(Default)]
struct State {
    result: Mutex<Option<Ended>>,
    changed: Condvar,
}

/// End of a run.
struct Ended {
    result: Result<afferent_engine::Report, RunError>,
    /// Error of the recording.
    recording: Option<String>,
}

#[pymethods]
impl Run {
    /// Messages of the output `node.output`, from now on, or from the start for one that was named
    /// there.
    #[pyo3(signature = (output, *, capacity=None))]
    fn _stream(&self, output: &str, capacity: Option<usize>) -> PyResult<Stream> {
        let mut opened = lock(&self.opened);
        let known = opened.iter().position(|queue| queue.name == output);
        let queue = match known {
            Some(index) => opened.remove(index),
            None => self.outputs.open(output, capacity.unwrap_or(CAPACITY))?,
        };
        if self.is_ended() {
            queue.close();
        }
        Ok(Stream(queue))
    }

    /// Sends `message` into the graph, through the node `node` of kind app_source. Waits at most for
    /// `timeout` seconds if the graph is slower. Without a timestamp of its own, the message gets the
    /// present time.
    #[pyo3(signature = (node, message, *, timeout=1.0, has_time=false))]
    fn _send(
        &self,
        py: Python<'_>,
        node: &str,
        message: PyRef<'_, Message>,
        timeout: f64,
        has_time: bool,
    ) -> PyResult<()> {
        let wait = Duration::try_from_secs_f64(timeout).map_err(error::argument)?;
        let packet = message.packet().share();
        let sent = py.detach(|| self.inputs.send(node, packet, has_time, wait));
        sent.map_err(error::message)
    }

    /// Ends the stream of the node `node` of kind app_source, or of all of them.
    #[pyo3(signature = (node=None))]
    fn end_input(&self, node: Option<&str>) {
        self.inputs.close(node);
    }

    /// Cancels the present work of the graph, such as an answer that is being spoken.
    fn interrupt(&self) {
        self.interrupt.interrupt();
    }

    /// Asks the graph to stop; `wait` waits for the end.
    fn stop(&self) {
        self.stop.stop();
    }

    /// Figures of the run so far, as a dict.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| match &*lock(&self.state.result) {
            Some(Ended { result: Ok(report), .. }) => serde_json::to_string(report),
            Some(Ended { result: Err(RunError::Failed(report)), .. }) => {
                serde_json::to_string(report)
            }
            _ => serde_json::to_string(&self.watch.read(Duration::from_millis(150))),
        });
        let text = report.map_err(error::argument)?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Waits for the end and returns the report. Raises `RunError` if nodes failed, and `TimeoutError`
    /// after `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        not_forked()?;
        let limit = timeout.map(Duration::try_from_secs_f64).transpose();
        let limit = limit.map_err(error::argument)?.map(|limit| Instant::now() + limit);
        loop {
            let ended = py.detach(|| {
                let result = lock(&self.state.result);
                let (result, _) = self
                    .state
                    .changed
                    .wait_timeout_while(result, PATIENCE, |result| result.is_none())
                    .unwrap_or_else(PoisonError::into_inner);
                result.is_some()
            });
            if ended {
                break;
            }
            py.check_signals()?;
            if limit.is_some_and(|limit| Instant::now() > limit) {
                return Err(PyTimeoutError::new_err("the graph has not ended"));
            }
        }
        match &*lock(&self.state.result) {
            Some(Ended { result: Err(error), .. }) => return Err(error::run(error)),
            Some(Ended { recording: Some(reason), .. }) => {
                return Err(error::recording(format!("the recording is incomplete: {reason}")));
            }
            _ => {}
        }
        self.report(py)
    }

    /// True if the run has ended.
    #[getter]
    fn is_ended(&self) -> bool {
        lock(&self.state.result).is_some()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Observer that fills the streams of a program.
struct Outputs {
    /// Outputs of the graph.
    graph: Vec<(String, String)>,
    streams: RwLock<Vec<Arc<Queue>>>,
}

/// Packets of an output that the program has not read yet.
struct Queue {
    name: String,
    capacity: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    packets: VecDeque<Packet>,
    dropped: u64,
    is_closed: bool,
}

impl Outputs {
    fn open(&self, name: &str, capacity: usize) -> PyResult<Arc<Queue>> {
        let known = |(node, port): &(String, String)| format!("{node}.{port}");
        if !self.graph.iter().any(|output| known(output) == name) {
            let names: Vec<_> = self.graph.iter().map(known).collect();
            let names = names.join(", ");
            return Err(error::argument(format!("there is no output {name:?}; there are {names}")));
        }
        let queue = Arc::new(Queue {
            name: name.to_owned(),
            capacity: capacity.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        self.streams.write().unwrap_or_else(PoisonError::into_inner).push(queue.clone());
        Ok(queue)
    }

    fn close(&self) {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.iter().for_each(|queue| queue.close());
    }
}

impl Queue {
    fn is_of(&self, node: &str, port: &str) -> bool {
        self.name.strip_prefix(node).and_then(|rest| rest.strip_prefix('.')) == Some(port)
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

impl Observer for Outputs {
    fn sent(&self, node: &str, port: &str, _: Timestamp, packet: &Packet) {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        for queue in streams.iter().filter(|queue| queue.is_of(node, port)) {
            let mut state = lock(&queue.state);
            if state.is_closed {
                continue;
            }
            if state.packets.len() >= queue.capacity {
                state.packets.pop_front();
                state.dropped += 1;
            }
            state.packets.push_back(packet.share());
            queue.changed.notify_one();
        }
    }

    fn holds(&self, node: &str, port: &str) -> usize {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let of_port = streams.iter().filter(|queue| queue.is_of(node, port));
        of_port.map(|queue| queue.capacity.min(CAPACITY)).sum()
    }
}

/// Messages of an output, in their order. If the program is too slow, the oldest ones are dropped and
/// counted.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Stream(Arc<Queue>);

#[pymethods]
impl Stream {
    /// The next message; None at the end of the run. Raises `TimeoutError` after `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn get(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Message>> {
        let limit = timeout.map(Duration::try_from_secs_f64).transpose();
        let limit = limit.map_err(error::argument)?.map(|limit| Instant::now() + limit);
        loop {
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
            let (packet, is_closed) = py.detach(|| {
                let state = lock(&self.0.state);
                let is_empty =
                    |state: &mut QueueState| state.packets.is_empty() && !state.is_closed;
                let (mut state, _) = self
                    .0
                    .changed
                    .wait_timeout_while(state, patience, is_empty)
                    .unwrap_or_else(PoisonError::into_inner);
                (state.packets.pop_front(), state.is_closed)
            });
            match packet {
                Some(packet) => return Ok(Some(Message::from(packet))),
                None if is_closed => return Ok(None),
                None => py.check_signals()?,
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(PyTimeoutError::new_err(format!("no message of {}", self.0.name)));
            }
        }
    }

    /// Ends the stream: nothing is kept for it any more.
    fn close(&self) {
        self.0.close();
    }

    /// Messages that were dropped because the program was too slow.
    #[getter]
    fn dropped(&self) -> u64 {
        lock(&self.0.state).dropped
    }

    /// Name of the output.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        self.get(py, None)
    }
}
