//! Connections between processes.

use afferent_core::ForeignBytes;

use crate::frame::{FrameError, Head};

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
    fn send_packet(&self, message: &mut Vec<u8>, bulk: &[u8]) -> Result<(), LinkError>;

    /// Sends a message without bulk bytes, and what `text` follows it.
    fn send(&self, head: &Head, text: &[u8]);

    /// Closes the connection.
    fn close(&self);
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
}
