//! Graphs of the body and of the space: objects in meters, steps, spoken answers, and replays.

use std::{fs, path::Path};

use afferent_engine::{ClockKind, RunOptions, run};
use afferent_messages::{Activity, KeywordEvent, Text, ToolMessage, vision::PlaneLabel};
use afferent_nodes_spatial::memory::{EntityRecord, read};
use afferent_record::{Compare, RecordOptions, Recorder, Recording, StreamVerdict};
use afferent_spec::{CheckedGraph, LoadOptions, load_and_check};
use serde::Deserialize;

use crate::bench::{Sent, catalog, pipelines, run_pipeline, services};

#[derive(Deserialize)]
struct Walk {
    objects: Vec<TrueObject>,
}

#[derive(Deserialize)]
struct TrueObject {
    label: String,
    middle_m: [f64; 3],
    size_m: [f64; 3],
}

fn walk() -> Vec<TrueObject> {
    let text = fs::read_to_string(pipelines("assets/walk.json")).unwrap();
    serde_json::from_str::<Walk>(&text).unwrap().objects
}

fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

fn class(record: &EntityRecord) -> &str {
    record.label.as_ref().map_or("", |label| &label.class)
}

/// Settings that put the files of `scene_memory.yaml` into a folder.
fn files(folder: &Path) -> [String; 2] {
    [
        format!("memory.path={}", folder.join("scene.memory").display()),
        format!("speaker.path={}", folder.join("answer.wav").display()),
    ]
}

/// Texts that a node sends.
fn texts<'s>(sent: &'s [Sent], node: &str) -> Vec<&'s str> {
    let of_node = sent.iter().filter(|sent| sent.node == node);
    of_node.filter_map(|sent| Some(sent.packet.get::<Text>()?.text.as_str())).collect()
}

#[test]
fn objects_of_a_walk_are_remembered_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let set = files(folder.path());
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let nodes = &["memory", "intents", "turns"];
    let (sent, _) = run_pipeline("scene_memory.yaml", &set, nodes, &services());
    let records = read(&folder.path().join("scene.memory")).unwrap().snapshot.records;
    let objects = walk();

    // Pairs of an object and an entity of its class within half a meter, the nearest first.
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        for (index, record) in records.iter().enumerate() {
            let apart = distance(object.middle_m, record.position.m);
            if class(record) == object.label && apart <= 0.5 {
                pairs.push((apart, number, index));
            }
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let near: std::collections::BTreeSet<usize> = pairs.iter().map(|pair| pair.2).collect();
    let (mut present, mut used, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (apart, number, index) in pairs {
        if !present.contains(&number) && !used.contains(&index) {
            present.push(number);
            used.push(index);
            errors.push(apart);
        }
    }
    let duplicates = near.len() - used.len();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    println!(
        "{} of {} objects present, {duplicates} twice, {} others, median error {median:.3} m",
        present.len(),
        objects.len(),
        records.iter().filter(|record| record.label.is_some()).count() - near.len()
    );
    assert!(present.len() * 100 >= objects.len() * 85, "present");
    assert!(duplicates * 100 <= objects.len() * 10, "duplicates");
    assert!(median <= 0.15, "{median} m");

    check_planes(&records, &objects);
    let shown = records.iter().filter(|record| record.label.is_some());
    assert!(shown.clone().all(|record| record.image.is_some()), "what each object looks like");

    assert_eq!(texts(&sent, "turns"), ["where is the lamp"]);
    let results = sent.iter().filter(|sent| sent.node == "memory");
    let result: Vec<_> = results.filter_map(|sent| sent.packet.get::<ToolMessage>()).collect();
    assert_eq!(result.len(), 1);
    let result: serde_json::Value = serde_json::from_str(&result[0].json).unwrap();
    let position: [f64; 3] = serde_json::from_value(result["position_m"].clone()).unwrap();
    let lamps = objects.iter().filter(|object| object.label == "lamp");
    let nearest = lamps.map(|lamp| distance(lamp.middle_m, position)).fold(f64::INFINITY, f64::min);
    assert!(nearest < 0.4, "{result}");
    let answer = texts(&sent, "intents").join(" ");
    println!("{answer}");
    assert!(answer.contains("lamp is") && answer.contains("meter"), "{answer}");
    assert!(fs::metadata(folder.path().join("answer.wav")).unwrap().len() > 60_000, "it is spoken");
}

/// Each table has its top, and each of the three rooms its floor.
fn check_planes(records: &[EntityRecord], objects: &[TrueObject]) {
    let of = |label: PlaneLabel| {
        let planes = records
            .iter()
            .filter(move |record| record.plane.is_some_and(|plane| plane.label == label));
        planes.map(|record| record.position.m)
    };
    let mut errors = Vec::new();
    for table in objects.iter().filter(|object| object.label == "table") {
        let [x, y, z] = table.middle_m;
        let top = z + table.size_m[2] / 2.0;
        let near = of(PlaneLabel::Table).filter(|at| (at[0] - x).hypot(at[1] - y) < 0.4);
        let error = near.map(|at| (at[2] - top).abs()).fold(f64::INFINITY, f64::min);
        errors.push(error);
    }
    errors.sort_by(f64::total_cmp);
    println!("errors of the heights of table tops: {errors:.2?} m");
    assert!(errors.len() == 6 && errors[5] < 0.2, "{errors:?}");
    let floors: Vec<[f64; 3]> = of(PlaneLabel::Floor).collect();
    println!("floors at {floors:.2?}");
    for room in [0.0, 10.0, 20.0] {
        let is_there = |at: &&[f64; 3]| (at[0] - room).abs() < 3.0 && at[2].abs() < 0.2;
        assert!(floors.iter().any(|at| is_there(&at)), "{room}: {floors:?}");
    }
    assert!(of(PlaneLabel::Wall).count() >= 6);
}

#[test]
fn steps_are_counted_and_spoken_after_the_wake_word() {
    let folder = tempfile::tempdir().unwrap();
    let wav = format!("speaker.path={}", folder.path().join("answer.wav").display());
    let nodes = &["imu", "activity", "wake", "turns", "intents"];
    let (sent, _) = run_pipeline("athletic_metrics.yaml", &[&wav], nodes, &services());
    let words = sent.iter().filter_map(|sent| sent.packet.get::<KeywordEvent>());
    assert_eq!(words.map(|word| word.label.as_str()).collect::<Vec<_>>(), ["hey afferent"]);
    // The question before the wake word is not heard.
    assert_eq!(texts(&sent, "turns")[0], "how many steps did i take");
    let asked = sent.iter().find(|sent| sent.node == "turns").unwrap().packet.header.at;
    let steps = |node: &str| {
        let of_node =
            sent.iter().filter(|sent| sent.node == node && sent.packet.header.at <= asked);
        of_node.filter_map(|sent| sent.packet.get::<Activity>()).next_back().unwrap().steps
    };
    let (truth, counted) = (steps("imu"), steps("activity"));
    println!("{counted} of {truth} steps");
    assert!(counted.abs_diff(truth) * 100 <= truth * 3, "{counted} of {truth}");
    assert_eq!(texts(&sent, "intents")[0], format!("You have taken {counted} steps."));
}

#[test]
fn glasses_answer_by_the_memory_the_image_and_the_sensor() {
    let folder = tempfile::tempdir().unwrap();
    let set = files(folder.path());
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let nodes = &["turns", "intents", "describe", "llm"];
    let (sent, _) = run_pipeline("glasses_assistant.yaml", &set, nodes, &services());
    let asked = ["where is the lamp", "what do you see", "how many steps did i take"];
    assert_eq!(texts(&sent, "turns"), asked);
    let (intents, describe) = (texts(&sent, "intents"), texts(&sent, "describe"));
    println!("{intents:?} {describe:?}");
    assert!(intents[0].contains("lamp is on the floor, about"), "{intents:?}");
    assert!(intents.iter().any(|text| text.starts_with("You have taken ")), "{intents:?}");
    assert!(describe.iter().any(|text| text.starts_with("I see ")), "{describe:?}");
}

#[test]
fn a_headset_remembers_with_the_poses_of_its_body() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("headset.memory");
    let set = format!("memory.path={}", path.display());
    run_pipeline("headset.yaml", &[&set], &["memory"], &services());
    let records = read(&path).unwrap().snapshot.records;
    let objects = walk();
    let near = objects.iter().filter(|object| {
        let is_near = |record: &&EntityRecord| {
            class(record) == object.label && distance(object.middle_m, record.position.m) < 0.5
        };
        records.iter().any(|record| is_near(&record))
    });
    assert!(near.count() >= 25, "{records:?}");
}

fn graph(set: Vec<String>) -> CheckedGraph {
    let options = LoadOptions { set, ..LoadOptions::default() };
    let path = pipelines("glasses_assistant.yaml");
    let checked = load_and_check(&path, &options, &catalog(), &services());
    checked.unwrap_or_else(|faults| panic!("{faults}")).graph
}

#[test]
fn a_walk_with_motion_and_questions_is_replayed_bit_exactly() {
    let folder = tempfile::tempdir().unwrap();
    // Without a file, so that each run begins with nothing.
    let set = || {
        let mut set = files(folder.path()).to_vec();
        set[0] = "memory.path=~".to_owned();
        set
    };
    let path = folder.path().join("walk.mcap");
    let mut graph = graph(set());
    let recorder = Recorder::create(&path, &graph, &RecordOptions::default()).unwrap();
    let observers = vec![recorder.clone() as std::sync::Arc<dyn afferent_engine::Observer>];
    let options = || RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
    run(&graph, &services(), RunOptions { observers, ..options() }).unwrap();
    let report = recorder.finish();
    assert_eq!(report.dropped(), 0, "{report:?}");

    let recording = Recording::open(&path).unwrap();
    recording.replace_nodes(&mut graph, false).unwrap();
    let compare = Compare::new(&graph, Some(&recording)).unwrap();
    let observers = vec![compare.clone() as std::sync::Arc<dyn afferent_engine::Observer>];
    run(&graph, &services(), RunOptions { observers, ..options() }).unwrap();
    let verdicts = compare.verdicts();
    let names: Vec<&str> = verdicts.iter().map(|verdict| verdict.output.as_str()).collect();
    println!("{names:?}");
    assert!(verdicts.iter().all(StreamVerdict::is_equal), "{verdicts:?}");
    for stream in ["lift.objects", "activity.activity", "memory.results", "intents.answer"] {
        assert!(names.contains(&stream), "{names:?}");
    }
}
