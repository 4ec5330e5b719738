//! Drawings of the shipped graphs: legible in 1200 pixels, without overlaps.

use std::{fs, path::Path};

use afferent::App;
use afferent_spec::{DrawFormat, Labels, LoadOptions, draw};

#[path = "../../graph/spec/tests/graphs/diagram.rs"]
mod diagram;

/// Profiles of a graph file: the keys of the last section.
fn profiles(text: &str) -> Vec<Option<String>> {
    let section = text.split_once("\nprofiles:\n").map_or("", |(_, section)| section);
    let names = section.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    let names = names.filter(|name| !name.starts_with(' ')).map(|name| Some(name.to_owned()));
    std::iter::once(None).chain(names).collect()
}

#[test]
fn shipped_graphs_are_legible() {
    let mut drawn = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        for profile in profiles(&fs::read_to_string(&path).unwrap()) {
            let name = format!("{} {profile:?}", path.file_stem().unwrap().display());
            // Without sources, a profile needs no device.
            let options = LoadOptions { profile, without_sources: true, ..LoadOptions::default() };
            let Ok(checked) = App::new().load_with(&path, &options) else {
                // Speakers need a device too, and programs for a GPU are not in the repository.
                println!("skipped: {name}: needs the feature audio-device, or a program for a GPU");
                assert!(name.contains("live") || name == "voice_agent Some(\"gpu\")", "{name}");
                continue;
            };
            let graph = checked.graph;
            let nodes = vec![Some("100.0 % busy, call 1234 us".to_owned()); graph.nodes.len()];
            let edges = vec![Some("1234.5/s, 6789 dropped".to_owned()); graph.edges.len()];
            for labels in [Labels::default(), Labels { nodes, edges }] {
                let svg = draw(&graph, DrawFormat::Svg, &labels);
                let diagram = diagram::Diagram::parse(&svg);
                assert_eq!(diagram.faults(), Vec::<String>::new(), "{name}");
                assert_eq!(diagram.boxes.len(), graph.nodes.len(), "{name}");
                assert_eq!(diagram.edges.len(), graph.edges.len(), "{name}");
                assert!(!diagram.labels.is_empty(), "{name}");
                // The processes of a graph stand side by side.
                let limit = if graph.partitions.len() > 1 { 2000.0 } else { 1300.0 };
                assert!(diagram.width <= limit, "{name}: {}", diagram.width);
                drawn.push((name.clone(), diagram.width, diagram.height));
            }
        }
    }
    println!("{drawn:#?}");
    assert!(drawn.len() >= 14, "{drawn:?}");
}
