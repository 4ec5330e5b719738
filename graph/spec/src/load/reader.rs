//! Common parts of reading: kinds, keys, texts, durations.

use std::{ops::Range, path::Path, sync::Arc, time::Duration};

use afferent_graph::read_duration;

use crate::{
    Diagnostic, Location, Origin, PortRef,
    diagnostic::Source,
    load::{inserted::Subgraph, locations::PortLocations, read_file},
    suggest,
    yaml::{self, Allowance, Map, Node, Value},
};

/// Deepest nesting of graph files.
pub(crate) const MAX_DEPTH: usize = 8;

/// Reads trees and collects their faults.
#[derive(Default)]
pub struct Reader {
    /// Faults in the order of finding.
    pub faults: Vec<Diagnostic>,
    /// Memory that reading and substitution may still use.
    pub(crate) allowance: Allowance,
    /// Nesting depth of the current graph file, and number of files read.
    pub(crate) depth: usize,
    pub(crate) files: usize,
    /// True if these were too many, which was reported.
    pub(crate) too_many: bool,
    /// Files and values that were read.
    pub(crate) origin: Origin,
    /// Path of the current subgraph, such as `ears/`; empty for the outermost graph.
    pub(crate) within: String,
    /// Subgraphs of the current file.
    pub(crate) subgraphs: Vec<Subgraph>,
}

impl Reader {
    /// Tree of the file `path`, which is not a graph file; `None` if it is not YAML.
    pub fn open(&mut self, path: &Path) -> Option<Node> {
        match read_file(path) {
            Ok(text) => self.parse(&text, path),
            Err(reason) => {
                let message = format!("cannot read {}: {reason}", path.display());
                self.faults.push(Diagnostic::error(None, message));
                None
            }
        }
    }

    /// Tree of the `text` of a file.
    pub fn parse(&mut self, text: &str, path: &Path) -> Option<Node> {
        let (name, text) = (path.display().to_string(), text.to_owned());
        let source = Arc::new(Source { name, text, order: Source::PARTS });
        self.tree(&source, 0..source.text.len())
    }

    /// Tree of the part `span` of `source`.
    pub(crate) fn tree(&mut self, source: &Arc<Source>, span: Range<usize>) -> Option<Node> {
        yaml::parse(source, span, &mut self.faults, &mut self.allowance)
    }

    /// Reserves `bytes` for a value at `location`; `None` and a report if that exceeds the limit.
    pub(crate) fn take(&mut self, bytes: usize, location: &Location) -> Option<()> {
        self.allowance.take(bytes, location, &mut self.faults)
    }

    /// Reports an error at `location`.
    pub fn error(&mut self, location: &Location, message: impl Into<String>) {
        self.faults.push(Diagnostic::error(Some(location), message));
    }

    /// Reports that `what` must be `expected`.
    pub fn wrong(&mut self, node: &Node, what: &str, expected: &str) {
        if matches!(node.value, Value::Faulty) {
            return;
        }
        self.error(&node.location, format!("{what} must be {expected}, not {}", node.kind()));
    }

    /// Entries of a map.
    pub fn map<'n>(&mut self, node: &'n Node, what: &str, of: &str) -> Option<&'n Map> {
        if node.as_map().is_none() {
            self.wrong(node, what, &format!("a map of {of}"));
        }
        node.as_map()
    }

    /// A scalar as text.
    pub fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Some(text),
            _ => {
                self.wrong(node, what, "a text");
                None
            }
        }
    }

    /// Reports unknown keys; returns the known keys that they were probably meant to be, which are
    /// then not missing.
    pub fn keys<'k>(&mut self, map: &Map, known: &[&'k str], what: &str) -> Vec<&'k str> {
        let mut meant = Vec::new();
        for (key, _) in map {
            if known.contains(&key.text.as_str()) {
                continue;
            }
            let message = format!("unknown key \"{}\" of {what}", key.text);
            let keys = format!("the keys of {what}");
            self.unknown(&key.location, message, &key.text, known.iter().copied(), &keys);
            meant.extend(suggest::closest(&key.text, known.iter().copied()));
        }
        meant
    }

    /// Reports an unknown `word`. The help names the closest of `candidates`, or all of them if
    /// they are few, as `what`.
    pub fn unknown<'c>(
        &mut self,
        location: &Location,
        message: String,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str> + Clone,
        what: &str,
    ) {
        let help = suggest::help(&self.faults, word, candidates, what);
        self.faults.push(Diagnostic::error(Some(location), message).help(help));
    }

    /// A boolean.
    pub fn flag(&mut self, node: &Node, what: &str) -> Option<bool> {
        match self.text(node, what)? {
            "true" => Some(true),
            "false" => Some(false),
            text => {
                self.error(&node.location, format!("{what} must be true or false, not \"{text}\""));
                None
            }
        }
    }

    /// A positive duration with its unit.
    pub fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let span = self.span(node, what)?;
        if span.is_zero() {
            self.error(&node.location, format!("{what} must be longer than none"));
            return None;
        }
        Some(span)
    }

    /// A duration with its unit.
    pub fn span(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        if text.trim_start().starts_with('-') {
            self.error(&node.location, format!("{what} must not be negative"));
            return None;
        }
        match read_duration(text, None) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.error(&node.location, format!("{what}: {error}"));
                None
            }
        }
    }

    /// A port in the form `node.port`, or `node` for the only one.
    pub(crate) fn port(&mut self, node: &Node, what: &str) -> Option<(PortRef, PortLocations)> {
        let location = &node.location;
        let text = match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => text,
            _ => {
                self.wrong(node, what, "written \"node.port\"");
                return None;
            }
        };
        let (name, port) = text.split_once('.').unwrap_or((text, ""));
        let without_port = !text.contains('.');
        if name.is_empty() || port.contains('.') || (port.is_empty() && !without_port) {
            let message = format!("{what} must be written \"node.port\", not \"{text}\"");
            self.error(location, message);
            return None;
        }
        // Quoted and folded text has other byte offsets than its value.
        let exact = location.text() == text;
        let part =
            |span: Range<usize>| Some(if exact { location.part(span) } else { location.clone() });
        let port_span = if without_port { 0..name.len() } else { name.len() + 1..text.len() };
        let locations =
            PortLocations { node: part(0..name.len()), port: part(port_span), reported: false };
        Some((PortRef { node: name.to_owned(), port: port.to_owned() }, locations))
    }
}
