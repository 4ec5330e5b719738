//! Broken graphs and what is said about them.

use afferent_engine::{Diagnostics, LoadOptions, Severity};

use crate::catalogue::check_text;

/// Faults as `line:column message`, or `file:line:column` where that is not the graph file; with
/// the help behind a bar.
fn told(faults: &Diagnostics) -> Vec<String> {
    let told = faults.iter().map(|fault| {
        let place = fault.place.as_ref().map_or_else(String::new, |place| {
            let file = place.file().trim_start_matches("graphs/g.yaml");
            format!("{file}{}:{} ", place.line(), place.column())
        });
        let warning = if fault.severity == Severity::Warning { "warning: " } else { "" };
        let help = fault.help.as_ref().map_or_else(String::new, |help| format!(" | {help}"));
        format!("{place}{warning}{}{help}", fault.message)
    });
    told.collect()
}

fn check(text: &str, profile: Option<&str>, set: &[&str], expected: &[&str]) {
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let options = LoadOptions { profile: profile.map(str::to_owned), set };
    let faults = match check_text(text, &options) {
        Ok(checked) => checked.warnings,
        Err(faults) => faults,
    };
    assert_eq!(told(&faults), expected, "\n{text}\n{faults}");
}

/// Checks a graph of which only the nodes are given, each in a line, from line 3 on.
fn nodes(lines: &str, expected: &[&str]) {
    check(&format!("afferent: 1\nnodes:\n{lines}"), None, &[], expected);
}

#[test]
fn the_form_of_the_file() {
    let cases: &[(&str, &[&str])] = &[
        (
            "",
            &[
                "1:1 a graph file is a map with the keys afferent, name, nodes, budget, interrupt, profiles",
            ],
        ),
        ("afferent: 1\nnodes: {a: [}", &["2:13 not valid YAML: x"]),
        (
            "name: x",
            &[
                "1:1 the file does not begin with \"afferent: 1\", the version of its form",
                "1:1 the graph has no \"nodes\"",
            ],
        ),
        (
            "afferent: 2\nnodes: {}",
            &[
                "1:11 version \"2\" of graph files is not known; this is 1",
                "2:8 the graph has no nodes",
            ],
        ),
        (
            "afferent: 1\nNodes: {}\nextra: 1",
            &[
                "2:1 unknown key \"Nodes\" of a graph | did you mean \"nodes\"?",
                "3:1 unknown key \"extra\" of a graph | the keys of a graph: afferent, name, nodes, budget, interrupt, profiles",
            ],
        ),
        (
            "afferent: 1\nname: [x]\nnodes: mic\nprofiles: 3",
            &[
                "2:7 \"name\" must be a text, not a list",
                "3:8 \"nodes\" must be a map of nodes by name, not a single value",
                "4:11 \"profiles\" must be a map of profiles by name, not a single value",
            ],
        ),
        (
            "afferent: 1\nnodes:\n  o: {use: idle}\n  m: {use: microphone}\n  m: {use: vad}",
            &[
                "3:3 warning: node \"o\" receives nothing: no input is connected",
                "4:3 warning: node \"m\" works for nothing: nobody receives \"m.audio\"",
                "5:3 \"m\" is given twice | the first one is in line 4",
            ],
        ),
    ];
    for (text, expected) in cases {
        check(text, None, &[], expected);
    }
}

#[test]
fn the_form_of_a_node() {
    nodes(
        " m: {usr: microphone, thread: []}\n o: {in: m}\n p:\n q: {use: print, in: {from: x.y.z}}",
        &[
            "3:6 unknown key \"usr\" of node \"m\" | did you mean \"use\"?",
            "3:32 \"thread\" of node \"m\" must be a text, not a list",
            "4:2 node \"o\" does not say what it is: \"use\" is missing",
            "5:4 node \"p\" must be a map of \"use\", \"in\", \"params\" and \"thread\", not nothing",
            "6:28 \"from\" of \"in\" of node \"q\" must be written \"node.port\", not \"x.y.z\"",
        ],
    );
    nodes(
        " 1m: {use: microphone}\n o: {use: print, in: 1m}",
        &[
            "3:2 \"1m\" cannot be the name of a node | a name is made of letters, digits and \"_\", and starts with a letter",
        ],
    );
}
