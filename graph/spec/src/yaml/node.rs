//! A value of a YAML file, with its place.

use crate::Location;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it is written.
    pub location: Location,
    /// What it is.
    pub value: Value,
    /// How many levels lie in it, itself included.
    pub(super) depth: usize,
    /// How many values lie in it, itself included.
    pub(super) size: usize,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A word; quoted ones are never null.
    Scalar {
        /// The word.
        text: String,
        /// Whether it stands in quotes.
        quoted: bool,
    },
    /// A list.
    Seq(Vec<Node>),
    /// A map in the order of the file; each key once.
    Map(Map),
    /// One that could not be made out, which has been told.
    Faulty,
}

/// The entries of a map.
pub type Map = Vec<(Key, Node)>;

/// The key of a map entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The word.
    pub text: String,
    /// Where it is written.
    pub location: Location,
}

impl Node {
    /// A value without others in it.
    pub fn leaf(location: Location, value: Value) -> Self {
        Self { location, value, depth: 1, size: 1 }
    }

    /// An empty map.
    pub fn empty_map(location: Location) -> Self {
        Self::leaf(location, Value::Map(Map::new()))
    }

    /// Whether it says that there is nothing: `~`, `null`, or empty.
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, quoted: false } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// What it is, for messages.
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

    /// As [`Node::get`], to change it.
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
