//! Subgraphs in a running graph.

use std::{fs, time::Duration};

use afferent_engine::{ClockKind, RunOptions, run};
use afferent_graph::{
    Catalog, Cx, In, Node, NodeDef, NodeEntry, NodeError, OpenCx, Out, Port, PortId,
};
use afferent_messages::KeywordEvent;
use afferent_spec::{LoadOptions, load_and_check};

const WORDS: Out<KeywordEvent> = Out::at(0, "words");
const HEARD: In<KeywordEvent> = In::at(0, "heard");

/// Sends ten words, one each 10 ms.
struct Talker(u32);

impl Node for Talker {
    type Params = ();
    const NAME: &'static str = "talker";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[WORDS.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        cx.send_at(WORDS, cx.now(), KeywordEvent::default());
        self.0 += 1;
        if self.0 == 10 {
            cx.end();
        } else {
            cx.resume_at(cx.now() + Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Does nothing with words.
struct Listener;

impl Node for Listener {
    type Params = ();
    const NAME: &'static str = "listener";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[HEARD.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

/// Nodes that run.
const WORKING: &[NodeEntry] = &[NodeDef::of::<Talker>, NodeDef::of::<Listener>];

#[test]
fn budgets_and_interrupts_of_a_subgraph_apply_to_the_whole() {
    let part = "afferent: 1\nnodes:\n  talk: {use: talker}\n  stop: {use: talker}\n  hear: {use: listener, in: talk}\nbudget: {from: talk, to: hear, max: 1h}\ninterrupt: {on: stop, cancels: [hear]}\nwaterfall: [talk, stop]\n";
    let middle = "afferent: 1\nnodes:\n  low: {graph: part.yaml}\n";
    let top = "afferent: 1\nbudget: {from: mid/low/talk, to: far, max: 1h}\nnodes:\n  mid: {graph: middle.yaml}\n  other: {use: talker}\n  far: {use: listener, in: other}\n";
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("top.yaml", top), ("middle.yaml", middle), ("part.yaml", part)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let (path, options) = (folder.path().join("top.yaml"), LoadOptions::default());
    let catalog = Catalog::default().with_nodes(WORKING);
    let checked = load_and_check(&path, &options, &catalog, &OpenCx::default());
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let names: Vec<_> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["mid/low/talk", "mid/low/stop", "mid/low/hear", "other", "far"]);
    assert_eq!(graph.waterfall, [(0, PortId::at(0)), (1, PortId::at(0))]);
    let options = RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
    let report = run(&graph, &OpenCx::default(), options).unwrap();
    let [own, parts] = report.budgets.as_slice() else { panic!("{:?}", report.budgets) };
    assert_eq!((own.measured, parts.measured > 0 && parts.kept), (0, true));
    let ends = (parts.from.as_str(), parts.to.as_str());
    assert_eq!(ends, ("mid/low/talk.words", "mid/low/hear.heard"));
    let interrupts: Vec<_> = report.nodes.iter().map(|node| node.interrupts > 0).collect();
    assert_eq!(interrupts, [false, false, true, false, false]);
}
