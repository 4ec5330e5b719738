//! Errors of this crate.

/// Errors of messages, keys and type hashes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of a message are not XCDR1 of its type.
    #[error("{message}: {reason}")]
    Cdr {
        /// Name of the message, such as `sensor_msgs/msg/Image`.
        message: String,
        /// Reason of the failure.
        reason: String,
    },
    /// A message and a payload do not convert to each other.
    #[error("{message}: {reason}")]
    Convert {
        /// Name of the message.
        message: &'static str,
        /// The property, and the accepted ones.
        reason: String,
    },
    /// A message definition cannot be read.
    #[error("definition of {message}: {reason}")]
    Definition {
        /// Name of the message.
        message: String,
        /// The line, or the missing definition.
        reason: String,
    },
    /// A name of a topic, node or type is not valid.
    #[error("`{name}` is not a valid {kind}: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Kind of the name.
        kind: &'static str,
        /// The broken rule.
        reason: &'static str,
    },
    /// A key, token or attachment of a peer cannot be read.
    #[error("the {part} {text:?} cannot be read: {reason}")]
    Peer {
        /// Kind of the text.
        part: &'static str,
        /// The text.
        text: String,
        /// Failed check.
        reason: &'static str,
    },
}
