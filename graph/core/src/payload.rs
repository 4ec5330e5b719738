//! What may travel between nodes.

use std::any::Any;

/// What happens to a packet that finds its queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The sender waits until there is room.
    Block,
    /// The oldest packet of the queue is dropped and counted.
    DropOldest,
    /// The new packet is dropped and counted.
    DropNewest,
    /// The queue holds one packet, always the newest; each it replaces is dropped and counted.
    Latest,
}

/// A type that can travel between nodes.
///
/// `Default` makes an empty value for a pool; values are reused, so one that owns memory keeps it.
pub trait Payload: Any + Send + Sync + Default + Clone {
    /// Name of the type in graph files and messages, for example `audio/Block`.
    const TYPE: &'static str;

    /// What an edge of this type does under load when the graph does not say.
    const ON_FULL: OnFull = OnFull::Block;

    /// The value as named fields, for logs and recordings. Bulk data is left out.
    fn fields(&self) -> Vec<(&'static str, Field)> {
        Vec::new()
    }
}

/// One named part of a payload, for logs and recordings.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A text.
    Text(String),
    /// A number; the name of the field carries the unit.
    Number(f64),
    /// A whole number.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

/// A payload whose type is not known.
pub trait AnyPayload: Any + Send + Sync {
    /// [`Payload::TYPE`].
    fn type_name(&self) -> &'static str;

    /// See [`Payload::fields`].
    fn fields(&self) -> Vec<(&'static str, Field)>;
}

impl<T: Payload> AnyPayload for T {
    fn type_name(&self) -> &'static str {
        T::TYPE
    }

    fn fields(&self) -> Vec<(&'static str, Field)> {
        Payload::fields(self)
    }
}
