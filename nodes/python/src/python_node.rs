//! A node written in Python.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use afferent_graph::{
    Cx, DynNode, NodeDef, NodeError, NodeFactory, NodeSpec, OpenCx, Packet, ParamKind, ParamSpec,
    ParamValue, ParamValues, PortId, PortKind, PortSpec, Timestamp, Weight,
};
use serde::Deserialize;

use crate::{
    child::{Arrival, NodeProcess},
    description::{Description, Source, default_python},
};

/// Runs a node that is written in Python, in a process of its own.
///
/// `file` has a class that derives from `afferent.Node`; its ports and parameters become those of the
/// node, and `class` names it if there are several. `python` is the interpreter, which needs the
/// package `afferent`: by default that of the variable `AFFERENT_PYTHON`, or `python3`. The file is
/// imported by a child process when the graph is checked, with a time limit of 30 s.
///
/// A call of the node is a call in the process: packets go there and back through shared memory,
/// which nodes in Python pass on to one another. An exception, and the end of the process, are errors of the
/// node, to which its `on_error` applies; `restart` starts the process again. With `reload`, it is
/// started again when the file has changed, between two calls.
///
/// Latency: that of the Python code, and about 0.1 ms.
#[derive(Debug, Clone, Default)]
pub struct PythonNode {
    /// The file and what it says; `None` until the parameters are known.
    found: Option<Arc<(Source, Description, NodeSpec)>>,
}

/// Time between two looks at the file for changes.
const RELOAD_EVERY: Duration = Duration::from_millis(300);

impl PythonNode {
    /// The definition of the node.
    pub fn def() -> NodeDef {
        NodeDef::new(Self::default())
    }
}

/// Parameters of the node itself.
fn own_params() -> Vec<ParamSpec> {
    let param = |name: &str, kind, default: Option<&str>, help: &str| ParamSpec {
        name: name.into(),
        unit: "".into(),
        help: help.into(),
        default: default.map(Into::into),
        optional: name == "class" || name == "python",
        range: None,
        kind,
        words: Vec::new(),
    };
    vec![
        param("file", ParamKind::Path, None, "Python file with the node."),
        param("class", ParamKind::Text, None, "Class of the node, if the file has several."),
        param(
            "python",
            ParamKind::Text,
            None,
            "Interpreter; by default that of AFFERENT_PYTHON, or python3.",
        ),
        param(
            "reload",
            ParamKind::Bool,
            Some("false"),
            "Start the process again when the file changes.",
        ),
    ]
}

/// The Python file that the parameters name.
fn source(params: &ParamValues) -> Option<Source> {
    let Some(ParamValue::Path(file)) = params.get("file") else { return None };
    let text = |name: &str| match params.get(name) {
        Some(ParamValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    Some(Source {
        file: PathBuf::from(file),
        class: text("class").unwrap_or_default(),
        python: text("python").map_or_else(default_python, OsString::from),
    })
}

/// Contract of the node of `source`.
fn spec(source: &Source, description: &Description) -> Result<NodeSpec, NodeError> {
    let mut params = own_params();
    for param in &description.params {
        if params.iter().any(|own| *own.name == *param.name) {
            let name = &param.name;
            return Err(source.error(format!("the name of the parameter {name} is taken")));
        }
        params.push(param.spec());
    }
    let inputs = description.inputs.iter().map(|port| port.spec(source, PortKind::Input));
    let outputs = description.outputs.iter().map(|port| port.spec(source, PortKind::Output));
    Ok(NodeSpec {
        summary: description.summary.as_str().into(),
        inputs: inputs.collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        params,
        timed: description.timed,
        has_effects: description.has_effects,
        ..PythonNode::default().spec()
    })
}

impl NodeFactory for PythonNode {
    fn spec(&self) -> NodeSpec {
        match &self.found {
            Some(found) => found.2.clone(),
            None => NodeSpec {
                summary: "Runs a node written in Python, in a process of its own.".into(),
                latency: "that of the Python code, and about 0.1 ms".into(),
                params: own_params(),
                weight: Weight::Heavy,
                ..NodeSpec::new("python", &[])
            },
        }
    }

    fn specialize(&self, params: &ParamValues, _: &OpenCx) -> Result<Option<NodeDef>, NodeError> {
        let Some(source) = source(params) else { return Ok(None) };
        let description = source.describe()?;
        let ours = env!("CARGO_PKG_VERSION");
        if description.version != ours {
            let theirs = &description.version;
            return Err(source.error(format!(
                "its interpreter has afferent {theirs}, but this program is version {ours}"
            )));
        }
        let spec = spec(&source, &description)?;
        Ok(Some(NodeDef::new(Self { found: Some(Arc::new((source, description, spec))) })))
    }

    fn open(&self, params: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        let found = self.found.clone().ok_or_else(|| NodeError::InvalidParam {
            name: "file".into(),
            reason: "it names a Python file".into(),
        })?;
        let reloads = matches!(params.get("reload"), Some(ParamValue::Bool(true)));
        let own = own_params();
        let is_own = |name: &str| own.iter().any(|param| *param.name == *name);
        let values = params.iter().filter(|(name, _)| !is_own(name));
        let values: serde_json::Map<_, _> =
            values.map(|(name, value)| (name.clone(), json(value))).collect();
        let options = serde_json::json!({"open": {
            "name": cx.name,
            "inputs": ports(&found.2.inputs),
            "outputs": ports(&found.2.outputs),
            "layouts": layouts(&found.2),
            "params": values,
        }});
        let modified = found.0.modified();
        let opening = Opening { name: cx.name.clone(), message: options.to_string(), found };
        let process = opening.start()?;
        let last_look = Instant::now();
        Ok(Box::new(Open { opening, process, reloads, modified, last_look }))
    }
}

/// Value of a parameter for Python.
fn json(value: &ParamValue) -> serde_json::Value {
    match value {
        ParamValue::Bool(value) => (*value).into(),
        ParamValue::Int(value) => (*value).into(),
        ParamValue::Float(value) => (*value).into(),
        ParamValue::Duration(value) => value.as_secs_f64().into(),
        ParamValue::Text(value) => value.as_str().into(),
        ParamValue::Path(value) => value.display().to_string().into(),
    }
}

/// Names and types of ports.
fn ports(ports: &[PortSpec]) -> serde_json::Value {
    ports.iter().map(|port| serde_json::json!({"name": *port.name, "type": *port.ty})).collect()
}

/// Layouts of the payload types of all ports, which both ends compare.
fn layouts(spec: &NodeSpec) -> serde_json::Value {
    let ports = spec.inputs.iter().chain(&spec.outputs);
    let layout = |port: &PortSpec| Some((port.ty.to_string(), port.wire?.layout().into()));
    serde_json::Value::Object(ports.filter_map(layout).collect())
}

/// Data for the start of the process.
struct Opening {
    name: String,
    /// First message to the process.
    message: String,
    found: Arc<(Source, Description, NodeSpec)>,
}

impl Opening {
    fn start(&self) -> Result<NodeProcess, NodeError> {
        let mut process = NodeProcess::start(self.found.0.clone(), &self.name)?;
        process.send(&self.message);
        loop {
            if let Arrival::Control(text) = process.receive(|_| ())? {
                match self.answer(&text)? {
                    Answer::Opened => return Ok(process),
                    _ => {
                        return Err(self
                            .found
                            .0
                            .error("its process does not keep to the protocol"));
                    }
                }
            }
        }
    }

    /// Reads an answer; an error of Python is one of the node.
    fn answer(&self, text: &str) -> Result<Answer, NodeError> {
        match serde_json::from_str(text) {
            Ok(Answer::Failed(reason)) => Err(self.found.0.error(reason)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                Err(self.found.0.error(format!("a wrong answer of its process: {error}")))
            }
        }
    }
}

/// Answer of the process to a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Opened,
    Done(Done),
    Failed(String),
}

/// Calls that the node asks for; times in nanoseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Done {
    resume: bool,
    resume_at: Option<i64>,
    wake_at: Option<i64>,
    end: bool,
}

/// The open node.
struct Open {
    opening: Opening,
    process: NodeProcess,
    reloads: bool,
    /// Time of the last change of the file.
    modified: Option<SystemTime>,
    last_look: Instant,
}

impl Open {
    /// Starts the process again if the file has changed.
    fn reload(&mut self) {
        if !self.reloads || self.last_look.elapsed() < RELOAD_EVERY {
            return;
        }
        self.last_look = Instant::now();
        let source = &self.opening.found.0;
        let modified = source.modified();
        if modified == self.modified {
            return;
        }
        self.modified = modified;
        let same = |description: &Description| {
            spec(source, description).is_ok_and(|spec| {
                let known = &self.opening.found.2;
                (spec.inputs, spec.outputs) == (known.inputs.clone(), known.outputs.clone())
            })
        };
        let started = source.describe().and_then(|description| match same(&description) {
            true => self.opening.start(),
            false => Err(source.error("its ports have changed: start the graph again")),
        });
        let (node, file) = (&self.opening.name, source.file.display());
        match started {
            Ok(process) => {
                tracing::info!("node {node}: {file} has changed and was loaded again");
                self.process = process;
            }
            Err(error) => tracing::error!("node {node} runs on with its earlier code: {error}"),
        }
    }

    fn call(&mut self, cx: &mut Cx<'_>, kind: &str) -> Result<(), NodeError> {
        self.reload();
        let inputs = &self.opening.found.2.inputs;
        let find = |name: &str| inputs.iter().position(|port| *port.name == *name);
        let mut send = |name: &str, packet: &Packet| match find(name) {
            Some(index) => match inputs[index].wire {
                Some(codec) => self.process.send_packet(index, packet, codec),
                None => Ok(()),
            },
            None => Ok(()),
        };
        for joined in cx.joined() {
            joined.packets.iter().try_for_each(|packet| send(&joined.name, packet))?;
        }
        if let (Some(port), Some(packet)) = (cx.port(), cx.packet()) {
            send(port, packet)?;
        }
        let call = serde_json::json!({"call": {
            "kind": kind, "now": cx.now().0, "at": cx.at().0, "port": cx.port(),
        }});
        self.process.send(&call.to_string());
        self.answers(cx)
    }

    /// Sends the packets of the process on until it answers the call.
    fn answers(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let canceled = cx.cancel_flag();
        let mut was_told = false;
        let found = self.opening.found.clone();
        loop {
            let arrival = self.process.receive(|process| {
                if !was_told && canceled.load(std::sync::atomic::Ordering::Relaxed) {
                    was_told = true;
                    process.send("\"cancel\"");
                }
            })?;
            match arrival {
                Arrival::Packet { output, header, meta, bulk } => {
                    let port = found.2.outputs.get(output);
                    let wire = port.and_then(|port| port.wire);
                    let wire = wire.ok_or_else(|| found.0.error("it has no such output"))?;
                    let packet = wire.decode(&meta, bulk, header);
                    cx.send_packet(PortId::at(output), packet.map_err(NodeError::Payload)?);
                }
                Arrival::Control(text) => {
                    return match self.opening.answer(&text)? {
                        Answer::Done(done) => {
                            done.ask(cx);
                            Ok(())
                        }
                        _ => Err(found.0.error("its process does not keep to the protocol")),
                    };
                }
                Arrival::Gone => unreachable!("`receive` returns it as an error"),
            }
        }
    }
}

impl Done {
    fn ask(&self, cx: &mut Cx<'_>) {
        if self.end {
            cx.end();
        } else if let Some(at) = self.resume_at {
            cx.resume_at(Timestamp(at));
        } else if self.resume {
            cx.resume();
        }
        if let Some(at) = self.wake_at {
            cx.wake_at(Timestamp(at));
        }
    }
}

impl DynNode for Open {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.call(cx, "process")
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.call(cx, "finish")
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.call(cx, "cancel")
    }
}
