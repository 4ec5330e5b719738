//! RIHS01 type hashes (REP 2011): SHA-256 of the description of a message type as JSON.

use std::{collections::BTreeMap, fmt::Write};

use sha2::{Digest, Sha256};

use crate::Error;

/// Ids of primitive types (`type_description_interfaces/msg/FieldType`).
const PRIMITIVES: [(&str, u8); 15] = [
    ("int8", 2),
    ("uint8", 3),
    ("char", 3),
    ("int16", 4),
    ("uint16", 5),
    ("int32", 6),
    ("uint32", 7),
    ("int64", 8),
    ("uint64", 9),
    ("float32", 10),
    ("float64", 11),
    ("bool", 15),
    ("byte", 16),
    ("string", 17),
    ("wstring", 18),
];

/// Id of a nested message.
const NESTED: u8 = 1;

/// Distance from the id of a string to that of a bounded string.
const BOUNDED_STRING: u8 = 4;

/// Distances from the id of a type to that of an array, a bounded and an unbounded sequence of it.
const ARRAY: u8 = 48;
const BOUNDED_SEQUENCE: u8 = 96;
const SEQUENCE: u8 = 144;

/// Field that a message without fields has.
const EMPTY: &str = "uint8 structure_needs_at_least_one_member";

/// RIHS01 hash of the message `name`, such as `RIHS01_d31d…`. `definitions` has the names and fields
/// of the message and of the messages in it, as in their `.msg` files; comments, constants and
/// default values do not matter.
///
/// # Errors
/// [`Error::Definition`] for a missing definition or a line that is not a field.
pub fn type_hash(name: &str, definitions: &[(&str, &str)]) -> Result<String, Error> {
    let mut referenced = BTreeMap::new();
    let description = describe(name, definitions, &mut referenced)?;
    let referenced: Vec<String> = referenced.into_values().collect();
    let json = format!(
        "{{\"type_description\": {description}, \"referenced_type_descriptions\": [{}]}}",
        referenced.join(", ")
    );
    let mut hash = "RIHS01_".to_owned();
    for byte in Sha256::digest(json) {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    Ok(hash)
}

/// Description of the message `name` as JSON. Those of the messages in it are added to `referenced`.
fn describe(
    name: &str,
    definitions: &[(&str, &str)],
    referenced: &mut BTreeMap<String, String>,
) -> Result<String, Error> {
    let fault = |reason| Error::Definition { message: name.to_owned(), reason };
    let definition = definitions.iter().find(|(known, _)| *known == name);
    let (_, text) = definition.ok_or_else(|| fault("there is no definition".to_owned()))?;
    let package = name.split('/').next().unwrap_or_default();
    let mut fields = Vec::new();
    for line in text.lines() {
        fields.extend(Field::parse(package, line).map_err(fault)?);
    }
    if fields.is_empty() {
        fields.extend(Field::parse(package, EMPTY).map_err(fault)?);
    }
    for nested in fields.iter().map(|field| &field.nested).filter(|nested| !nested.is_empty()) {
        if !referenced.contains_key(nested) {
            // The entry ends the recursion of a message that contains itself.
            referenced.insert(nested.clone(), String::new());
            let description = describe(nested, definitions, referenced)?;
            referenced.insert(nested.clone(), description);
        }
    }
    let fields: Vec<String> = fields.iter().map(Field::json).collect();
    Ok(format!("{{\"type_name\": \"{name}\", \"fields\": [{}]}}", fields.join(", ")))
}

/// A field of a message.
struct Field {
    name: String,
    id: u8,
    capacity: u64,
    string_capacity: u64,
    /// Name of a nested message; empty for a primitive type.
    nested: String,
}

impl Field {
    /// The field in a line of a definition; `None` for a comment, a constant or an empty line.
    fn parse(package: &str, line: &str) -> Result<Option<Self>, String> {
        let code = line.split('#').next().unwrap_or_default().trim();
        let Some((ty, rest)) = code.split_once(char::is_whitespace) else {
            return if code.is_empty() { Ok(None) } else { Err(format!("`{line}` has no name")) };
        };
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        if value.trim_start().starts_with('=') {
            return Ok(None);
        }
        let is_separate = value.is_empty() || value.starts_with(char::is_whitespace);
        if name.is_empty() || !is_separate {
            return Err(format!("`{line}` is not a field"));
        }
        let mut field = Self::of_type(package, ty).ok_or(format!("`{ty}` is not a type"))?;
        field.name = name.to_owned();
        Ok(Some(field))
    }

    /// A field of type `ty` without a name.
    fn of_type(package: &str, ty: &str) -> Option<Self> {
        let (element, array) = match ty.strip_suffix(']') {
            Some(ty) => ty.rsplit_once('[').map(|(element, bound)| (element, Some(bound)))?,
            None => (ty, None),
        };
        let (mut base, string_capacity) = match element.split_once("<=") {
            Some((base @ ("string" | "wstring"), bound)) => (base, bound.parse().ok()?),
            Some(_) => return None,
            None => (element, 0),
        };
        let known = PRIMITIVES.iter().find(|(name, _)| *name == base);
        let mut nested = String::new();
        let mut id = match known {
            Some((_, id)) if string_capacity > 0 => id + BOUNDED_STRING,
            Some((_, id)) => *id,
            None => {
                let mut package = package;
                if let Some((other, rest)) = base.split_once('/') {
                    (package, base) = (other, rest.strip_prefix("msg/").unwrap_or(rest));
                }
                let is_valid = |part: &str| !part.is_empty() && part.chars().all(is_name);
                if !is_valid(package) || !is_valid(base) {
                    return None;
                }
                nested = format!("{package}/msg/{base}");
                NESTED
            }
        };
        let mut capacity = 0;
        if let Some(bound) = array {
            id += match bound.strip_prefix("<=") {
                Some(bound) => {
                    capacity = bound.parse().ok()?;
                    BOUNDED_SEQUENCE
                }
                None if bound.is_empty() => SEQUENCE,
                None => {
                    capacity = bound.parse().ok()?;
                    ARRAY
                }
            };
        }
        Some(Self { name: String::new(), id, capacity, string_capacity, nested })
    }

    fn json(&self) -> String {
        let Self { name, id, capacity, string_capacity, nested } = self;
        format!(
            "{{\"name\": \"{name}\", \"type\": {{\"type_id\": {id}, \"capacity\": {capacity}, \
             \"string_capacity\": {string_capacity}, \"nested_type_name\": \"{nested}\"}}}}"
        )
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::{
        DEFINITIONS, RosMessage,
        audio_common_msgs::{AudioData, AudioDataStamped},
        geometry_msgs::PoseStamped,
        sensor_msgs::{CameraInfo, CompressedImage, Image, Imu, PointCloud2},
        std_msgs,
        tf2_msgs::TFMessage,
    };

    #[test]
    fn hashes_of_messages_are_computed_from_their_definitions() {
        fn check<M: RosMessage>() {
            assert_eq!(type_hash(M::NAME, DEFINITIONS).as_deref(), Ok(M::TYPE_HASH));
        }
        check::<AudioData<'_>>();
        check::<AudioDataStamped<'_>>();
        check::<CameraInfo>();
        check::<CompressedImage<'_>>();
        check::<Image<'_>>();
        check::<Imu>();
        check::<PointCloud2<'_>>();
        check::<PoseStamped>();
        check::<TFMessage>();
        check::<std_msgs::String<'_>>();
    }

    /// Hashes of `rosbags` and `zenoh-ros2-sdk`; see `tests/data/make.py`.
    #[test]
    fn hashes_agree_with_other_implementations() {
        let text = include_str!("../tests/data/hashes.txt");
        let lines: Vec<(&str, &str, String)> = text
            .lines()
            .map(|line| {
                let mut parts = line.splitn(3, ' ');
                let mut part = || parts.next().unwrap();
                (part(), part(), part().replace(';', "\n"))
            })
            .collect();
        let definitions: Vec<(&str, &str)> =
            lines.iter().map(|(name, _, fields)| (*name, &**fields)).collect();
        for (name, hash, _) in &lines {
            assert_eq!(type_hash(name, &definitions).as_deref(), Ok(*hash), "{name}");
        }
        assert!(lines.len() > 8);
    }

    /// The hash is that of ROS; `rosidl_adapter` turns `char` into `uint8`.
    #[test]
    fn a_char_is_a_byte() {
        let hash = type_hash("std_msgs/msg/Char", &[("std_msgs/msg/Char", "char data")]);
        let expected = "RIHS01_3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9";
        assert_eq!(hash.as_deref(), Ok(expected));
    }

    #[test]
    fn comments_constants_and_defaults_do_not_matter() {
        let plain = [("a/msg/A", "int32 x\nstring<=5 s\nB[<=3] b"), ("a/msg/B", "")];
        let full = [
            (
                "a/msg/A",
                "# Text\nint32 X=5\nint32 Y = 6 # y\n\nint32 x 7 # x\n string<=5  s \"#\"\nB[<=3] b",
            ),
            ("a/msg/B", "  # empty"),
        ];
        assert_eq!(type_hash("a/msg/A", &plain), type_hash("a/msg/A", &full));
        let other = [("a/msg/A", "int32 x\nstring<=6 s\na/msg/B[<=3] b"), ("a/msg/B", "")];
        assert_ne!(type_hash("a/msg/A", &plain), type_hash("a/msg/A", &other));
    }

    #[test]
    fn faulty_definitions_are_named() {
        let check = |fields: &str, reason: &str| {
            let error = type_hash("a/msg/A", &[("a/msg/A", fields)]).unwrap_err();
            assert_eq!(error.to_string(), reason);
        };
        check("int32", "definition of a/msg/A: `int32` has no name");
        check("int32 x-y", "definition of a/msg/A: `int32 x-y` is not a field");
        check("int32<=4 x", "definition of a/msg/A: `int32<=4` is not a type");
        check("int32[x] x", "definition of a/msg/A: `int32[x]` is not a type");
        check("int32] x", "definition of a/msg/A: `int32]` is not a type");
        check("b/c/D x", "definition of a/msg/A: `b/c/D` is not a type");
        check("B x", "definition of a/msg/B: there is no definition");
        let deep = [("a/msg/A", "A[] a")];
        assert!(type_hash("a/msg/A", &deep).is_ok(), "a message that contains itself ends");
    }
}
