//! Keys of the messages between machines: `afferent/GRAPH/FROM/TO/STREAM`.
//!
//! A stream is the index of an edge in the graph, or `control`.

use afferent_spec::CheckedGraph;

use crate::remote::CONTROL;

/// Last part of the key of control messages.
const CONTROL_NAME: &str = "control";

/// Key of a stream from one machine to another.
pub(super) fn stream(graph: &CheckedGraph, ends: [usize; 2], stream: u16) -> String {
    let name = if stream == CONTROL { CONTROL_NAME.to_owned() } else { stream.to_string() };
    format!("{}/{name}", base(graph, ends))
}

/// Key expression of all streams from one machine to another.
pub(super) fn from(graph: &CheckedGraph, ends: [usize; 2]) -> String {
    format!("{}/*", base(graph, ends))
}

fn base(graph: &CheckedGraph, ends: [usize; 2]) -> String {
    let [from, to] = ends.map(|machine| &graph.machines[machine].name);
    format!("afferent/{}/{from}/{to}", chunk(&graph.name))
}

/// Stream of a key.
pub(super) fn read(key: &str) -> Option<u16> {
    match key.rsplit('/').next()? {
        CONTROL_NAME => Some(CONTROL),
        number => number.parse().ok().filter(|stream| *stream != CONTROL),
    }
}

/// `name` without the characters that have a meaning in keys.
fn chunk(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    match name {
        "" => "graph".to_owned(),
        name => name.chars().map(plain).collect(),
    }
}

#[cfg(test)]
mod tests {
    use afferent_spec::Machine;

    use super::*;

    #[test]
    fn keys() {
        let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
        let graph = CheckedGraph {
            name: "My robot/*".to_owned(),
            machines: vec![machine("robot"), machine("base")],
            ..CheckedGraph::default()
        };
        assert_eq!(stream(&graph, [0, 1], 7), "afferent/My-robot--/robot/base/7");
        assert_eq!(from(&graph, [1, 0]), "afferent/My-robot--/base/robot/*");
        for id in [0, 65_534, CONTROL] {
            assert_eq!(read(&stream(&graph, [0, 1], id)), Some(id));
        }
        assert_eq!(["a/65535", "a/x", "", "a/-1"].map(read), [None; 4]);
    }
}
