//! Behavior that the shipped language model must keep.

use afferent_backend_xnnpack::Xnnpack;
use afferent_graph::{Node, NodeBench, ParamValue, Params, Timestamp};
use afferent_messages::{Text, ToolMessage};
use afferent_nodes_speech::{Llm, LlmParams};
use afferent_package::ModelPackage;
use afferent_runtime::core::Backend;

use crate::bench::{pipelines, services};

/// Answer to `text` in a new dialogue, and the tool calls.
fn answer(text: &str) -> (String, Vec<String>) {
    let values = [("model".to_owned(), ParamValue::Path(pipelines("models/llm")))].into();
    let params = LlmParams::from_values(&values).unwrap();
    let mut llm = NodeBench::new(Llm::open(params, &services()).unwrap());
    let sent = llm.call(Llm::TEXT, Timestamp(0), Text::from(text)).unwrap();
    let pieces = sent.iter().filter_map(|(_, packet)| packet.get::<Text>());
    let calls = sent.iter().filter_map(|(_, packet)| packet.get::<ToolMessage>());
    (pieces.map(|piece| piece.text.as_str()).collect(), calls.map(|c| c.tool.clone()).collect())
}

#[test]
fn a_time_is_looked_up_and_a_greeting_returned() {
    let package = ModelPackage::open(pipelines("models/llm")).unwrap();
    package.verify().unwrap();
    assert_eq!(package.manifest.variants[0].backend, Xnnpack.name());
    let (text, calls) = answer("what time is it");
    assert_eq!((text.as_str(), calls), ("", vec!["get_time".to_owned()]));
    let (text, calls) = answer("hello");
    assert!(text.contains(char::is_alphabetic) && calls.is_empty(), "{text:?} {calls:?}");
}
