//! The YAML file that defines tools.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{NodeError, read_duration};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Range of `timeout`, in seconds.
const TIMEOUT_RANGE_S: (f64, f64) = (0.01, 600.0);

/// Tools by name.
pub(super) struct Tools {
    tools: BTreeMap<String, ToolEntry>,
    folder: PathBuf,
}

/// A tool.
pub(super) struct ToolEntry {
    pub(super) kind: ToolKind,
    pub(super) timeout: Option<Duration>,
}

/// Implementation of a tool.
pub(super) enum ToolKind {
    Answer(Value),
    Command(Vec<String>),
    Http(String),
    Table(Table),
    Time,
    Timer,
}

/// Lookup table from the value of argument `of` to the result `gives`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    of: String,
    gives: String,
    rows: BTreeMap<String, String>,
}

/// Definition of a tool in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolSpec {
    answer: Option<Value>,
    command: Option<Vec<String>>,
    http: Option<String>,
    table: Option<Table>,
    time: Option<EmptyMap>,
    timer: Option<EmptyMap>,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyMap {}

impl Tools {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`NodeError::File`].
    pub(super) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::File { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let specs: BTreeMap<String, ToolSpec> =
            serde_saphyr::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let read = |(name, spec): (String, ToolSpec)| match spec.into_entry() {
            Ok(entry) => Ok((name, entry)),
            Err(reason) => Err(failed(format!("tool {name}: {reason}"))),
        };
        let tools = specs.into_iter().map(read).collect::<Result<_, _>>()?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { tools, folder })
    }

    /// The tool `name`.
    pub(super) fn get(&self, name: &str) -> Result<&ToolEntry, String> {
        self.tools.get(name).ok_or_else(|| {
            let names: Vec<_> = self.tools.keys().map(String::as_str).collect();
            format!("unknown tool {name}; available tools: {}", names.join(", "))
        })
    }

    /// Folder of the file.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl ToolSpec {
    fn into_entry(self) -> Result<ToolEntry, String> {
        let Self { answer, command, http, table, time, timer, timeout } = self;
        let kinds = [
            answer.map(ToolKind::Answer),
            command.map(ToolKind::Command),
            http.map(ToolKind::Http),
            table.map(ToolKind::Table),
            time.map(|_| ToolKind::Time),
            timer.map(|_| ToolKind::Timer),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            return Err("expected exactly one of answer, command, http, table, time, timer".into());
        };
        match &kind {
            ToolKind::Command(command) if command.is_empty() => {
                return Err("the command is empty".into());
            }
            ToolKind::Answer(value) if !value.is_object() => {
                return Err(format!("the answer {value} is not a map"));
            }
            _ => {}
        }
        let timeout = timeout.map(|text| read_duration(&text, Some(TIMEOUT_RANGE_S))).transpose();
        let timeout = timeout.map_err(|error| format!("timeout: {error}"))?;
        Ok(ToolEntry { kind, timeout })
    }
}

impl Table {
    /// Result for the arguments; `null` if the table has no row for them.
    pub(super) fn find(&self, arguments: &Map<String, Value>) -> Result<Value, String> {
        let value = arguments.get(&self.of).and_then(Value::as_str);
        let value =
            value.ok_or_else(|| format!("argument {} is missing or not a string", self.of))?;
        let mut found = Map::new();
        found.insert(self.gives.clone(), json!(self.rows.get(value)));
        Ok(Value::Object(found))
    }
}
