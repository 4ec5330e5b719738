//! The process of a node, and the link to it.

use std::{
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;
use afferent_graph::{Header, NodeError, Packet, WireCodec};
use afferent_transport::{
    frame::{self, Head, PacketHead},
    link::{BulkBytes, HeldPacket, Inbox, Link, LinkError},
    local::{self, LocalLink},
};

use crate::description::Source;

/// Longest wait for memory that the process holds.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

/// Time that a process has to end by itself.
const END_WAIT: Duration = Duration::from_millis(500);

/// Time between two looks at the cancel flag of a call.
const POLL: Duration = Duration::from_millis(5);

/// A running process with a node.
pub(crate) struct NodeProcess {
    source: Source,
    child: Child,
    link: Arc<LocalLink>,
    arrivals: Receiver<Arrival>,
    freed: Arc<AtomicU64>,
    frame: Vec<u8>,
}

/// Message of the process.
pub(crate) enum Arrival {
    /// A packet of the output at index `output`.
    Packet { output: usize, header: Header, meta: Vec<u8>, bulk: ForeignBytes },
    /// A control message, in JSON.
    Control(String),
    /// The process has ended.
    Gone,
}

struct Arrivals {
    sender: Sender<Arrival>,
    freed: Arc<AtomicU64>,
}

impl Inbox for Arrivals {
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
        let wrong = |error: frame::FrameError| error.to_string();
        let arrival = match Head::read(message).map_err(wrong)? {
            Head::Packet(PacketHead { edge, header, .. }) => {
                let meta = frame::parts(message).map_err(wrong)?.meta.to_vec();
                Arrival::Packet { output: edge.into(), header, meta, bulk }
            }
            Head::Control => {
                let text = message.get(frame::HEAD..).unwrap_or_default();
                Arrival::Control(String::from_utf8_lossy(text).into_owned())
            }
            other => return Err(format!("a node does not send {other:?}")),
        };
        // Messages after the end of the node are not read.
        let _ = self.sender.send(arrival);
        Ok(())
    }

    fn has_memory(&self) {
        self.freed.fetch_add(1, Ordering::Release);
    }

    fn gone(&self, _: &str) {
        // As above.
        let _ = self.sender.send(Arrival::Gone);
    }
}

impl NodeProcess {
    /// Starts the process of `source`, for the node `name`.
    pub(crate) fn start(source: Source, name: &str) -> Result<Self, NodeError> {
        let failed = |error: std::io::Error| source.error(format!("cannot start it: {error}"));
        let (ours, theirs) = local::pair().map_err(failed)?;
        let mut command = source.command();
        let child = command.stdin(Stdio::from(theirs)).spawn().map_err(failed)?;
        // The command holds the other end of the link.
        drop(command);
        let (sender, arrivals) = channel();
        let freed = Arc::new(AtomicU64::new(0));
        let inbox = Arc::new(Arrivals { sender, freed: freed.clone() });
        let link = LocalLink::start(ours, name, inbox).map_err(failed)?;
        Ok(Self { source, child, link, arrivals, freed, frame: Vec::new() })
    }

    /// Sends a packet of the input at index `input`.
    pub(crate) fn send_packet(
        &mut self,
        input: usize,
        packet: &Packet,
        codec: &'static dyn WireCodec,
    ) -> Result<(), NodeError> {
        let Some(payload) = packet.payload() else { return Ok(()) };
        let edge = u16::try_from(input).unwrap_or(u16::MAX);
        let head = PacketHead { edge, header: packet.header, ..PacketHead::default() };
        self.frame.clear();
        frame::begin_packet(&mut self.frame, &head);
        let bytes = codec.encode(payload, &mut self.frame).map_err(NodeError::Payload)?;
        let len = self.frame.len();
        let hold = || HeldPacket::new(packet.clone(), codec).into();
        let limit = Instant::now() + MEMORY_WAIT;
        loop {
            let freed = self.freed.load(Ordering::Acquire);
            self.frame.truncate(len);
            let mut frame = std::mem::take(&mut self.frame);
            let sent = self.link.send_packet(&mut frame, BulkBytes { bytes, hold: &hold });
            self.frame = frame;
            match sent {
                Ok(()) => return Ok(()),
                Err(LinkError::Full) if Instant::now() < limit => {
                    while self.freed.load(Ordering::Acquire) == freed && Instant::now() < limit {
                        thread::sleep(Duration::from_micros(200));
                    }
                }
                Err(error) => {
                    return Err(self.source.error(format!(
                        "{error}; the node keeps too many arrays of earlier messages: copy them"
                    )));
                }
            }
        }
    }

    /// Sends a control message.
    pub(crate) fn send(&self, text: &str) {
        self.link.send(&Head::Control, text.as_bytes());
    }

    /// Waits for the next message; `poll` is called now and then.
    pub(crate) fn receive(&mut self, mut poll: impl FnMut(&Self)) -> Result<Arrival, NodeError> {
        loop {
            match self.arrivals.recv_timeout(POLL) {
                Ok(Arrival::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.ended());
                }
                Ok(arrival) => return Ok(arrival),
                Err(RecvTimeoutError::Timeout) => poll(self),
            }
        }
    }

    /// Error after the process has ended by itself.
    fn ended(&mut self) -> NodeError {
        let reason = match self.wait() {
            Some(status) => format!("its process ended: {status}"),
            None => "its process closed the link".to_owned(),
        };
        self.source.error(reason)
    }

    /// Status of the process, if it ends in time.
    fn wait(&mut self) -> Option<std::process::ExitStatus> {
        let limit = Instant::now() + END_WAIT;
        while Instant::now() < limit {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.link.close();
        if self.wait().is_none() {
            // It may have ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
