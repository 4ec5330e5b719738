//! Tools of the scene memory.

use afferent_messages::ToolMessage;
use serde_json::{Map, Value, json};

use crate::memory::{Answer, SceneMemory, Viewer};

/// Distance of `what_is_here`, unless the call says another one.
const HERE_M: f64 = 3.0;

/// Most objects of an answer.
const MAX_THINGS: usize = 20;

/// Angle from the optical axis, and distance, within which `remember_this` takes an object.
const THIS_DEG: f64 = 20.0;
const THIS_M: f64 = 2.5;

/// Runs a call with its arguments, at a time in nanoseconds since 1970.
///
/// # Errors
/// Description of the fault, for the language model.
type Tool = fn(&mut SceneMemory, &Arguments, Option<&Viewer>, u64) -> Result<Value, String>;

const TOOLS: &[(&str, Tool)] = &[
    ("forget", forget),
    ("remember_this", remember_this),
    ("what_is_here", what_is_here),
    ("where_is", where_is),
];

/// Runs a tool call; `None` if the tool is one of another node.
pub(super) fn run(
    memory: &mut SceneMemory,
    call: &ToolMessage,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Option<Result<Value, String>> {
    let (_, tool) = TOOLS.iter().find(|(name, _)| *name == call.tool)?;
    let arguments = serde_json::from_str(&call.json)
        .map_err(|_| format!("arguments {} are not a JSON object", call.json));
    Some(arguments.and_then(|arguments| tool(memory, &Arguments(arguments), viewer, now_ns)))
}

/// Arguments of a call.
struct Arguments(Map<String, Value>);

impl Arguments {
    /// # Errors
    /// If the argument is missing.
    fn text(&self, name: &str) -> Result<&str, String> {
        let value = self.0.get(name).and_then(Value::as_str);
        let value = value.filter(|text| !text.trim().is_empty());
        value.ok_or_else(|| format!("argument {name} is missing or not a string"))
    }
}

fn where_is(
    memory: &mut SceneMemory,
    arguments: &Arguments,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Result<Value, String> {
    let thing = arguments.text("thing")?;
    let candidates = memory.find(thing, viewer);
    let best = candidates.first().and_then(|best| memory.answer(best.id, viewer, now_ns));
    let Some(best) = best else {
        let phrase = format!("I have not seen {}.", with_article(thing));
        return Ok(json!({"found": false, "phrase": phrase}));
    };
    let count = candidates.iter().filter(|found| found.is_stale == best.is_stale).count();
    let mut phrase = best.phrase();
    if count > 1 && best.distance_m.is_some() {
        phrase = format!("I know {count} of them. {}", nearest(&phrase));
    }
    Ok(json!({
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
    }))
}

/// The phrase about the nearest of several objects.
fn nearest(phrase: &str) -> String {
    match phrase.strip_prefix("The ") {
        Some(rest) => format!("The nearest {rest}"),
        None => phrase.to_owned(),
    }
}

/// Two digits, so that results of runs are easy to read and compare.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn with_article(thing: &str) -> String {
    if let Some(rest) = thing.strip_prefix("my ") {
        return format!("your {rest}");
    }
    let has_one = ["a ", "an ", "the ", "your ", "our "];
    match has_one.iter().any(|article| thing.starts_with(article)) {
        true => thing.to_owned(),
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
    arguments: &Arguments,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Result<Value, String> {
    let distance_m = arguments.0.get("distance_m").and_then(Value::as_f64).unwrap_or(HERE_M);
    let Some(viewer) = viewer else {
        return Ok(json!({"things": [], "phrase": "I do not know where I am."}));
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
        false => format!("I know {} here.", listed(&answers)),
    };
    Ok(json!({"things": things, "phrase": phrase}))
}

/// The things with their numbers, such as "a lamp, 2 chairs and a table".
fn listed(answers: &[Answer]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for answer in answers {
        match counts.iter_mut().find(|(thing, _)| *thing == answer.thing) {
            Some((_, count)) => *count += 1,
            None => counts.push((&answer.thing, 1)),
        }
    }
    let counted = |(thing, count): &(&str, usize)| match count {
        1 if thing.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {thing}"),
        1 => format!("a {thing}"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| thing.ends_with(end)) => {
            format!("{count} {thing}es")
        }
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
    arguments: &Arguments,
    viewer: Option<&Viewer>,
    now_ns: u64,
) -> Result<Value, String> {
    let name = arguments.text("name")?;
    let viewer = viewer.ok_or("there is no pose of the camera yet")?;
    let ahead = around(memory, viewer, THIS_M, now_ns).into_iter();
    let angle = |answer: &Answer| answer.off_axis_deg.unwrap_or(f64::INFINITY);
    let ahead = ahead.filter(|answer| angle(answer) < THIS_DEG);
    match ahead.min_by(|a, b| angle(a).total_cmp(&angle(b))) {
        Some(answer) => {
            memory.set_name(answer.record.id, name);
            Ok(
                json!({"id": answer.record.id, "phrase": format!("I will remember this {} as {name}.", answer.thing)}),
            )
        }
        None => {
            let id = memory.remember(name, viewer.world_from_camera.translation_m, now_ns);
            Ok(json!({"id": id, "phrase": format!("I will remember this position as {name}.")}))
        }
    }
}

fn forget(
    memory: &mut SceneMemory,
    arguments: &Arguments,
    viewer: Option<&Viewer>,
    _: u64,
) -> Result<Value, String> {
    let thing = arguments.text("thing")?;
    let found = memory.find(thing, viewer);
    let forgotten = found.iter().filter(|candidate| memory.forget(candidate.id)).count();
    let phrase = match forgotten {
        0 => format!("I do not know {}.", with_article(thing)),
        _ => format!("I have forgotten {}.", with_article(thing)),
    };
    Ok(json!({"forgotten": forgotten, "phrase": phrase}))
}
