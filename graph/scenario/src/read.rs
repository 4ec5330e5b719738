//! Reader of scenario files.
//!
//! | module   | holds                                                   |
//! |----------|---------------------------------------------------------|
//! | `vary`   | one case for every combination of values                |
//! | `turns`  | turns of the simulated user                             |
//! | `expect` | expectations and event patterns                         |
//! | `values` | levels and numbers                                      |

mod expect;
mod turns;
mod values;
mod vary;

use std::{collections::BTreeMap, path::Path, time::Duration};

use afferent_spec::{
    Diagnostic, Diagnostics, Location, Reader, change_node,
    yaml::{Key, Map, Node, Value},
};

use crate::spec::{Case, Check, Echo, Output, Pattern, SourceSpec, Turn};

/// Keys of a scenario file, and of a case in it.
const KEYS: [&str; 13] = [
    "afferent", "scenario", "graph", "profile", "set", "nodes", "source", "duration", "tail",
    "vary", "turns", "expect", "cases",
];
const CASE_KEYS: [&str; 11] = [
    "name", "graph", "profile", "set", "nodes", "source", "duration", "tail", "vary", "turns",
    "expect",
];
const SOURCE_KEYS: [&str; 5] = ["node", "rate", "block", "noise", "echo"];
/// Supported version of scenario files.
const VERSION: &str = "1";
/// Maximum number of cases in a file.
const MAX_CASES: usize = 1000;

/// Reads the cases of the scenario file `path`, in file order.
///
/// # Errors
/// Every error in the file with its location. Graphs are checked when a case runs.
pub fn load(path: &Path) -> Result<Vec<Case>, Diagnostics> {
    let mut reader = Reader::default();
    let tree = reader.open(path);
    cases(reader, tree, path)
}

/// Parses the `text` of a scenario file. `path` gives its folder and its name in messages.
///
/// # Errors
/// As [`load`].
///
/// ```
/// let text = "afferent: 1\nscenario: lights\ngraph: lights.yaml\nturns:\n  - {sya: on}\n";
/// let faults = afferent_scenario::parse(text, "lights_test.yaml".as_ref()).unwrap_err();
/// assert!(faults.to_string().contains("did you mean \"say\"?"), "{faults}");
/// ```
pub fn parse(text: &str, path: &Path) -> Result<Vec<Case>, Diagnostics> {
    let mut reader = Reader::default();
    let tree = reader.parse(text, path);
    cases(reader, tree, path)
}

fn cases(mut reader: Reader, tree: Option<Node>, path: &Path) -> Result<Vec<Case>, Diagnostics> {
    let mut cases = Vec::new();
    if let Some(tree) = tree {
        let folder = path.parent().unwrap_or(Path::new(""));
        file(&mut reader, &tree, folder, &mut cases);
    }
    let faults = Diagnostics::new(reader.faults);
    if faults.errors() > 0 { Err(faults) } else { Ok(cases) }
}

/// Reads a file into cases.
fn file(reader: &mut Reader, tree: &Node, folder: &Path, cases: &mut Vec<Case>) {
    let Some(map) = reader.map(tree, "a scenario file", &KEYS.join(", ")) else { return };
    let meant = reader.keys(map, &KEYS, "a scenario file");
    match tree.get("afferent") {
        Some(node) => {
            let version = reader.text(node, "\"afferent\"").unwrap_or(VERSION);
            if version != VERSION {
                let message = format!(
                    "version \"{version}\" of scenario files is not supported; use version 1"
                );
                reader.error(&node.location, message);
            }
        }
        None if meant.contains(&"afferent") => {}
        None => {
            let message = "the file must start with \"afferent: 1\", the version of the format";
            reader.error(&tree.location, message);
        }
    }
    let name = tree.get("scenario").and_then(|node| {
        let text = reader.text(node, "\"scenario\"")?.to_owned();
        Some((text, node.location.clone()))
    });
    if name.is_none() && tree.get("scenario").is_none() && !meant.contains(&"scenario") {
        reader.error(&tree.location, "the file has no name: \"scenario\" is missing");
    }
    let (name, location) = name.unwrap_or_else(|| (String::new(), tree.location.clone()));
    let base: Map =
        map.iter().filter(|(key, _)| CASE_KEYS.contains(&key.text.as_str())).cloned().collect();
    let base = Node::leaf(tree.location.clone(), Value::Map(base));
    let Some(list) = tree.get("cases") else {
        return varied(reader, &base, &name, &location, folder, cases);
    };
    let Value::Seq(items) = &list.value else {
        return reader.wrong(list, "\"cases\"", "a list of cases");
    };
    for (number, item) in items.iter().enumerate() {
        let what = format!("case {}", number + 1);
        let Some(map) = reader.map(item, &what, "what it changes of the scenario") else {
            continue;
        };
        reader.keys(map, &CASE_KEYS, &what);
        let (own, location) = match item.get("name") {
            Some(node) => {
                let text = reader.text(node, &format!("\"name\" of {what}")).unwrap_or_default();
                (text.to_owned(), node.location.clone())
            }
            None => ((number + 1).to_string(), item.location.clone()),
        };
        let mut tree = base.clone();
        for (key, value) in map {
            merge(&mut tree, key, value);
        }
        varied(reader, &tree, &format!("{name}/{own}"), &location, folder, cases);
    }
}

/// Merges the value of `key` in a case into the settings of the file.
fn merge(tree: &mut Node, key: &Key, value: &Node) {
    let adds = ["set", "nodes", "vary"].contains(&key.text.as_str());
    let known = tree.get_mut(&key.text).filter(|known| adds && known.as_map().is_some());
    let (Some(known), Some(entries)) = (known, value.as_map()) else {
        return tree.set(key.clone(), value.clone());
    };
    let is_nodes = key.text == "nodes";
    for (key, value) in entries {
        let node = known.get_mut(&key.text).filter(|node| is_nodes && node.as_map().is_some());
        match (node, value.as_map()) {
            (Some(node), Some(_)) => change_node(node, value.clone()),
            _ => known.set(key.clone(), value.clone()),
        }
    }
}

/// Adds a case for every combination of the varied values in `tree`.
fn varied(
    reader: &mut Reader,
    tree: &Node,
    name: &str,
    location: &Location,
    folder: &Path,
    cases: &mut Vec<Case>,
) {
    for params in vary::combinations(reader, tree.get("vary")) {
        if cases.len() >= MAX_CASES {
            return reader
                .error(location, format!("a scenario file has at most {MAX_CASES} cases"));
        }
        let mut tree = tree.clone();
        tree.remove("vary");
        reader.fill(&mut tree, &params);
        let values: Vec<_> = params
            .iter()
            .filter_map(|(key, value)| match &value.value {
                Value::Scalar { text, .. } => Some(format!("{}={text}", key.text)),
                _ => None,
            })
            .collect();
        let name = match values.as_slice() {
            [] => name.to_owned(),
            values => format!("{name} [{}]", values.join(", ")),
        };
        let case = Reading { reader, patterns: Vec::new(), names: BTreeMap::new() };
        cases.extend(case.case(&tree, name, location, folder));
    }
}

/// Reader of one case.
struct Reading<'r> {
    reader: &'r mut Reader,
    patterns: Vec<Pattern>,
    /// Named turns.
    names: BTreeMap<String, usize>,
}

impl Reading<'_> {
    fn case(
        mut self,
        tree: &Node,
        name: String,
        location: &Location,
        folder: &Path,
    ) -> Option<Case> {
        let faults = self.reader.faults.len();
        let graph = match tree.get("graph") {
            Some(node) => {
                let path = self.reader.text(node, "\"graph\"").map(|text| folder.join(text));
                path.map(|path| (path, node.location.clone()))
            }
            None => {
                let message = "the scenario has no \"graph\"";
                self.reader.error(location, message);
                None
            }
        };
        let profile = tree.get("profile").filter(|node| !node.is_null()).and_then(|node| {
            let text = self.reader.text(node, "\"profile\"")?.to_owned();
            Some((text, node.location.clone()))
        });
        let nodes = self.nodes(tree);
        let source = self.source(tree.get("source"));
        let duration = self.time(tree, "duration").unwrap_or(DEFAULT_DURATION);
        let tail = self.time(tree, "tail").unwrap_or(DEFAULT_TAIL);
        let (turns, checks) = self.turns_and_checks(tree, folder);
        if ["turns", "expect"].iter().all(|key| tree.get(key).is_none_or(Node::is_null)) {
            let message = "the scenario has neither \"turns\" nor \"expect\"";
            self.reader.error(location, message);
        }
        let (graph, graph_location) = graph.filter(|_| self.reader.faults.len() == faults)?;
        let (patterns, location) = (self.patterns, location.clone());
        Some(Case {
            name,
            location,
            graph,
            graph_location,
            profile,
            nodes,
            source,
            duration,
            tail,
            turns,
            checks,
            patterns,
        })
    }

    fn turns_and_checks(&mut self, tree: &Node, folder: &Path) -> (Vec<Turn>, Vec<Check>) {
        let (mut turns, mut checks) = (Vec::new(), Vec::new());
        if let Some(list) = tree.get("turns").filter(|node| !node.is_null()) {
            match &list.value {
                Value::Seq(items) => self.turns(items, folder, &mut turns, &mut checks),
                _ => self.reader.wrong(list, "\"turns\"", "a list of turns"),
            }
        }
        if let Some(list) = tree.get("expect").filter(|node| !node.is_null()) {
            self.checks(list, None, &mut checks);
        }
        (turns, checks)
    }

    fn time(&mut self, tree: &Node, key: &str) -> Option<Duration> {
        let node = tree.get(key).filter(|node| !node.is_null())?;
        self.reader.span(node, &format!("\"{key}\""))
    }

    /// Combines the node changes of `nodes` and `set`.
    fn nodes(&mut self, tree: &Node) -> Option<Node> {
        let given = tree.get("nodes").filter(|node| !node.is_null());
        let set = tree.get("set").filter(|node| !node.is_null());
        let mut nodes = given.or(set).map(|node| Node::empty_map(node.location.clone()))?;
        if let Some(given) = given {
            let map = self.reader.map(given, "\"nodes\"", "changes of nodes by name")?;
            map.iter().for_each(|(key, value)| nodes.set(key.clone(), value.clone()));
        }
        let Some(set) = set else { return Some(nodes) };
        for (key, value) in self.reader.map(set, "\"set\"", "values by \"node.param\"")? {
            let Some((name, param)) = key.text.split_once('.') else {
                let message = format!("\"{}\" is not written \"node.param\"", key.text);
                self.reader.error(&key.location, message);
                continue;
            };
            let key = |text: &str| Key { text: text.to_owned(), location: key.location.clone() };
            let empty = || Node::empty_map(key("").location);
            if nodes.get(name).is_none_or(Node::is_null) {
                nodes.set(key(name), empty());
            }
            let Some(node) = nodes.get_mut(name) else { continue };
            if node.get("params").is_none_or(Node::is_null) {
                node.set(key("params"), empty());
            }
            if let Some(params) = node.get_mut("params") {
                params.set(key(param), value.clone());
            }
        }
        Some(nodes)
    }

    /// Reads the settings of the source that receives the simulated user.
    fn source(&mut self, node: Option<&Node>) -> SourceSpec {
        let mut spec = SourceSpec {
            node: None,
            rate: 16_000,
            block: Duration::from_millis(20),
            noise_dbfs: None,
            echo: None,
        };
        let Some(node) = node.filter(|node| !node.is_null()) else { return spec };
        if let Value::Scalar { text, .. } = &node.value {
            spec.node = Some((text.clone(), node.location.clone()));
            return spec;
        }
        let what = "\"source\"";
        let Some(map) = self.reader.map(node, what, &SOURCE_KEYS.join(", ")) else { return spec };
        self.reader.keys(map, &SOURCE_KEYS, what);
        if let Some(name) = node.get("node") {
            let text = self.reader.text(name, "\"node\" of \"source\"").map(str::to_owned);
            spec.node = text.map(|text| (text, name.location.clone()));
        }
        if let Some(rate) = node.get("rate") {
            let what = "\"rate\" of \"source\", in Hz,";
            spec.rate = self.int(rate, what, 1000..=192_000).unwrap_or(spec.rate);
        }
        if let Some(block) = node.get("block") {
            let what = "\"block\" of \"source\"";
            let found = self.reader.span(block, what);
            let range = Duration::from_millis(1)..=Duration::from_secs(1);
            match found {
                Some(found) if range.contains(&found) => spec.block = found,
                Some(_) => self.reader.error(&block.location, format!("{what} must be 1ms to 1s")),
                None => {}
            }
        }
        if let Some(noise) = node.get("noise") {
            spec.noise_dbfs = self.decibels(noise, "\"noise\" of \"source\"", -120.0..=0.0);
        }
        spec.echo = node.get("echo").and_then(|node| self.echo(node));
        spec
    }

    fn echo(&mut self, node: &Node) -> Option<Echo> {
        let what = "\"echo\" of \"source\"";
        let map = self.reader.map(node, what, "\"of\", \"level\" and \"delay\"")?;
        self.reader.keys(map, &["of", "level", "delay"], what);
        let level = node.get("level");
        let level = level.map(|node| self.decibels(node, "\"level\" of \"echo\"", -120.0..=40.0));
        let delay = node.get("delay");
        let delay = delay.map(|node| self.reader.span(node, "\"delay\" of \"echo\""));
        let Some(of) = node.get("of") else {
            self.reader.error(&node.location, format!("{what} has no \"of\", the output to echo"));
            return None;
        };
        let of = self.output(of, "\"of\" of \"echo\"")?;
        Some(Echo {
            of,
            level_db: level.unwrap_or(Some(-6.0))?,
            delay: delay.unwrap_or(Some(Duration::from_millis(40)))?,
        })
    }

    /// Reads a port, written `node.port` or `node`.
    fn output(&mut self, node: &Node, what: &str) -> Option<Output> {
        let name = self.reader.text(node, what)?.to_owned();
        if name.split('.').count() > 2 || name.split('.').any(str::is_empty) {
            let message = format!("{what} must be written \"node.port\", not \"{name}\"");
            self.reader.error(&node.location, message);
            return None;
        }
        Some(Output { name, location: node.location.clone() })
    }

    /// Reports an error with a help text.
    fn fault(&mut self, location: &Location, message: impl Into<String>, help: impl Into<String>) {
        let fault = Diagnostic::error(Some(location), message);
        self.reader.faults.push(fault.help(Some(help.into())));
    }
}

/// Default maximum duration of a case.
const DEFAULT_DURATION: Duration = Duration::from_secs(60);
/// Default time that a case continues after all turns and expectations are settled.
const DEFAULT_TAIL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
