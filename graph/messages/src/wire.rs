//! Wire form of payloads: metadata as CDR, and the elements of a tensor as bulk bytes.

use std::{marker::PhantomData, time::Duration};

use afferent_core::{ForeignBytes, ScalarType, Tensor};
use afferent_graph::{AnyPayload, Choice, Header, Packet, Payload, WireCodec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Cdr, CdrMessage,
    cdr::{read_all, typed, write},
};

#[cfg(test)]
mod tests;

/// A payload type with a wire form of its own, because it has bulk bytes or because its recorded
/// form does not hold the whole value.
///
/// The type sets [`Payload::WIRE`] to `Some(&Wire::<Self>::NEW)`. A [`CdrMessage`] that holds the
/// whole value and has no bulk bytes needs no other wire form: `Some(&Cdr::<Self>::NEW)`.
pub trait WireMessage: Payload {
    /// Fields of the metadata, as a ROS 2 message definition with the definitions of the types that it
    /// uses, and a line for the bulk bytes.
    const LAYOUT: &'static str;

    /// Fields of the metadata, in order.
    type Meta: Serialize + DeserializeOwned;

    /// The metadata and the bulk bytes.
    ///
    /// # Errors
    /// The property of the value that [`WireMessage::from_parts`] refuses.
    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String>;

    /// Builds the value. Both parts may come from an untrusted peer; the value borrows `bulk`.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    fn from_parts(meta: Self::Meta, bulk: ForeignBytes) -> Result<Self, String>;
}

/// Wire codec of the [`WireMessage`] `T`.
pub struct Wire<T>(PhantomData<fn() -> T>);

impl<T> Wire<T> {
    /// The codec.
    pub const NEW: Self = Self(PhantomData);
}

/// Byte order of bulk bytes, which are not converted.
const BYTE_ORDER: &str = if cfg!(target_endian = "big") { "big" } else { "little" };

impl<T: WireMessage> WireCodec for Wire<T> {
    fn layout(&self) -> String {
        format!("{}\n# bulk bytes are {BYTE_ORDER} endian\n{}", T::TYPE, T::LAYOUT)
    }

    fn encode<'v>(
        &self,
        value: &'v dyn AnyPayload,
        meta: &mut Vec<u8>,
    ) -> Result<&'v [u8], String> {
        let (fields, bulk) = typed::<T>(value)?.to_parts().map_err(named::<T>)?;
        write(&fields, meta)?;
        Ok(bulk)
    }

    fn decode(&self, meta: &[u8], bulk: ForeignBytes, header: Header) -> Result<Packet, String> {
        let value = read_all(meta).and_then(|meta| T::from_parts(meta, bulk));
        Ok(Packet::new(value.map_err(named::<T>)?, header))
    }
}

/// Wire codec of a message that holds the whole value: its CDR, without bulk bytes.
impl<T: CdrMessage> WireCodec for Cdr<T> {
    fn layout(&self) -> String {
        format!("{}\n{}", T::TYPE, T::SCHEMA)
    }

    fn encode<'v>(
        &self,
        value: &'v dyn AnyPayload,
        meta: &mut Vec<u8>,
    ) -> Result<&'v [u8], String> {
        write(&typed::<T>(value)?.to_wire(), meta)?;
        Ok(&[])
    }

    fn decode(&self, meta: &[u8], bulk: ForeignBytes, header: Header) -> Result<Packet, String> {
        let value = no_bulk(&bulk).and_then(|()| read_all(meta)).and_then(T::from_wire);
        Ok(Packet::new(value.map_err(named::<T>)?, header))
    }
}

/// An error with the name of the payload type.
fn named<T: Payload>(error: String) -> String {
    format!("{}: {error}", T::TYPE)
}

/// Refuses bulk bytes.
pub(crate) fn no_bulk(bulk: &ForeignBytes) -> Result<(), String> {
    match bulk.len() {
        0 => Ok(()),
        len => Err(format!("{len} bulk bytes, but the type has none")),
    }
}

/// Sizes and dim order of a matrix of `f32`, whose elements are bulk bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    sizes: [u64; 2],
    dim_order: [u8; 2],
}

impl Matrix {
    /// Largest size of a matrix without elements. No byte backs such a size, but a node may loop
    /// over it.
    const MAX_EMPTY_SIZE: usize = 1 << 16;

    /// Description and elements of `tensor`.
    pub(crate) fn of(tensor: &Tensor) -> Result<(Self, &[u8]), String> {
        let view = tensor.view();
        let (Ok(sizes), Ok(dim_order)) = (view.sizes().try_into(), view.dim_order().try_into())
        else {
            return Err(format!("a tensor of rank {}; it must be a matrix", view.rank()));
        };
        if view.dtype() != ScalarType::Float {
            return Err(format!("a tensor of {}; it must be of f32", view.dtype()));
        }
        Self::check_empty(sizes)?;
        Ok((Self { sizes: sizes.map(|size| size as u64), dim_order }, view.bytes()))
    }

    /// The tensor over `bulk`.
    pub(crate) fn into_tensor(self, bulk: ForeignBytes) -> Result<Tensor, String> {
        let Self { sizes, dim_order } = self;
        let len = bulk.len();
        let sizes = sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let tensor = Tensor::from_foreign(ScalarType::Float, &sizes, &dim_order, bulk);
        let tensor = tensor.map_err(|error| {
            format!("{len} bulk bytes of sizes {sizes:?} in dim order {dim_order:?}: {error}")
        })?;
        Self::check_empty(sizes)?;
        Ok(tensor)
    }

    fn check_empty(sizes: [usize; 2]) -> Result<(), String> {
        if sizes.contains(&0) && sizes.iter().any(|size| *size > Self::MAX_EMPTY_SIZE) {
            let most = Self::MAX_EMPTY_SIZE;
            return Err(format!("sizes {sizes:?} without elements; each must be at most {most}"));
        }
        Ok(())
    }
}

/// The choice called `word`.
///
/// # Errors
/// Names `field` and the accepted words.
pub(crate) fn choice<T: Choice>(field: &str, word: &str) -> Result<T, String> {
    T::from_word(word).ok_or_else(|| format!("{field} {word:?} is none of {}", T::WORDS.join(", ")))
}

/// A duration on the wire: seconds and nanoseconds.
pub(crate) type WireDuration = (u64, u32);

/// Converts a duration without loss.
pub(crate) fn from_duration(duration: Duration) -> WireDuration {
    (duration.as_secs(), duration.subsec_nanos())
}

/// The duration called `field`.
pub(crate) fn to_duration(field: &str, (secs, nanos): WireDuration) -> Result<Duration, String> {
    if nanos >= 1_000_000_000 {
        return Err(format!("`{field}` has {nanos} nanoseconds; accepted are 0 to 999999999"));
    }
    Ok(Duration::new(secs, nanos))
}
