//! Payload types as values, so that a program can add some at run time.

use std::{any::TypeId, borrow::Cow, fmt, sync::Arc};

use crate::{Codec, OnFull, Payload, WireCodec, wire::DynamicWire};

/// Descriptor of a payload type.
#[derive(Clone)]
pub struct PayloadType {
    /// Name in graph files and on links. Two types with one name are one type.
    pub name: Cow<'static, str>,
    /// Default of an edge under load.
    pub on_full: OnFull,
    /// True if a value between two others can be computed.
    pub interpolates: bool,
    /// Rust type of the values: [`Dynamic`] for types known only at run time.
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

    /// Descriptor of a type that is known at run time; its values are [`Dynamic`].
    pub fn dynamic(name: impl Into<String>, on_full: OnFull) -> Self {
        Self { name: Cow::Owned(name.into()), on_full, ..Self::of::<Dynamic>() }
    }
}

/// A value of a type known at run time, as encoded bytes.
#[derive(Clone, Default)]
pub struct Dynamic {
    /// Its type; `None` in a value that was never filled.
    pub ty: Option<Arc<PayloadType>>,
    /// Encoded fields.
    pub bytes: Vec<u8>,
}

impl Payload for Dynamic {
    const TYPE: &'static str = "dynamic";
    const WIRE: Option<&'static dyn WireCodec> = Some(&DynamicWire);

    fn ty(&self) -> &str {
        self.ty.as_ref().map_or(Self::TYPE, |ty| &ty.name)
    }

    fn bulk_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl fmt::Debug for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadType({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Pool, test_payload::Sample};

    #[test]
    fn values_of_types_known_at_run_time_share_one_pool() {
        const STATIC: &PayloadType = &PayloadType::of::<Sample>();
        assert_eq!(STATIC.name, "test/Sample");
        let twist = Arc::new(PayloadType::dynamic("geometry_msgs/msg/Twist", OnFull::Latest));
        let pool = Pool::new(4);
        let mut address = None;
        for number in 0..3_u8 {
            let mut value = pool.loan::<Dynamic>();
            value.ty = Some(twist.clone());
            value.bytes.clear();
            value.bytes.extend([number; 48]);
            assert!(
                address
                    .replace(value.bytes.as_ptr())
                    .is_none_or(|before| before == value.bytes.as_ptr())
            );
            let packet = value.into_packet(Header::default());
            assert_eq!(packet.payload().unwrap().type_name(), "geometry_msgs/msg/Twist");
            assert!(packet.get::<Sample>().is_none() && packet.get::<Dynamic>().is_some());
        }
        assert_eq!(pool.allocated(), 1);
    }
}
