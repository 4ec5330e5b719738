//! What reading the parts of a graph has in common: kinds, keys, texts, times.

use std::time::Duration;

use afferent_graph::{Param, ParamKind, ParamValue};

use crate::{
    Diagnostic, Place, PortRef,
    load::{places::PortPlaces, subgraph::Subgraph},
    suggest,
    yaml::{Map, Node, Value},
};

/// Reads trees and collects what is wrong with them.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) faults: Vec<Diagnostic>,
    /// Graph files around the one that is being read, and those that were read in all.
    pub(crate) depth: usize,
    pub(crate) files: usize,
    /// Whether these were too many, which has been told.
    pub(crate) too_many: bool,
    /// Nodes of the present file that are graphs.
    pub(crate) subgraphs: Vec<Subgraph>,
}

impl Reader {
    /// Notes an error at `place`.
    pub(crate) fn error(&mut self, place: &Place, message: impl Into<String>) {
        self.faults.push(Diagnostic::error(Some(place), message));
    }

    /// Notes that `what` must be `expected`.
    pub(crate) fn wrong(&mut self, node: &Node, what: &str, expected: &str) {
        if matches!(node.value, Value::Faulty) {
            return;
        }
        self.error(&node.place, format!("{what} must be {expected}, not {}", node.kind()));
    }

    /// The entries of a map.
    pub(crate) fn map<'n>(&mut self, node: &'n Node, what: &str, of: &str) -> Option<&'n Map> {
        if node.as_map().is_none() {
            self.wrong(node, what, &format!("a map of {of}"));
        }
        node.as_map()
    }

    /// A single value as text.
    pub(crate) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Some(text),
            _ => {
                self.wrong(node, what, "a text");
                None
            }
        }
    }

    /// Notes the keys that do not belong; returns the known keys that they were probably meant
    /// to be, which are then not missing.
    pub(crate) fn keys<'k>(&mut self, map: &Map, known: &[&'k str], what: &str) -> Vec<&'k str> {
        let mut meant = Vec::new();
        for (key, _) in map {
            if known.contains(&key.text.as_str()) {
                continue;
            }
            let message = format!("unknown key \"{}\" of {what}", key.text);
            let keys = format!("the keys of {what}");
            let help = suggest::help(&self.faults, &key.text, known.iter().copied(), &keys);
            self.faults.push(Diagnostic::error(Some(&key.place), message).help(help));
            meant.extend(suggest::closest(&key.text, known.iter().copied()));
        }
        meant
    }

    /// A time with its unit, longer than none.
    pub(crate) fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let span = self.span(node, what)?;
        if span.is_zero() {
            self.error(&node.place, format!("{what} must be longer than none"));
            return None;
        }
        Some(span)
    }

    /// A time with its unit.
    pub(crate) fn span(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        if text.trim_start().starts_with('-') {
            self.error(&node.place, format!("{what} must not be negative"));
            return None;
        }
        let param = Param {
            name: "",
            kind: ParamKind::Duration,
            default: None,
            optional: false,
            range: None,
            unit: "",
            help: "",
        };
        match param.parse(text) {
            Ok(ParamValue::Duration(duration)) => Some(duration),
            Ok(_) => None,
            Err(error) => {
                self.error(&node.place, format!("{what}: {error}"));
                None
            }
        }
    }

    /// A port written `node.port`, or `node` for the only one.
    pub(crate) fn port(&mut self, node: &Node, what: &str) -> Option<(PortRef, PortPlaces)> {
        let place = &node.place;
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
            self.error(place, message);
            return None;
        }
        // The parts of a quoted or folded text are not where they seem to be.
        let exact = place.text() == text;
        let part = |span: std::ops::Range<usize>| {
            Some(if exact { place.part(span) } else { place.clone() })
        };
        let behind = if without_port { 0..name.len() } else { name.len() + 1..text.len() };
        let places = PortPlaces { node: part(0..name.len()), port: part(behind), reported: false };
        Some((PortRef { node: name.to_owned(), port: port.to_owned() }, places))
    }
}
