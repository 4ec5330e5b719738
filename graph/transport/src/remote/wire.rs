//! Datagrams, and the wire that carries them.

use std::io::Read;

use afferent_core::{AlignedBytes, ForeignBytes};

use super::head::{Kind, LINK_HEAD, LinkHead};
use crate::frame::{self, ALIGNMENT, Bulk, HEAD, Head, PACKET_HEAD};

/// Longest message without bulk bytes.
const MAX_MESSAGE: usize = 4 << 20;

/// Carries datagrams to one other machine.
pub trait Wire: Send + Sync {
    /// Sends a datagram of a stream, now or soon. Must not block. It may get lost.
    fn put(&self, stream: u16, datagram: Datagram);

    /// Closes the connection.
    fn close(&self);
}

/// Datagram to send: its parts follow each other.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// First part.
    pub head: [u8; LINK_HEAD],
    /// Second part.
    pub message: ForeignBytes,
    /// Third part.
    pub bulk: ForeignBytes,
    /// Position in `message` of the time of sending: [`monotonic_ns`](crate::monotonic_ns) as i64, which the wire writes
    /// as late as it can.
    pub sent_at: Option<usize>,
}

/// Datagram that has arrived.
#[derive(Debug)]
pub struct Received {
    pub(super) head: LinkHead,
    pub(super) message: Vec<u8>,
    pub(super) bulk: ForeignBytes,
    /// Time of the arrival.
    pub(super) at_ns: i64,
}

impl Received {
    /// Reads a datagram of `len` bytes, which arrived at `at_ns` by [`monotonic_ns`](crate::monotonic_ns).
    ///
    /// # Errors
    /// The part that is wrong.
    pub fn read(mut bytes: impl Read, len: usize, at_ns: i64) -> Result<Self, String> {
        let short = |_| format!("a message of {len} bytes is too short");
        let mut head = [0; LINK_HEAD];
        bytes.read_exact(&mut head).map_err(short)?;
        let head = LinkHead::read(&head).map_err(|error| error.to_string())?;
        let rest = len.saturating_sub(LINK_HEAD);
        let mut message = Vec::new();
        let mut bulk = ForeignBytes::from(Vec::new());
        let mut read = |message: &mut Vec<u8>, len: usize| {
            if len > MAX_MESSAGE.min(rest) {
                return Err(format!("a message of {len} bytes is too long"));
            }
            let start = message.len();
            message.resize(len, 0);
            bytes.read_exact(&mut message[start..]).map_err(short)
        };
        let is_message = head.kind == Kind::Message;
        if is_message {
            read(&mut message, HEAD)?;
        }
        let told = |error: frame::FrameError| error.to_string();
        if is_message && matches!(Head::read(&message).map_err(told)?, Head::Packet(_)) {
            read(&mut message, PACKET_HEAD)?;
            let meta = frame::meta_len(&message).map_err(told)?;
            read(&mut message, (PACKET_HEAD + meta).next_multiple_of(ALIGNMENT))?;
            let Bulk::After { len } = frame::parts(&message).map_err(told)?.bulk else {
                return Err("bulk bytes are not after the message".to_owned());
            };
            if message.len() + len != rest {
                return Err(format!("a message of {rest} bytes has {len} bulk bytes"));
            }
            let mut memory = AlignedBytes::try_zeroed(len)
                .ok_or_else(|| format!("no memory for {len} bulk bytes"))?;
            bytes.read_exact(memory.as_mut_slice()).map_err(short)?;
            bulk = memory.into();
            message.truncate(PACKET_HEAD + meta);
        } else {
            read(&mut message, rest)?;
        }
        Ok(Self { head, message, bulk, at_ns })
    }
}

/// Event of a [`Wire`], for its link.
pub enum WireEvent {
    /// The other machine can be reached.
    Up,
    /// The other machine cannot be reached any more.
    Down(String),
    /// A datagram has arrived.
    Arrived {
        /// Its stream.
        stream: u16,
        /// Its length in bytes.
        len: usize,
        /// Reads it.
        read: Box<dyn FnOnce() -> Result<Received, String> + Send>,
    },
    /// Something is due before the link expected it.
    Due,
    /// A message was against the protocol, for this reason.
    Failed(String),
    /// The link ends.
    Closed,
}
