//! Tools of the scene memory.

use afferent_messages::ToolMessage;
use serde_json::{Map, Value, json};

use crate::memory::{Answer, SceneMemory, Viewer};

/// Distance of `what_is_here`, unless the call says another one.
const HERE_M: f64 = 3.0;

/// Most objects of an answer.
const MAX_THINGS: usize = 20;

/// Angle from the middle of the view, and distance, within which `remember_this` takes an object.
const THIS_DEG: f64 = 20.0;
const THIS_M: f64 = 2.5;

/// Tools of the scene memory. Calls of others are for other nodes.
pub(super) const TOOLS: &[&str] = &["forget", "remember_this", "what_is_here", "where_is"];

/// Runs a call of one of [`TOOLS`].
///
/// # Errors
/// What is wrong with the call, for the language model.
pub(super) fn run(
    memory: &mut SceneMemory,
    call: &ToolMessage,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Result<Value, String> {
    let arguments: Map<String, Value> = serde_json::from_str(&call.json)
        .map_err(|_| format!("arguments {} are not a JSON object", call.json))?;
    let text = |name: &str| {
        let value =
            arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        value.ok_or_else(|| format!("argument {name} is missing or not a string"))
    };
    match call.tool.as_str() {
        "where_is" => Ok(where_is(memory, text("thing")?, viewer, now_ns)),
        "what_is_here" => {
            let distance = arguments.get("distance_m").and_then(Value::as_f64).unwrap_or(HERE_M);
            Ok(what_is_here(memory, distance, viewer, now_ns))
        }
        "remember_this" => remember_this(memory, text("name")?, viewer, now_ns),
        "forget" => Ok(forget(memory, text("thing")?, viewer)),
        other => Err(format!("unknown tool {other}; available tools: {}", TOOLS.join(", "))),
    }
}

fn where_is(memory: &mut SceneMemory, thing: &str, viewer: Option<&Viewer>, now_ns: u64) -> Value {
    let candidates = memory.find(thing, viewer);
    let best = candidates.first().and_then(|best| memory.answer(best.id, viewer, now_ns));
    let Some(best) = best else {
        let phrase = format!("I have not seen {}.", with_article(thing));
        return json!({"found": false, "phrase": phrase});
    };
    let count = candidates.len();
    let mut phrase = best.phrase();
    if count > 1 {
        phrase = format!("I know {count} of them. {}", nearest(&phrase));
    }
    json!({
        "found": true,
        "phrase": phrase,
        "thing": best.thing,
        "id": best.record.id,
        "on": best.on,
        "distance_m": best.distance_m.map(rounded),
        "bearing_deg": best.bearing_deg.map(f64::round),
        "position_m": best.record.position.m.map(rounded),
        "age_s": best.age.as_secs(),
        "count": count,
        "stale": best.is_stale,
    })
}

/// The phrase about the nearest of several objects.
fn nearest(phrase: &str) -> String {
    match phrase.strip_prefix("the ") {
        Some(rest) => format!("the nearest {rest}"),
        None => phrase.to_owned(),
    }
}

/// Two digits, so that results of runs are easy to read and compare.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn with_article(thing: &str) -> String {
    let has_one = ["a ", "an ", "the ", "my ", "your ", "our "];
    match has_one.iter().any(|article| thing.starts_with(article)) {
        true => thing.replacen("my ", "your ", 1),
        false => format!("the {thing}"),
    }
}

/// The nearest objects, at most [`MAX_THINGS`].
fn around(memory: &mut SceneMemory, viewer: &Viewer, within_m: f64, now_ns: u64) -> Vec<Answer> {
    let near = memory.around(viewer, within_m).into_iter().take(MAX_THINGS);
    near.filter_map(|found| memory.answer(found.id, Some(viewer), now_ns)).collect()
}

fn what_is_here(
    memory: &mut SceneMemory,
    distance_m: f64,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Value {
    let Some(viewer) = viewer else {
        return json!({"things": [], "phrase": "I do not know where I am."});
    };
    let answers = around(memory, viewer, distance_m, now_ns);
    let things: Vec<Value> = answers
        .iter()
        .map(|answer| {
            json!({
                "thing": answer.thing,
                "distance_m": answer.distance_m.map(rounded),
                "bearing_deg": answer.bearing_deg.map(f64::round),
            })
        })
        .collect();
    let phrase = match answers.is_empty() {
        true => "I know nothing here.".to_owned(),
        false => format!("here are {}.", listed(&answers)),
    };
    json!({"things": things, "phrase": phrase})
}

/// The things with their numbers, such as "a lamp, two chairs and a table".
fn listed(answers: &[Answer]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for answer in answers {
        match counts.iter_mut().find(|(thing, _)| *thing == answer.thing) {
            Some((_, count)) => *count += 1,
            None => counts.push((&answer.thing, 1)),
        }
    }
    let counted = |(thing, count): &(&str, usize)| match count {
        1 => format!("a {thing}"),
        _ => format!("{count} {thing}s"),
    };
    match counts.as_slice() {
        [] => String::new(),
        [only] => counted(only),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(counted).collect();
            format!("{} and {}", first.join(", "), counted(last))
        }
    }
}

fn remember_this(
    memory: &mut SceneMemory,
    name: &str,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Result<Value, String> {
    let viewer = viewer.ok_or("there is no pose of the camera yet")?;
    let ahead = around(memory, viewer, THIS_M, now_ns).into_iter();
    let ahead =
        ahead.filter(|answer| answer.bearing_deg.is_some_and(|angle| angle.abs() < THIS_DEG));
    let angle = |answer: &Answer| answer.bearing_deg.map_or(f64::INFINITY, f64::abs);
    match ahead.min_by(|a, b| angle(a).total_cmp(&angle(b))) {
        Some(answer) => {
            memory.set_name(answer.record.id, name);
            Ok(
                json!({"id": answer.record.id, "phrase": format!("I will remember this {} as {name}.", answer.thing)}),
            )
        }
        None => {
            let id = memory.remember(name, viewer.world_from_camera.translation_m, now_ns);
            Ok(json!({"id": id, "phrase": format!("I will remember this place as {name}.")}))
        }
    }
}

fn forget(memory: &mut SceneMemory, thing: &str, viewer: Option<&Viewer>) -> Value {
    let found = memory.find(thing, viewer);
    let forgotten = found.iter().filter(|candidate| memory.forget(candidate.id)).count();
    let phrase = match forgotten {
        0 => format!("I do not know {}.", with_article(thing)),
        _ => format!("I have forgotten {}.", with_article(thing)),
    };
    json!({"forgotten": forgotten, "phrase": phrase})
}
