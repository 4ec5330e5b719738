//! The process of a node written in Python: its end of the link to the graph.
//!
//! The node `python` of a graph starts this process with the link as standard input. It sends the
//! packets of a call, then the call; the process sends the packets of the node, then its answer. See
//! `nodes/python`.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use afferent_core::{AlignedBytes, ForeignBytes};
use afferent_graph::{Header, Packet, Timestamp};
use afferent_transport::{
    frame::{self, Head, PacketHead},
    link::{BulkBytes, HeldPacket, Inbox, Link, LinkError},
    local::{self, Loan, LocalLink},
};
use pyo3::{
    exceptions::{PyConnectionError, PyTimeoutError},
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    array::{Memory, strides},
    error, lock,
    message::{Described, Message, Parts, need},
};

/// Longest time without a look at signals such as Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// Longest wait for memory that the graph holds.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

/// Link of this process to the graph that started it; None if no graph did.
#[pyfunction]
pub(crate) fn connect() -> PyResult<Option<NodeLink>> {
    let Some(socket) = local::inherited()? else { return Ok(None) };
    let inbox = Arc::new(Arrivals::default());
    let link = LocalLink::start(socket, "graph", inbox.clone())?;
    Ok(Some(NodeLink { link, inbox, ports: Mutex::default(), loans: Mutex::default() }))
}

/// Link between the process of a node and its graph.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct NodeLink {
    link: Arc<LocalLink>,
    inbox: Arc<Arrivals>,
    ports: Mutex<Ports>,
    /// Shared memory of arrays.
    loans: Mutex<Vec<Weak<Loan>>>,
}

/// Payload types of the ports.
#[derive(Default)]
struct Ports {
    inputs: Vec<&'static Described>,
    outputs: Vec<&'static Described>,
}

/// Messages that were not read yet.
#[derive(Default)]
struct Arrivals {
    state: Mutex<ArrivalState>,
    changed: Condvar,
    is_canceled: AtomicBool,
}

#[derive(Default)]
struct ArrivalState {
    waiting: VecDeque<Arrival>,
    gone: Option<String>,
    /// Number of times that memory of the link became free.
    freed: u64,
}

enum Arrival {
    Packet { port: u16, header: Header, meta: Vec<u8>, bulk: ForeignBytes },
    Control(String),
}

/// Control message that ends the work of the present call.
const CANCEL: &str = "\"cancel\"";

impl Inbox for Arrivals {
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
        let wrong = |error: frame::FrameError| error.to_string();
        let arrival = match Head::read(message).map_err(wrong)? {
            Head::Packet(PacketHead { edge, header, .. }) => {
                let meta = frame::parts(message).map_err(wrong)?.meta.to_vec();
                Arrival::Packet { port: edge, header, meta, bulk }
            }
            Head::Control => {
                let text = message.get(frame::HEAD..).unwrap_or_default();
                let text = str::from_utf8(text).map_err(|error| error.to_string())?;
                if text == CANCEL {
                    self.is_canceled.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Arrival::Control(text.to_owned())
            }
            _ => return Err("a message that a node does not get".to_owned()),
        };
        lock(&self.state).waiting.push_back(arrival);
        self.changed.notify_all();
        Ok(())
    }

    fn has_memory(&self) {
        lock(&self.state).freed += 1;
        self.changed.notify_all();
    }

    fn gone(&self, reason: &str) {
        lock(&self.state).gone = Some(reason.to_owned());
        self.changed.notify_all();
    }
}

#[pymethods]
impl NodeLink {
    /// Sets the payload types of the inputs and the outputs. `layouts` are those of the graph, by the
    /// name of the type; both ends must agree.
    fn set_ports(
        &self,
        inputs: Vec<String>,
        outputs: Vec<String>,
        layouts: Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let find = |names: &[String]| {
            names.iter().map(|name| need(name)).collect::<PyResult<Vec<&'static Described>>>()
        };
        let ports = Ports { inputs: find(&inputs)?, outputs: find(&outputs)? };
        for described in ports.inputs.iter().chain(&ports.outputs) {
            let name = &*described.ty.name;
            let theirs: Option<String> =
                layouts.get_item(name)?.map(|layout| layout.extract()).transpose()?;
            if theirs.as_deref() != Some(&*described.wire.layout()) {
                return Err(error::message(format!(
                    "the graph has another version of {name}: use the command afferent of the \
                     Python package that runs the node"
                )));
            }
        }
        *lock(&self.ports) = ports;
        Ok(())
    }

    /// Waits for the next call. Returns the text of the control message, and the packets that arrived
    /// before it as `(input, message)`. None if the graph has ended.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<(String, Bound<'py, PyList>)>> {
        let packets = PyList::empty(py);
        loop {
            let arrival = py.detach(|| {
                let state = lock(&self.inbox.state);
                let is_empty =
                    |state: &mut ArrivalState| state.waiting.is_empty() && state.gone.is_none();
                let (mut state, _) = self
                    .inbox
                    .changed
                    .wait_timeout_while(state, PATIENCE, is_empty)
                    .unwrap_or_else(PoisonError::into_inner);
                match state.waiting.pop_front() {
                    None if state.gone.is_some() => Err(()),
                    arrival => Ok(arrival),
                }
            });
            match arrival {
                Err(()) => return Ok(None),
                Ok(None) => py.check_signals()?,
                Ok(Some(Arrival::Control(text))) => return Ok(Some((text, packets))),
                Ok(Some(Arrival::Packet { port, header, meta, bulk })) => {
                    let packet = self.decode(port, header, &meta, bulk)?;
                    packets.append((port, Message::from(packet)))?;
                }
            }
        }
    }

    /// Sends a value through the output at index `output`: a message as it is, or a new one of `data`
    /// and `values`. `at_ns` is its timestamp in nanoseconds.
    #[pyo3(signature = (output, at_ns, message=None, data=None, values=None))]
    fn send(
        &self,
        py: Python<'_>,
        output: usize,
        at_ns: i64,
        message: Option<PyRef<'_, Message>>,
        data: Option<Bound<'_, PyAny>>,
        values: Option<Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let described = lock(&self.ports).outputs.get(output).copied();
        let described = described.ok_or_else(|| error::argument("there is no such output"))?;
        let header = Header { at: Timestamp(at_ns), ..Header::default() };
        let edge = u16::try_from(output).unwrap_or(u16::MAX);
        let mut frame = Vec::new();
        frame::begin_packet(&mut frame, &PacketHead { edge, header, ..PacketHead::default() });
        match &message {
            Some(message) => {
                let payload = message
                    .packet()
                    .payload()
                    .filter(|payload| payload.type_name() == &*described.ty.name);
                let payload = payload.ok_or_else(|| {
                    let (found, needed) = (message.type_name(), &described.ty.name);
                    error::message(format!("the output sends {needed}, not {found}"))
                })?;
                let bulk = described.wire.encode(payload, &mut frame).map_err(error::message)?;
                let hold = || HeldPacket::new(message.packet().clone(), described.wire).into();
                self.post(py, &frame, BulkBytes { bytes: bulk, hold: &hold })
            }
            None => {
                let parts = Parts::new(described, data.as_ref(), values)?;
                frame.extend(&parts.meta);
                let bytes = parts.bulk()?;
                if let Some(loan) = self.loan_of(bytes)? {
                    return self.link.send_loan(&mut frame, &loan, bytes.len()).map_err(closed);
                }
                let hold = || AlignedBytes::from(bytes).into();
                self.post(py, &frame, BulkBytes { bytes, hold: &hold })
            }
        }
    }

    /// A new array to be filled and sent without a copy. `element` is the type of the elements, as NumPy
    /// writes it, and `size` the bytes of one.
    fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<usize>,
        element: String,
        size: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        // An array without elements has strides, too.
        let bytes = shape.iter().try_fold(size, |bytes, dim| bytes.checked_mul((*dim).max(1)));
        let bytes = bytes.ok_or_else(|| error::argument("the array is too large"))?;
        let loan = Arc::new(self.wait_for_memory(py, || self.link.loan(bytes.max(1)))?);
        let mut loans = lock(&self.loans);
        loans.retain(|loan| loan.strong_count() > 0);
        loans.push(Arc::downgrade(&loan));
        let order: Vec<u8> = (0..shape.len()).map(|dim| dim as u8).collect();
        let layout = (shape.clone(), strides(&shape, &order, size));
        let address = loan.as_mut_ptr();
        Memory::new(Box::new(loan), address, layout, element).writable().into_array(py)
    }

    /// Answers the present call.
    fn answer(&self, text: &str) {
        self.inbox.is_canceled.store(false, Ordering::Relaxed);
        self.link.send(&Head::Control, text.as_bytes());
    }

    /// True if the result of the present call is not needed any more.
    #[getter]
    fn is_canceled(&self) -> bool {
        self.inbox.is_canceled.load(Ordering::Relaxed)
    }
}

impl NodeLink {
    fn decode(
        &self,
        port: u16,
        header: Header,
        meta: &[u8],
        bulk: ForeignBytes,
    ) -> PyResult<Packet> {
        let described = lock(&self.ports).inputs.get(usize::from(port)).copied();
        let described = described.ok_or_else(|| error::message("there is no such input"))?;
        described.wire.decode(meta, bulk, header).map_err(error::message)
    }

    /// The shared memory that `bytes` begin, if they are those of an array of [`empty`](Self::empty).
    fn loan_of(&self, bytes: &[u8]) -> PyResult<Option<Arc<Loan>>> {
        let loans: Vec<_> = lock(&self.loans).iter().filter_map(Weak::upgrade).collect();
        let mut same =
            loans.into_iter().filter(|loan| loan.as_mut_ptr().cast_const() == bytes.as_ptr());
        let Some(first) = same.next() else { return Ok(None) };
        // The memory of an array that was sent may have become that of another array.
        match std::iter::once(first).chain(same).find(|loan| !loan.is_sent()) {
            Some(loan) => Ok(Some(loan)),
            None => Err(error::argument(
                "the array was sent already, and its memory belongs to the graph: send a copy, or an \
                 array of another call of cx.empty",
            )),
        }
    }

    /// Sends a packet; waits while the graph holds all memory of the link.
    fn post(&self, py: Python<'_>, frame: &[u8], bulk: BulkBytes<'_>) -> PyResult<()> {
        self.wait_for_memory(py, || self.link.send_packet(&mut frame.to_vec(), bulk))
    }

    /// Repeats `attempt` while the graph holds all memory of the link.
    fn wait_for_memory<T>(
        &self,
        py: Python<'_>,
        attempt: impl Fn() -> Result<T, LinkError>,
    ) -> PyResult<T> {
        let limit = Instant::now() + MEMORY_WAIT;
        loop {
            let freed = lock(&self.inbox.state).freed;
            match attempt() {
                Err(LinkError::Full) => {}
                done => return done.map_err(closed),
            }
            if Instant::now() > limit {
                return Err(PyTimeoutError::new_err(
                    "the graph and arrays of this node hold all memory of the link",
                ));
            }
            py.detach(|| {
                let state = lock(&self.inbox.state);
                let is_full =
                    |state: &mut ArrivalState| state.freed == freed && state.gone.is_none();
                drop(self.inbox.changed.wait_timeout_while(state, PATIENCE, is_full));
            });
            py.check_signals()?;
        }
    }
}

fn closed(error: LinkError) -> PyErr {
    PyConnectionError::new_err(error.to_string())
}
