//! Profiles and `--set`: both change the tree of the file, so that every part keeps its place.
//!
//! A profile's node that says `use` replaces what the node is and its settings, and keeps its
//! inputs unless it gives others. Otherwise it changes what it names, settings one by one. `~`
//! removes a node or a setting.

use std::sync::Arc;

use crate::{
    Diagnostic, Place,
    diagnostic::Source,
    load::reader::Reader,
    suggest,
    yaml::{self, Key, Map, Node, Value},
};

impl Reader {
    /// Looks at every profile, applied or not.
    pub(crate) fn check_profiles(&mut self, tree: &Node) {
        let Some(profiles) = tree.get("profiles") else { return };
        let Some(profiles) = self.map(profiles, "\"profiles\"", "profiles by name") else { return };
        for (name, profile) in profiles {
            let what = format!("profile \"{}\"", name.text);
            let Some(map) = self.map(profile, &what, "what it changes") else { continue };
            self.keys(map, &["nodes"], &what);
            let Some(nodes) = profile.get("nodes") else { continue };
            self.check_changes(tree, &what, nodes);
        }
    }

    /// Looks at the changes of nodes that `by` makes.
    fn check_changes(&mut self, tree: &Node, by: &str, nodes: &Node) {
        let what = format!("\"nodes\" of {by}");
        let Some(nodes) = self.map(nodes, &what, "nodes by name") else { return };
        for (key, change) in nodes {
            self.check_change(tree, by, key, change);
        }
    }

    fn check_change(&mut self, tree: &Node, by: &str, key: &Key, change: &Node) {
        let known = node_names(tree);
        if !known.contains(&key.text.as_str())
            && change.get("use").is_none()
            && change.get("graph").is_none()
        {
            let does = if change.is_null() { "removes" } else { "changes" };
            let message =
                format!("{by} {does} node \"{}\", which the graph does not have", key.text);
            let help = suggest::help(&self.faults, &key.text, known, "the nodes");
            self.faults.push(Diagnostic::error(Some(&key.place), message).help(help));
        } else if !change.is_null() && change.get("graph").is_none() {
            self.node(key, change, true);
        }
    }

    /// Changes `tree` as the profile `name` says; returns the nodes that it removes.
    pub(crate) fn apply_profile(&mut self, tree: &mut Node, name: &str) -> Vec<(String, String)> {
        let profiles = tree.get("profiles").and_then(Node::as_map);
        let found = profiles.and_then(|all| all.iter().find(|(key, _)| key.text == name));
        let Some((_, profile)) = found else {
            let names =
                profiles.iter().flat_map(|all| all.iter().map(|(key, _)| key.text.as_str()));
            let help = suggest::help(&self.faults, name, names, "the profiles");
            let message = format!("there is no profile \"{name}\"");
            let source = Source { name: "--profile".into(), text: name.to_owned(), order: 1 };
            let place = Place::new(&Arc::new(source), 0..name.len());
            self.faults.push(Diagnostic::error(Some(&place), message).help(help));
            return Vec::new();
        };
        let changes = profile.get("nodes").and_then(Node::as_map).cloned().unwrap_or_default();
        change_nodes(tree, changes, &format!("profile \"{name}\""))
    }

    /// Changes the nodes of `tree` as [`LoadOptions::nodes`] says; returns those that it removes.
    ///
    /// [`LoadOptions::nodes`]: crate::LoadOptions::nodes
    pub(crate) fn apply_nodes(&mut self, tree: &mut Node, nodes: &Node) -> Vec<(String, String)> {
        let by = format!("the file \"{}\"", nodes.place.file());
        self.check_changes(tree, &by, nodes);
        change_nodes(tree, nodes.as_map().cloned().unwrap_or_default(), &by)
    }

    /// Changes one setting of `tree` as `set` says, the `number`th of its kind.
    pub(crate) fn apply_set(&mut self, tree: &mut Node, set: &str, number: usize) {
        let source = Arc::new(Source { name: "--set".into(), text: set.into(), order: number + 1 });
        let whole = Place::new(&source, 0..set.len());
        let parts = set.split_once('=').and_then(|(path, _)| path.split_once('.'));
        let Some((name, param)) = parts
            .filter(|(name, param)| !name.is_empty() && !param.is_empty() && !param.contains('.'))
        else {
            self.error(&whole, format!("\"{set}\" is not written \"node.param=value\""));
            return;
        };
        let known = node_names(tree);
        if !known.contains(&name) {
            let help = suggest::help(&self.faults, name, known, "the nodes");
            let message = format!("there is no node \"{name}\" to set a parameter of");
            let place = Place::new(&source, 0..name.len());
            self.faults.push(Diagnostic::error(Some(&place), message).help(help));
            return;
        }
        let path = name.len() + 1 + param.len();
        let place = Place::new(&source, name.len() + 1..path);
        let key = Key { text: param.to_owned(), place };
        let Some(value) = yaml::parse(&source, path + 1..set.len(), &mut self.faults) else {
            return;
        };
        let Some(node) = tree.get_mut("nodes").and_then(|nodes| nodes.get_mut(name)) else {
            return;
        };
        set_param(node, key, value);
    }
}

/// Changes the nodes of `tree`; returns those that are removed, with who does it.
fn change_nodes(tree: &mut Node, changes: Map, by: &str) -> Vec<(String, String)> {
    let mut removed = Vec::new();
    let Some(nodes) = tree.get_mut("nodes") else { return removed };
    for (key, change) in changes {
        if change.is_null() {
            nodes.remove(&key.text);
            removed.push((key.text, by.to_owned()));
        } else if let Some(node) = nodes.get_mut(&key.text) {
            change_node(node, change);
        } else if change.get("use").is_some() || change.get("graph").is_some() {
            nodes.set(key, change);
        }
    }
    removed
}

/// The nodes of the graph.
pub(crate) fn node_names(tree: &Node) -> Vec<&str> {
    let nodes = tree.get("nodes").and_then(Node::as_map);
    nodes.into_iter().flatten().map(|(key, _)| key.text.as_str()).collect()
}

/// Changes `node` as a profile says, or a file that includes the one of the node.
pub(crate) fn change_node(node: &mut Node, change: Node) {
    if node.as_map().is_none() {
        return;
    }
    if change.get("use").is_some() || change.get("graph").is_some() {
        ["use", "graph", "params"].iter().for_each(|key| node.remove(key));
    }
    let Value::Map(entries) = change.value else { return };
    for (key, value) in entries {
        match value.value {
            Value::Map(params) if key.text == "params" => {
                for (key, value) in params {
                    set_param(node, key, value);
                }
            }
            _ => node.set(key, value),
        }
    }
}

/// Sets one setting of `node`; nothing removes it.
fn set_param(node: &mut Node, key: Key, value: Node) {
    if node.get("params").is_none_or(Node::is_null) {
        let params = Key { text: "params".to_owned(), place: key.place.clone() };
        node.set(params, Node::empty_map(key.place.clone()));
    }
    let Some(params) = node.get_mut("params") else { return };
    if value.is_null() {
        params.remove(&key.text);
    } else {
        params.set(key, value);
    }
}
