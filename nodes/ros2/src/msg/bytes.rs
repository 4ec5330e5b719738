//! Byte sequences (`uint8[]`) that are serialized in one copy and borrowed when they are read.

use std::{borrow::Cow, fmt};

use serde::{Deserializer, Serializer, de};

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(super) fn deserialize<'de: 'b, 'b, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'b, [u8]>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Cow<'de, [u8]>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(bytes))
        }
    }

    deserializer.deserialize_bytes(Visitor)
}
