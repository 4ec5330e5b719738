//! Profiles and `--set`: both change the tree of the file, so every part keeps its location.
//!
//! A node of a profile with `use` replaces type and parameters, and keeps its inputs unless it
//! gives others. Otherwise it changes the named settings one by one. `~` removes a node or a
//! setting. Values of parameters and settings of machines are replaced one by one; `budget`,
//! `waterfall` and `interrupt` as a whole.
//!
//! `ears/vad` is the node `vad` of the subgraph `ears`. Its changes are kept with that node, `ears:
//! {nodes: {vad: …}}`, until the file of the subgraph is read.

use std::{ops::Range, sync::Arc};

use crate::{
    Diagnostic, Location,
    diagnostic::Source,
    load::{
        placement::change_machines,
        reader::{MAX_DEPTH, Reader},
        subgraph,
    },
    suggest,
    yaml::{Key, Map, Node, Value},
};

/// Keys of a profile.
const KEYS: [&str; 6] = ["machines", "nodes", "params", "budget", "waterfall", "interrupt"];

impl Reader {
    /// Checks every profile, applied or not. Changes of subgraphs are checked when they are
    /// applied.
    pub(crate) fn check_profiles(&mut self, tree: &Node) {
        let Some(profiles) = tree.get("profiles") else { return };
        let Some(profiles) = self.map(profiles, "\"profiles\"", "profiles by name") else { return };
        for (name, profile) in profiles {
            let what = format!("profile \"{}\"", name.text);
            let Some(map) = self.map(profile, &what, "what it changes") else { continue };
            self.keys(map, &KEYS, &what);
            if let Some(machines) = profile.get("machines") {
                self.check_machines(tree, &what, machines);
            }
            if let Some(nodes) = profile.get("nodes") {
                self.check_changes(tree, &what, nodes);
            }
            let Some(params) = profile.get("params") else { continue };
            let params = self.map(params, &format!("\"params\" of {what}"), "values by name");
            for (key, _) in params.into_iter().flatten() {
                self.check_param(tree, &what, key);
            }
        }
    }

    /// Checks the changes of nodes that `by` makes.
    fn check_changes(&mut self, tree: &Node, by: &str, nodes: &Node) {
        let what = format!("\"nodes\" of {by}");
        let Some(nodes) = self.map(nodes, &what, "nodes by name") else { return };
        for (key, change) in nodes {
            self.check_change(tree, by, key, change);
        }
    }

    fn check_change(&mut self, tree: &Node, by: &str, key: &Key, change: &Node) {
        let does = if change.is_null() { "removes" } else { "changes" };
        let (node, mut change) = outermost(key.clone(), change.clone());
        // Values that need a substitution are unknown here.
        Self::forget_unfilled(&mut change);
        let is_new = change.get("use").is_some() || change.get("graph").is_some();
        let name = format!("{}{}", self.within, node.text);
        match tree.get("nodes").and_then(|nodes| nodes.get(&node.text)) {
            None if !is_new => {
                let path = format!("{}{}", self.within, key.text);
                let message = format!("{by} {does} node \"{path}\", which the graph does not have");
                let known: Vec<_> =
                    node_names(tree).iter().map(|name| format!("{}{name}", self.within)).collect();
                let known = known.iter().map(String::as_str);
                let help = suggest::help(&self.faults, &name, known, "the nodes");
                self.faults.push(Diagnostic::error(Some(&key.location), message).help(help));
            }
            Some(known) if leads_nowhere(known, &change) => {
                let message = format!("{by} {does} a node in \"{name}\", which is not a graph");
                self.error(&key.location, message);
            }
            Some(known) if known.get("graph").is_some() && !is_new && !change.is_null() => {
                let what = format!("node \"{name}\"");
                let Some(map) = self.map(&change, &what, "what is changed") else { return };
                self.keys(map, &subgraph::KEYS, &what);
            }
            _ if !change.is_null() && change.get("graph").is_none() => {
                self.node(&node, &change, true);
            }
            _ => {}
        }
    }

    /// Checks the changes of machines that the profile `by` makes.
    fn check_machines(&mut self, tree: &Node, by: &str, machines: &Node) {
        let what = format!("\"machines\" of {by}");
        let Some(map) = self.map(machines, &what, "machines by name") else { return };
        let known = tree.get("machines").and_then(Node::as_map);
        let known: Vec<_> = known.into_iter().flatten().map(|(key, _)| key.text.as_str()).collect();
        for (key, change) in map {
            if change.is_null() && !known.contains(&key.text.as_str()) {
                let name = &key.text;
                let message =
                    format!("{by} removes machine \"{name}\", which the graph does not have");
                self.unknown(&key.location, message, name, known.iter().copied(), "the machines");
            }
            let mut change = change.clone();
            // Values that need a substitution are unknown here.
            Self::forget_unfilled(&mut change);
            self.machine(key, &change);
        }
    }

    fn check_param(&mut self, tree: &Node, by: &str, key: &Key) {
        let known = tree.get("params").and_then(Node::as_map);
        let known = known.into_iter().flatten().map(|(key, _)| key.text.as_str());
        if known.clone().any(|name| name == key.text) {
            return;
        }
        let message =
            format!("{by} sets parameter \"{}\", which the graph does not have", key.text);
        self.unknown(&key.location, message, &key.text, known, "the parameters of the graph");
    }

    /// Applies the profile `name` of the command line to `tree`; returns the nodes that it removes.
    pub(crate) fn apply_profile(&mut self, tree: &mut Node, name: &str) -> Vec<(String, String)> {
        let source = Source { name: "--profile".into(), text: name.to_owned(), order: 1 };
        let location = Location::new(&Arc::new(source), 0..name.len());
        self.change_by_profile(tree, name, &location)
    }

    /// Applies a profile whose name is at `location`.
    pub(crate) fn change_by_profile(
        &mut self,
        tree: &mut Node,
        name: &str,
        location: &Location,
    ) -> Vec<(String, String)> {
        let profiles = tree.get("profiles").and_then(Node::as_map);
        let found = profiles.and_then(|all| all.iter().find(|(key, _)| key.text == name));
        let Some((_, profile)) = found else {
            let names =
                profiles.iter().flat_map(|all| all.iter().map(|(key, _)| key.text.as_str()));
            let help = suggest::help(&self.faults, name, names, "the profiles");
            let message = format!("there is no profile \"{name}\"");
            self.faults.push(Diagnostic::error(Some(location), message).help(help));
            return Vec::new();
        };
        let mut removed = Vec::new();
        for (key, value) in profile.as_map().cloned().unwrap_or_default() {
            match (key.text.as_str(), value.as_map()) {
                ("machines", Some(changes)) => {
                    if let Some(machines) = entries(tree, "machines", &key.location) {
                        change_machines(machines, changes.clone());
                    }
                }
                ("nodes", Some(changes)) => {
                    removed = change_nodes(tree, changes.clone(), &format!("profile \"{name}\""));
                }
                ("params", Some(values)) => {
                    values.iter().for_each(|(key, value)| change_param(tree, key, value));
                }
                ("budget" | "waterfall" | "interrupt", _) => tree.set(key, value),
                _ => {}
            }
        }
        removed
    }

    /// Applies [`LoadOptions::nodes`] to `tree`; returns the nodes that it removes.
    ///
    /// [`LoadOptions::nodes`]: crate::LoadOptions::nodes
    pub(crate) fn apply_nodes(&mut self, tree: &mut Node, nodes: &Node) -> Vec<(String, String)> {
        let by = format!("the file \"{}\"", nodes.location.file());
        self.check_changes(tree, &by, nodes);
        change_nodes(tree, nodes.as_map().cloned().unwrap_or_default(), &by)
    }

    /// Applies the changes `nodes` of the outer graph to the subgraph `tree`; returns the nodes
    /// that they remove.
    pub(crate) fn apply_outer(&mut self, tree: &mut Node, nodes: &Node) -> Vec<(String, String)> {
        let what = format!("\"nodes\" of node \"{}\"", self.within.trim_end_matches('/'));
        let changes = self.map(nodes, &what, "nodes by name").cloned().unwrap_or_default();
        let mut removed = Vec::new();
        for (key, change) in changes {
            let by = match key.location.file() {
                "--set" => "--set".to_owned(),
                file => format!("the file \"{file}\""),
            };
            self.check_change(tree, &by, &key, &change);
            removed.extend(change_nodes(tree, vec![(key, change)], &by));
        }
        removed
    }

    /// Applies `--set` number `number`: `node.param=value`, or `param=value` for a parameter of the
    /// graph.
    pub(crate) fn apply_set(&mut self, tree: &mut Node, set: &str, number: usize) {
        let source = Arc::new(Source { name: "--set".into(), text: set.into(), order: number + 1 });
        let path = set.split_once('=').map_or("", |(path, _)| path);
        let (node, param) = match path.split_once('.') {
            Some((node, param)) => (Some(node), param),
            None => (None, path),
        };
        if node == Some("") || param.is_empty() || param.contains(['.', '/']) {
            let whole = Location::new(&source, 0..set.len());
            let message =
                format!("\"{set}\" is not written \"node.param=value\" or \"param=value\"");
            self.error(&whole, message);
            return;
        }
        let location = Location::new(&source, path.len() - param.len()..path.len());
        let param = Key { text: param.to_owned(), location };
        let value_span = path.len() + 1..set.len();
        let Some(node) = node else {
            self.check_param(tree, "--set", &param);
            let known = tree.get("params").and_then(|params| params.get(&param.text));
            let is_collection =
                known.is_some_and(|known| matches!(known.value, Value::Map(_) | Value::Seq(_)));
            let value = match is_collection {
                true => self.tree(&source, value_span),
                false => Some(as_typed(&source, value_span)),
            };
            value.iter().for_each(|value| change_param(tree, &param, value));
            return;
        };
        let value = as_typed(&source, value_span);
        let location = Location::new(&source, 0..node.len());
        let key = Key { text: node.to_owned(), location };
        let mut change = Node::empty_map(key.location.clone());
        set_param(&mut change, param, value);
        self.check_change(tree, "--set", &key, &change);
        change_nodes(tree, vec![(key, change)], "--set");
    }
}

/// Value of a `--set` as the user typed it: YAML has no meaning there, except that `~` restores the
/// default.
fn as_typed(source: &Arc<Source>, span: Range<usize>) -> Node {
    let text = source.text[span.clone()].to_owned();
    let quoted = text != "~";
    Node::leaf(Location::new(source, span), Value::Scalar { text, quoted })
}

/// Node of this graph that a change of the node `key` concerns: of `ears/vad` the node `ears`, with
/// the change of `vad` in it.
fn outermost(key: Key, change: Node) -> (Key, Node) {
    // A longer path names no node.
    let path = key.text.rsplit_once('/').filter(|_| key.text.matches('/').count() <= MAX_DEPTH);
    let Some((outer, inner)) = path else { return (key, change) };
    let part = |text: &str, location| Key { text: text.to_owned(), location };
    let mut nodes = Node::empty_map(key.location.clone());
    nodes.set(part(inner, key.location.clone()), change);
    let mut change = Node::empty_map(key.location.clone());
    change.set(part("nodes", key.location.clone()), nodes);
    outermost(part(outer, key.location.clone()), change)
}

/// True if `change` concerns nodes of `node`, which is not a subgraph.
fn leads_nowhere(node: &Node, change: &Node) -> bool {
    let is_graph = node.get("graph").is_some() || change.get("graph").is_some();
    change.get("nodes").is_some() && !is_graph
}

/// Changes the nodes of `tree`; returns the removed ones, with the origin of the change.
fn change_nodes(tree: &mut Node, changes: Map, by: &str) -> Vec<(String, String)> {
    let mut removed = Vec::new();
    let Some(nodes) = tree.get_mut("nodes") else { return removed };
    for (key, change) in changes {
        let (key, change) = outermost(key, change);
        if change.is_null() {
            nodes.remove(&key.text);
            removed.push((key.text, by.to_owned()));
        } else if let Some(node) = nodes.get_mut(&key.text) {
            if !leads_nowhere(node, &change) {
                change_node(node, change);
            }
        } else if change.get("use").is_some() || change.get("graph").is_some() {
            nodes.set(key, change);
        }
    }
    removed
}

/// Replaces the value of a parameter of the graph.
fn change_param(tree: &mut Node, key: &Key, value: &Node) {
    if let Some(param) = tree.get_mut("params").and_then(|params| params.get_mut(&key.text)) {
        *param = value.clone();
    }
}

/// Names of the nodes of the graph.
fn node_names(tree: &Node) -> Vec<&str> {
    let nodes = tree.get("nodes").and_then(Node::as_map);
    nodes.into_iter().flatten().map(|(key, _)| key.text.as_str()).collect()
}

/// Changes `node` of a graph file as a profile or an including file does: setting by setting,
/// unless `change` sets the type.
pub fn change_node(node: &mut Node, change: Node) {
    if node.as_map().is_none() {
        return;
    }
    if change.get("use").is_some() || change.get("graph").is_some() {
        ["use", "graph", "params", "nodes", "profile"].iter().for_each(|key| node.remove(key));
    }
    let Value::Map(entries) = change.value else { return };
    for (key, value) in entries {
        match value.value {
            Value::Map(params) if key.text == "params" => {
                for (key, value) in params {
                    set_param(node, key, value);
                }
            }
            Value::Map(changes) if key.text == "nodes" => {
                for (key, change) in changes {
                    add_change(node, key, change);
                }
            }
            _ => node.set(key, value),
        }
    }
}

/// Sets one parameter of `node`; null restores the default.
fn set_param(node: &mut Node, key: Key, value: Node) {
    if let Some(params) = entries(node, "params", &key.location) {
        params.set(key, value);
    }
}

/// Adds a change of the node `key` of the subgraph `node`, on top of earlier ones.
fn add_change(node: &mut Node, key: Key, change: Node) {
    let (key, change) = outermost(key, change);
    let Some(nodes) = entries(node, "nodes", &key.location) else { return };
    match nodes.get_mut(&key.text) {
        Some(known) if known.as_map().is_some() && change.as_map().is_some() => {
            change_node(known, change);
        }
        _ => nodes.set(key, change),
    }
}

/// Map at `key` of `node`, which is created if absent.
fn entries<'n>(node: &'n mut Node, key: &str, location: &Location) -> Option<&'n mut Node> {
    if node.get(key).is_none_or(Node::is_null) {
        let key = Key { text: key.to_owned(), location: location.clone() };
        node.set(key, Node::empty_map(location.clone()));
    }
    node.get_mut(key)
}
