//! Payload types.

use std::any::Any;

use crate::{AnyPayload, Field, Header, Packet, Pool, RecordCodec, WireCodec};

crate::choices! {
    /// Policy for a packet that arrives at a full queue, by its words in graph files.
    #[derive(Hash)]
    pub enum OnFull {
        /// The sender waits until there is room.
        Block = "block",
        /// The oldest packet of the queue is dropped and counted.
        DropOldest = "drop_oldest",
        /// The new packet is dropped and counted.
        DropNewest = "drop_newest",
        /// The queue holds one packet, the newest; each replaced packet is dropped and counted.
        Latest = "latest",
    }
}

/// A type that can travel between nodes.
///
/// `Default` makes an empty value for a pool; values are reused, so one that owns memory keeps it.
pub trait Payload: Any + Send + Sync + Default + Clone {
    /// Name of the type in graph files and messages, for example `audio/Block`.
    const TYPE: &'static str;

    /// Default policy of an edge of this type.
    const ON_FULL: OnFull = OnFull::Block;

    /// True if [`Payload::interpolate`] is implemented.
    const INTERPOLATES: bool = false;

    /// Codec of recordings; `None` if values are not recorded.
    const CODEC: Option<&'static dyn RecordCodec> = None;

    /// Codec between processes and machines; `None` if values stay in their process.
    const WIRE: Option<&'static dyn WireCodec> = None;

    /// Name of the type of this value: [`Payload::TYPE`], except of [`Dynamic`](crate::Dynamic) values.
    fn ty(&self) -> &str {
        Self::TYPE
    }

    /// The value as named fields, for logs. Bulk data is left out.
    fn fields(&self) -> Vec<(&'static str, Field)> {
        Vec::new()
    }

    /// Size of the bulk data in bytes, for memory limits of queues.
    fn bulk_bytes(&self) -> usize {
        0
    }

    /// Releases memory that the value borrows, such as that of a foreign tensor
    /// (`Tensor::release_foreign`). Called when the value returns to its pool, where it may wait for
    /// any time.
    fn release_foreign(&mut self) {}

    /// Makes `into` what the value was between this one and a `later` one: `share` is 0 here and 1
    /// there.
    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        let _ = (later, share, into);
    }
}

impl<T: Payload> AnyPayload for T {
    fn type_name(&self) -> &str {
        Payload::ty(self)
    }

    fn fields(&self) -> Vec<(&'static str, Field)> {
        Payload::fields(self)
    }

    fn bulk_bytes(&self) -> usize {
        Payload::bulk_bytes(self)
    }

    fn release_foreign(&mut self) {
        Payload::release_foreign(self);
    }

    fn interpolated(
        &self,
        later: &dyn AnyPayload,
        share: f64,
        pool: &Pool,
        header: Header,
    ) -> Option<Packet> {
        let later = (later as &dyn Any).downcast_ref::<T>().filter(|_| T::INTERPOLATES)?;
        let mut value = pool.loan::<T>();
        self.interpolate(later, share, &mut value);
        Some(value.into_packet(header))
    }
}
