//! Graphs with a camera: results in pixels and meters against the ground truth of the sample videos.

use std::{collections::BTreeMap, fs};

use afferent_graph::{Choice, Payload};
use afferent_messages::{
    Image, PixelFormat, Text,
    vision::{Depth, DepthKind, Detections, GestureEvent, GestureKind, Hands, TextRegions},
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::bench::{Sent, pipelines, run_pipeline, services};

/// The truth of a video: a line for each image, after one that describes the video.
fn truth<T: DeserializeOwned>(video: &str) -> Vec<T> {
    let text = fs::read_to_string(pipelines(&format!("assets/{video}.jsonl"))).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a graph and returns the packets of `nodes`, without files.
fn run(graph: &str, nodes: &'static [&'static str]) -> Vec<Sent> {
    let folder = tempfile::tempdir().unwrap();
    let files = format!("files.path={}", folder.path().display());
    let (sent, report) = run_pipeline(graph, &[&files], nodes, &services());
    let dropped: u64 = report.edges.iter().map(|edge| edge.counts.dropped()).sum();
    println!("{graph}: {dropped} packets dropped");
    sent
}

/// Values of type `T`, by the number of their image.
fn by_image<T: Payload + Clone>(sent: &[Sent], rate: f64) -> BTreeMap<usize, T> {
    let value = |sent: &Sent| {
        let seconds = sent.packet.header.at.as_secs_f64();
        Some(((seconds * rate).round() as usize, sent.packet.get::<T>()?.clone()))
    };
    sent.iter().filter_map(value).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[derive(Deserialize)]
struct HandImage {
    hands: Vec<TrueHand>,
}

#[derive(Deserialize)]
struct TrueHand {
    side: String,
    inside: f64,
    landmarks: Vec<[f64; 2]>,
}

#[test]
fn landmarks_of_hands_are_where_they_were_rendered() {
    let sent = run("hand_tracking.yaml", &["hands", "gestures"]);
    let found = by_image::<Hands>(&sent, 15.0);
    let (mut errors, mut hits, mut sides, mut count, mut extra) = (Vec::new(), 0, 0, 0, 0);
    for (image, truth) in truth::<HandImage>("hands").iter().enumerate() {
        let hands = found.get(&image).map(|hands| hands.hands.clone()).unwrap_or_default();
        extra += hands.len().saturating_sub(truth.hands.len());
        for hand in truth.hands.iter().filter(|hand| hand.inside >= 1.0) {
            count += 1;
            let least = |axis: usize| {
                hand.landmarks.iter().map(|point| point[axis]).fold(f64::INFINITY, f64::min)
            };
            let most = |axis: usize| {
                hand.landmarks.iter().map(|point| point[axis]).fold(f64::NEG_INFINITY, f64::max)
            };
            let extent = (most(0) - least(0)).max(most(1) - least(1));
            let distances = |found: &afferent_messages::vision::Hand| -> Vec<f64> {
                let pairs = found.landmarks.iter().zip(&hand.landmarks);
                pairs
                    .map(|([x, y, _], [u, v])| {
                        (f64::from(*x) - u).hypot(f64::from(*y) - v) / extent
                    })
                    .collect()
            };
            let best = hands
                .iter()
                .min_by(|one, other| median(distances(one)).total_cmp(&median(distances(other))));
            if let Some(best) = best.filter(|best| median(distances(best)) < 0.25) {
                hits += 1;
                sides += usize::from(best.handedness.word() == hand.side);
                errors.extend(distances(best));
            }
        }
    }
    let near = errors.iter().filter(|error| **error < 0.2).count() as f64 / errors.len() as f64;
    println!(
        "{hits} of {count} hands, {sides} on the right side, {extra} too many, PCK@0.2 {near:.3}, \
         median error {:.3}",
        median(errors.clone())
    );
    assert!(hits * 100 >= count * 95 && extra * 20 <= count && sides * 100 >= hits * 90);
    assert!(near > 0.9 && median(errors) < 0.06);
    let starts: Vec<GestureKind> = sent
        .iter()
        .filter_map(|sent| sent.packet.get::<GestureEvent>())
        .filter(|event| event.is_start)
        .map(|event| event.gesture)
        .collect();
    println!("{starts:?}");
    for gesture in [GestureKind::OpenPalm, GestureKind::Fist, GestureKind::Victory] {
        assert!(starts.contains(&gesture), "{gesture:?} in {starts:?}");
    }
}

#[derive(Deserialize)]
struct RoomImage {
    image: usize,
    boxes: Vec<TrueBox>,
    depth: Option<String>,
}

#[derive(Deserialize)]
struct TrueBox {
    label: String,
    r#box: [f32; 4],
    visible: f64,
    pixels: u32,
}

#[test]
fn depth_is_in_meters() {
    let found = by_image::<Depth>(&run("depth_overlay.yaml", &["depth"]), 12.0);
    let (mut relative, mut close, mut count) = (0.0, 0, 0);
    for image in truth::<RoomImage>("room") {
        let Some(path) = image.depth else { continue };
        let file = fs::read(pipelines("assets").join(path)).unwrap();
        let expected = Image::from_png(PixelFormat::Mono16, &file).unwrap();
        let map = &found[&image.image];
        assert_eq!(map.kind, DepthKind::Metric);
        let from_source = map.to_source.inverse().unwrap();
        let values = map.values.data::<f32>().unwrap();
        for (index, bytes) in expected.bytes().as_chunks::<2>().0.iter().enumerate() {
            let (x, y) = (index % expected.width(), index / expected.width());
            // Every second pixel of the video, in millimeters.
            let [u, v] = from_source.apply([2.0 * x as f64 + 1.5, 2.0 * y as f64 + 1.5]);
            let value = f64::from(values[v as usize * map.width() + u as usize]);
            let expected = f64::from(u16::from_le_bytes(*bytes)) / 1000.0;
            relative += (value - expected).abs() / expected;
            close += usize::from((value / expected).max(expected / value) < 1.25);
            count += 1;
        }
    }
    let (relative, close) = (relative / f64::from(count), close as f64 / f64::from(count));
    println!("AbsRel {relative:.3}, δ1 {close:.3}");
    assert!(relative < 0.2 && close > 0.75);
}

fn overlap(a: [f32; 4], b: [f32; 4]) -> f32 {
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
    let area = |a: [f32; 4]| (a[2] - a[0]) * (a[3] - a[1]);
    let both = side(0) * side(1);
    both / (area(a) + area(b) - both)
}

#[test]
fn objects_are_found_and_keep_their_numbers() {
    let sent = run("detect_objects.yaml", &["tracks"]);
    let found = by_image::<Detections>(&sent, 12.0);
    let (mut hits, mut count, mut wrong, mut total) = (0, 0, 0, 0);
    for image in truth::<RoomImage>("room") {
        let boxes: Vec<_> = found.get(&image.image).map_or(Vec::new(), |found| {
            let sure = found.detections.iter().filter(|found| found.score >= 0.5);
            sure.map(|found| {
                let [a, _, b, _] = found.bounds.corners();
                (found.label.to_string(), [a[0], a[1], b[0], b[1]])
            })
            .collect()
        });
        let is_same = |found: &(String, [f32; 4]), truth: &TrueBox| {
            found.0 == truth.label && overlap(found.1, truth.r#box) >= 0.5
        };
        for truth in image.boxes.iter().filter(|truth| truth.visible >= 0.6 && truth.pixels >= 150)
        {
            count += 1;
            hits += usize::from(boxes.iter().any(|found| is_same(found, truth)));
        }
        total += boxes.len();
        let is_wrong =
            |found: &&(String, [f32; 4])| !image.boxes.iter().any(|truth| is_same(found, truth));
        wrong += boxes.iter().filter(is_wrong).count();
    }
    let numbers: std::collections::BTreeSet<u64> = found
        .values()
        .flat_map(|found| found.detections.iter().filter_map(|found| found.track))
        .collect();
    println!("{hits} of {count} objects, {wrong} of {total} wrong, {} tracks", numbers.len());
    assert!(hits * 100 >= count * 70 && wrong * 4 <= total);
}

#[derive(Deserialize)]
struct SignImage {
    texts: Vec<TrueText>,
}

#[derive(Deserialize)]
struct TrueText {
    text: String,
    corners: [[f32; 2]; 4],
    visible: f64,
}

#[test]
fn signs_are_read() {
    let sent = run("read_text.yaml", &["text"]);
    let found = by_image::<TextRegions>(&sent, 8.0);
    let (mut edits, mut characters, mut missed, mut count) = (0, 0, 0, 0);
    for (image, truth) in truth::<SignImage>("signs").iter().enumerate() {
        // Two images per second are read.
        let Some(regions) = found.get(&image).map(|found| &found.regions) else { continue };
        for text in truth.texts.iter().filter(|text| text.visible >= 1.0) {
            count += 1;
            let center = |corners: &[[f32; 2]; 4], axis: usize| {
                corners.iter().map(|corner| corner[axis]).sum::<f32>() / 4.0
            };
            let height = text.corners[3][1] - text.corners[0][1];
            let read = regions.iter().find(|region| {
                (center(&region.corners, 1) - center(&text.corners, 1)).abs() < height / 2.0
                    && (center(&region.corners, 0) - center(&text.corners, 0)).abs() < height
            });
            match read {
                Some(region) => {
                    edits += strsim::levenshtein(&region.text, &text.text);
                    characters += text.text.chars().count();
                }
                None => missed += 1,
            }
        }
    }
    assert!((19..=21).contains(&found.len()), "{}", found.len());
    let rate = edits as f64 / characters as f64;
    println!("{missed} of {count} lines missed, CER {rate:.4}");
    let lines: Vec<String> = sent
        .iter()
        .filter_map(|sent| sent.packet.get::<Text>())
        .flat_map(|text| text.text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    println!("{lines:?}");
    assert!(missed * 10 <= count && rate < 0.1);
    for sign in ["EXIT", "Room 204", "Bus 42", "the door"] {
        assert!(lines.iter().any(|line| line == sign), "{sign} in {lines:?}");
    }
}

#[derive(Deserialize)]
struct ViewImage {
    answers: BTreeMap<String, String>,
}

/// Answers to a question about each image of the views that was shown, with the expected ones. Questions
/// without a certain answer are left out.
fn answers_about_views(question: &str) -> Vec<(String, String)> {
    let prompt = format!("caption.prompt={question}");
    let set = [prompt.as_str(), "log.path=/dev/null"];
    let (sent, _) = run_pipeline("visual_captions.yaml", &set, &["caption"], &services());
    let mut said: BTreeMap<usize, String> = BTreeMap::new();
    for sent in &sent {
        let Some(text) = sent.packet.get::<Text>() else { continue };
        let image = (sent.packet.header.at.as_secs_f64() * 4.0).round() as usize;
        said.entry(image).or_default().push_str(&text.text);
    }
    assert_eq!(said.keys().copied().collect::<Vec<_>>(), (0..40).step_by(4).collect::<Vec<_>>());
    let truth = truth::<ViewImage>("views");
    let pair = |(image, said): (usize, String)| {
        Some((said.trim().to_owned(), truth[image].answers.get(question)?.clone()))
    };
    let pairs: Vec<_> = said.into_iter().filter_map(pair).collect();
    println!("{question}: {pairs:?}");
    pairs
}

#[test]
fn views_are_put_into_words() {
    let pairs = answers_about_views("what do you see");
    assert_eq!(pairs.len(), 10);
    let (mut words, mut right) = (0, 0);
    for (said, expected) in &pairs {
        let (said, expected) = (said.split(' '), expected.split(' ').collect::<Vec<_>>());
        words += expected.len();
        right += said.zip(expected).filter(|(said, expected)| said == expected).count();
    }
    let exact = pairs.iter().filter(|(said, expected)| said == expected).count();
    println!("{exact} of 10 captions, {right} of {words} words");
    assert!(exact >= 5 && right * 100 >= words * 70);
    let (mut right, mut count) = (0, 0);
    for question in ["is there a table", "what color is the lamp", "what is on the left"] {
        let pairs = answers_about_views(question);
        count += pairs.len();
        right += pairs.iter().filter(|(said, expected)| said == expected).count();
    }
    println!("{right} of {count} answers");
    assert!(count >= 15 && right * 100 >= count * 70);
}

#[test]
fn questions_about_the_room_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("speaker.path={}", folder.path().join("answer.wav").display());
    let set = [path.as_str(), "log.path=/dev/null"];
    let (sent, _) = run_pipeline("visual_question.yaml", &set, &["describe", "llm"], &services());
    let answers: Vec<(&str, &Text)> = sent
        .iter()
        .filter_map(|sent| Some((sent.port.as_str(), sent.packet.get::<Text>()?)))
        .collect();
    println!("{answers:?}");
    let [("answer", first), ("answer", second)] = answers[..] else { panic!("{answers:?}") };
    assert!(first.text.starts_with("I see ") && first.text.contains("table"), "{}", first.text);
    assert!(second.text == "I see a table.", "{}", second.text);
}
