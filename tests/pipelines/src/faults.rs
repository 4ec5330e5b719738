//! A graph with eight faults: one check reports all of them with their locations.

use std::path::Path;

use crate::bench::check;

#[test]
fn one_check_shows_all_eight_faults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/eight_faults.yaml");
    let Err(faults) = check(&path, &[]) else { panic!("it was accepted") };
    println!("{faults}");
    assert_eq!(faults.errors(), 8, "{faults}");
    let expected = [
        (4, "color"),
        (6, "wav_sorce"),
        (7, "no.wav"),
        (8, "treshold"),
        (9, "adio"),
        (10, "speech/Event"),
        (11, "threshold"),
        (12, "que_size"),
    ];
    for (line, word) in expected {
        let found = faults.iter().any(|fault| {
            fault.location.as_ref().is_some_and(|location| location.line() == line)
                && fault.message.contains(word)
        });
        assert!(found, "line {line}: {word}\n{faults}");
    }
}

#[test]
fn every_shipped_graph_is_sound() {
    let folder = crate::bench::pipelines("");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let graphs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    assert!(!graphs.is_empty());
    for graph in graphs {
        check(&graph, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    }
}
