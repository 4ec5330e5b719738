//! Graph files that others are based on.
//!
//! ```yaml
//! include: common.yaml                # or several: [sensors.yaml, models.yaml]
//! nodes:
//!   vad: {params: {threshold: 0.7}}   # changes a node of common.yaml, as a profile does
//!   log: {use: event_log, in: vad}    # adds one
//! ```
//!
//! What the file says goes before what it includes, and later files before earlier ones. A path is
//! relative to the file that it stands in.

use std::{mem, path::Path, sync::Arc};

use crate::{
    Diagnostic, Location,
    diagnostic::Source,
    load::{
        overlay::change_node,
        placement::change_machines,
        read::KEYS,
        read_file,
        reader::{MAX_DEPTH, Reader},
    },
    yaml::{Key, Node, Value},
};

/// Most graph files of a graph.
const MAX_FILES: usize = 1000;

impl Reader {
    /// Reads the graph file that `file` names with its includes, and returns its tree and start;
    /// `what` names the setting.
    pub(crate) fn file(&mut self, file: &Node, what: &str) -> Option<(Node, Location)> {
        let path = self.text(file, what)?;
        let path = file.location.folder().unwrap_or(Path::new("")).join(path);
        let excess = if self.depth >= MAX_DEPTH {
            let help = "a graph cannot be a part of itself";
            Some((format!("graph files nest deeper than {MAX_DEPTH} levels"), help))
        } else if self.files >= MAX_FILES {
            let help = "do files include each other?";
            Some((format!("a graph is made of more than {MAX_FILES} files"), help))
        } else {
            None
        };
        if let Some((message, help)) = excess {
            // Reported once: there may be thousands.
            if !mem::replace(&mut self.too_many, true) {
                let fault = Diagnostic::error(Some(&file.location), message);
                self.faults.push(fault.help(Some(help.to_owned())));
            }
            return None;
        }
        let text = match read_file(&path) {
            Ok(text) => text,
            Err(reason) => {
                self.error(&file.location, format!("cannot read {}: {reason}", path.display()));
                return None;
            }
        };
        self.take(text.len(), &file.location)?;
        self.files += 1;
        self.origin.read(path.clone(), &text);
        let (name, order) = (path.display().to_string(), Source::PARTS + self.files);
        let source = Arc::new(Source { name, text, order });
        let mut tree = self.tree(&source, 0..source.text.len())?;
        let start = Location::new(&source, 0..0);
        self.map(&tree, "a graph file", "its parts")?;
        self.include(&mut tree);
        Some((tree, start))
    }

    /// Merges the includes of `tree` below its own settings.
    pub(crate) fn include(&mut self, tree: &mut Node) {
        let Some(include) = tree.get("include").filter(|node| !node.is_null()).cloned() else {
            return;
        };
        let files = match &include.value {
            Value::Seq(items) => items.as_slice(),
            _ => std::slice::from_ref(&include),
        };
        let own = mem::replace(tree, Node::empty_map(tree.location.clone()));
        for file in files {
            self.depth += 1;
            let included = self.file(file, "\"include\"");
            self.depth -= 1;
            let Some((included, start)) = included else { continue };
            if let Some(map) = included.as_map() {
                self.keys(map, &KEYS, "a graph");
            }
            if included.get("afferent").is_none() {
                let message =
                    "the file does not begin with \"afferent: 1\", the version of its form";
                self.error(&start, message);
            }
            merge(tree, included);
        }
        merge(tree, own);
    }
}

/// Merges `over` on top of `base`, both graph files.
fn merge(base: &mut Node, over: Node) {
    let Value::Map(entries) = over.value else { return };
    for (key, value) in entries {
        let is_named = ["machines", "nodes", "params", "inputs", "outputs", "profiles"]
            .contains(&key.text.as_str());
        let known = base.get_mut(&key.text).filter(|known| is_named && known.as_map().is_some());
        let (Some(known), Some(_)) = (known, value.as_map()) else {
            base.set(key, value);
            continue;
        };
        let Value::Map(entries) = value.value else { continue };
        if key.text == "machines" {
            change_machines(known, entries);
            continue;
        }
        for (name, value) in entries {
            merge_entry(known, name, value, key.text == "nodes");
        }
    }
}

fn merge_entry(base: &mut Node, name: Key, value: Node, is_node: bool) {
    match base.get_mut(&name.text) {
        Some(_) if is_node && value.is_null() => base.remove(&name.text),
        Some(node) if is_node => change_node(node, value),
        _ => base.set(name, value),
    }
}
