//! A value of a YAML file, with its location.

use crate::Location;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Location.
    pub location: Location,
    /// Content.
    pub value: Value,
    /// Nesting depth, including itself.
    pub(super) depth: usize,
    /// Number of values, including itself.
    pub(super) size: usize,
}

/// Content of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar; quoted ones are never null.
    Scalar {
        /// Text of the scalar.
        text: String,
        /// True if it is quoted.
        quoted: bool,
    },
    /// A list.
    Seq(Vec<Node>),
    /// A map in the order of the file; each key once.
    Map(Map),
    /// An unreadable value, which was reported.
    Faulty,
}

/// The entries of a map.
pub type Map = Vec<(Key, Node)>;

/// The key of a map entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Text of the key.
    pub text: String,
    /// Location.
    pub location: Location,
}

impl Node {
    /// A value without children.
    pub fn leaf(location: Location, value: Value) -> Self {
        Self { location, value, depth: 1, size: 1 }
    }

    /// An empty map.
    pub fn empty_map(location: Location) -> Self {
        Self::leaf(location, Value::Map(Map::new()))
    }

    /// True for `~`, `null`, or an empty value.
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, quoted: false } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// Kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } | Value::Faulty => "a single value",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The entries of a map.
    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    /// The entry `key` of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let (_, value) = self.as_map()?.iter().find(|(found, _)| found.text == key)?;
        Some(value)
    }

    /// As [`Node::get`], mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Value::Map(map) = &mut self.value else { return None };
        map.iter_mut().find(|(found, _)| found.text == key).map(|(_, value)| value)
    }

    /// Replaces or adds the entry `key` of a map.
    pub fn set(&mut self, key: Key, value: Self) {
        let Value::Map(map) = &mut self.value else { return };
        match map.iter_mut().find(|(found, _)| found.text == key.text) {
            Some(entry) => *entry = (key, value),
            None => map.push((key, value)),
        }
    }

    /// Removes the entry `key` of a map.
    pub fn remove(&mut self, key: &str) {
        if let Value::Map(map) = &mut self.value {
            map.retain(|(found, _)| found.text != key);
        }
    }
}
