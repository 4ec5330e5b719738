//! Interface of recorded payloads.

use std::{borrow::Cow, fmt, ops::Deref};

use crate::{AnyPayload, Header, Packet};

/// Reads and writes the values of one payload type in recordings.
pub trait RecordCodec: Send + Sync {
    /// Name of the message, for example `afferent_msgs/msg/AudioBlock`.
    fn message(&self) -> &str;

    /// ROS 2 message definition.
    fn schema(&self) -> &str;

    /// Appends `value` to `bytes`.
    ///
    /// # Errors
    /// When the value is of another type.
    fn encode(&self, value: &dyn AnyPayload, bytes: &mut Vec<u8>) -> Result<(), String>;

    /// Appends the bytes by which values are compared: those of [`RecordCodec::encode`], but never
    /// compressed.
    ///
    /// # Errors
    /// As [`RecordCodec::encode`].
    fn encode_uncompressed(
        &self,
        value: &dyn AnyPayload,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.encode(value, bytes)
    }

    /// Converts a message to the bytes of [`RecordCodec::encode_uncompressed`].
    ///
    /// # Errors
    /// As [`RecordCodec::decode`].
    fn uncompressed<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, String> {
        Ok(Cow::Borrowed(bytes))
    }

    /// Reads the value in `bytes` into a packet with `header`.
    ///
    /// # Errors
    /// The part of the bytes that is wrong.
    fn decode(&self, bytes: &[u8], header: Header) -> Result<Packet, String>;
}

/// A [`RecordCodec`] as a value that can be compared and printed.
#[derive(Clone, Copy)]
pub struct Codec(&'static dyn RecordCodec);

impl Codec {
    /// Codec that is compiled in.
    pub const fn of_static(codec: &'static dyn RecordCodec) -> Self {
        Self(codec)
    }
}

impl From<&'static dyn RecordCodec> for Codec {
    fn from(codec: &'static dyn RecordCodec) -> Self {
        Self::of_static(codec)
    }
}

impl Deref for Codec {
    type Target = dyn RecordCodec;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for dyn RecordCodec {
    fn eq(&self, other: &Self) -> bool {
        self.message() == other.message() && self.schema() == other.schema()
    }
}

impl Eq for dyn RecordCodec {}

impl fmt::Debug for dyn RecordCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.message())
    }
}

impl PartialEq for Codec {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Codec {}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
