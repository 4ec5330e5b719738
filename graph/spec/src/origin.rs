//! What a graph was made from.

use std::{collections::BTreeMap, path::PathBuf};

/// The files that a graph was read from, and the values that stand in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Every file with its text, each once, the graph file first.
    pub files: Vec<(PathBuf, String)>,
    /// The parameters of the graph that have a value, as words.
    pub params: BTreeMap<String, String>,
    /// The environment variables that the graph names, with their values or the defaults.
    pub environment: BTreeMap<String, String>,
}

impl Origin {
    /// Notes that `path` was read.
    pub(crate) fn read(&mut self, path: PathBuf, text: &str) {
        if !self.files.iter().any(|(known, _)| *known == path) {
            self.files.push((path, text.to_owned()));
        }
    }
}
