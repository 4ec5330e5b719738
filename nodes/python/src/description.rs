//! Ports and parameters of a Python file, which a child process tells.

use std::{
    collections::HashMap,
    env,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use afferent_graph::{NodeError, ParamKind, ParamSpec, PortKind, PortSpec};
use afferent_messages::payload_type;
use serde::Deserialize;

/// Longest time that a file may take to be imported.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A Python file with a node, and the interpreter that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    /// Path of the file.
    pub(crate) file: PathBuf,
    /// Name of the class; empty for the only one.
    pub(crate) class: String,
    /// The interpreter.
    pub(crate) python: OsString,
}

/// Ports and parameters of a node, as its Python file declares them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Description {
    /// Version of the Python package.
    pub(crate) version: String,
    pub(crate) summary: String,
    pub(crate) timed: bool,
    pub(crate) has_effects: bool,
    pub(crate) inputs: Vec<PortText>,
    pub(crate) outputs: Vec<PortText>,
    pub(crate) params: Vec<ParamText>,
}

/// A port, as Python writes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PortText {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) help: String,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// A parameter, as Python writes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ParamText {
    pub(crate) name: String,
    kind: String,
    default: Option<String>,
    help: String,
    unit: String,
    range: Option<(f64, f64)>,
    choices: Vec<String>,
}

/// An error of the file, instead of a description.
#[derive(Deserialize)]
struct Failed {
    failed: String,
}

impl Source {
    /// Command that runs `python -m afferent.serve` for the file.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-m", "afferent.serve"]).arg(&self.file);
        if !self.class.is_empty() {
            command.args(["--class", &self.class]);
        }
        command
    }

    /// An error about the file.
    pub(crate) fn error(&self, reason: impl Into<String>) -> NodeError {
        NodeError::File { path: self.file.clone(), reason: reason.into() }
    }

    /// Time of the last change of the file.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.file.metadata().and_then(|metadata| metadata.modified()).ok()
    }

    /// Runs the file in a child process and reads what it says about its node. The result is kept until
    /// the file changes.
    pub(crate) fn describe(&self) -> Result<Description, NodeError> {
        type Known = HashMap<(Source, Option<SystemTime>), Result<Description, NodeError>>;
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        self.file.metadata().map_err(|error| self.error(error.to_string()))?;
        let key = (self.clone(), self.modified());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        known.entry(key).or_insert_with(|| self.ask()).clone()
    }

    fn ask(&self) -> Result<Description, NodeError> {
        let python = Path::new(&self.python).display().to_string();
        let mut command = self.command();
        command
            .arg("--describe")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            self.error(format!(
                "cannot start {python}: {error}; name an interpreter with the parameter python, or with \
                 the variable {PYTHON}"
            ))
        })?;
        let outputs = (child.stdout.take(), child.stderr.take());
        let (Some(out), Some(err)) = outputs else { return Err(self.error("no output")) };
        let reader = thread::spawn(move || read(out));
        let errors = thread::spawn(move || read(err));
        let limit = Instant::now() + TIME_LIMIT;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < limit => thread::sleep(Duration::from_millis(5)),
                _ => {
                    // The process may have ended meanwhile.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(self.error(format!(
                        "its import took more than {} s; load models in the method open",
                        TIME_LIMIT.as_secs()
                    )));
                }
            }
        };
        let text = reader.join().unwrap_or_default();
        if let Ok(Failed { failed }) = serde_json::from_str(&text) {
            return Err(self.error(failed));
        }
        serde_json::from_str(&text).map_err(|_| {
            let errors = errors.join().unwrap_or_default();
            let last = errors.lines().last().unwrap_or("no output").to_owned();
            match errors.contains("No module named 'afferent") {
                true => self.error(format!(
                    "{python} has no module afferent: pip install afferent there, or name another \
                     interpreter with the parameter python or the variable {PYTHON}"
                )),
                false => self.error(format!("{python} ended with {status}: {last}")),
            }
        })
    }
}

/// Variable that names the interpreter.
const PYTHON: &str = "AFFERENT_PYTHON";

/// The interpreter of nodes without the parameter `python`.
pub(crate) fn default_python() -> OsString {
    env::var_os(PYTHON).filter(|name| !name.is_empty()).unwrap_or_else(|| "python3".into())
}

/// Text of an output of a process.
fn read(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // The text up to an error is reported.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

impl PortText {
    pub(crate) fn spec(&self, source: &Source, kind: PortKind) -> Result<PortSpec, NodeError> {
        let ty = payload_type(&self.ty)
            .map_err(|reason| source.error(format!("port {}: {reason}", self.name)))?;
        let (help, optional) = (self.help.as_str().into(), self.optional);
        Ok(PortSpec { help, optional, ..PortSpec::new(kind, &self.name, ty) })
    }
}

impl ParamText {
    pub(crate) fn spec(&self) -> ParamSpec {
        let kind = match self.kind.as_str() {
            "bool" => ParamKind::Bool,
            "int" => ParamKind::Int,
            "float" => ParamKind::Float,
            _ if self.choices.is_empty() => ParamKind::Text,
            _ => ParamKind::Choice(&[]),
        };
        ParamSpec {
            name: self.name.as_str().into(),
            unit: self.unit.as_str().into(),
            help: self.help.as_str().into(),
            default: self.default.as_deref().map(Into::into),
            optional: false,
            range: self.range,
            kind,
            words: self.choices.iter().map(|word| word.as_str().into()).collect(),
        }
    }
}
