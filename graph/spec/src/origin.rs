//! Files and values that a graph was read from.

use std::{collections::BTreeMap, path::PathBuf};

/// Files that a graph was read from, and the substituted values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Every file with its text, once, the graph file first.
    pub files: Vec<(PathBuf, String)>,
    /// Parameters of the graph with their values, as text.
    pub params: BTreeMap<String, String>,
    /// Environment variables that the graph names, with their values or defaults.
    pub environment: BTreeMap<String, String>,
}

impl Origin {
    /// Registers that `path` was read.
    pub(crate) fn read(&mut self, path: PathBuf, text: &str) {
        if !self.files.iter().any(|(known, _)| *known == path) {
            self.files.push((path, text.to_owned()));
        }
    }
}
