//! Payload types as values, so that a program can add some at run time.

use std::{any::TypeId, borrow::Cow, fmt};

use crate::{Codec, OnFull, Payload, WireCodec};

/// Descriptor of a payload type.
#[derive(Clone)]
pub struct PayloadType {
    /// Name in graph files and on links. Two types with one name are one type.
    pub name: Cow<'static, str>,
    /// Default of an edge under load.
    pub on_full: OnFull,
    /// True if a value between two others can be computed.
    pub interpolates: bool,
    /// Rust type of the values: [`Dynamic`](crate::Dynamic) for types known only at run time.
    pub rust: TypeId,
    /// Codec of recordings.
    pub record: Option<Codec>,
    /// Codec between processes and machines.
    pub wire: Option<&'static dyn WireCodec>,
}

impl PayloadType {
    /// Descriptor of a Rust type.
    pub const fn of<T: Payload>() -> Self {
        Self {
            name: Cow::Borrowed(T::TYPE),
            on_full: T::ON_FULL,
            interpolates: T::INTERPOLATES,
            rust: TypeId::of::<T>(),
            record: match T::CODEC {
                Some(codec) => Some(Codec::of_static(codec)),
                None => None,
            },
            wire: T::WIRE,
        }
    }
}

impl fmt::Debug for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadType({})", self.name)
    }
}
