//! Interface of payloads that travel between processes and machines.

use std::fmt;

use afferent_core::ForeignBytes;

use crate::{AnyPayload, Header, Packet};

/// Moves the values of one payload type between processes and machines.
///
/// A value travels as metadata, which is encoded, and as at most one part of bulk bytes, which is
/// not: the sender writes it to memory aligned to 64 bytes, and the value that the receiver builds
/// borrows that memory.
pub trait WireCodec: Send + Sync {
    /// Name of the payload type, and the layout of its metadata and bulk bytes. Both ends compare
    /// it before they exchange values.
    fn layout(&self) -> String;

    /// Appends the metadata to `meta` and returns the bulk bytes, which are empty if the type has
    /// none.
    ///
    /// # Errors
    /// If the value is of another type, or is one that [`WireCodec::decode`] would refuse.
    fn encode<'v>(&self, value: &'v dyn AnyPayload, meta: &mut Vec<u8>)
    -> Result<&'v [u8], String>;

    /// Builds the value from its metadata and bulk bytes, which may come from an untrusted peer.
    /// The value borrows `bulk` if that is aligned to 64 bytes, and copies it otherwise.
    ///
    /// `meta` must not be memory that the peer can still change.
    ///
    /// # Errors
    /// The part that is wrong, and what would be accepted.
    fn decode(&self, meta: &[u8], bulk: ForeignBytes, header: Header) -> Result<Packet, String>;
}

impl PartialEq for dyn WireCodec {
    fn eq(&self, other: &Self) -> bool {
        self.layout() == other.layout()
    }
}

impl Eq for dyn WireCodec {}

impl fmt::Debug for dyn WireCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WireCodec({})", self.layout().lines().next().unwrap_or_default())
    }
}
