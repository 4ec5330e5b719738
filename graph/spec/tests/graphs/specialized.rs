//! Nodes whose ports depend on their parameters.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use afferent_graph::{
    Catalog, DynNode, NodeDef, NodeError, NodeFactory, NodeSpec, OpenCx, ParamKind, ParamSpec,
    ParamValue, ParamValues, PayloadType,
};
use afferent_messages::{AudioBlock, Features};
use afferent_spec::{LoadOptions, load_and_check};

/// A source of messages with a schema. Refuses schemas that are named `broken`.
#[derive(Default)]
struct Topic {
    /// Schemas that it was asked for.
    schemas: Arc<Mutex<Vec<PathBuf>>>,
}

impl NodeFactory for Topic {
    fn spec(&self) -> NodeSpec {
        let schema = ParamSpec {
            name: "schema".into(),
            unit: "".into(),
            help: "The schema.".into(),
            default: Some("schemas/default".into()),
            optional: false,
            range: None,
            kind: ParamKind::Path,
            words: Vec::new(),
        };
        NodeSpec { params: vec![schema], ..NodeSpec::new("topic", &[]) }
    }

    fn specialize(&self, params: &ParamValues, _: &OpenCx) -> Result<Option<NodeDef>, NodeError> {
        let Some(ParamValue::Path(schema)) = params.get("schema") else {
            panic!("no schema in {params:?}")
        };
        self.schemas.lock().expect("no test panics with it").push(schema.clone());
        if schema.ends_with("broken") {
            let reason = "not a schema".to_owned();
            return Err(NodeError::InvalidParam { name: "schema".into(), reason });
        }
        Ok(None)
    }

    fn open(&self, _: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        unreachable!("no graph runs here")
    }
}

#[test]
fn a_definition_sees_the_paths_that_its_node_is_opened_with() {
    let folder = tempfile::tempdir().unwrap();
    let part = "afferent: 1\nnodes:\n  own: {use: topic, params: {schema: schemas/a}}\n  \
                usual: {use: topic}\n  bad: {use: topic, params: {schema: schemas/broken}}\n";
    let top = "afferent: 1\nnodes:\n  part: {graph: parts/part.yaml}\n";
    fs::create_dir(folder.path().join("parts")).unwrap();
    fs::write(folder.path().join("parts/part.yaml"), part).unwrap();
    fs::write(folder.path().join("top.yaml"), top).unwrap();
    let topic = Topic::default();
    let schemas = topic.schemas.clone();
    let catalog = Catalog::default().with_node(NodeDef::new(topic));
    let (path, options) = (folder.path().join("top.yaml"), LoadOptions::default());
    let faults = load_and_check(&path, &options, &catalog, &OpenCx::default()).unwrap_err();
    let expected = ["schemas/a", "schemas/default", "schemas/broken"];
    let expected = expected.map(|schema| folder.path().join("parts").join(schema));
    assert_eq!(*schemas.lock().unwrap(), expected);
    // The fault points at the value.
    let text = faults.to_string();
    assert!(text.contains("parameter \"schema\" of node \"part/bad\": not a schema"), "{text}");
    assert!(text.contains("part.yaml:5:38"), "{text}");
}

#[test]
fn two_payload_types_of_one_name_are_a_fault() {
    let clash = PayloadType { name: "audio/Block".into(), ..PayloadType::of::<Features>() };
    let catalog = Catalog::default().with_payload(PayloadType::of::<AudioBlock>());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.yaml");
    fs::write(&path, "afferent: 1\nnodes: {}\n").unwrap();
    let check = |catalog: &Catalog| {
        let options = LoadOptions::default();
        load_and_check(&path, &options, catalog, &OpenCx::default()).unwrap_err().to_string()
    };
    let message = "the payload type `audio/Block` is registered with another Rust type";
    assert!(!check(&catalog).contains(message));
    assert!(check(&catalog.with_payload(clash)).contains(message));
}
