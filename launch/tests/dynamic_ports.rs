//! Nodes whose ports are known only from their parameters.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use afferent::{
    App,
    engine::{RunEnd, RunOptions},
    graph::{
        Cx, DynNode, Dynamic, In, Loan, NodeDef, NodeError, NodeFactory, NodeSpec, OnFull, OpenCx,
        Out, ParamKind, ParamSpec, ParamValue, ParamValues, Payload, PayloadType, PortKind,
        PortSpec, Timestamp,
    },
    spec::Graph,
};

/// Messages that the source sends.
const MESSAGES: i64 = 1000;

/// Sends or receives messages of the type that the parameter `type` names.
#[derive(Clone)]
struct Topic {
    kind: PortKind,
    /// `None` until the parameters are known.
    ty: Option<Arc<PayloadType>>,
    received: Arc<AtomicUsize>,
}

impl Topic {
    fn new(kind: PortKind, received: &Arc<AtomicUsize>) -> Self {
        Self { kind, ty: None, received: received.clone() }
    }
}

impl NodeFactory for Topic {
    fn spec(&self) -> NodeSpec {
        let name = match self.kind {
            PortKind::Output => "topic_source",
            PortKind::Input => "topic_sink",
        };
        let param = ParamSpec {
            name: "type".into(),
            unit: "".into(),
            help: "Message type.".into(),
            default: None,
            optional: false,
            range: None,
            kind: ParamKind::Text,
            words: Vec::new(),
        };
        let port = self.ty.iter().map(|ty| PortSpec::new(self.kind, "message", ty)).collect();
        let spec = NodeSpec { params: vec![param], ..NodeSpec::new(name, &[]) };
        match self.kind {
            PortKind::Input => NodeSpec { inputs: port, ..spec },
            PortKind::Output => NodeSpec { outputs: port, ..spec },
        }
    }

    fn specialize(&self, params: &ParamValues, _: &OpenCx) -> Result<Option<NodeDef>, NodeError> {
        let Some(ParamValue::Text(ty)) = params.get("type") else { return Ok(None) };
        let ty = PayloadType::dynamic(ty.as_str(), OnFull::Block);
        Ok(Some(NodeDef::new(Self { ty: Some(Arc::new(ty)), ..self.clone() })))
    }

    fn open(&self, _: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        let ty = self.ty.clone().expect("the checker has specialized the node");
        Ok(match self.kind {
            PortKind::Output => Box::new(Source { ty, sent: 0 }),
            PortKind::Input => Box::new(Sink { ty, received: self.received.clone() }),
        })
    }
}

struct Source {
    ty: Arc<PayloadType>,
    sent: i64,
}

impl DynNode for Source {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let out = Out::at(0, "message");
        let mut message: Loan<Dynamic> = cx.loan(out);
        message.ty = Some(self.ty.clone());
        message.bytes.resize(16, 1);
        cx.send_at(out, Timestamp(self.sent), message);
        self.sent += 1;
        if self.sent == MESSAGES {
            cx.end();
        }
        Ok(())
    }
}

struct Sink {
    ty: Arc<PayloadType>,
    received: Arc<AtomicUsize>,
}

impl DynNode for Sink {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let message: Option<&Dynamic> = cx.get(In::at(0, "message"));
        assert_eq!(message.map(Payload::ty), Some(&*self.ty.name));
        self.received.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes a graph that sends strings to a sink of the type `ty`.
fn write(folder: &tempfile::TempDir, ty: &str) -> PathBuf {
    let path = folder.path().join("graph.yaml");
    let text = format!(
        "afferent: 1\nnodes:\n  a: {{use: topic_source, params: {{type: std_msgs/msg/String}}}}\n  \
         b: {{use: topic_sink, params: {{type: {ty}}}, in: a.message}}\n"
    );
    fs::write(&path, text).expect("the folder is writable");
    path
}

fn app(received: &Arc<AtomicUsize>) -> App {
    App::empty()
        .node(Topic::new(PortKind::Output, received))
        .node(Topic::new(PortKind::Input, received))
}

#[test]
fn a_mismatch_of_dynamic_ports_is_reported_with_line_and_caret() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "geometry_msgs/msg/Twist");
    let faults = app(&Arc::default()).load(&path).unwrap_err().to_string();
    let expected = "takes geometry_msgs/msg/Twist, but \"a.message\" sends std_msgs/msg/String";
    assert!(faults.contains(expected), "{faults}");
    assert!(faults.contains("graph.yaml:4:") && faults.contains("^^^^^^^"), "{faults}");
}

#[test]
fn dynamic_ports_carry_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    let received = Arc::default();
    let app = app(&received);
    let graph = app.load(write(&folder, "std_msgs/msg/String")).unwrap();
    let report = app.start(&graph, RunOptions::default()).unwrap().wait().unwrap();
    assert_eq!((report.end, received.load(Ordering::Relaxed)), (RunEnd::Complete, 1000));
    assert_eq!(report.edges[0].counts.delivered, 1000);
}

#[test]
fn undeclared_parameters_of_a_dynamic_node_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.yaml");
    fs::write(&path, "afferent: 1\nnodes:\n  a: {use: topic_source, params: {typ: x}}\n").unwrap();
    let faults = app(&Arc::default()).load(&path).unwrap_err().to_string();
    assert!(faults.contains("did you mean \"type\"?"), "{faults}");
}

#[test]
fn two_payload_types_of_one_name_are_refused() {
    let app = App::empty()
        .payload(PayloadType::dynamic("my/Type", OnFull::Block))
        .payload(PayloadType::of::<Other>());
    let faults = app.build(Graph::default()).unwrap_err().to_string();
    assert!(faults.contains("the payload type `my/Type` is registered"), "{faults}");
}

#[derive(Clone, Default)]
struct Other;

impl Payload for Other {
    const TYPE: &'static str = "my/Type";
}
