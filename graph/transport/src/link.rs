//! Connections between processes.

use std::time::Duration;

use afferent_core::{ForeignBytes, Memory};
use afferent_graph::{Packet, WireCodec};

use crate::{
    frame::{FrameError, Head},
    remote::{ClockOffset, SessionInfo},
};

/// Connection to one other process. Messages arrive in their order as long as it lasts.
///
/// No function blocks: a message that the connection does not take at once waits in it. Windows
/// limit how many there are.
pub trait Link: Send + Sync {
    /// Sends a packet: `message` as [`begin_packet`](crate::frame::begin_packet) started it, with
    /// its metadata, and the bulk bytes.
    ///
    /// # Errors
    /// [`LinkError::Full`] if the packet has to be sent later.
    fn send_packet(&self, message: &mut Vec<u8>, bulk: BulkBytes<'_>) -> Result<(), LinkError>;

    /// Sends a message without bulk bytes, and what `text` follows it.
    fn send(&self, head: &Head, text: &[u8]);

    /// Closes the connection.
    fn close(&self);

    /// False while the connection is interrupted. What is sent meanwhile is kept.
    fn is_up(&self) -> bool {
        true
    }

    /// Offset of the clock of the other machine from that of this one; `None` for processes of one
    /// machine, and as long as it is not known.
    fn clock_offset(&self) -> Option<ClockOffset> {
        None
    }

    /// Tells the other machine of the session of this one.
    fn announce(&self, _: SessionInfo) {}

    /// Waits at most for `patience` until everything has arrived; false if it has not.
    fn drain(&self, _: Duration) -> bool {
        true
    }
}

/// Bulk bytes to send.
#[derive(Clone, Copy)]
pub struct BulkBytes<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Returns the same bytes, held for longer than the call. What it returns may be a copy.
    pub hold: &'a dyn Fn() -> ForeignBytes,
}

/// A packet whose bulk bytes are needed for longer than the call that sends it.
pub struct HeldPacket {
    packet: Packet,
    codec: &'static dyn WireCodec,
}

impl HeldPacket {
    /// Holds the bulk bytes of `packet`, whose payload `codec` encodes.
    pub fn new(packet: Packet, codec: &'static dyn WireCodec) -> Self {
        Self { packet, codec }
    }
}

impl Memory for HeldPacket {
    fn bytes(&self) -> &[u8] {
        let value = self.packet.payload();
        let bulk = value.and_then(|value| self.codec.encode(value, &mut Vec::new()).ok());
        bulk.unwrap_or_default()
    }
}

/// A packet could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The receiver holds all the memory that the link may use; it can be sent when some is free.
    #[error("the receiver holds all shared memory of the connection")]
    Full,
    /// It can never be sent.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The system refuses memory.
    #[error("no shared memory of {bytes} bytes: {reason}")]
    Memory {
        /// Size of the memory.
        bytes: usize,
        /// Error of the system.
        reason: String,
    },
}

/// Receiver of the messages of a link. Called on the thread of the link.
pub trait Inbox: Send + Sync {
    /// A message has arrived. `bulk` has the bulk bytes of a packet. Returns an error if the peer
    /// does not keep to the protocol; then the link is closed.
    ///
    /// # Errors
    /// The part of the message that is wrong.
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String>;

    /// Memory of the link is free again: [`LinkError::Full`] packets can be sent.
    fn has_memory(&self);

    /// The connection has ended. No message follows.
    fn gone(&self, reason: &str);

    /// The connection to another machine is interrupted.
    fn paused(&self, _: &str) {}

    /// The connection to another machine stands, for the first time or again; what was sent before
    /// an interruption arrives.
    fn resumed(&self) {}

    /// The program on the other machine was started again: what was sent to the one before is lost.
    fn restarted(&self) {}

    /// The other machine has told its session.
    fn greeted(&self, _: Option<SessionInfo>) {}

    /// A reading of the clock of the other machine: its offset, and the start of the session by that
    /// clock, in nanoseconds.
    fn clock_read(&self, _: ClockOffset, _: Option<i64>) {}

    /// Start of the session by the clock of this machine, in nanoseconds.
    fn session_start(&self) -> Option<i64> {
        None
    }
}
