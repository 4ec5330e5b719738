//! The file that says what tools do.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{NodeError, read_duration};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The shortest and the longest time-out, in seconds.
const TIMEOUT: (f64, f64) = (0.01, 600.0);

/// Tools by their names.
pub(super) struct Tools {
    tools: BTreeMap<String, Entry>,
    folder: PathBuf,
}

/// A tool.
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) timeout: Option<Duration>,
}

/// What a tool does.
pub(super) enum Kind {
    Answer(Value),
    Command(Vec<String>),
    Http(String),
    Table(Table),
    Time,
    Timer,
}

/// What belongs to the value of an argument.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    of: String,
    gives: String,
    rows: BTreeMap<String, String>,
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    answer: Option<Value>,
    command: Option<Vec<String>>,
    http: Option<String>,
    table: Option<Table>,
    time: Option<Nothing>,
    timer: Option<Nothing>,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Tools {
    /// # Errors
    /// [`NodeError::File`].
    pub(super) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::File { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let lines: BTreeMap<String, Line> =
            serde_saphyr::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let read = |(name, line): (String, Line)| match line.read() {
            Ok(entry) => Ok((name, entry)),
            Err(reason) => Err(failed(format!("tool {name}: {reason}"))),
        };
        let tools = lines.into_iter().map(read).collect::<Result<_, _>>()?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { tools, folder })
    }

    /// The tool called `name`.
    pub(super) fn get(&self, name: &str) -> Result<&Entry, String> {
        self.tools.get(name).ok_or_else(|| {
            let names: Vec<_> = self.tools.keys().map(String::as_str).collect();
            format!("there is no tool {name}; there are {}", names.join(", "))
        })
    }

    /// Where the file is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Line {
    fn read(self) -> Result<Entry, String> {
        let Self { answer, command, http, table, time, timer, timeout } = self;
        let kinds = [
            answer.map(Kind::Answer),
            command.map(Kind::Command),
            http.map(Kind::Http),
            table.map(Kind::Table),
            time.map(|_| Kind::Time),
            timer.map(|_| Kind::Timer),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            return Err("it has to have one of answer, command, http, table, time, timer".into());
        };
        match &kind {
            Kind::Command(command) if command.is_empty() => {
                return Err("the command is empty".into());
            }
            Kind::Answer(value) if !value.is_object() => {
                return Err(format!("the answer {value} is no map"));
            }
            _ => {}
        }
        let timeout = timeout.map(|text| read_duration(&text, Some(TIMEOUT))).transpose();
        let timeout = timeout.map_err(|error| format!("timeout: {error}"))?;
        Ok(Entry { kind, timeout })
    }
}

impl Table {
    /// What belongs to the arguments; nothing is `null`.
    pub(super) fn find(&self, arguments: &Map<String, Value>) -> Result<Value, String> {
        let value = arguments.get(&self.of).and_then(Value::as_str);
        let value = value.ok_or_else(|| format!("there is no argument {}", self.of))?;
        let mut found = Map::new();
        found.insert(self.gives.clone(), json!(self.rows.get(value)));
        Ok(Value::Object(found))
    }
}
