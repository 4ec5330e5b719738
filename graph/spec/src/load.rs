//! From a graph file to a [`Graph`] that knows where each of its parts is written.
//!
//! | module    | holds                                                      |
//! |-----------|------------------------------------------------------------|
//! | `locations` | locations of the parts of a graph                      |
//! | `overlay` | profiles and `--set`: the tree of the file is changed      |
//! | `fill`    | `${param}` and `${env:NAME}`: values that stand for others |
//! | `include` | graph files that others are based on                       |
//! | `placement` | the keys `machines`, `machine` and `process` |
//! | `schedule` | the keys `thread`, `cpu`, `priority` and `spin` |
//! | `subgraph` | graph files as nodes of others                            |
//! | `inserted` | a subgraph while it is inserted into the outer graph       |
//! | `deployed` | options of the start: machines and addresses                |
//! | `carry`   | budgets, interrupts and waterfalls of graphs within        |
//! | `read`    | from the tree to the graph                                 |
//! | `streams` | the keys `in`                                    |
//! | `supervise` | the keys `on_error` and `deadline`             |
//! | `sync`    | the keys `sync` and `on_time_fault`              |
//! | `watch`   | the keys `budget`, `waterfall`, `interrupt`      |
//! | `reader`  | what reading has in common: kinds, keys, texts, times      |

mod carry;
mod deployed;
mod fill;
mod include;
mod inserted;
pub(crate) mod locations;
mod overlay;
mod placement;
mod read;
pub(crate) mod reader;
mod schedule;
mod streams;
mod subgraph;
mod supervise;
mod sync;
mod watch;

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use locations::Locations;
pub use overlay::change_node;
pub use reader::Reader;

use crate::{
    Diagnostic, Graph, Location, Origin, PlacementOptions,
    diagnostic::Source,
    yaml::{MAX_TEXT, Map, Node, Value},
};

/// Changes to a graph file while it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Profile to apply.
    pub profile: Option<String>,
    /// Settings that override the file and the profile: `node.param=value`, with `graph/node` for a
    /// node of a subgraph, or `param=value` for a parameter of the graph.
    pub set: Vec<String>,
    /// Every source is replaced: their files and devices are not checked.
    pub without_sources: bool,
    /// No node runs here: nodes do not check their files and devices.
    pub wiring_only: bool,
    /// Changes of nodes from another file, in the form of the `nodes` of a profile, applied ahead
    /// of `set`. Paths are relative to that file.
    pub nodes: Option<Node>,
    /// Machines and processes.
    pub placement: PlacementOptions,
}

/// A graph, the locations of its parts, and the faults of reading.
///
/// A graph built in Rust converts by `From`; its faults have no location.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The graph, without unreadable parts.
    pub graph: Graph,
    pub(crate) locations: Locations,
    pub(crate) faults: Vec<Diagnostic>,
    pub(crate) origin: Origin,
    /// [`PlacementOptions::here`].
    pub(crate) here: bool,
    /// Machine that this program runs on: index in the machines of the graph.
    pub(crate) machine: Option<usize>,
    /// [`LoadOptions::without_sources`].
    pub(crate) without_sources: bool,
    /// [`LoadOptions::wiring_only`].
    pub(crate) wiring_only: bool,
    /// True if the file could not be read at all; then nothing else is checked.
    pub(crate) unreadable: bool,
}

impl From<Graph> for Loaded {
    fn from(graph: Graph) -> Self {
        Self { graph, ..Self::default() }
    }
}

impl Loaded {
    /// Applies options of the start to a graph built in Rust.
    #[must_use]
    pub fn deployed(mut self, options: &PlacementOptions) -> Self {
        let mut reader = Reader::default();
        self.here = options.here;
        self.machine = reader.deploy(&mut self.graph, &mut self.locations, options);
        self.faults.append(&mut reader.faults);
        self.origin.files.extend(reader.origin.files);
        self
    }
}

/// Reads the graph file `path`. Faults are kept for [`check`](crate::check()).
pub fn load(path: &Path, options: &LoadOptions) -> Loaded {
    match read_file(path) {
        Ok(text) => parse(&text, path, options),
        Err(reason) => {
            let message = format!("cannot read {}: {reason}", path.display());
            let faults = vec![Diagnostic::error(None, message)];
            Loaded { faults, unreadable: true, ..Loaded::default() }
        }
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // One byte more than allowed, to detect a file that is too long.
    let limit = MAX_TEXT as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_TEXT {
        return Err(format!("it is longer than {MAX_TEXT} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8 text")
    })
}

/// Reads a graph from the `text` of a graph file; `path` gives its folder and its name in messages.
pub fn parse(text: &str, path: &Path, options: &LoadOptions) -> Loaded {
    let name = path.display().to_string();
    let source = Arc::new(Source { name, text: text.to_owned(), order: 0 });
    let mut reader = Reader::default();
    reader.origin.read(path.to_owned(), text);
    let Some(mut tree) = reader.tree(&source, 0..text.len()) else {
        return Loaded { faults: reader.faults, unreadable: true, ..Loaded::default() };
    };
    let start = Location::new(&source, 0..0);
    if tree.as_map().is_none() {
        let message = format!("a graph file is a map with the keys {}", read::KEYS.join(", "));
        reader.faults.push(Diagnostic::error(Some(&start), message));
        return Loaded { faults: reader.faults, unreadable: true, ..Loaded::default() };
    }
    reader.include(&mut tree);
    let mut removed = Vec::new();
    reader.check_profiles(&tree);
    if let Some(profile) = &options.profile {
        removed = reader.apply_profile(&mut tree, profile);
    }
    if let Some(nodes) = &options.nodes {
        removed.extend(reader.apply_nodes(&mut tree, nodes));
    }
    for (number, set) in options.set.iter().enumerate() {
        reader.apply_set(&mut tree, set, number + 1);
    }
    let mut params = reader.own_params(&tree);
    params.iter_mut().for_each(|(_, value)| reader.fill(value, &Map::new()));
    reader.fill_nodes(&mut tree, &params);
    for (key, value) in params {
        if let Value::Scalar { text, .. } = &value.value
            && !value.is_null()
        {
            reader.origin.params.insert(key.text, text.clone());
        }
    }
    let (mut graph, mut locations, _) = reader.graph(&tree, &start);
    locations.removed.extend(removed);
    graph.folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    if graph.name.is_empty() {
        graph.name = path.file_stem().map(PathBuf::from).unwrap_or_default().display().to_string();
    }
    let &LoadOptions { without_sources, wiring_only, .. } = options;
    let here = options.placement.here;
    let machine = reader.deploy(&mut graph, &mut locations, &options.placement);
    let (faults, origin) = (reader.faults, reader.origin);
    Loaded {
        graph,
        locations,
        faults,
        origin,
        here,
        machine,
        without_sources,
        wiring_only,
        unreadable: false,
    }
}
